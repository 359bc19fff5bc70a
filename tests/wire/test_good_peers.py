"""No budget is ever spent by a peer of good will, however busy it is."""

from __future__ import annotations

from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from twisted.trial.unittest import SynchronousTestCase

from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.events import CallOpened
from svc.wire.floods import YOUNG_SECS, FloodGuard, Nuisance
from svc.wire.limits import KIB, MIB, WireLimits
from svc.wire.status import OK

HEAD = [
    (":method", "POST"),
    (":scheme", "https"),
    (":path", "/a.B/C"),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]
SMALL = WireLimits(max_streams=4096, nuisances=50, resets=50)


class Busy:
    """A bare h2 client with much to do, and our server."""

    def __init__(self, limits: WireLimits = SMALL) -> None:
        self.server = Connection(limits, is_client=False)
        self.h2 = H2Connection(H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.now = 0.0
        self.streams: list[Any] = []
        self.turns = 0
        self.turn()

    def turn(self) -> None:
        """Both read all that there is."""
        data = self.h2.data_to_send()
        while data or self.server.has_unread:
            events = self.server.receive(data, self.now)
            self.streams += [event.stream for event in events if isinstance(event, CallOpened)]
            data = b""
            self.turns += 1
        parts = self.server.pump(1 << 30)
        if parts:
            self.h2.receive_data(b"".join(parts))

    def ask(self, count: int, end: bool = False) -> list[int]:
        begun = []
        for _ in range(count):
            begun.append(self.h2.get_next_available_stream_id())
            self.h2.send_headers(begun[-1], HEAD, end_stream=end)
        self.turn()
        return begun


class GoodPeerTests(SynchronousTestCase):
    def test_gives_up_all_at_once(self) -> None:
        """A caller may break off everything that it has waited for."""
        busy = Busy()
        self.patch_limit(busy)
        begun = busy.ask(1000)
        busy.now += YOUNG_SECS + 0.1
        for stream in begun:
            busy.h2.reset_stream(stream)
        busy.turn()
        self.assertEqual(len(busy.server.streams), 0)
        busy.ask(1)
        self.assertEqual(len(busy.server.streams), 1)

    def test_answers_what_it_is_sent(self) -> None:
        """Window updates, and pings that measure the path, are as many as the data asks for."""
        busy = Busy()
        (stream,) = busy.ask(1)
        for _ in range(400):
            busy.streams[0].send_message(b"x" * (16 * KIB))
            busy.turn()
            for number in (0, stream):
                busy.h2.increment_flow_control_window(16 * KIB + 5, number or None)
            busy.h2.ping(b"12345678")
            busy.turn()
        self.assertEqual(busy.streams[0].queued, 0)

    def test_was_still_sending(self) -> None:
        """What was under way when we ended calls is borne: a window of each."""
        busy = Busy()
        begun = busy.ask(40)
        for stream in begun:
            for _ in range(64):
                busy.h2.send_data(stream, b"x" * KIB)
        late = busy.h2.data_to_send()
        for stream in list(busy.streams):
            busy.server.reset(stream)
        for at in range(0, len(late), 64 * KIB):
            busy.server.receive(late[at : at + 64 * KIB], busy.now)
            while busy.server.has_unread:
                busy.server.receive(b"", busy.now)
        self.assertEqual(len(busy.server.streams), 0)

    def test_is_answered_before_its_end(self) -> None:
        """Calls answered early are reset by both sides, which is nobody's fault."""
        busy = Busy()
        for _ in range(200):
            (stream,) = busy.ask(1)
            busy.streams[-1].finish(OK)
            # Its own reset crosses ours.
            busy.h2.reset_stream(stream)
            data = busy.h2.data_to_send()
            busy.server.pump(MIB)
            busy.server.receive(data, busy.now)
        self.assertEqual(len(busy.server.streams), 0)

    def test_breaks_off_what_was_answered(self) -> None:
        """Short sessions that end abruptly are no rapid resets."""
        busy = Busy()
        for _ in range(200):
            (stream,) = busy.ask(1)
            busy.streams[-1].send_message(b"an answer")
            busy.turn()
            busy.h2.reset_stream(stream)
            busy.turn()
        self.assertEqual(len(busy.server.streams), 0)

    def test_many_calls_in_one_read(self) -> None:
        """A full read of calls is served whole, in several turns."""
        busy = Busy()
        self.patch_limit(busy)
        turns = busy.turns
        busy.ask(1000, end=True)
        self.assertEqual(len(busy.streams), 1000)
        self.assertGreater(busy.turns - turns, 20)

    def patch_limit(self, busy: Busy) -> None:
        """h2 reads our limit of streams only with a ping's delay; it is 4096."""
        self.assertEqual(busy.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS], 4096)


class GuardTests(SynchronousTestCase):
    def test_what_was_earned_ends(self) -> None:
        """What one span earned is borne in the next, and not after it."""
        guard = FloodGuard(WireLimits(nuisances=10))
        guard.count(Nuisance.PING, 0.0)
        guard.allowance.sent = 30
        guard.count(Nuisance.PING, 11.0)
        for _ in range(39):
            guard.count(Nuisance.PING, 12.0)
        with self.assertRaises(WireError):
            guard.count(Nuisance.PING, 12.0)
        for _ in range(10):
            guard.count(Nuisance.PING, 22.0)
        with self.assertRaises(WireError):
            guard.count(Nuisance.PING, 22.0)

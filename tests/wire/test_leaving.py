"""The end of connections and the limits at their edge: GOAWAY, refused streams, turns, pings."""

from __future__ import annotations

from typing import Any

from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, StreamReset
from h2.settings import SettingCodes
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError, Unprocessed
from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.events import CallOpened, Finished, GoingAway
from svc.wire.limits import MIB, WireLimits
from svc.wire.status import Code, Status
from tests.wire.test_wire import LAST_STREAM, Caller


class Ends:
    """Our client and our server."""

    def __init__(self, limits: WireLimits | None = None) -> None:
        self.client = Connection(WireLimits(max_streams=4), is_client=True)
        self.server = Connection(limits or WireLimits(), is_client=False)
        self.opened: list[Any] = []
        self.told: list[Any] = []
        self.turn()

    def call(self) -> Any:
        return self.client.open("/a.B/C", scheme="http", authority="x", timeout=None, metadata=())

    def up(self) -> None:
        """What the client has written arrives."""
        events = self.server.receive(b"".join(self.client.pump(MIB)), 0)
        self.opened += [event.stream for event in events if isinstance(event, CallOpened)]

    def down(self) -> None:
        """What the server has written arrives."""
        self.told += self.client.receive(b"".join(self.server.pump(MIB)), 0)

    def turn(self) -> None:
        for _ in range(4):
            self.up()
            self.down()


class LastWordTests(SynchronousTestCase):
    def test_nothing_left_to_write(self) -> None:
        """Behind the last word nothing is ever to be written, also of calls just begun."""
        ends = Ends()
        call = ends.call()
        ends.up()
        stream = ends.opened[-1]
        stream.send_message(b"an answer")
        call.send_message(b"a question")
        for connection in (ends.server, ends.client):
            self.assertTrue(connection.has_work)
            connection.terminate()
            connection.pump(MIB)
            self.assertFalse(connection.has_work)


class DrainTests(SynchronousTestCase):
    def test_two_notices(self) -> None:
        """A call that was under way when the server began to leave is served, a later one not."""
        ends = Ends()
        first = ends.call()
        ends.up()
        ends.server.go_away()
        crossing = ends.call()
        ends.up()
        ends.down()
        self.assertIn(GoingAway(LAST_STREAM, 0), ends.told)
        with self.assertRaises(Unprocessed) as caught:
            ends.call()
        self.assertEqual(caught.exception.reason, "going_away")
        ends.turn()
        self.assertIn(GoingAway(crossing.id, 0), ends.told)
        self.assertEqual([stream.id for stream in ends.opened], [first.id, crossing.id])
        for stream in ends.opened:
            stream.finish(Status(Code.OK))
        ends.turn()
        self.assertEqual([first.status, crossing.status], [Status(Code.OK)] * 2)

    def test_begun_after_the_last(self) -> None:
        """A caller that begins a call behind the last notice is told that nothing was done."""
        ends = Ends()
        ends.call()
        ends.turn()
        ends.server.go_away()
        ends.turn()
        ends.client.is_going_away = False  # it does not mind what it was told
        late = ends.call()
        ends.turn()
        self.assertTrue(late.is_unprocessed)
        self.assertEqual(late.status.code, Code.UNAVAILABLE)
        self.assertEqual(len(ends.opened), 1)

    def test_caller_leaves(self) -> None:
        """A caller's own GOAWAY stops nothing that it began."""
        ends = Ends()
        call = ends.call()
        ends.up()
        ends.client.terminate()
        ends.up()
        self.assertFalse(ends.server.is_going_away)
        self.assertFalse(ends.opened[0].is_over)
        self.assertEqual(call.id, ends.opened[0].id)

    def test_above_the_last(self) -> None:
        """What the server never took is unprocessed; what it took may have been done."""
        ends = Ends()
        taken, lost = ends.call(), ends.call()
        ends.client.pump(MIB)
        ends.server._machine.send_goaway(last_stream_id=taken.id)
        ends.down()
        self.assertTrue(lost.is_unprocessed)
        self.assertEqual([e.stream for e in ends.told if isinstance(e, Finished)], [lost])
        self.assertFalse(taken.is_over)


class RefusedTests(SynchronousTestCase):
    def refused(self, code: ErrorCodes, *, answered: bool = False) -> Any:
        ends = Ends()
        call = ends.call()
        ends.up()
        if answered:
            ends.opened[0].send_message(b"x")
            ends.down()
        ends.server.reset(ends.opened[0], code)
        ends.down()
        return call

    def test_refused_stream(self) -> None:
        """Only a refused stream that was not answered is unprocessed."""
        self.assertTrue(self.refused(ErrorCodes.REFUSED_STREAM).is_unprocessed)
        self.assertFalse(self.refused(ErrorCodes.REFUSED_STREAM, answered=True).is_unprocessed)
        self.assertFalse(self.refused(ErrorCodes.CANCEL).is_unprocessed)
        self.assertFalse(self.refused(ErrorCodes.INTERNAL_ERROR).is_unprocessed)


class TurnTests(SynchronousTestCase):
    def test_wait_for_turns(self) -> None:
        """Calls past the peer's limit wait, in order, with what they have to say."""
        ends = Ends(WireLimits(max_streams=2))
        calls = [ends.call() for _ in range(5)]
        for number, call in enumerate(calls):
            call.send_message(b"%d" % number)
            call.half_close()
        ends.turn()
        self.assertEqual([call.id for call in calls], [1, 3, 0, 0, 0])
        for number in range(5):
            stream = ends.opened[number]
            self.assertEqual(bytes(stream.take()), b"%d" % number)
            stream.finish(Status(Code.OK))
            ends.turn()
        self.assertEqual([call.status for call in calls], [Status(Code.OK)] * 5)

    def test_most(self) -> None:
        """Only so many wait."""
        ends = Ends(WireLimits(max_streams=2))
        for _ in range(6):
            ends.call()
        with self.assertRaises(SvcError) as caught:
            ends.call()
        self.assertEqual(caught.exception.reason, "too_many_streams")

    def test_given_up(self) -> None:
        """A call that is reset while it waits is never begun, and the next has its turn."""
        ends = Ends(WireLimits(max_streams=2))
        calls = [ends.call() for _ in range(4)]
        ends.client.reset(calls[2])
        ends.client.reset(calls[0])
        ends.turn()
        self.assertEqual([call.id for call in calls], [1, 3, 0, 5])

    def test_more_allowed(self) -> None:
        """A peer that raises its limit lets waiting calls begin."""
        ends = Ends(WireLimits(max_streams=2))
        calls = [ends.call() for _ in range(4)]
        ends.turn()
        ends.server._machine.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 4})
        ends.turn()
        self.assertEqual([call.id for call in calls], [1, 3, 5, 7])

    def test_server_leaves(self) -> None:
        """Calls that wait when the server leaves were never begun."""
        ends = Ends(WireLimits(max_streams=2))
        calls = [ends.call() for _ in range(4)]
        ends.turn()
        ends.server.go_away()
        ends.turn()
        self.assertEqual([call.is_unprocessed for call in calls], [False, False, True, True])
        self.assertEqual(len(ends.client.calls), 2)


class PingTests(SynchronousTestCase):
    def pinged(self, caller: Caller, *times: float) -> None:
        for caller.now in times:
            caller.h2.ping(b"12345678")
            caller.turn()

    def test_too_many(self) -> None:
        """Pings that come too soon end the connection at the third, and the peer is told why."""
        caller = Caller()
        self.pinged(caller, 0, 1, 2)
        caller.h2.ping(b"12345678")
        with self.assertRaises(WireError) as caught:
            caller.server.receive(caller.h2.data_to_send(), 3)
        self.assertEqual(caught.exception.reason, "too_many_pings")
        *_, end = caller.h2.receive_data(b"".join(caller.server.pump(MIB)))
        assert isinstance(end, ConnectionTerminated)
        self.assertEqual(end.error_code, ErrorCodes.ENHANCE_YOUR_CALM)
        self.assertEqual(end.additional_data, b"too_many_pings")

    def test_keepalive(self) -> None:
        """A keepalive is borne for ever, without calls too."""
        self.pinged(Caller(), *range(0, 6000, 6))

    def test_with_an_answer(self) -> None:
        """Whoever is being answered may ping as the answer comes."""
        caller = Caller()
        stream_id = caller.request()
        for _ in range(50):
            self.pinged(caller, caller.now, caller.now, caller.now)
            caller.opened()[0].send_message(b"x")
            caller.turn()
        self.assertEqual([e for e in caller.seen if isinstance(e, StreamReset)], [])
        self.assertEqual(caller.opened()[0].id, stream_id)

    def test_client_does_not_judge(self) -> None:
        """A server pings when it likes, short of a flood."""
        ends = Ends()
        for _ in range(100):
            ends.server.ping(b"12345678")
            ends.turn()

"""A registered tunnel opens sessions by one-use secrets and ends once."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.errors import Fault, SvcError
from svc.interfaces.transport import ITunnelTransport
from svc.messages.tunnel import DrainNotice
from svc.model.session.tunnels import EndReason
from svc.tunnel.times import TunnelTimes, end_reason
from svc.tunnel.transport import MAX_PENDING_OPENS, RegisteredTunnel
from tests.support.proof import proves
from tests.tunnel.pieces import OTHER_UID, UID, Line, order


class TunnelCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.line = Line(self.clock)
        self.tunnel = self.line.tunnel("node", "db1")
        self.ends: list[tuple[EndReason, float, tuple[str, ...]]] = []
        self.tunnel.start(self._ended)

    def _ended(
        self, tunnel: RegisteredTunnel, reason: EndReason, seconds: float, sessions: tuple[str, ...]
    ) -> None:
        self.ends.append((reason, seconds, sessions))

    def open(self, uid: str = UID) -> Deferred[IProtocol]:
        return self.tunnel.endpoint(order(uid)).connect(Factory.forProtocol(Protocol))

    def carry(self, uid: str = UID, secret: bytes | None = None) -> Deferred[None]:
        if secret is None:
            secret = self.line.notices()[-1].secret
        carrying: Coroutine[Any, Any, None] = self.tunnel.carry(uid, secret, self.line.attach)
        return Deferred.fromCoroutine(carrying)

    def refusal(self, deferred: Deferred[Any]) -> SvcError:
        error = self.failureResultOf(deferred, SvcError).value
        assert isinstance(error, SvcError)
        return error


class OpenTests(TunnelCase):
    def test_keeps_the_interface(self) -> None:
        """The Proxy's tunnel has every member of ITunnelTransport."""
        verifyObject(ITunnelTransport, self.tunnel)

    def test_opens(self) -> None:
        """An order is passed on as it is, and the stream that answers it is joined."""
        opening = self.open()
        [notice] = self.line.notices()
        self.assertEqual((notice.grant, notice.request), (order().grant, order().request))
        over = self.carry()
        self.assertTrue(self.successResultOf(opening).transport)  # type: ignore[attr-defined]
        self.assertEqual(self.tunnel.sessions, {UID})
        self.line.streams[0].callback(None)
        self.successResultOf(over)
        self.clock.advance(0)
        self.assertEqual(self.tunnel.sessions, frozenset())
        self.tunnel.close(EndReason.CLOSED)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nothing_before_connect(self) -> None:
        """Asking for an endpoint says nothing to the Connector."""
        self.tunnel.endpoint(order())
        self.assertEqual(self.line.said, [])

    def test_wrong_secret(self) -> None:
        """A stream with a wrong secret is refused and the order waits on."""
        opening = self.open()
        for wrong in (b"", bytes(32), self.line.notices()[0].secret + b"x"):
            self.assertEqual(self.refusal(self.carry(secret=wrong)).reason, "carry_refused")
        self.assertNoResult(opening)
        self.carry()
        self.successResultOf(opening)

    def test_secret_of_another_session(self) -> None:
        """One session's secret opens no other; both refusals read alike."""
        self.open()
        self.open(OTHER_UID)
        first, second = self.line.notices()
        self.assertNotEqual(first.secret, second.secret)
        wrong = self.refusal(self.carry(OTHER_UID, first.secret))
        unknown = self.refusal(self.carry("0" * 32, first.secret))
        self.assertEqual((wrong.reason, wrong.text), (unknown.reason, unknown.text))
        self.assertEqual(self.line.streams, [])

    def test_secret_used_twice(self) -> None:
        """A secret is good for one stream, during the session and after it."""
        self.open()
        secret = self.line.notices()[0].secret
        self.carry()
        self.assertEqual(self.refusal(self.carry(secret=secret)).reason, "carry_refused")
        self.line.streams[0].callback(None)
        self.assertEqual(self.refusal(self.carry(secret=secret)).reason, "carry_refused")
        self.assertEqual(len(self.line.streams), 1)

    def test_deadline(self) -> None:
        """An order nobody answers ends by its deadline, and a late stream is refused."""
        opening = self.open()
        self.clock.advance(TunnelTimes().open)
        error = self.refusal(opening)
        self.assertEqual((error.reason, error.fault), ("open_deadline", Fault.DEADLINE))
        self.assertEqual(self.refusal(self.carry()).reason, "carry_refused")

    def test_cancelled(self) -> None:
        """An order given up is forgotten with its timer; a stream for it is refused."""
        opening = self.open()
        opening.cancel()
        self.failureResultOf(opening)
        self.assertEqual(self.refusal(self.carry()).reason, "carry_refused")
        self.tunnel.close(EndReason.CLOSED)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_refused_by_the_connector(self) -> None:
        """The Connector's word reaches who ordered, one that is newer than us too."""
        for word, fault in (
            ("session_replayed", Fault.DENIED),
            ("target_unreachable", Fault.UNAVAILABLE),
            ("word_of_tomorrow", Fault.PRECONDITION),
        ):
            opening = self.open()
            self.tunnel.refused(UID, word)
            error = self.refusal(opening)
            self.assertEqual((error.reason, error.fault), (word, fault))
        self.tunnel.refused(UID, "session_replayed")

    def test_bounded(self) -> None:
        """Only so many orders wait at once; the next is refused at once."""
        waiting = [self.open(f"{n:032x}") for n in range(MAX_PENDING_OPENS)]
        self.assertEqual(self.refusal(self.open()).reason, "too_many_opens")
        self.assertEqual(len(self.line.notices()), MAX_PENDING_OPENS)
        waiting[0].cancel()
        self.failureResultOf(waiting[0])
        self.assertNoResult(self.open())

    def test_same_session_twice(self) -> None:
        """One session is opened once, while it waits and while it is carried."""
        self.open()
        self.assertEqual(self.refusal(self.open()).reason, "duplicate_session")
        self.carry()
        self.assertEqual(self.refusal(self.open()).reason, "duplicate_session")

    def test_stream_that_breaks_at_once(self) -> None:
        """A stream that cannot be attached fails the order and carries nothing."""

        def broken(protocol: IProtocol) -> Deferred[None]:
            raise ConnectionLost

        opening = self.open()
        secret = self.line.notices()[-1].secret
        over = Deferred.fromCoroutine(self.tunnel.carry(UID, secret, broken))
        self.failureResultOf(over, ConnectionLost)
        self.assertEqual(self.refusal(opening).reason, "carry_broken")
        self.assertEqual(self.tunnel.sessions, frozenset())

    def test_draining(self) -> None:
        """A draining tunnel says so once, opens nothing new and lets open sessions be."""
        self.open()
        self.carry()
        self.tunnel.drain()
        self.tunnel.drain()
        self.assertEqual(self.line.said[1:], [DrainNotice()])
        self.assertEqual(self.refusal(self.open(OTHER_UID)).reason, "tunnel_ended")
        self.assertEqual(self.tunnel.sessions, {UID})


class EndTests(TunnelCase):
    @proves("G-TUN-18")
    def test_first_reason_wins(self) -> None:
        """However many ends come together, one is told, the first."""
        self.clock.advance(5)
        for reason in (EndReason.KEEPALIVE_FAILED, EndReason.TRANSPORT_ERROR, EndReason.CLOSED):
            self.tunnel.close(reason)
        self.assertEqual(self.ends, [(EndReason.KEEPALIVE_FAILED, 5.0, ())])
        self.assertEqual(self.line.hung_up, [EndReason.KEEPALIVE_FAILED])

    @proves("G-TUN-16", "G-OPEN-45")
    def test_lease(self) -> None:
        """A registration renewed every 30 s lives on; 90 s after the last it has expired."""
        for _ in range(10):
            self.clock.advance(30)
            self.tunnel.renew()
        self.clock.advance(89)
        self.assertEqual(self.ends, [])
        self.clock.advance(1)
        self.assertEqual(self.ends, [(EndReason.LEASE_EXPIRED, 390.0, ())])
        self.tunnel.renew()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @proves("G-TUN-19", "X-11")
    def test_reports_what_it_carried(self) -> None:
        """A tunnel that ends names its sessions, aborts them, and fails what was opening."""
        carried = []
        for number in range(3):
            uid = f"{number:032x}"
            opening = self.open(uid)
            carried.append(self.carry(uid))
            protocol = self.successResultOf(opening)
        waiting = self.open()
        self.tunnel.close(EndReason.TRANSPORT_ERROR)
        self.assertEqual(self.ends[0][2], tuple(f"{n:032x}" for n in range(3)))
        self.assertEqual(self.refusal(waiting).reason, "tunnel_ended")
        self.assertTrue(protocol.transport.disconnected)  # type: ignore[attr-defined]
        for stream in self.line.streams:
            stream.errback(ConnectionLost())
        for over in carried:
            self.failureResultOf(over, ConnectionLost)

    @proves("G-TUN-19")
    def test_streams_break_before_the_tunnel(self) -> None:
        """Sessions whose streams broke just before the tunnel's end was seen are named too."""
        self.open()
        over = self.carry()
        self.line.streams[0].errback(ConnectionLost())
        self.failureResultOf(over, ConnectionLost)
        self.tunnel.close(EndReason.TRANSPORT_ERROR)
        self.assertEqual(self.ends[0][2], (UID,))

    def test_broken_stream_of_a_living_tunnel(self) -> None:
        """A session that broke alone is not named when its tunnel ends later."""
        self.open()
        over = self.carry()
        self.line.streams[0].errback(ConnectionLost())
        self.failureResultOf(over, ConnectionLost)
        self.clock.advance(0)
        self.tunnel.close(EndReason.TRANSPORT_ERROR)
        self.assertEqual(self.ends[0][2], ())

    @proves("G-TUN-11", "G-TUN-12", "G-TUN-13")
    def test_words_of_connections(self) -> None:
        """A connection's last word gives the reason; an unknown one is a broken transport."""
        self.assertIs(end_reason("closed"), EndReason.CLOSED)
        self.assertIs(end_reason("keepalive_failed"), EndReason.KEEPALIVE_FAILED)
        for word in ("lost", "protocol_error", "whatever"):
            self.assertIs(end_reason(word), EndReason.TRANSPORT_ERROR)

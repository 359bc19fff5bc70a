"""What a Connector does not open, person to target, and that it then dials nothing."""

from __future__ import annotations

from typing import Any, cast

from attrs import evolve
from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.messages.session import encode_grant
from svc.messages.tunnel import OpenNotice
from svc.model.principal import Role
from svc.pki.end_to_end import PersonEnd
from tests.connector.gateway import GatewayCase
from tests.kinds.served import tcp


class _Reactor:
    """A clock, a resolver with one answer, and a list of what was dialed."""

    def __init__(self, clock: Clock, address: str) -> None:
        self._clock = clock
        self._address = address
        self.asked: list[str] = []
        self.dialed: list[str] = []
        self.nameResolver = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def resolveHostName(self, receiver: Any, name: str, *_: object) -> Any:
        self.asked.append(name)
        receiver.resolutionBegan(self)
        receiver.addressResolved(IPv4Address("TCP", self._address, 0))
        receiver.resolutionComplete()
        return self

    def connectTCP(self, host: str, *_: object) -> None:
        self.dialed.append(host)


class RefusalTests(GatewayCase):
    def refused(self, notice: OpenNotice | None = None, **kept: Any) -> str:
        [failure] = self.gateway.open(notice, **kept)
        assert isinstance(failure, Failure) and isinstance(failure.value, SvcError)
        return failure.value.reason

    def test_altered_grants_dial_nothing(self) -> None:
        """No altered, replayed or misdirected grant makes the Connector dial."""
        cluster = self.gateway.cluster
        good = cluster.notice()
        changed = encode_grant(cluster.grant(good.request, resource="host1"))
        self.assertEqual(
            self.refused(evolve(good, grant=evolve(good.grant, payload=changed))), "grant_refused"
        )
        self.assertEqual(self.refused(cluster.notice(proxy_id="q" * 26)), "grant_other_proxy")
        self.assertEqual(self.gateway.kind.dialing, [])
        self.gateway.open(good)
        self.assertEqual(len(self.gateway.kind.dialing), 1)
        self.gateway.kind.targets[0].loseConnection()
        self.gateway.turn()
        self.assertEqual(self.refused(good), "session_replayed")
        self.assertEqual(len(self.gateway.kind.dialing), 1)

    def test_a_gated_session_is_refused_for_good(self) -> None:
        """Authority is told that nothing of it was passed on, once; of others it is not told."""
        others = self.gateway.cluster.notice(proxy_id="q" * 26)
        self.assertEqual(self.refused(others), "grant_other_proxy")
        notice = self.gateway.cluster.notice(is_gated=True)
        self.assertEqual(self.refused(notice), "kind_mismatch")
        self.assertEqual(self.refused(notice), "kind_mismatch")
        (last,) = self.gateway.checkpoints
        said = last.session_uid, last.decisions, last.is_last, last.is_whole, last.reason
        self.assertEqual(said, (notice.session_uid, 0, True, True, "kind_mismatch"))

    def test_target_does_not_answer(self) -> None:
        """A target that refuses or stays silent is a refusal with its own word."""
        self.gateway.kind.answers = "no"
        self.assertEqual(self.refused(), "target_unreachable")
        self.check_log()
        later = self.started()
        later.kind.answers = "never"
        got = later.open()
        self.assertEqual(got, [])
        later.advance(10)
        self.assertEqual(got[0].value.reason, "target_deadline")

    def check_log(self) -> None:
        """The Connector's own log names resource and address; who asked is told neither."""
        told: list[LogEvent] = []
        observer = cast("ILogObserver", told.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        again = self.started()
        again.kind.answers = "no"
        [failure] = again.open()
        self.assertNotIn("db1.internal", str(failure.value))
        (line,) = [one for one in told if one.get("log_format") == "session not opened"]
        self.assertEqual((line["resource"], line["reason"]), ("db1", "target_unreachable"))
        self.assertEqual(line["target"], "db1.internal:5432")

    def test_out_of_reach(self) -> None:
        """A target whose name leads to a metadata address is not dialed."""
        reactor = _Reactor(self.gateway.clock, "169.254.169.254")
        self.gateway.connector_sessions.reactor = reactor
        self.gateway.connector_sessions.kinds = {"tcp": tcp}
        self.assertEqual(self.refused(), "address_out_of_reach")
        self.assertEqual((reactor.asked, reactor.dialed), (["db1.internal"], []))

    def test_failure_of_a_kind(self) -> None:
        """A kind that fails is a refusal too: it is logged, and nobody waits for its session."""

        def broken(reactor: Any, target: Any, ceiling: Any) -> Any:
            raise ZeroDivisionError

        self.gateway.kind.endpoint = broken  # type: ignore[method-assign]
        self.assertEqual(self.refused(), "connector_failed")
        self.assertEqual(self.refusals(), ["connector_failed"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_somebody_elses_certificate(self) -> None:
        """Another person at the other end gets no byte of the target, and the target is let go."""
        stranger = PersonEnd(self.gateway.cluster.world.identity(Role.USER))
        [got] = self.gateway.open(person=stranger)
        target = self.gateway.kind.targets[0]
        # In TLS 1.3 the client is done before the server has judged it; it must then be cut off.
        if not isinstance(got, Failure):
            got.transport.write(b"let me in")
            self.gateway.turn()
            self.assertEqual(got.received, b"")
            self.assertTrue(got.lost)
        self.assertEqual((target.value(), target.gone), (b"", True))
        self.assertEqual(self.refusals(), ["handshake_failed"])
        self.assertEqual(self.gateway.connector_sessions.sessions, frozenset())

    def test_proxy_in_the_middle(self) -> None:
        """A Proxy that answers the person's handshake with its own certificate is refused."""
        middle = PersonEnd(self.gateway.cluster.proxy)
        [got] = self.gateway.open(person=middle)
        if not isinstance(got, Failure):
            self.gateway.turn()
            self.assertTrue(got.lost)
        self.assertEqual(self.gateway.kind.targets[0].value(), b"")
        self.assertEqual(self.refusals(), ["handshake_failed"])

    def test_nobody_shakes_hands(self) -> None:
        """A stream in which nobody begins TLS ends by its deadline; the target is let go."""
        tunnel: Any = self.gateway.routes.find("db1")
        tunnel.endpoint(self.gateway.order()).connect(Factory.forProtocol(Protocol))
        self.gateway.turn()
        self.assertFalse(self.gateway.kind.targets[0].gone)
        self.gateway.advance(10)
        self.assertTrue(self.gateway.kind.targets[0].gone)
        self.assertEqual(self.refusals(), ["handshake_failed"])

"""A whole tunnel and its sessions on memory transports, person to target."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from svc.connector.cycle import proxy_by
from svc.connector.session_events import SessionOpened
from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.rpc import Peer
from svc.messages.tunnel import Goodbye, Hello, Nonce, Renew, decode_registration
from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.model.session.tunnels import EndReason, Miss, TunnelEnded, TunnelRegistered
from svc.model.signing import Purpose, Signed, verify
from svc.rpc.keepalive import TICK_SECS
from tests.connector.ends import Talker
from tests.connector.gateway import Gateway, GatewayCase
from tests.connector.pieces import UID
from tests.pki.support import World
from tests.support.proof import proves


class TunnelTests(GatewayCase):
    @proves("G-TUN-01", "G-TUN-02")
    def test_registers(self) -> None:
        """The Connector says who it is and signs Authority's nonce with its node key."""
        hello, signed = self.gateway.heard
        self.assertEqual(hello, Hello("first", "0.11.0", takes_first_flight=True))
        assert isinstance(signed, Signed)
        key = self.gateway.cluster.connector.facts.public_key
        verify(key, Purpose.REGISTRATION, signed.payload, signed.signature)
        said = decode_registration(signed.payload)
        self.assertEqual((said.nonce, said.generation), (bytes(32), 1))
        self.assertEqual(
            [(r.id, r.kind) for r in said.resources], [("db1", "tcp"), ("host1", "ssh")]
        )
        self.assertEqual(self.gateway.told, [("registered", "")])
        self.assertIsInstance(self.gateway.routed[0], TunnelRegistered)

    @proves("G-OPEN-45")
    def test_keeps_its_lease(self) -> None:
        """The lease is renewed every 30 s at least, so the tunnel stands after an hour."""
        for _ in range(120):
            before = self.gateway.heard.count(Renew())
            self.gateway.advance(30)
            self.assertGreater(self.gateway.heard.count(Renew()), before)
        self.assertEqual(len(self.gateway.routes), 1)

    def test_renews_at_common_times(self) -> None:
        """Renewals come at tenths of a second of the wall clock, like those of others."""
        times = []
        for _ in range(6000):
            before = len(self.gateway.heard)
            self.gateway.advance(0.01)
            if len(self.gateway.heard) > before:
                times.append(self.gateway.clock.seconds() + 0.05)
        self.assertEqual(len(times), 2)
        for at in times:
            self.assertLess(min(at % TICK_SECS, -at % TICK_SECS), 0.011)

    def test_reports_with_a_renewal(self) -> None:
        """A health report renews the lease, and is done once the Proxy has taken it."""
        self.gateway.advance(20)
        report = self.gateway.cluster.connector.sign(Purpose.HEALTH_REPORT, b"well")
        reported = self._delivered(report)
        self.assertEqual(self.gateway.heard[-1], Renew(report))
        self.successResultOf(reported)
        self.gateway.advance(20)
        self.assertEqual(self.gateway.heard[-1], Renew(report))
        self.gateway.advance(10)
        self.assertEqual(self.gateway.heard[-1], Renew())

    def test_a_report_that_is_not_taken(self) -> None:
        """A Proxy that cannot bring it, or knows nothing of reports, has not taken it."""
        report = self.gateway.cluster.connector.sign(Purpose.HEALTH_REPORT, b"well")
        for answer, reason in ((False, "unavailable"), (None, "deadline")):
            self.gateway.takes_health = answer
            reported = self._delivered(report)
            self.gateway.advance(11)
            self.assertEqual(self.failureResultOf(reported, SvcError).value.reason, reason)
        self.gateway.takes_health = True
        self.successResultOf(self._delivered(report))

    def test_no_report_without_a_registration(self) -> None:
        """Where the registration is over, the report waits for no answer."""
        report = self.gateway.cluster.connector.sign(Purpose.HEALTH_REPORT, b"well")
        self.gateway.takes_health = None
        reported = self._delivered(report)
        self.gateway.machine.stop()
        self.gateway.turn()
        self.failureResultOf(reported, Unavailable)
        self.failureResultOf(self._delivered(report), Unavailable)

    def _delivered(self, report: Signed) -> Deferred[None]:
        reported = Deferred.fromCoroutine(self.gateway.tunnels.health.deliver(report))
        self.gateway.turn()
        return reported

    @proves("G-TUN-11", "G-TUN-17")
    def test_stops_in_order(self) -> None:
        """A Connector that stops says goodbye: the tunnel ends closed, and nobody redials."""
        self.gateway.machine.stop()
        self.gateway.turn()
        self.assertIn(Goodbye(), self.gateway.heard)
        ended = self.gateway.routed[-1]
        assert isinstance(ended, TunnelEnded)
        self.assertIs(ended.reason, EndReason.CLOSED)
        self.assertEqual(self.gateway.told, [("registered", "")])

    @proves("G-MET-14", "G-TUN-17")
    def test_lost_connection(self) -> None:
        """A connection that breaks ends the tunnel on both sides; the Connector dials again."""
        self.gateway.pairs[0].client_side.abortConnection()
        self.gateway.turn()
        ended = self.gateway.routed[-1]
        assert isinstance(ended, TunnelEnded)
        self.assertIs(ended.reason, EndReason.TRANSPORT_ERROR)
        self.assertEqual(
            [word for word, _ in self.gateway.told], ["registered", "ended", "reconnect"]
        )

    @proves("G-MET-15", "G-TUN-03", "X-88")
    def test_refused(self) -> None:
        """A refused registration is told as refused and reconnect, with the Proxy's reason."""
        no = SvcError("no", reason="revoked_node", fault=Fault.DENIED)
        gateway = self.started(refuse_with=no)
        self.assertEqual(gateway.told, [("refused", "revoked_node"), ("reconnect", "revoked_node")])
        self.assertEqual(len(gateway.routes), 0)

    def test_stays_away_as_told(self) -> None:
        """A Proxy that says when to come again is not dialed before, and its words arrive."""
        later = SvcError("no", reason="too_many_requests", fault=Fault.EXHAUSTED, retry_after=7.5)
        gateway = self.started(refuse_with=later)
        self.assertEqual([word for word, _ in gateway.told], ["refused", "reconnect"])
        [redial] = [one for one in gateway.clock.getDelayedCalls() if one.getTime() > 7]
        self.assertAlmostEqual(redial.getTime() - gateway.clock.seconds(), 7.5 + 1.0)

    def test_nonce_again(self) -> None:
        """A nonce that comes later is signed again on the same tunnel, one generation higher."""
        self.gateway.calls[-1].put(Nonce(b"\x07" * 32))
        self.gateway.turn()
        signed = self.gateway.heard[-1]
        assert isinstance(signed, Signed)
        said = decode_registration(signed.payload)
        self.assertEqual((said.nonce, said.generation), (b"\x07" * 32, 2))
        self.assertEqual(self.gateway.told, [("registered", "")])

    def test_only_a_proxy(self) -> None:
        """A tunnel is spoken over to a Proxy of the cluster and to nobody else."""
        world = self.gateway.cluster.world
        proxy_of = proxy_by(world.verifier)

        def peer(chain: tuple[bytes, ...]) -> Peer:
            return Peer("192.0.2.1", 443, tls=True, chain=chain)

        self.assertEqual(
            proxy_of(peer(self.gateway.cluster.proxy.chain)), self.gateway.cluster.proxy_id
        )
        strangers = [self.gateway.cluster.connector.chain, self.gateway.cluster.person.chain, ()]
        strangers.append(World("other.example.test").identity(Role.PROXY).chain)
        for chain in strangers:
            self.assertRaises(CertificateRefused, proxy_of, peer(chain))

    def test_dialed_somebody_else(self) -> None:
        """Nothing is registered with whoever is not a Proxy; the Connector dials again."""
        gateway = Gateway()
        gateway.tunnels.proxy_of = proxy_by(gateway.cluster.world.verifier)
        gateway.start()
        self.addCleanup(gateway.stop)
        self.assertEqual((gateway.heard, len(gateway.routes)), ([], 0))
        self.assertEqual([word for word, _ in gateway.told], ["reconnect"])


class SessionTests(GatewayCase):
    def test_bytes_both_ways(self) -> None:
        """Bytes pass both ways unchanged, and are counted."""
        person, target = self.opened()
        data = bytes(range(256)) * 1200
        person.transport.write(data)
        self.gateway.turn()
        self.assertEqual(target.value(), data)
        self.target_says(target, data * 2)
        self.assertEqual(person.received, data * 2)
        person.transport.loseConnection()
        self.gateway.turn()
        self.assertTrue(target.gone)
        self.assertEqual(self.gateway.sessions[0], SessionOpened(UID, "db1", "tcp"))
        end = self.end()
        self.assertEqual((end.bytes_up, end.bytes_down), (len(data), 2 * len(data)))
        self.assertEqual(self.gateway.connector_sessions.sessions, frozenset())

    def test_first_flight_with_the_notice(self) -> None:
        """The Connector answers a first flight that came with the notice as it opens the stream."""
        [hello] = [one for one in self.gateway.heard if isinstance(one, Hello)]
        self.assertTrue(hello.takes_first_flight)
        [person] = self.gateway.open(is_early=True)
        self.assertNotIsInstance(person, Failure)
        target = self.gateway.kind.targets[-1]
        person.transport.write(b"question")
        self.gateway.turn()
        self.target_says(target, b"answer")
        self.assertEqual((target.value(), person.received), (b"question", b"answer"))
        self.assertEqual((self.gateway.sessions[0]), SessionOpened(UID, "db1", "tcp"))

    def test_first_flight_that_is_none(self) -> None:
        """A Proxy that puts something else in its place breaks the session, and no more."""
        notice = evolve(self.gateway.cluster.notice(), first_flight=b"\x16\x03\x01\0\x02no")
        tunnel: Any = self.gateway.routes.find("db1")
        order = evolve(self.gateway.order(notice), first_flight=notice.first_flight)
        got: list[Any] = []
        tunnel.endpoint(order).connect(Factory.forProtocol(Talker)).addBoth(got.append)
        self.gateway.turn()
        self.gateway.advance(60)
        self.assertTrue(self.gateway.kind.targets[-1].gone)
        self.assertEqual(self.gateway.connector_sessions.sessions, frozenset())
        self.assertEqual(self.gateway.connector_sessions.under_way, 0)

    def test_proxy_reads_nothing(self) -> None:
        """What the Proxy carries holds no byte of the session."""
        carried: list[bytes] = []
        side = self.gateway.pairs[0].server_side
        write = side.write

        def spy(data: bytes) -> None:
            carried.append(data)
            write(data)

        side.write = spy  # type: ignore[method-assign]
        person, target = self.opened()
        person.transport.write(b"a secret of the person")
        self.gateway.turn()
        self.assertEqual(target.value(), b"a secret of the person")
        self.assertTrue(carried)
        self.assertNotIn(b"a secret", b"".join(carried))

    def test_target_speaks_first(self) -> None:
        """A target's greeting waits unread until the person's end is proved, then comes whole."""
        person, target = self.opened()
        self.assertEqual(target.producerState, "producing")
        self.target_says(target, b"SSH-2.0-target\r\n")
        self.assertEqual(person.received, b"SSH-2.0-target\r\n")

    def test_half_close_of_the_person(self) -> None:
        """A person who says no more is still answered."""
        person, target = self.opened()
        person.transport.write(b"question")
        person.transport.loseWriteConnection()
        self.gateway.turn()
        self.assertEqual(
            (target.value(), target.write_ended, target.gone), (b"question", True, False)
        )
        self.target_says(target, b"late answer")
        self.assertEqual(person.received, b"late answer")
        target.protocol.readConnectionLost()
        self.gateway.turn()
        self.assertTrue(person.heard_end and target.gone)
        self.assertEqual(self.end().reason, "closed")

    def test_half_close_of_the_target(self) -> None:
        """A target that says no more is still spoken to."""
        person, target = self.opened()
        self.target_says(target, b"all I had")
        target.protocol.readConnectionLost()
        self.gateway.turn()
        self.assertEqual((person.received, person.heard_end), (b"all I had", True))
        self.assertIsNone(person.lost)
        person.transport.write(b"more")
        self.gateway.turn()
        self.assertEqual(target.value(), b"more")

    def test_target_breaks(self) -> None:
        """A target that breaks off breaks the session, and never looks like its end."""
        person, target = self.opened()
        target.abortConnection()
        self.gateway.turn()
        self.assertFalse(person.heard_end)
        self.assertFalse(person.lost.check(ConnectionDone))
        self.assertEqual(self.end().reason, "broken")

    def test_stalled_target(self) -> None:
        """A target that takes nothing holds back the person's side after a bounded amount."""
        person, target = self.opened()
        target.producer.pauseProducing()
        person.transport.write(bytes(8 << 20))
        self.gateway.turn()
        self.assertLess(len(target.value()), 2 << 20)
        target.producer.resumeProducing()
        for _ in range(20):
            self.gateway.turn()
        self.assertEqual(len(target.value()), 8 << 20)

    def test_grant_ends(self) -> None:
        """A session is cut when its grant ends, while the tunnel lives on."""
        now = int(self.gateway.cluster.world.now() * 1000)
        [person] = self.gateway.open(self.gateway.cluster.notice(end_before_ms=now + 20_000))
        self.gateway.advance(19)
        self.assertIsNone(person.lost)
        self.gateway.advance(2)
        self.assertTrue(person.lost and self.gateway.kind.targets[0].gone)
        self.assertEqual(self.end().reason, "grant_ended")
        self.assertEqual(len(self.gateway.routes), 1)

    @proves("G-TUN-19", "G-MET-20")
    def test_tunnel_breaks(self) -> None:
        """A tunnel that breaks under a session ends it at both ends and names it."""
        _, target = self.opened()
        self.gateway.pairs[0].client_side.abortConnection()
        self.gateway.turn()
        self.assertTrue(target.gone)
        self.assertEqual(self.end().reason, "broken")
        ended = self.gateway.routed[-1]
        assert isinstance(ended, TunnelEnded)
        self.assertEqual(ended.session_uids, (UID,))

    @proves("G-TUN-14", "G-TUN-19")
    def test_evicted_under_a_session(self) -> None:
        """An evicted tunnel takes its session along and names it."""
        _, target = self.opened()
        self.gateway.routes.evict(self.gateway.cluster.connector.facts.principal.id)
        self.gateway.turn()
        self.assertTrue(target.gone)
        ended = self.gateway.routed[-1]
        assert isinstance(ended, TunnelEnded)
        self.assertEqual((ended.reason, ended.session_uids), (EndReason.EVICTED, (UID,)))
        self.assertIs(self.gateway.routes.find("db1"), Miss.DEPARTED)

    def test_stop(self) -> None:
        """A Connector that stops refuses new sessions, waits for open ones, then breaks them."""
        self.opened()
        connector_sessions = self.gateway.connector_sessions
        connector_sessions.stop()
        drained = self.gateway.pairs[0].settle(connector_sessions.drained())
        self.assertEqual(drained, [])
        other = evolve(self.gateway.cluster.notice(), session_uid="ab" * 16)
        [refused] = self.gateway.open(other)
        self.assertEqual(self.refusals(), ["connector_stopping"])
        self.assertIsInstance(refused, Failure)
        connector_sessions.close()
        self.gateway.turn()
        self.assertEqual((drained, self.end().reason), ([None], "connector_stopping"))

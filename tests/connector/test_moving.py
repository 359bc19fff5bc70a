"""A tunnel moves to a fresh connection when certificates are renewed, and nobody notices."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from svc.errors import Unavailable
from svc.interfaces.rpc import RpcService
from svc.messages.tunnel import Renew, decode_registration
from svc.model.principal import Role
from svc.model.session.tunnels import EndReason, TunnelEnded, TunnelRegistered
from svc.model.signing import Signed
from svc.rpc.max_age import Freshness
from tests.connector.gateway import Gateway, GatewayCase
from tests.pki.renewing import renew
from tests.rpc.memory import Pair
from tests.support.proof import proves

DAY = 86400.0


class MovingGateway(Gateway):
    """Each dial is a connection of its own.

    Attributes:
        refusals: Raised by the dials to come, one each.
        holding: Waited for by the next dial.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dials = 0
        self.refusals: list[Exception] = []
        self.holding: Deferred[None] | None = None
        cluster = self.cluster
        self.tunnels.fresh = Freshness(
            clock=self.clock,
            now=cluster.world.now,
            identity=cluster.connector,
            verifier=cluster.world.verifier,
            roles=frozenset({Role.PROXY}),
        )

    async def dial(self) -> Any:
        self.dials += 1
        if self.refusals:
            raise self.refusals.pop(0)
        if self.holding is not None:
            await self.holding
        if self.dials > 1:
            methods = {"Register": self.register, "Carry": self.carry()}
            self.pairs.append(Pair([RpcService("gate.v1.Tunnel", methods)]))
        return self.pairs[-1].channel

    def renew(self, lifetime: float = DAY) -> None:
        renew(self.cluster.world, self.cluster.connector, lifetime)
        self.turn()

    def advance(self, seconds: float) -> None:
        for pair in self.pairs[1:]:
            pair.clock.advance(seconds)
        super().advance(seconds)

    def ended(self) -> list[EndReason]:
        return [one.reason for one in self.routed if isinstance(one, TunnelEnded)]

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.told]


class MovingTests(GatewayCase):
    gateway: MovingGateway

    def started(self, **kept: Any) -> Any:
        gateway = MovingGateway()
        gateway.start()
        self.addCleanup(gateway.stop)
        return gateway

    def is_closed(self, which: int) -> bool:
        return self.gateway.pairs[which].client.end_reason is not None

    @proves("G-IDN-02")
    def test_idle(self) -> None:
        """After a renewal the tunnel is registered over a new connection; the old one closes."""
        self.gateway.renew()
        self.gateway.advance(1)
        self.assertEqual((self.gateway.dials, len(self.gateway.routes)), (2, 1))
        self.assertEqual((self.is_closed(0), self.is_closed(1)), (True, False))
        self.assertEqual(self.gateway.words, ["registered"])
        self.assertEqual(self.gateway.ended(), [EndReason.SUPERSEDED])
        registered = [e for e in self.gateway.routed if isinstance(e, TunnelRegistered)]
        self.assertEqual(len(registered), 2)
        said = [decode_registration(e.payload) for e in self.gateway.heard if isinstance(e, Signed)]
        self.assertEqual([one.instance_id for one in said], ["first", "first"])
        self.assertEqual([one.generation for one in said], [1, 2])
        signers = [e.chain[0] for e in self.gateway.heard if isinstance(e, Signed)]
        self.assertNotEqual(signers[0], signers[1], "the new connection is signed with the new key")

    @proves("G-IDN-02")
    def test_sessions_go_on(self) -> None:
        """A session passes bytes on over its old connection, which closes after it."""
        person, target = self.opened()
        self.gateway.renew()
        self.gateway.advance(60)
        self.assertFalse(self.is_closed(0))
        person.transport.write(b"still here")
        self.gateway.turn()
        self.assertEqual(target.value(), b"still here")
        self.target_says(target, b"so am I")
        self.assertEqual(person.received, b"so am I")
        person.transport.loseConnection()
        self.gateway.turn()
        self.gateway.advance(1)
        self.assertTrue(self.is_closed(0))
        self.assertEqual(self.end().reason, "closed")
        self.assertEqual(self.refusals(), [])

    def test_order_under_way(self) -> None:
        """An order sent over the old connection is still answered there."""
        self.gateway.kind.answers = "later"
        tunnel: Any = self.gateway.routes.find("db1")
        got = self.gateway.open()
        self.gateway.renew()
        self.gateway.advance(2)
        self.assertIsNot(self.gateway.routes.find("db1"), tunnel)
        self.assertEqual((got, self.is_closed(0)), ([], False))
        dialing = self.gateway.kind.dialing[-1]
        dialing.errback(ConnectionRefusedError())
        self.gateway.turn()
        self.assertEqual(got[0].value.reason, "target_unreachable")
        self.gateway.advance(1)
        self.assertTrue(self.is_closed(0))

    def test_renews_the_lease_of_the_new_one(self) -> None:
        """The lease is kept over the new connection, and no more over the old one."""
        self.opened()
        self.gateway.renew()
        for _ in range(10):
            self.gateway.advance(30)
        self.assertEqual(self.gateway.heard.count(Renew()), 10)
        self.assertEqual(self.gateway.ended(), [EndReason.SUPERSEDED])

    @proves("G-IDN-02")
    def test_dial_fails(self) -> None:
        """While no second connection comes about the old one serves, and it is tried again."""
        self.gateway.refusals = [Unavailable("no"), Unavailable("no")]
        self.gateway.renew()
        self.assertEqual((self.gateway.dials, self.gateway.ended()), (2, []))
        self.opened()
        for _ in range(25):
            self.gateway.advance(30)
        self.assertEqual((self.gateway.dials, len(self.gateway.routes)), (4, 1))
        self.assertEqual(self.gateway.words, ["registered"])
        self.assertEqual(self.gateway.ended(), [EndReason.SUPERSEDED])

    def test_refused(self) -> None:
        """A second registration that is refused leaves the first one as it was."""
        self.gateway.refuse_with = Unavailable("Authority is away", reason="authority_unreachable")
        self.gateway.renew()
        self.assertEqual((self.gateway.dials, self.gateway.words), (2, ["registered"]))
        self.assertEqual((self.is_closed(0), self.is_closed(1)), (False, True))
        self.gateway.refuse_with = None
        for _ in range(11):
            self.gateway.advance(30)
        self.assertEqual(self.gateway.dials, 3)
        self.assertEqual(self.gateway.words, ["registered"])

    def test_too_late(self) -> None:
        """If nothing takes over before our old certificate ends, the tunnel is dialed again."""
        self.gateway.refusals = [Unavailable("no")] * 10_000
        self.gateway.renew(2 * DAY)
        while self.gateway.words == ["registered"] and self.gateway.clock.seconds() < 1.1 * DAY:
            self.gateway.advance(30)
        self.assertEqual(self.gateway.words, ["registered", "ended", "reconnect"])
        self.assertGreaterEqual(self.gateway.clock.seconds(), DAY)
        self.gateway.refusals.clear()
        self.gateway.advance(2)
        self.assertEqual(self.gateway.words[-1], "registered")

    def test_proxy_dies_meanwhile(self) -> None:
        """A Proxy that dies while a second connection is dialed is a lost one, as ever."""
        self.gateway.holding = Deferred()
        self.gateway.renew()
        self.gateway.pairs[0].client_side.abortConnection()
        self.gateway.turn()
        self.assertEqual(self.gateway.words, ["registered", "ended", "reconnect"])
        waiting, self.gateway.holding = self.gateway.holding, None
        waiting.callback(None)
        self.gateway.turn()
        self.gateway.advance(1)
        self.assertEqual(len(self.gateway.routes), 1)
        self.assertEqual(self.gateway.words[-1], "registered")

    def test_stop_with_two(self) -> None:
        """A Connector that stops closes both connections and leaves no timer."""
        self.opened()
        self.gateway.renew()
        self.gateway.connector_sessions.close()
        self.gateway.machine.stop()
        self.gateway.advance(1)
        self.gateway.turn()
        self.assertEqual((self.is_closed(0), self.is_closed(1)), (True, True))
        self.assertEqual(len(self.gateway.routes), 0)
        self.successResultOf(Deferred.fromCoroutine(self.gateway.tunnels.ended()))

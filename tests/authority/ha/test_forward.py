"""Calls that reach an Authority which stands by: the leader answers, and judges for itself."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.ha.forward import (
    MAX_HELD_BYTES,
    MAX_IN_FLIGHT,
    ForwardedCalls,
    ForwardedMethod,
    Forwarder,
)
from svc.authority.ha.leader_connection import LeaderRoute
from svc.authority.ha.membership import leader_service
from svc.compose.telemetry import forward_meters
from svc.errors import Denied, Fault, LeaseLost, SvcError, TooMany, Unavailable
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, streaming
from svc.messages.forward import Forwarded, LeaderClaim, forward_message, read_forward
from svc.model.certificate import CertificateRefused
from svc.model.principal import Principal, Role
from svc.pki.identity import TransportIdentity
from svc.telemetry.metrics import Metrics
from svc.wire.limits import WireLimits
from tests.authority.house import Call
from tests.pki.support import World
from tests.rpc.memory import Pair
from tests.support.proof import proves

METHOD = "/gate.v1.Renewal/Renew"
SERIES = "svc_authority_forward_"
REQUESTS, FAILURES = "requests_total", "transport_failures_total"


@define
class Lease:
    """Who leads, as one Authority sees it."""

    owner: str = "a2"
    leader: str = "a1"
    lease: Any = None


def peer_of(identity: TransportIdentity | None) -> Peer:
    """Whom TLS saw."""
    chain = () if identity is None else identity.chain
    return Peer(host="198.51.100.7", port=4711, tls=True, chain=chain)


class Asked(Call):
    """A call at the Authority that stands by, and what came of it."""

    method = METHOD

    def __init__(self, forwarding: Forwarder, peer: Peer, request: bytes) -> None:
        super().__init__(peer)
        self.outcome: list[Any] = []
        self.give(request, None)
        self.running = Deferred.fromCoroutine(forwarding.serve(self))
        self.running.addBoth(self.outcome.append)

    @property
    def error(self) -> Any:
        """Why it failed."""
        return self.outcome[0].value


class TwoAuthorities(SynchronousTestCase):
    """Two Authorities over one connection in memory."""

    def setUp(self) -> None:
        """The leader serves one method, and notes who it is asked by."""
        self.world = World()
        self.leader, self.follower = (self.world.identity(Role.AUTHORITY) for _ in range(2))
        self.proxy = self.world.identity(Role.PROXY)
        self.revoked: set[str] = set()
        self.calls: list[IRpcCall] = []
        self.answer: Any = b"answer"
        self.dials: list[str] = []
        self.refusal: SvcError | None = None
        self.claim = LeaderClaim(leads=True, epoch=3, leader="a1", authority_id="n1")
        self.forwarded = ForwardedCalls(self.world.verifier, self.check)
        self.forwarded.methods[METHOD] = ForwardedMethod(self.admit, streaming(self.serve))
        self.clock = Clock()
        self.connect(leader_service(lambda: self.claim))
        lease: Any = Lease()
        self.lease = lease
        self.route = LeaderRoute(lease, self.dial, self.pair.clock)
        self.metrics = Metrics(["authority"])
        self.forwarding = Forwarder(self.route, self.pair.clock, forward_meters(self.metrics))

    def connect(self, membership: RpcService, **limits: int) -> None:
        """The connection that is dialed from now on."""
        services = [self.forwarded.service(), membership]
        bounds = WireLimits(resets=4 * MAX_IN_FLIGHT, **limits)
        self.pair = Pair(services, admit=self.forwarded.admit, limits=bounds, clock=self.clock)
        self.pair.server.peer = peer_of(self.follower)

    @property
    def counts(self) -> dict[str, float]:
        """What the series of forwarding say."""
        lines = self.metrics.text().decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line.startswith(SERIES))
        return {name.removeprefix(SERIES): float(value) for name, value in values.items()}

    def check(self, principal: Principal) -> None:
        """As the registry does."""
        if principal.id in self.revoked:
            raise Denied("revoked", reason="revoked_node")

    def admit(self, method: str, peer: Peer) -> None:
        """As the method's own listener does."""
        self.world.verifier.verify(peer.chain, {Role.PROXY})

    async def serve(self, call: IRpcCall) -> None:
        """As a unary method does; what it answers is the test's."""
        self.calls.append(call)
        request = await call.receive()
        answer = await self.answer() if callable(self.answer) else self.answer
        if isinstance(answer, SvcError):
            raise answer
        await call.send(answer + (request or b"")[:4])

    async def dial(self, owner: str) -> Any:
        """The one connection there is."""
        self.dials.append(owner)
        if self.refusal is not None:
            raise self.refusal
        return self.pair.channel

    def ask(self, peer: Peer | None = None, request: bytes = b"ask!", **how: Any) -> Asked:
        """One call at the Authority that stands by."""
        asked = Asked(self.forwarding, peer_of(self.proxy) if peer is None else peer, request)
        self.pair.turn(how.get("turns", 60))
        return asked


class ForwardingTests(TwoAuthorities):
    """One call after the other."""

    @proves("G-HA-01", "G-MET-48", "G-OPEN-40", "G-OPEN-50")
    def test_answered(self) -> None:
        """The leader's answer comes back as it is; it saw the caller's own certificate."""
        asked = self.ask()
        self.assertEqual((asked.outcome, asked.sent), ([None], [b"answerask!"]))
        [call] = self.calls
        self.assertEqual((call.method, call.peer), (METHOD, peer_of(self.proxy)))
        self.assertEqual(self.counts, {REQUESTS: 1, FAILURES: 0})
        self.ask()
        self.assertEqual(self.dials, ["a1"], "the connection is kept")

    def test_refused(self) -> None:
        """A refusal comes back with its word, details and time to wait."""
        self.answer = TooMany("too much", retry_after=7.0)
        self.assertEqual(self.ask().error.retry_after, 7.0)
        self.answer = Denied("no", reason="clone_suspected", details={"decision_id": "d"})
        error = self.ask().error
        self.assertEqual((error.reason, error.fault), ("clone_suspected", Fault.DENIED))
        self.assertEqual((error.text, dict(error.details)), ("no", {"decision_id": "d"}))
        self.assertEqual(self.counts[FAILURES], 0)

    def test_the_leader_judges(self) -> None:
        """A chain that the leader does not accept is refused there, whatever the other one saw."""
        other = World("other.example.test").identity(Role.PROXY)
        late = self.world.identity(Role.PROXY, lifetime=60.0)
        person = self.world.identity(Role.USER)
        self.pair.clock.advance(0)
        self.world.clock.advance(3600)
        for identity in (other, late, person, None):
            error = self.ask(peer_of(identity)).error
            self.assertTrue(error.reason.startswith("certificate_"), error.reason)
        self.assertEqual(self.calls, [])

    def test_chain_without_proof(self) -> None:
        """A chain whose leaf the cluster's CA did not sign is no chain."""
        stranger, chain = World().identity(Role.PROXY), self.proxy.chain
        mixed = (stranger.chain[0], *chain[1:])
        error = self.ask(Peer(host="h", port=1, tls=True, chain=mixed)).error
        self.assertEqual(error.reason, "certificate_chain")

    def test_only_authorities_forward(self) -> None:
        """Who is no Authority, is not one any more or was revoked, forwards nothing."""
        for role in (Role.PROXY, Role.CONNECTOR, Role.USER):
            self.pair.server.peer = peer_of(self.world.identity(role))
            self.assertEqual(self.ask().error.reason, "certificate_role")
        self.pair.server.peer = peer_of(self.follower)
        self.revoked.add(self.follower.facts.principal.id)
        self.assertEqual(self.ask().error.reason, "revoked_node")
        self.revoked.clear()
        self.world.clock.advance(100_000)
        self.assertEqual(self.ask().error.reason, "certificate_expired")
        self.assertEqual(self.calls, [])

    def test_what_is_not_forwarded(self) -> None:
        """Of operators' commands, streams and forwarding itself nothing is served here."""
        for method in (
            "/gate.v1.Admin/SetPolicy",
            "/gate.v1.Control/Snapshot",
            "/gate.v1.Control/Hello",
            "/gate.v1.Forward/Call",
        ):
            asked = Call(peer_of(self.proxy))
            asked.method = method
            asked.give(b"", None)
            failed = Deferred.fromCoroutine(self.forwarding.serve(asked))
            self.pair.turn()
            error: Any = self.failureResultOf(failed, SvcError).value
            self.assertEqual((error.reason, error.fault), ("not_forwarded", Fault.UNIMPLEMENTED))

    @proves("G-OPEN-40", "G-OPEN-50", "G-MET-49")
    def test_the_leader_is_not_reached(self) -> None:
        """The caller is told who leads, so that it turns there itself; nothing was done."""
        self.refusal = Unavailable("nobody answers", reason="cannot_connect")
        error = self.ask().error
        self.assertEqual((error.reason, error.fault), ("not_leader", Fault.PRECONDITION))
        self.assertEqual(error.details, {"leader": "a1"})
        self.assertEqual(self.counts, {REQUESTS: 1, FAILURES: 1})

    def test_one_dial_for_all(self) -> None:
        """Calls that waited for one dial share its failure: nobody waits for a dial of each."""
        dialing: list[Deferred[None]] = []
        usual = self.route.dial

        async def slowly(owner: str) -> Any:
            dialing.append(Deferred())
            await dialing[-1]
            return await usual(owner)

        self.route.dial = slowly
        self.refusal = Unavailable("nobody answers", reason="cannot_connect")
        many = [self.ask(turns=1) for _ in range(20)]
        self.pair.clock.advance(1)
        dialing[0].callback(None)
        self.pair.turn()
        self.assertEqual({each.error.reason for each in many}, {"not_leader"})
        self.assertEqual(len(dialing), 1)
        self.pair.clock.advance(1)
        self.ask()
        self.assertEqual(len(dialing), 2, "who comes later tries again")

    def test_nobody_leads(self) -> None:
        """Without a leader nothing is dialed; neither where the lease is our own former life's."""
        for leader in ("", "a2"):
            self.lease.leader = leader
            self.assertIsInstance(self.ask().error, LeaseLost)
        self.assertEqual((self.dials, self.counts[FAILURES]), ([], 0))

    @proves("G-MET-49")
    def test_broken(self) -> None:
        """Where the connection breaks amid a call nobody knows what became of it; it is said."""
        self.answer = Deferred
        asked = self.ask()
        self.pair.server_side.abortConnection()
        self.pair.turn()
        error = asked.error
        self.assertEqual((error.reason, error.fault), ("forward_lost", Fault.UNAVAILABLE))
        self.assertEqual(self.counts[FAILURES], 1)
        self.ask()
        self.assertEqual(self.dials, ["a1", "a1"], "the next call dials again")

    def test_deadline(self) -> None:
        """The caller's deadline is the forwarded call's."""
        self.answer = Deferred
        asked = Call(peer_of(self.proxy))
        asked.method, deadline = METHOD, self.pair.clock.seconds() + 3.0
        asked.deadline = deadline  # type: ignore[assignment]
        asked.give(b"ask!", None)
        waiting = Deferred.fromCoroutine(self.forwarding.serve(asked))
        self.pair.turn()
        self.assertAlmostEqual(self.calls[0].deadline or 0.0, deadline, 2)
        self.pair.clock.advance(3.1)
        self.pair.turn()
        error: Any = self.failureResultOf(waiting, SvcError).value
        self.assertEqual(error.fault, Fault.DEADLINE)

    def test_cancelled(self) -> None:
        """A caller that goes away ends the work at the leader as well."""
        cancelled: list[Any] = []
        self.answer = lambda: Deferred(cancelled.append)
        asked = self.ask()
        asked.running.cancel()
        self.pair.turn()
        self.assertTrue(asked.outcome[0].check(CancelledError))
        self.assertEqual(len(cancelled), 1)

    def test_bounds(self) -> None:
        """Past the number in flight, or their bytes, a call is refused with a time to wait."""
        self.answer = Deferred
        large = b"x" * (MAX_HELD_BYTES // 6 + 1)
        held = [self.ask(request=large, turns=1) for _ in range(6)]
        self.assertEqual([each.error.reason for each in held if each.outcome], ["forwarding_full"])
        for each in held:
            each.running.cancel()
        self.pair.turn()
        many = [self.ask(turns=1) for _ in range(MAX_IN_FLIGHT + 1)]
        refused = [each for each in many if each.outcome]
        self.assertEqual([each.error.retry_after for each in refused], [1.0])
        for each in many:
            each.running.cancel()
        self.pair.turn()
        self.answer = b"again"
        self.assertEqual(self.ask().outcome, [None])

    def test_malformed(self) -> None:
        """What another Authority sends is bounded before it is looked at."""
        good = Forwarded(method=METHOD, request=b"", chain=self.proxy.chain, host="h", port=1)
        self.assertEqual(read_forward(forward_message(good)), good)
        bad: tuple[dict[str, Any], ...] = (
            {"method": ""},
            {"method": "m" * 300},
            {"chain": (b"x",) * 4},
            {"chain": (b"x" * 9000,)},
            {"chain": (b"",)},
            {"host": "h" * 300},
            {"port": 70_000},
        )
        for change in bad:
            message = forward_message(evolve(good, **change))
            error = self.assertRaises(SvcError, read_forward, message)
            self.assertEqual(error.reason, "malformed", change)
        of_version_2 = self.proxy.chain[0].replace(b"\xa0\3\2\1\2", b"\xa0\3\2\1\1", 1)
        for leaf in (b"no certificate", of_version_2):
            asked = Call(peer_of(self.follower))
            forwarded = forward_message(evolve(good, chain=(leaf,)))
            call = Deferred.fromCoroutine(self.forwarded._call(forwarded, asked))
            self.assertEqual(self.failureResultOf(call, SvcError).value.reason, "malformed")


class RouteTests(TwoAuthorities):
    """The way to the leader as readiness sees it."""

    def is_there(self) -> Any:
        """What one check finds."""
        asked = Deferred.fromCoroutine(self.route.is_there())
        self.pair.turn()
        return asked

    @proves("G-RDY-05", "G-RDY-06", "G-RDY-07")
    def test_checks(self) -> None:
        """The route stands while the leader answers as such; who leads needs none."""
        self.assertTrue(self.successResultOf(self.is_there()))
        self.claim = LeaderClaim(leads=False, epoch=0, leader="a3", authority_id="n1")
        self.assertFalse(self.successResultOf(self.is_there()), "it leads no more")
        self.claim = LeaderClaim(leads=True, epoch=4, leader="a1", authority_id="n1")
        self.lease.leader = ""
        self.assertFalse(self.successResultOf(self.is_there()))
        self.lease.lease = object()
        self.assertTrue(self.successResultOf(self.is_there()))

    @proves("G-RDY-05")
    def test_whoever_answers_is_someone_else(self) -> None:
        """A certificate that is not the leader's is no way to it."""
        self.refusal = CertificateRefused("it is someone else", reason="certificate_name")
        self.assertFalse(self.successResultOf(self.is_there()))

    async def silent(self, _call: IRpcCall) -> None:
        """A look at the leader that is never answered."""
        await Deferred()

    def pass_time(self, seconds: float, *, cut: bool = False) -> None:
        """Time, and what it brings about; *cut*: nothing passes between the two."""
        for _ in range(int(2 * seconds)):
            self.clock.advance(0.5)
            if not cut:
                self.pair.turn(5)

    def slow(self, **limits: int) -> None:
        """From now on the leader answers no look, and its calls when a test says so."""
        self.connect(RpcService("gate.v1.Membership", {"Leader": streaming(self.silent)}), **limits)
        self.answered: list[Deferred[bytes]] = []

        def answer() -> Deferred[bytes]:
            self.answered.append(Deferred())
            return self.answered[-1]

        self.answer = answer

    def test_slow(self) -> None:
        """A leader that answers no look in time keeps its calls: what it does arrives."""
        self.slow()
        asked, checked = self.ask(), self.is_there()
        self.pass_time(5)
        self.assertFalse(self.successResultOf(checked))
        self.ask()
        self.assertEqual(self.dials, ["a1"], "it is slow, not silent")
        self.answered[0].callback(b"late")
        self.pair.turn()
        self.assertEqual((asked.outcome, asked.sent), ([None], [b"lateask!"]))

    def test_silent(self) -> None:
        """A connection that stays silent takes no further call; each under way ends in its time."""
        self.slow()
        old, asked = self.pair, self.ask()
        for _ in range(2):
            Deferred.fromCoroutine(self.route.is_there())
            self.pass_time(9, cut=True)
        self.connect(leader_service(lambda: self.claim))
        self.assertTrue(self.successResultOf(self.is_there()))
        self.assertEqual(self.dials, ["a1", "a1"])
        self.assertEqual((asked.outcome, self.counts[FAILURES]), ([], 0))
        self.pass_time(13, cut=True)
        self.assertEqual((asked.error.fault, self.counts[FAILURES]), (Fault.DEADLINE, 1))
        self.assertTrue(old.client_side.disconnecting or old.client_side.disconnected)

    def test_leader_changes(self) -> None:
        """A call under way at the leader of before is answered by it; the next goes to the new."""
        self.slow()
        old, asked = self.pair, self.ask()
        self.lease.leader = "a3"
        self.connect(leader_service(lambda: self.claim))
        self.answer, slow = b"answer", self.answered[0]
        self.assertEqual((self.ask().outcome, self.dials), ([None], ["a1", "a3"]))
        slow.callback(b"late")
        old.turn()
        self.assertEqual(asked.sent, [b"lateask!"])

    def test_never_sent(self) -> None:
        """Of calls that a connection is left with, one that was never sent is nobody's doing."""
        self.slow(max_streams=1)
        first, second = self.ask(), self.ask()
        self.lease.leader = "a3"
        self.refusal = Unavailable("nobody answers", reason="cannot_connect")
        self.ask()
        self.assertIsInstance(second.error, LeaseLost)
        self.assertEqual(first.outcome, [])

    def test_stop(self) -> None:
        """A stop ends every connection, those that were left too."""
        self.slow()
        left, asked = self.pair, self.ask()
        self.lease.leader = "a3"
        self.connect(leader_service(lambda: self.claim))
        self.ask(turns=0)
        stopped = Deferred.fromCoroutine(self.route.stop())
        for _ in range(3):
            self.pair.turn()
            left.turn()
        self.successResultOf(stopped)
        self.assertEqual(asked.error.reason, "forward_lost")

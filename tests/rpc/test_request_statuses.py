"""With which RPC status each sort of request is refused, as it stands on the wire."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.enroll.token_keys import TokenKeys
from svc.authority.ha.forward import Forwarder
from svc.authority.ha.leader_connection import LeaderRoute
from svc.authority.policy.admin import FIRST_POLICY
from svc.authority.sessions.identity import SessionIdentities
from svc.compose.telemetry import forward_meters
from svc.errors import Unavailable
from svc.interfaces.rpc import IRpcCall, RpcService, streaming, unary
from svc.kinds.web.head import read_request
from svc.kinds.web.target import refusal
from svc.messages.control import AUTHORIZE_METHOD, AuthorizeAnswer, ask_message
from svc.messages.identity import TOKEN_METHOD, TokenAsk, token_request
from svc.messages.session import OPEN_METHOD
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.ratelimit.limits import Rate
from svc.rpc.frames import open_frame
from svc.runtime.services import BackgroundTasks
from svc.telemetry.metrics import Metrics
from svc.wire.status import Code
from tests.authority.changing import policies
from tests.authority.ha.test_forward import Lease
from tests.authority.house import KINDS, Holder, House, value_of
from tests.authority.policy.test_admin import ACTOR
from tests.authority.test_control import control_service
from tests.pki.support import CLUSTER
from tests.proxy.pieces import ProxyTests, Talk
from tests.rpc.memory import Pair
from tests.support.nothing import nothing_later
from tests.support.proof import proves

SET_POLICY = "/gate.v1.Admin/SetPolicy"


def status_of(talk: Talk) -> tuple[Code, str]:
    """The code in the trailers that ended a call, and the reason word beside it."""
    assert talk.error is not None
    return talk.stream._stream.status.code, talk.reason


@proves("G-OPEN-05")
class AtTheProxyTests(ProxyTests):
    """What a person's client is answered."""

    def open(self, **changed: Any) -> tuple[Code, str]:
        """Ask for a session."""
        return status_of(self.site.open(**changed))

    def test_statuses(self) -> None:
        """A denial, two misses, a budget, what cannot be read, and what there is not."""
        self.site.person_rates.denials.buckets.rate = Rate(per_minute=1, burst=1)
        self.assertEqual(self.open(), (Code.NOT_FOUND, "unknown"))
        self.site.node().wire.cut()
        self.site.turn()
        self.assertEqual(self.open(), (Code.UNAVAILABLE, "departed"))
        channel = self.site.connect(self.site.cluster.person).channel
        unreadable = Talk(channel.stream(OPEN_METHOD))
        unreadable.say(open_frame(b"\xff"))
        nothing = Talk(channel.stream("/gate.v1.Session/Nothing"))
        self.site.turn()
        self.assertEqual(status_of(unreadable)[0], Code.INVALID_ARGUMENT)
        self.assertEqual(status_of(nothing), (Code.UNIMPLEMENTED, "unknown_method"))
        denied = AuthorizeAnswer("d" * 32, reason="denied", text="access denied")
        self.authority.refusal = denied
        self.assertEqual(self.open(), (Code.PERMISSION_DENIED, "denied"))
        self.assertEqual(self.open(), (Code.RESOURCE_EXHAUSTED, "too_many_requests"))


@proves("G-OPEN-05")
class AtTheAuthorityTests(SynchronousTestCase):
    """What Proxies, Connectors and operators are answered."""

    def setUp(self) -> None:
        self.house = house = House()
        house.serve("db1")
        tasks = BackgroundTasks()
        control = control_service(house, tasks, house.ends(), nothing_later)
        self.policies = policies(house)
        admin = RpcService("gate.v1.Admin", {"SetPolicy": unary(pb.SetPolicyRequest, self.set)})
        self.pair = Pair([control.service(), self.identities().service(), admin])

    async def set(self, request: pb.SetPolicyRequest, call: IRpcCall) -> pb.SetPolicyResponse:
        """As the control socket serves an operator."""
        return await self.policies.set(request, ACTOR)

    def identities(self) -> SessionIdentities:
        house = self.house
        return SessionIdentities(
            cluster=CLUSTER,
            state_cache=house.state_cache,
            engine=lambda: house.policy.engine,
            kinds=KINDS,
            verifier=house.world.verifier,
            store=house.store,
            recorder=house.recorder,
            refusals=house.refusals,
            sign=TokenKeys(house.world.keys, house.now, nothing_later).sign,
            asks=house.rates.identities,
            now=house.now,
            entropy=house.entropy,
        )

    def asked(self, method: str, request: Any, who: Holder | None = None) -> tuple[Code, str]:
        """One unary call's end."""
        talk = self.call(method, request, who)
        if talk.error is None:
            return Code.OK, ""
        return status_of(talk)

    def call(self, method: str, request: Any, who: Holder | None = None) -> Talk:
        self.pair.server.peer = self.house.peer(who or self.house.proxy)
        talk = Talk(self.pair.channel.stream(method))
        talk.say(request if isinstance(request, bytes) else request.SerializeToString())
        talk.stream.end()
        self.pair.turn(60)
        return talk

    def test_sessions(self) -> None:
        """A request that cannot be read, one while the store is down, and one too many."""
        ask = ask_message(self.house.ask(self.house.ada))
        self.assertEqual(self.asked(AUTHORIZE_METHOD, ask), (Code.OK, ""))
        self.assertEqual(self.asked(AUTHORIZE_METHOD, b"\xff")[0], Code.INVALID_ARGUMENT)
        self.assertEqual(
            self.asked("/gate.v1.Control/Nothing", b""), (Code.UNIMPLEMENTED, "unknown_method")
        )
        self.house.store.mood = "down"
        ask = ask_message(self.house.ask(self.house.ada))
        self.assertEqual(self.asked(AUTHORIZE_METHOD, ask), (Code.UNAVAILABLE, "store_unavailable"))
        self.house.store.mood = "well"
        self.house.rates.opens.buckets.rate = Rate(per_minute=1, burst=0.5)
        ask = ask_message(self.house.ask(self.house.ada))
        self.assertEqual(
            self.asked(AUTHORIZE_METHOD, ask), (Code.RESOURCE_EXHAUSTED, "too_many_requests")
        )

    def test_identities(self) -> None:
        """Naming a person who may not be named is PERMISSION_DENIED, and HTTP 403 to a client."""
        ask = self.house.ask(self.house.ada)
        answer = value_of(self.house.issuance().authorize(ask, self.house.row(self.house.proxy)))
        named = token_request(TokenAsk(answer.grant, "eve"))
        talk = self.call(TOKEN_METHOD, named, self.house.connector)
        self.assertEqual(status_of(talk), (Code.PERMISSION_DENIED, "identity_denied"))
        assert talk.error is not None
        head = read_request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertTrue(refusal(talk.error, head).startswith(b"HTTP/1.1 403 Forbidden\r\n"))

    def test_stale_revision(self) -> None:
        """A policy that was read against one that is no longer in force is ABORTED."""

        async def guard(text: str) -> None:
            self.house.policy.guard = self.house._guard
            await self.policies.set(pb.SetPolicyRequest(text=text), ACTOR)

        self.house.policy.guard = guard
        said = self.asked(SET_POLICY, pb.SetPolicyRequest(text=FIRST_POLICY))
        self.assertEqual(said, (Code.ABORTED, "policy_changed"))

    def test_not_the_leader(self) -> None:
        """A write at an Authority that stands by names the leader, where it cannot go there."""

        async def dial(owner: str) -> Any:
            raise Unavailable("nobody answers", reason="cannot_connect")

        lease: Any = Lease()
        route = LeaderRoute(lease, dial, self.pair.clock)
        meters = forward_meters(Metrics(["authority"]))
        forwarder = Forwarder(route, self.pair.clock, meters)
        method = "/gate.v1.Renewal/Renew"
        self.pair = Pair([RpcService("gate.v1.Renewal", {"Renew": streaming(forwarder.serve)})])
        talk = self.call(method, b"")
        self.assertEqual(status_of(talk), (Code.FAILED_PRECONDITION, "not_leader"))
        assert talk.error is not None
        self.assertEqual(talk.error.details, {"leader": "a1"})

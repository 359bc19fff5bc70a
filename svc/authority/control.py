"""``gate.v1.Control``: the calls that Proxies make.

Each call starts with who is calling (rule R13): the node certificate is
checked against time and registry at every call, not at the handshake only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, evolve, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.access.calls import AccessCalls
from svc.authority.access.uses import RequestApprovals
from svc.authority.ingest.heads import HeadsToSend
from svc.authority.ingest.queue import QueueIntake
from svc.authority.limits import AskRates
from svc.authority.policy.snapshot import SnapshotPublisher
from svc.authority.registry.health import ReportedHealth
from svc.authority.registry.peers import PeerProxies
from svc.authority.registry.register import RegistrationIntake
from svc.authority.sessions.checkpoints import GatedSessions
from svc.authority.sessions.end import SessionEnds
from svc.authority.sessions.explain import Explainer
from svc.authority.sessions.issue import Issuance
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import node
from svc.errors import Fault, Malformed, SvcError, Unauthenticated
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, streaming, unary
from svc.messages.access import (
    CONTROL_ACCESS_METHOD,
    USE_APPROVAL_METHOD,
    entries_message,
    read_access,
    read_use_approval,
    use_approval_response,
)
from svc.messages.control import (
    AUTHORIZE_METHOD,
    DEPARTED_METHOD,
    END_METHOD,
    WHY_METHOD,
    AuthorityGreeting,
    answer_message,
    lanes_message,
    outcome_messages,
    read_ask,
    read_departure,
    read_ended,
    read_hello,
)
from svc.messages.gated import (
    AUTHORITY_CHECKPOINT_METHOD,
    checkpoint_answer_message,
    read_checkpoint_ask,
)
from svc.messages.health import CONTROL_HEALTH_METHOD, read_health_reports, receipt_message
from svc.messages.session import explanation_message, read_why
from svc.messages.snapshot import decode_snapshot_request, encode_frame
from svc.messages.spooled import read_spooled, state_message
from svc.model.cluster.node import Node
from svc.model.principal import Role
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proto.gate.v1 import session_pb2, tunnel_pb2
from svc.runtime.services import bounded

_log = Logger(namespace="svc_authority")

_PROXIES = frozenset({Role.PROXY})

_ASKING = frozenset({AUTHORIZE_METHOD, WHY_METHOD, CONTROL_ACCESS_METHOD, USE_APPROVAL_METHOD})
"""What has to prove who asks, or name a session that is open; the rest is the Proxy's own, and the
ends of sessions."""

FORWARDED = frozenset(
    {
        AUTHORIZE_METHOD,
        END_METHOD,
        DEPARTED_METHOD,
        WHY_METHOD,
        CONTROL_ACCESS_METHOD,
        USE_APPROVAL_METHOD,
        AUTHORITY_CHECKPOINT_METHOD,
        CONTROL_HEALTH_METHOD,
    }
)
"""What an Authority that stands by forwards.  The greeting is not among it: its answer says whom
the connection leads to, and the sessions claimed in it are given up unless a stream follows."""

_FIRST_WORD_SECS = 10.0
MAX_FOLLOWED = 8
"""Snapshot streams of one Proxy: each may have a whole bundle queued, and two are enough."""

_SILENT_SECS, _PING_SECS = 20.0, 10.0
"""A Proxy that follows and is silent so long is asked for a sign of life, and has so long for it.
Proxies ask earlier by themselves (``tunnel.keepalive_secs``)."""

_FRAME_SECS = 60.0
"""A Proxy that does not take a frame for this long has no fresh policy by it anyway (R15)."""


@define
class ControlService:
    """Serves Proxies on the control listener.

    Attributes:
        lanes: What this Authority says of itself to a Proxy that greets it.
        seen: Writes down that a node was here, and which version it runs.
        rates: What one Proxy may ask at once.
        spooled: Takes the rows of a Proxy's spool.
        heads: The audit log's signed heads, for Proxies to keep.
        health: Takes what nodes report of their own health.
        peers: Hears which Proxies are here, and which relay sessions to each other.
    """

    state_cache: ClusterStateCache
    verifier: IChainVerifier
    issuance: Issuance
    intake: RegistrationIntake
    ends: SessionEnds
    snapshots: SnapshotPublisher
    explainer: Explainer
    access: AccessCalls
    approvals: RequestApprovals
    gated: GatedSessions
    lanes: Callable[[], AuthorityGreeting]
    clock: IReactorTime
    seen: Callable[[str, str], Awaitable[None]]
    rates: AskRates
    spooled: QueueIntake
    heads: HeadsToSend
    health: ReportedHealth
    peers: PeerProxies
    _instances: dict[str, str] = field(factory=dict)

    @property
    def proxies(self) -> int:
        """How many Proxies follow the snapshot now."""
        return len(self.peers.here)

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        return RpcService(
            "gate.v1.Control",
            {
                "Hello": unary(pb.HelloRequest, self._hello),
                "Authorize": unary(pb.AuthorizeRequest, self._authorize),
                "RegisterConnector": streaming(self._register),
                "Snapshot": streaming(self._snapshot),
                "EndSessions": unary(pb.EndSessionsRequest, self._end),
                "Departed": unary(pb.DepartureNotice, self._departed),
                "Checkpoint": unary(pb.CheckpointRequest, self._checkpoint),
                "Why": unary(session_pb2.SessionWhyRequest, self._why),
                "UseApproval": unary(pb.UseApprovalRequest, self._use_approval),
                "Access": unary(session_pb2.SessionAccessRequest, self._access),
                "Spooled": unary(pb.SpooledRequest, self._spooled),
                "ReportHealth": unary(pb.HealthReports, self._report_health),
            },
            lasting=frozenset({"RegisterConnector", "Snapshot"}),
        )

    def admit(self, method: str, peer: Peer) -> None:
        """Refuse a call of anybody but an active Proxy within its budget; as a call starts."""
        proxy = self._proxy(peer)
        if method in _ASKING:
            self.rates.admit(proxy.id)

    def _proxy(self, peer: Peer) -> Node:
        if not peer.chain:
            raise Unauthenticated("the control listener accepts only Proxy certificates")
        principal = self.verifier.verify(peer.chain, _PROXIES).principal
        proxy = self.state_cache.proxies.get(principal.id)
        # Whoever is none of them is told why by the registry.
        return self.state_cache.node(principal) if proxy is None else proxy

    async def _checkpoint(
        self, request: pb.CheckpointRequest, call: IRpcCall
    ) -> session_pb2.CheckpointAnswer:
        proxy = self._proxy(call.peer)
        answer = await self.gated.checkpoint(read_checkpoint_ask(request), proxy)
        return checkpoint_answer_message(answer)

    async def _hello(self, request: pb.HelloRequest, call: IRpcCall) -> pb.HelloResponse:
        proxy = self._proxy(call.peer)
        self.rates.greetings.spend(node(proxy.id))
        version, instance, claimed, head, peer_address = read_hello(request)
        if head:
            # First of all: who is behind what this Proxy keeps writes nothing any more.
            await self.heads.receive_head(head)
        abandoned = 0
        is_known = self._instances.get(proxy.id) == instance
        if not self.peers.streams(proxy.id) or not is_known:
            abandoned = await self.ends.claimed(proxy.id, claimed, is_known=is_known)
        # Else a process that is here greets over another connection: what it opens
        # meanwhile on the older one is in no claim, and it lost nothing.
        self._instances[proxy.id] = instance
        self.peers.greeted(proxy.id, peer_address)
        if not self.peers.streams(proxy.id):
            # It claimed them; now it must come and follow us, or they are abandoned after all.
            self.ends.away(proxy.id)
        try:
            await self.seen(proxy.id, version)
        except SvcError as e:
            # Only the registry's column is older than it could be.
            _log.warn("a greeting is not in the registry", proxy=proxy.id, reason=e.reason)
        _log.info(
            "proxy connected",
            proxy=proxy.id,
            version=version,
            claimed=len(claimed),
            abandoned=abandoned,
        )
        return lanes_message(self.lanes())

    async def _authorize(
        self, request: pb.AuthorizeRequest, call: IRpcCall
    ) -> pb.AuthorizeResponse:
        proxy = self._proxy(call.peer)
        with self.rates.asking(proxy.id):
            return answer_message(await self.issuance.authorize(read_ask(request), proxy))

    async def _register(self, call: IRpcCall) -> None:
        await self.intake.serve(call, self._proxy(call.peer))

    async def _snapshot(self, call: IRpcCall) -> None:
        proxy = self._proxy(call.peer)
        data = await bounded(self.clock, _FIRST_WORD_SECS, call.receive(), "snapshot")
        if data is None:
            raise Malformed("snapshot: no message arrived")
        have = decode_snapshot_request(data)
        # What is sent to a machine that is gone is taken by our own kernel, for a quarter of an
        # hour: nobody would know that the Proxy is away.
        call.keep_alive(_SILENT_SECS, _PING_SECS)
        if self.peers.streams(proxy.id) >= MAX_FOLLOWED:
            raise SvcError(
                "one Proxy has too many snapshot streams open",
                reason="too_many_snapshots",
                fault=Fault.EXHAUSTED,
            )
        self._enter(proxy.id)
        try:
            await self._follow(call, have)
        finally:
            self._leave(proxy.id)

    async def _follow(self, call: IRpcCall, have: bytes) -> None:
        sent: tuple[bytes, ...] = ()
        known: tuple[int, int] | None = None
        self.snapshots.sign_again()
        while True:
            # Checked each time: a revoked Proxy is told nothing more.
            proxy = self._proxy(call.peer)
            coming = self.snapshots.next()
            frame, published = self.snapshots.frame(have), self.snapshots.published
            if frame is not None and published is not None:
                # What was sent, not what is newest once it went.
                have = published.digest
                fresh = tuple(line for line in self.heads.lines if line not in sent)
                served = None if known == self.peers.version else self.peers.reachable(proxy.id)
                known = self.peers.version
                sent = self.heads.lines
                frame = evolve(frame, heads=fresh, served_by_peers=served)
                try:
                    await bounded(
                        self.clock, _FRAME_SECS, call.send(encode_frame(frame)), "snapshot"
                    )
                except BaseException:
                    coming.addErrback(lambda _: None).cancel()
                    raise
            await coming

    def _enter(self, proxy_id: str) -> None:
        self.peers.enter(proxy_id)
        self.ends.back(proxy_id)
        self.gated.trust.here(proxy_id)

    def _leave(self, proxy_id: str) -> None:
        if self.peers.leave(proxy_id):
            self.ends.away(proxy_id)
            self.gated.trust.away(proxy_id)

    async def _end(self, request: pb.EndSessionsRequest, call: IRpcCall) -> pb.EndSessionsResponse:
        proxy = self._proxy(call.peer)
        with self.rates.reporting(proxy.id):
            ended, moved = read_ended(request)
            outcomes = await self.ends.reported(proxy.id, ended)
            if moved:
                await self.ends.moved(proxy.id, moved)
        return pb.EndSessionsResponse(outcomes=outcome_messages(outcomes))

    async def _departed(self, request: pb.DepartureNotice, call: IRpcCall) -> pb.DepartureAnswer:
        proxy = self._proxy(call.peer)
        with self.rates.reporting(proxy.id):
            outcomes = await self.ends.departed(proxy.id, read_departure(request))
        return pb.DepartureAnswer(outcomes=outcome_messages(outcomes))

    async def _why(
        self, request: session_pb2.SessionWhyRequest, call: IRpcCall
    ) -> session_pb2.SessionWhyResponse:
        proxy = self._proxy(call.peer)
        with self.rates.asking(proxy.id):
            explained = await self.explainer.explain(*read_why(request), proxy)
        return explanation_message(explained)

    async def _access(
        self, request: session_pb2.SessionAccessRequest, call: IRpcCall
    ) -> session_pb2.SessionAccessResponse:
        proxy = self._proxy(call.peer)
        with self.rates.asking(proxy.id):
            return entries_message(await self.access.answer(read_access(request), proxy))

    async def _use_approval(
        self, request: pb.UseApprovalRequest, call: IRpcCall
    ) -> pb.UseApprovalResponse:
        proxy = self._proxy(call.peer)
        with self.rates.asking(proxy.id):
            found = await self.approvals.use(read_use_approval(request), proxy)
            return use_approval_response(found)

    async def _spooled(self, request: pb.SpooledRequest, call: IRpcCall) -> pb.SpooledResponse:
        proxy = self._proxy(call.peer)
        with self.rates.reporting(proxy.id):
            return state_message(await self.spooled.take(proxy, *read_spooled(request)))

    async def _report_health(
        self, request: pb.HealthReports, call: IRpcCall
    ) -> tunnel_pb2.HealthReceipt:
        proxy = self._proxy(call.peer)
        self.rates.admit(proxy.id)
        with self.rates.reporting(proxy.id):
            receipt = self.health.take(read_health_reports(request), proxy.id)
        for _ in receipt.refused:
            self.rates.unproven.charge(node(proxy.id))
        return receipt_message(receipt)

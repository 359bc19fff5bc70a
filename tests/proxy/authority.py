"""Authority's end of a Proxy's control connection: it says what a test tells it to say."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, DeferredQueue

from svc.errors import SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, streaming, unary
from svc.messages.control import (
    AuthorityGreeting,
    AuthorizeAnswer,
    CountedEnd,
    Departure,
    Evict,
    RegistrationVerdict,
    TunnelSeen,
    answer_message,
    decode_connector_up,
    encode_connector_down,
    lanes_message,
    outcome_messages,
    read_ask,
    read_departure,
    read_ended,
    read_hello,
)
from svc.messages.gated import (
    CheckpointAnswer,
    CheckpointAsk,
    checkpoint_answer_message,
    read_checkpoint_ask,
)
from svc.messages.health import HealthReceipt, read_health_reports, receipt_message
from svc.messages.session import decode_request
from svc.messages.snapshot import (
    Revocation,
    Snapshot,
    SnapshotFrame,
    encode_frame,
    encode_snapshot,
)
from svc.messages.spooled import read_spooled, state_message
from svc.messages.tunnel import Nonce
from svc.model.canonical import decode
from svc.model.policy.requested import ApprovedAccess
from svc.model.signing import Purpose, Signed
from svc.policy.bundle import PolicyBundle, diff, encode_bundle, encode_delta
from svc.policy.entities import GroupFacts, PersonFacts, ResourceFacts, entities_of
from svc.policy.vocabulary import vocabulary
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proto.gate.v1 import session_pb2
from tests.audit.spools import Taken
from tests.connector.pieces import Cluster

WORDS = vocabulary()
OPEN_TO_ALL = (
    '@id("open") permit (principal, action == Action::"tcpConnect", resource);'
    '@id("seen") permit (principal, action == Action::"view", resource);'
)


class Authority:
    """What it was told, and what it answers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.is_up = True
        self.claims: list[tuple[str, ...]] = []
        self.shown: list[bytes] = []
        self.peer_addresses: list[str] = []
        self.tunnels: list[TunnelSeen] = []
        self.registrations: list[Signed] = []
        self.calls: list[IRpcCall] = []
        self.verdict = RegistrationVerdict(True, lease_secs=90, served=("db1",))
        self.registration_error: SvcError | None = None
        self.behind_verdict: Callable[[IRpcCall], Awaitable[None]] | None = None
        self.asked: list[Any] = []
        self.approved: ApprovedAccess | None = None
        self.relays_to = self.peer_address = ""
        self.checkpoints: list[CheckpointAsk] = []
        self.checkpoint_answer = CheckpointAnswer()
        self.refusal: AuthorizeAnswer | SvcError | None = None
        self.holding: Deferred[None] | None = None
        self.ended: list[CountedEnd] = []
        self.moved: list[tuple[str, ...]] = []
        self.departures: list[Departure] = []
        self.spools = Taken(cluster.proxy_id)
        self.spooled: list[tuple[str, int]] = []
        self.health: list[Signed] = []
        self.spooled_error: SvcError | None = None
        self.on_spooled: Callable[[], object] = lambda: None
        self.is_covering = True
        self.outcomes: deque[str] = deque()
        self.report_error: SvcError | None = None
        self.follows: list[DeferredQueue[SnapshotFrame]] = []
        self.has_policy = True
        self.serial = int(cluster.world.now() * 1000)
        self.bundle = self._bundle(("db1", "db2"), revision=7)

    def service(self) -> RpcService:
        return RpcService(
            "gate.v1.Control",
            {
                "Hello": unary(pb.HelloRequest, self._hello),
                "Authorize": unary(pb.AuthorizeRequest, self._authorize),
                "RegisterConnector": streaming(self._register),
                "Snapshot": streaming(self._snapshot),
                "EndSessions": unary(pb.EndSessionsRequest, self._end),
                "Departed": unary(pb.DepartureNotice, self._departed),
                "Why": unary(session_pb2.SessionWhyRequest, self._why),
                "Spooled": unary(pb.SpooledRequest, self._spooled),
                "ReportHealth": unary(pb.HealthReports, self._report_health),
                "Checkpoint": unary(pb.CheckpointRequest, self._checkpoint),
            },
        )

    async def _report_health(self, message: pb.HealthReports, call: IRpcCall) -> Any:
        self.health += read_health_reports(message)
        return receipt_message(HealthReceipt())

    async def _checkpoint(self, message: pb.CheckpointRequest, call: IRpcCall) -> Any:
        self.checkpoints.append(read_checkpoint_ask(message))
        return checkpoint_answer_message(self.checkpoint_answer)

    # -- policy

    def _bundle(
        self,
        resources: tuple[str, ...],
        revision: int,
        version: int = 3,
        text: str = OPEN_TO_ALL,
    ) -> PolicyBundle:
        person = self.cluster.person.facts.principal.id
        facts: list[Any] = [GroupFacts("staff"), PersonFacts(person, "ann", ("staff",))]
        facts += [
            ResourceFacts(
                id=one, entity_type="TcpService", kind="tcp", labels={"env": "test"}, discovered={}
            )
            for one in resources
        ]
        entities = entities_of(facts, self.cluster.world.verifier.cluster)
        return PolicyBundle(
            policy_version=version,
            entity_revision=revision,
            terms=WORDS.terms,
            policy_text=text,
            entities=entities,
        )

    def frame(
        self, bundle: PolicyBundle | None = None, *, parts: str = "bundle", **changed: Any
    ) -> SnapshotFrame:
        """A signed frame of the newest serial, but for what is changed."""
        whole = bundle or self.bundle
        data = encode_bundle(whole)
        self.serial += 1
        snapshot = Snapshot(
            cluster=self.cluster.world.verifier.cluster,
            serial=self.serial,
            policy_version=whole.policy_version,
            entity_revision=whole.entity_revision,
            issued_at_ms=int(self.cluster.world.now() * 1000),
            valid_secs=60,
            bundle_sha256=sha256(data).digest(),
        )
        signer = self.cluster.world.keys.signer(Purpose.SNAPSHOT)
        signed = signer(encode_snapshot(evolve(snapshot, **changed)))
        if parts == "delta":
            old, new = self.bundle, whole
            delta = diff(old.entities, new.entities, old.entity_revision, new.entity_revision)
            return SnapshotFrame(signed, delta=encode_delta(delta))
        return SnapshotFrame(signed, bundle=data if parts == "bundle" else b"")

    def beat(self, *revoked: str) -> None:
        """A heartbeat to every follower."""
        revocations = tuple(Revocation(uri) for uri in revoked)
        self.publish(self.frame(parts="nothing", revocations=revocations))

    def publish(self, frame: SnapshotFrame) -> None:
        for follow in self.follows:
            follow.put(frame)

    # -- serving

    async def _hello(self, request: Any, call: IRpcCall) -> Any:
        greeting = read_hello(request)
        self.claims.append(greeting.open_sessions)
        self.shown.append(greeting.head)
        self.peer_addresses.append(greeting.peer_address)
        return lanes_message(
            AuthorityGreeting(
                cluster="c1.example.test",
                authority_id="a" * 26,
                version="0.11.0",
                join_port=7001,
                renewal_port=7002,
                admin_port=7003,
            )
        )

    async def _snapshot(self, call: IRpcCall) -> None:
        await call.receive()
        follow: DeferredQueue[SnapshotFrame] = DeferredQueue()
        self.follows.append(follow)
        if self.has_policy:
            follow.put(self.frame())
        try:
            while True:
                await call.send(encode_frame(await follow.get()))
        finally:
            self.follows.remove(follow)

    async def _register(self, call: IRpcCall) -> None:
        seen = decode_connector_up(await call.receive() or b"")
        assert isinstance(seen, TunnelSeen)
        self.tunnels.append(seen)
        if self.registration_error is not None:
            raise self.registration_error
        await call.send(encode_connector_down(Nonce(bytes(32))))
        signed = decode_connector_up(await call.receive() or b"")
        assert isinstance(signed, Signed)
        self.registrations.append(signed)
        if self.holding is not None:
            await self.holding
        await call.send(encode_connector_down(self.verdict))
        if not self.verdict.accepted:
            return
        if self.behind_verdict is not None:
            await self.behind_verdict(call)
        self.calls.append(call)
        try:
            await call.receive()
        finally:
            self.calls.remove(call)

    async def evict(self, reason: str) -> None:
        await self.calls[-1].send(encode_connector_down(Evict(reason)))

    async def _authorize(self, request: Any, call: IRpcCall) -> Any:
        ask = read_ask(request)
        self.asked.append(ask)
        if self.holding is not None:
            await self.holding
        if isinstance(self.refusal, SvcError):
            raise self.refusal
        if self.refusal is not None:
            return answer_message(self.refusal)
        requested = decode_request(ask.request)
        grant = self.cluster.grant(
            ask.request,
            session_uid=requested.session_uid,
            resource=requested.resource,
            egress_proxy_id=self.relays_to,
        )
        return answer_message(
            AuthorizeAnswer(
                "d" * 32,
                self.cluster.sign_grant(grant),
                may_view=True,
                approved=self.approved,
                peer_address=self.peer_address,
            )
        )

    def _outcome(self) -> str:
        return self.outcomes.popleft() if self.outcomes else "closed"

    async def _end(self, request: Any, call: IRpcCall) -> Any:
        if self.report_error is not None:
            raise self.report_error
        ended, moved = read_ended(request)
        if moved:
            self.moved.append(moved)
        self.ended += ended
        outcomes = [(one.session_uid, self._outcome()) for one in ended]
        return pb.EndSessionsResponse(outcomes=outcome_messages(outcomes))

    async def _departed(self, request: Any, call: IRpcCall) -> Any:
        if self.report_error is not None:
            raise self.report_error
        departure = read_departure(request)
        self.departures.append(departure)
        outcomes = [(uid, self._outcome()) for uid in departure.session_uids]
        return pb.DepartureAnswer(outcomes=outcome_messages(outcomes))

    async def _spooled(self, request: Any, call: IRpcCall) -> Any:
        spool_id, rows = read_spooled(request)
        self.spooled.append((spool_id, len(rows)))
        self.on_spooled()
        if self.spooled_error is not None:
            raise self.spooled_error
        self.spools.take(spool_id, rows)
        if self.is_covering:
            self.spools.cover(spool_id)
        return state_message(self.spools.state(spool_id))

    def recorded(self, event: str) -> list[dict[str, Any]]:
        """The records of this name that rows brought."""
        rows = (row for rows in self.spools.received.values() for row in rows)
        forms: list[Any] = [decode(row.canonical) for row in rows]
        return [one for one in forms if one["event"] == event]

    async def _why(self, request: Any, call: IRpcCall) -> Any:
        return session_pb2.SessionWhyResponse(decision_id="d" * 32)

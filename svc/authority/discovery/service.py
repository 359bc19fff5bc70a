"""``gate.v1.Discovery``, and what follows from time, scopes and revocations.

One thing at a time: whatever happens is written to memory, then the ids it touches are settled in
transactions of a bounded size, then the state that policies decide by is read again.  Where the
store fails, the ids wait for the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from attrs import define, field, frozen
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.discovery.offers import MOVE_SECS, Offers, SourceKey
from svc.authority.discovery.settling import PublishedIds, signed_resource
from svc.authority.state.cluster import ClusterState
from svc.authority.state.recorder import node
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.interfaces.store import ITransaction
from svc.messages.discovery import (
    PublishAnswer,
    PublishAsk,
    Refused,
    publish_response,
    read_publish_request,
)
from svc.model.audit.record import Actor
from svc.model.cluster.labels import discovered_of
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.resource import Resource
from svc.model.cluster.scope import (
    MAX_SOURCES,
    PublishedResource,
    ScopeLease,
)
from svc.model.principal import Role
from svc.proto.gate.v1 import discovery_pb2 as pb
from svc.ratelimit.limits import Budget

_log = Logger(namespace="svc_authority")

WITHDRAWN = "withdrawn"
LEASE_EXPIRED = "lease_expired"
REVOKED = "revoked_node"
KEPT_SECS = 7 * 86_400.0
"""So long a resource that departed stays in the catalog."""

_AT_ONCE = 100
"""Resources that departed long ago, of which one pass takes so many out of the catalog."""

_ROWS_OF_ONE_CHANGE = 20
"""So many rows of a publication are read, compared and written for what one change costs."""

_STALLED_SECS = 5.0
"""A pass that comes so late says that this process stood still, or its store did."""


@frozen
class DiscoveryMeters:
    """What discovery counts.

    Attributes:
        published: Called for each accepted publication.
        expired: Called for each lease that ran out.
        live: Told how many discovered resources have a lease.
    """

    published: Callable[[], object]
    expired: Callable[[], object]
    live: Callable[[float], object]


@define
class Discovery:
    """What Connectors publish, and what becomes of it.

    Attributes:
        own_id: Of this Authority.
        changes: What a Connector may change.
        hurry: Has the next pass come now.
    """

    writer: StateWriter
    ids: PublishedIds
    offers: Offers
    verifier: IChainVerifier
    own_id: str
    clock: IReactorTime
    changes: Budget
    meters: DiscoveryMeters
    pass_secs: float
    hurry: Callable[[], object]
    _one: DeferredLock = field(factory=DeferredLock, init=False)
    _publishing: set[str] = field(factory=set, init=False)
    # When the end of each lease was last written, by the monotonic clock.
    _shown: dict[SourceKey, float] = field(factory=dict, init=False)
    _last_pass: float | None = field(default=None, init=False)
    _began_at: float | None = field(default=None, init=False)

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        return RpcService("gate.v1.Discovery", {"Publish": unary(pb.PublishRequest, self._publish)})

    async def _publish(self, request: pb.PublishRequest, call: IRpcCall) -> pb.PublishResponse:
        facts = self.verifier.verify(call.peer.chain, {Role.CONNECTOR})
        connector = self.writer.cache.node(facts.principal)
        ask = read_publish_request(request)
        return publish_response(await self.publish(ask, connector))

    # -- what happens

    def begin(self) -> None:
        """Take what the catalog holds as published now; called once this Authority leads."""
        found: dict[str, list[PublishedResource]] = {}
        for one in self.writer.cache.state.catalog.values():
            if one.is_discovered and one.assigned_to is not None:
                found.setdefault(one.assigned_to, []).append(_published(one))
        for node_id, resources in found.items():
            self.offers.begin(node_id, resources)
        self.ids.waiting |= self.offers.ids()
        self._began_at = self.clock.seconds()

    async def publish(self, ask: PublishAsk, connector: Node) -> PublishAnswer:
        """Take a publication, or renew the one before.

        Raises:
            SvcError: it comes too fast, the Connector has too many sources, or the store did not
                take what follows from it; then it is to be published again.
        """
        key, me = SourceKey(connector.id, ask.source), node(connector.id)
        if ask.unchanged:
            self.changes.spend(me)
            return await self._renewed(key, ask.unchanged)
        self._check_source(key)
        if connector.id in self._publishing:
            raise SvcError(
                "discovery: another publication of this Connector is under way; try again",
                reason="publication_under_way",
                fault=Fault.EXHAUSTED,
                retry_after=1.0,
            )
        changed = self.offers.changed_by(key, ask.resources)
        cost = max(1, changed) + len(ask.resources) // _ROWS_OF_ONE_CHANGE
        self.changes.spend(me, min(float(cost), self.changes.buckets.rate.burst))
        self._publishing.add(connector.id)
        try:
            return await self._published(key, ask)
        finally:
            self._publishing.discard(connector.id)

    async def _published(self, key: SourceKey, ask: PublishAsk) -> PublishAnswer:
        """Take it in its turn."""
        await self._one.acquire()
        try:
            touched = self.offers.put(key, ask.resources)
            await self.ids.settle(touched | self.ids.unsettled(key), node(key.node_id), WITHDRAWN)
            self.ids.prune(key)
            await self.writer.record("keep a publication", lambda tx: self._keep(tx, key))
            self._shown[key] = self.clock.seconds()
        finally:
            self._one.release()
        self.meters.published()
        _log.info(
            "published",
            node=key.node_id,
            source=ask.source,
            resources=len(ask.resources),
            changed=len(touched),
        )
        return self._answer(key)

    async def _renewed(self, key: SourceKey, digest: bytes) -> PublishAnswer:
        if not self.offers.renew(key, digest):
            return PublishAnswer(self._lease_secs, digest=digest, again=True)
        now = self.clock.seconds()
        if now - self._shown.get(key, -inf) < self.offers.lease_secs / 6:
            return self._answer(key)  # Whoever renews more often than it has to writes nothing.
        self._shown[key] = now
        try:
            await self.writer.record(
                "renew a lease", lambda tx: tx.publications.renew(self._lease(key))
            )
        except SvcError as e:
            # It is only shown; what counts is here.
            _log.debug("the end of a lease was not written", reason=e.reason)
        return self._answer(key)

    def _check_source(self, key: SourceKey) -> None:
        known = self.offers.sources(key.node_id)
        if key.source not in known and len(known) >= MAX_SOURCES:
            raise SvcError(
                f"discovery: a Connector publishes from at most {MAX_SOURCES} sources",
                reason="too_many_sources",
                fault=Fault.EXHAUSTED,
            )

    async def scopes_changed(self, actor: Actor, reason: str) -> None:
        """Settle everything that is published by the scopes as they are now."""
        await self._one.acquire()
        try:
            await self.ids.settle(self.offers.ids() | self.ids.live_ids(), actor, reason)
        finally:
            self._one.release()

    async def settle_again(self, resource_id: str) -> None:
        """An operator changed something of this id: what is published under it may be refused."""
        if self.offers.of(resource_id):
            await self._one.acquire()
            try:
                await self.ids.settle({resource_id}, node(self.own_id), WITHDRAWN)
            finally:
                self._one.release()

    def followed(self, state: ClusterState) -> None:
        """The cluster's state has changed: a Connector may have been revoked."""
        self.meters.live(len(self.ids.live_ids()))
        if any(not _is_active(state.nodes.get(one)) for one in self.offers.nodes()):
            self.hurry()

    async def look(self) -> None:
        """One pass: leases that ran out, Connectors that were revoked, ids that wait."""
        if self._began_at is None:
            return
        now, before = self.clock.seconds(), self._last_pass
        self._last_pass = now
        if before is not None and now - before - self.pass_secs > _STALLED_SECS:
            self.offers.postpone(now - before - self.pass_secs)
        await self._one.acquire()
        try:
            me = node(self.own_id)
            nodes = self.writer.cache.state.nodes
            for node_id in [one for one in self.offers.nodes() if not _is_active(nodes.get(one))]:
                await self._let_go(self.offers.of_node(node_id), me, REVOKED)
            expired = self.offers.expired()
            for key in expired:
                _log.warn("a discovery lease ran out", node=key.node_id, source=key.source)
                self.meters.expired()
            await self._let_go(expired, me, LEASE_EXPIRED)
            if self.ids.waiting:
                await self.ids.settle(set(self.ids.waiting), me, WITHDRAWN)
            await self._forget_departed(me)
        finally:
            self._one.release()

    async def _let_go(self, keys: Sequence[SourceKey], actor: Actor, reason: str) -> None:
        if not keys:
            return
        touched: set[str] = set()
        for key in keys:
            touched |= self.offers.drop(key)
            self.ids.forget(key)
            self._shown.pop(key, None)
        await self.ids.settle(touched, actor, reason)

        def forget(tx: ITransaction) -> None:
            for key in keys:
                tx.publications.remove(key.node_id, key.source)

        await self.writer.record("forget publications", forget)

    async def _forget_departed(self, actor: Actor) -> None:
        """Take out of the catalog what departed long ago, and leases that nobody renews."""
        at, lease_secs = self.writer.now(), self.offers.lease_secs
        led = self.clock.seconds() - (self._began_at or 0.0)
        known = set(self.offers.keys())

        def old(tx: ITransaction) -> tuple[tuple[str, ...], list[ScopeLease]]:
            # Whoever is there has published to us by then, whatever the table says.
            is_settled = led > lease_secs + MOVE_SECS
            found = (
                tx.publications.leases() if is_settled else tx.publications.expired(at - lease_secs)
            )
            over = [one for one in found if SourceKey(one.node_id, one.source) not in known]
            return tx.catalog_changes.departed(at - KEPT_SECS, _AT_ONCE), over

        ids, leases = await self.writer.read("look for what departed", old)
        if not ids and not leases:
            return

        def forget(tx: ITransaction) -> None:
            for lease in leases:
                tx.publications.remove(lease.node_id, lease.source)
            rows = self.writer.rows(tx)
            for one in ids:
                known = signed_resource(rows, one)
                if isinstance(known, Resource) and known.assigned_to is None:
                    self.ids.rows.remove(tx, actor, known, "departed")

        await self.writer.record("forget what departed", forget)
        if ids:
            await self.writer.cache.refresh()

    # -- what is told and shown

    @property
    def _lease_secs(self) -> int:
        return max(1, int(self.offers.lease_secs))

    def _answer(self, key: SourceKey) -> PublishAnswer:
        ids = sorted(one.resource.id for one in self.offers.in_source(key))
        refused = [(id, self.ids.verdict(key, id).refused) for id in ids]
        return PublishAnswer(
            self._lease_secs,
            refused=tuple(Refused(id, word) for id, word in refused if word),
            digest=self.offers.digest(key),
        )

    def _lease(self, key: SourceKey) -> ScopeLease:
        expires_at = self.writer.now() + self.offers.lease_secs
        return ScopeLease(key.node_id, key.source, expires_at)

    def _keep(self, tx: ITransaction, key: SourceKey) -> None:
        at = self.writer.now()
        offers = self.offers.in_source(key)
        rows = [
            self.ids.row(key, one.resource, self.ids.verdict(key, one.resource.id), at)
            for one in offers
        ]
        tx.publications.put(self._lease(key), rows)


def _is_active(one: Node | None) -> bool:
    return one is not None and one.state is NodeState.ACTIVE


def _published(one: Resource) -> PublishedResource:
    return PublishedResource(one.id, one.kind, discovered_of(one.labels))

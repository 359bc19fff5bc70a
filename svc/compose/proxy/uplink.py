"""Builds the Proxy's connection to the Authority: which one it dials, and what it receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IStreamClientEndpoint

from svc import __version__
from svc.compose.authority.dial import authority_addresses, authority_dial
from svc.compose.heads import latest_checkpoint
from svc.compose.health import HealthReporter, LastChecks
from svc.compose.node import (
    freshness,
    host_endpoint,
)
from svc.config import Address, RoleSettings
from svc.errors import Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.messages.snapshot import SnapshotFrame
from svc.model.ids import random_id
from svc.model.principal import Role
from svc.model.signing import Signed
from svc.pki.identity import TransportIdentity
from svc.policy.bundle import PolicyBundle, engine_of
from svc.policy.engine import CompiledPolicy
from svc.proxy.uplink.heads import KnownCheckpoints
from svc.proxy.uplink.health import HealthRelay
from svc.proxy.uplink.link import AuthorityLink
from svc.proxy.uplink.pool import AuthorityPool
from svc.proxy.uplink.probe import PoolProbes
from svc.proxy.uplink.snapshot import FloorFile, SnapshotHolder
from svc.runtime.context import Runtime
from svc.runtime.services import BackgroundTasks
from svc.runtime.state_directory import StateDirectory
from svc.runtime.threads import in_pool
from svc.telemetry.metrics import Metrics
from svc.tunnel.times import dial_secs


@define
class ProxyUplink:
    """A Proxy's connection to the Authority, and the data from it that the Proxy keeps."""

    runtime: Runtime
    settings: RoleSettings
    state: StateDirectory
    metrics: Metrics
    identity: TransportIdentity
    _pool: AuthorityPool[Address] = field(init=False)

    @_pool.default
    def _configured(self) -> AuthorityPool[Address]:
        moved = self.metrics.counter("svc_authority_pool_moves_total").inc
        return AuthorityPool(authority_addresses(self.settings), moved)

    def _holder(self) -> SnapshotHolder:
        runtime = self.runtime

        async def compiled(bundle: PolicyBundle, engine: CompiledPolicy | None) -> CompiledPolicy:
            def make() -> CompiledPolicy:
                if engine is not None and engine.version == bundle.policy_version:
                    return engine.with_entities(bundle.entities, bundle.entity_revision)
                return engine_of(bundle)

            return await in_pool(runtime.reactor)(make)

        directory = self.state / "snapshot"
        directory.mkdir(mode=0o700, exist_ok=True)
        holder = SnapshotHolder(
            cluster=self.settings.cluster,
            verifier=self.identity.verifier,
            clock=runtime.reactor,
            now=runtime.now,
            floor_file=FloorFile(directory / "floor.json"),
            compile=compiled,
        )
        holder.load()
        return holder

    def kept(self) -> tuple[SnapshotHolder, KnownCheckpoints]:
        """What Authority tells and this Proxy keeps over restarts."""
        holder = self._holder()
        path, root = self.state / "snapshot" / "audit-head", self.identity.verifier.root
        checkpoint = latest_checkpoint(self.runtime.reactor, path, root, self.settings.cluster)
        checkpoint.load()
        return holder, KnownCheckpoints(checkpoint, self.runtime.reactor, holder.restored)

    def link(
        self,
        holder: SnapshotHolder,
        heads: KnownCheckpoints,
        *,
        claims: Callable[[], Iterable[str]],
        revoked: Callable[[], object],
        peer_address: Callable[[], str],
        reachable: Callable[[frozenset[str] | None], object],
    ) -> tuple[AuthorityLink, PoolProbes]:
        """The connection to the Authority in use, and the questions to the others.

        Args:
            claims: The sessions that this Proxy carries.
            revoked: Told that Authority revoked this Proxy.
            peer_address: Where other Proxies reach this one; empty: it relays no sessions.
            reachable: Told what can be reached through other Proxies, with each snapshot.
        """
        runtime, settings = self.runtime, self.settings
        dial_authority = authority_dial(runtime, settings, self.identity)
        addresses, pool = authority_addresses(settings), self._pool

        async def to_authority() -> IRpcChannel:
            return await dial_authority(pool.current)

        async def take(frame: SnapshotFrame) -> None:
            # First the heads: where an older store was put back, older policies come after them.
            await heads.take(frame.heads)
            await holder.take(frame)
            reachable(frame.served_by_peers)

        link = AuthorityLink(
            clock=runtime.reactor,
            dial=to_authority if addresses else None,
            take=take,
            have=lambda: holder.digest,
            claims=claims,
            revoked=revoked,
            jitter=runtime.jitter,
            version=__version__,
            instance_id=random_id(runtime.entropy),
            fresh=freshness(runtime, self.identity, Role.AUTHORITY),
            dial_secs=dial_secs(settings.limits.handshake_secs),
            pool=pool,
            head=lambda: heads.line,
            peer_address=peer_address,
        )
        return link, PoolProbes(runtime.reactor, dial_authority, link)

    def health(
        self, link: AuthorityLink, checks: LastChecks, tasks: BackgroundTasks
    ) -> tuple[HealthRelay, HealthReporter]:
        """What brings health reports to the Authority, and what makes our own."""
        identity, runtime = self.identity, self.runtime
        relay = HealthRelay(link.channel, tasks, runtime.reactor)

        async def deliver(signed: Signed) -> None:
            relay.bring(identity.principal.id, signed)

        reporter = HealthReporter(
            cluster=self.settings.cluster,
            identity=identity,
            checks=checks,
            deliver=deliver,
            clock=runtime.reactor,
            now=runtime.now,
        )
        return relay, reporter

    def authority_port(self, link: AuthorityLink, port: int) -> IStreamClientEndpoint:
        """A port of the Authority in use."""
        return host_endpoint(self.runtime, link.member.host, port)

    def renewal_reach(self, link: AuthorityLink) -> Callable[[], Awaitable[Any]]:
        """How the renewal lane is reached; raises while no Authority serves it."""

        async def reach() -> IStreamClientEndpoint:
            if link.lanes is None or not link.lanes.renewal_port:
                raise Unavailable(
                    "no Authority is serving renewals", reason="authority_unreachable"
                )
            return self.authority_port(link, link.lanes.renewal_port)

        return reach

"""Discovery at an Authority: what Connectors publish, the scopes, and the passes over both."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.logger import Logger

from svc.authority.discovery.offers import Offers
from svc.authority.discovery.rows import DiscoveredRows
from svc.authority.discovery.scopes import ScopeAdmin
from svc.authority.discovery.service import Discovery, DiscoveryMeters
from svc.authority.discovery.settling import PublishedIds
from svc.authority.limits import AskRates
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.tables import StateUnsigned
from svc.authority.state.writer import StateWriter
from svc.compose.authority.parts import Parts
from svc.model.cluster.scope import DiscoveryScope
from svc.runtime.services import AsyncService, PeriodicTask
from svc.telemetry.metrics import Metrics

_log = Logger(namespace="svc_authority")

_PASS_SECS = 5.0


@define(slots=False, eq=False)
class DiscoveryStart(AsyncService):
    """Comes once this Authority leads: the configuration's scopes, and what is in the catalog."""

    scopes: ScopeAdmin
    discovery: Discovery
    configured: tuple[DiscoveryScope, ...]

    async def start(self) -> None:
        """Before callers are served."""
        try:
            await self.scopes.configure(self.configured)
        except StateUnsigned as refused:
            # It admits nothing meanwhile, and keeps nothing else from its work.
            _log.error("the scopes of the configuration are not set", text=refused.text)
        self.discovery.begin()

    async def stop(self) -> None:
        """Nothing is left to do: leases last beyond us."""


@define
class DiscoveryWiring:
    """The parts of discovery.

    Attributes:
        passes: Look for leases that ran out.
    """

    discovery: Discovery
    scopes: ScopeAdmin
    start: DiscoveryStart
    passes: PeriodicTask


def discovery_wiring(
    p: Parts,
    state_cache: ClusterStateCache,
    writer: StateWriter,
    rates: AskRates,
    left: Callable[[int], int],
) -> DiscoveryWiring:
    """Wire it; *left*: see :class:`PublishedIds`."""
    settings = p.settings.discovery
    seconds = min(_PASS_SECS, settings.lease_secs / 6)
    offers = Offers(p.runtime.reactor, settings.lease_secs)
    kinds = frozenset(p.kinds.by_name)
    discovery = Discovery(
        writer=writer,
        ids=PublishedIds(
            writer=writer, rows=DiscoveredRows(writer), offers=offers, kinds=kinds, left=left
        ),
        offers=offers,
        verifier=p.identity.verifier,
        own_id=p.identity.principal.id,
        clock=p.runtime.reactor,
        changes=rates.publications,
        meters=_meters(p.metrics),
        pass_secs=seconds,
        hurry=lambda: passes.hurry(),
    )
    state_cache.on_change(discovery.followed)
    passes = PeriodicTask(
        clock=p.runtime.reactor,
        interval=seconds,
        call=discovery.look,
        what="look for discovery leases that ran out",
    )
    scopes = ScopeAdmin(writer, discovery, p.identity.principal.id)
    return DiscoveryWiring(
        discovery=discovery,
        scopes=scopes,
        start=DiscoveryStart(scopes, discovery, settings.auto_scopes),
        passes=passes,
    )


def _meters(metrics: Metrics) -> DiscoveryMeters:
    return DiscoveryMeters(
        published=metrics.counter("svc_scope_publishes_total").inc,
        expired=metrics.counter("svc_scope_leases_expired_total").inc,
        live=metrics.gauge("svc_scope_live_rows").set,
    )

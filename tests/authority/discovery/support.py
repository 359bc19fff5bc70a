"""Discovery over a writer, for tests of it and of what uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from twisted.internet.interfaces import IReactorTime

from svc.authority.discovery.offers import Offers
from svc.authority.discovery.rows import DiscoveredRows
from svc.authority.discovery.service import Discovery, DiscoveryMeters
from svc.authority.discovery.settling import PublishedIds
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.registry.routes import Registrations
from svc.authority.state.writer import StateWriter
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind
from svc.ratelimit.counter import RefusalCounter
from svc.ratelimit.limits import Buckets, Budget, Rate, RefusalPolicy
from tests.support.nothing import nothing, nothing_later

LEASE_SECS = 90.0


def catalog_admin(
    writer: StateWriter, registrations: Registrations, kinds: Mapping[str, ServedKind]
) -> CatalogAdmin:
    """The catalog of an Authority to which nothing is published."""
    return CatalogAdmin(
        writer=writer,
        registrations=registrations,
        kinds=kinds,
        scope_of=lambda resource: "",
        settle=nothing_later,
    )


def discovering(
    writer: StateWriter,
    verifier: IChainVerifier,
    kinds: Collection[str],
    clock: IReactorTime,
    counts: Counter[str] | None = None,
) -> Discovery:
    """Discovery whose passes the test makes; *counts* has what its meters were told."""
    told = Counter[str]() if counts is None else counts

    def live(value: float) -> None:
        told["live"] = int(value)

    counter = RefusalCounter(writer.now)
    offers = Offers(clock, LEASE_SECS)
    return Discovery(
        writer=writer,
        ids=PublishedIds(writer=writer, rows=DiscoveredRows(writer), offers=offers, kinds=kinds),
        offers=offers,
        verifier=verifier,
        own_id=writer.recorder.origin,
        clock=clock,
        changes=Budget(
            "publications",
            RefusalPolicy(counter, clock.seconds, nothing),
            Buckets(Rate(3_000, 10_000)),
        ),
        meters=DiscoveryMeters(
            published=lambda: told.update(["published"]),
            expired=lambda: told.update(["expired"]),
            live=live,
        ),
        pass_secs=5.0,
        hurry=lambda: told.update(["hurried"]),
    )

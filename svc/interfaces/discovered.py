"""The facets of discovery: scopes, what was published, and the catalog's discovered resources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zope.interface import Interface

from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource
from svc.model.cluster.scope import DiscoveryScope, PublishedRow, ScopeLease


class IScopes(Interface):
    """What discovery may bring into the catalog."""

    def put(scope: DiscoveryScope) -> None:
        """Keep a scope in the place of the one of its name."""

    def get(name: str) -> DiscoveryScope | None:
        """The scope of that name."""

    def all() -> tuple[DiscoveryScope, ...]:
        """Every scope, by name."""

    def remove(name: str) -> bool:
        """Remove a scope; whether it was there."""


class IPublications(Interface):
    """What Connectors published, for people to look at: nothing is decided by it."""

    def put(lease: ScopeLease, rows: Sequence[PublishedRow]) -> None:
        """Keep a publication in the place of the one before of its source."""

    def renew(lease: ScopeLease) -> bool:
        """Move the end of a lease; whether it was there."""

    def settle(rows: Sequence[PublishedRow]) -> None:
        """Change what became of published resources that are there."""

    def remove(node_id: str, source: str) -> None:
        """Forget a publication; no effect where there is none."""

    def leases() -> tuple[ScopeLease, ...]:
        """Every lease, by node and source."""

    def rows() -> tuple[PublishedRow, ...]:
        """Every published resource, by id."""

    def expired(at: float) -> tuple[ScopeLease, ...]:
        """The leases whose time was over at *at*, the oldest first."""


class ICatalogChanges(Interface):
    """What changes of a resource that is in the catalog; each counts one revision of it."""

    def describe(
        resource_id: str, labels: Mapping[str, str], onward_auth: OnwardAuth | None
    ) -> Resource:
        """Give it these labels and this way to sign on.  Raises NoSuchRow."""

    def owners_before(ids: Collection[str]) -> Mapping[str, str | None]:
        """Whose these ids were, as far as they were ever in the catalog.

        The id of the Connector that found the resource last; None: an operator declared one under
        this id at some time.
        """

    def departed(before: float, limit: int) -> tuple[str, ...]:
        """At most *limit* discovered resources that nobody serves since before *before*."""

"""What Connectors have published and may still be counted on, in this process's memory.

A lease is timed by the monotonic clock: a host clock that is set moves none.  A leader that
begins knows of no publication: it takes each discovered resource of the catalog as published by
its Connector just now, by a source without a name, until the Connector publishes itself.  For that
its Proxies have to find the new leader first, which takes them as long whatever a lease is.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime

from svc.messages.discovery import publication_digest
from svc.model.cluster.scope import PublishedResource

MOVE_SECS = 15.0
"""So much longer lasts what the catalog had when this leader began: a Proxy needs it to leave an
Authority that stands still."""

BEFORE = ""
"""The source of what the catalog had when this leader began."""


@frozen
class SourceKey:
    """One source of one Connector."""

    node_id: str
    source: str


@frozen
class Offer:
    """One published resource.

    Attributes:
        since: When its source first had it, by the monotonic clock.
    """

    key: SourceKey
    resource: PublishedResource
    since: float

    @property
    def node_id(self) -> str:
        """Of the Connector."""
        return self.key.node_id


@define
class _Lease:
    offers: dict[str, Offer]
    digest: bytes
    renewed_at: float


@define
class Offers:
    """Every publication whose lease lasts; an operation costs what the one publication holds."""

    clock: IReactorTime
    lease_secs: float
    _held: dict[SourceKey, _Lease] = field(factory=dict, init=False)
    _by_id: dict[str, dict[SourceKey, None]] = field(factory=dict, init=False)

    def begin(self, node_id: str, resources: Iterable[PublishedResource]) -> None:
        """Take what the catalog has of a Connector as published now."""
        key = SourceKey(node_id, BEFORE)
        self._put(key, tuple(resources))
        self._held[key].renewed_at += MOVE_SECS

    def changed_by(self, key: SourceKey, resources: Iterable[PublishedResource]) -> int:
        """How many resources would be others after this publication."""
        held = self._held.get(key)
        before = {} if held is None else {id: one.resource for id, one in held.offers.items()}
        now = {one.id: one for one in resources}
        return sum(before.get(id) != now.get(id) for id in {*before, *now})

    def put(self, key: SourceKey, resources: Iterable[PublishedResource]) -> set[str]:
        """Keep a publication in the place of the one before; the ids that may come out otherwise.

        What the catalog had of this Connector before is from now on what its source says.
        """
        touched = self._put(key, tuple(resources))
        earlier = SourceKey(key.node_id, BEFORE)
        known = self._held.get(earlier)
        if known is not None and key != earlier:
            left = [
                one.resource for id, one in known.offers.items() if id not in self._held[key].offers
            ]
            renewed_at = known.renewed_at
            touched |= self._put(earlier, tuple(left)) if left else self.drop(earlier)
            if left:
                self._held[earlier].renewed_at = renewed_at
        return touched

    def _put(self, key: SourceKey, resources: tuple[PublishedResource, ...]) -> set[str]:
        before = self._held.get(key)
        now, known = self.clock.seconds(), {} if before is None else before.offers
        offers = {
            one.id: Offer(key, one, known[one.id].since if one.id in known else now)
            for one in resources
        }
        self._held[key] = _Lease(offers, publication_digest(resources), now)
        for id in known.keys() - offers.keys():
            self._forget(id, key)
        for id in offers:
            self._by_id.setdefault(id, {})[key] = None
        return {
            id
            for id in {*known, *offers}
            if id not in known or id not in offers or known[id].resource != offers[id].resource
        }

    def renew(self, key: SourceKey, digest: bytes) -> bool:
        """Begin the lease again; False: the publication of this digest is not known."""
        held = self._held.get(key)
        if held is None or held.digest != digest:
            return False
        held.renewed_at = self.clock.seconds()
        return True

    def drop(self, key: SourceKey) -> set[str]:
        """Forget a publication; the ids that may come out otherwise."""
        held = self._held.pop(key, None)
        if held is None:
            return set()
        for id in held.offers:
            self._forget(id, key)
        return set(held.offers)

    def _forget(self, id: str, key: SourceKey) -> None:
        del self._by_id[id][key]
        if not self._by_id[id]:
            del self._by_id[id]

    def of(self, resource_id: str) -> list[Offer]:
        """Who offers a resource of this id, the longest first."""
        found = [self._held[key].offers[resource_id] for key in self._by_id.get(resource_id, ())]
        return sorted(found, key=lambda one: (one.since, one.node_id, one.key.source))

    def in_source(self, key: SourceKey) -> list[Offer]:
        """What one source offers."""
        held = self._held.get(key)
        return [] if held is None else list(held.offers.values())

    def digest(self, key: SourceKey) -> bytes:
        """Of what one source published last."""
        return self._held[key].digest

    def sources(self, node_id: str) -> list[str]:
        """The sources of one Connector that published."""
        return [key.source for key in self._held if key.node_id == node_id and key.source]

    def nodes(self) -> set[str]:
        """The Connectors that offer something."""
        return {key.node_id for key in self._held}

    def of_node(self, node_id: str) -> list[SourceKey]:
        """Every source of one Connector."""
        return [key for key in self._held if key.node_id == node_id]

    def keys(self) -> list[SourceKey]:
        """Every source."""
        return list(self._held)

    def ids(self) -> set[str]:
        """Every id that is offered."""
        return set(self._by_id)

    def expired(self) -> list[SourceKey]:
        """Whose lease is over."""
        over = self.clock.seconds() - self.lease_secs
        return [key for key, held in self._held.items() if held.renewed_at <= over]

    def postpone(self, seconds: float) -> None:
        """Let every lease last so much longer: nobody could renew it in this time."""
        for held in self._held.values():
            held.renewed_at += seconds

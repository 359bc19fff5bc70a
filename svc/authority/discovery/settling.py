"""Brings the catalog in line with what is published, in transactions of a bounded size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from attrs import define, field

from svc.authority.discovery.offers import Offer, Offers, SourceKey
from svc.authority.discovery.rows import DiscoveredRows
from svc.authority.discovery.settlement import (
    Settled,
    SettlementRules,
    Verdict,
    WantedResource,
    settle,
)
from svc.authority.state.tables import SignedRows, StateUnsigned
from svc.authority.state.writer import StateWriter
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.cluster.node import Node
from svc.model.cluster.resource import Resource, found_by
from svc.model.cluster.scope import (
    CATALOG_FULL,
    NO_SCOPE,
    STATE_UNSIGNED,
    PublishedResource,
    PublishedRow,
)

SCOPE_CHANGED = "scope_changed"
SCOPE_REMOVED = "scope_removed"

MAX_OF_NODE = 10_000
"""Discovered resources of one Connector, those that departed lately among them."""

MAX_OF_ALL = 50_000

MAX_BYTES_OF_NODE = 5 * 1024 * 1024
"""What the discovered resources of one Connector take in a snapshot for Proxies."""

MAX_BYTES_OF_ALL = 16 * 1024 * 1024
"""And those of all together: half of the longest snapshot that a Proxy takes."""

_WITHOUT_LABELS = 200
_TOGETHER = 100
"""Ids that one transaction settles."""


@define
class PublishedIds:
    """What became of every id that is published, and what waits to be settled.

    Attributes:
        kinds: Enabled here.
        left: Bytes by which all that Proxies are sent may still grow, given those that each
            resource takes at least.
        waiting: Ids that are not settled yet, because the store failed.
    """

    writer: StateWriter
    rows: DiscoveredRows
    offers: Offers
    kinds: Collection[str]
    left: Callable[[int], int] = lambda least: MAX_BYTES_OF_ALL
    waiting: set[str] = field(factory=set, init=False)
    _verdicts: dict[SourceKey, dict[str, Verdict]] = field(factory=dict, init=False)

    async def settle(self, ids: Collection[str], actor: Actor, reason: str) -> None:
        """Bring the catalog in line for these ids; what fails waits for the next pass."""
        self.waiting |= set(ids)
        listed, is_changed, room = sorted(ids), False, self._room()
        try:
            for start in range(0, len(listed), _TOGETHER):
                some = listed[start : start + _TOGETHER]
                settle_some = partial(
                    self._settle_some, ids=some, actor=actor, reason=reason, before=room
                )
                settled, changed, room = await self.writer.record(
                    "settle discovered resources", settle_some
                )
                is_changed = is_changed or changed
                self._remember(settled)
                self.waiting.difference_update(some)
        finally:
            if is_changed:
                await self.writer.cache.refresh()

    def _settle_some(
        self, tx: ITransaction, ids: Sequence[str], actor: Actor, reason: str, before: _Room
    ) -> tuple[dict[str, Settled], bool, _Room]:
        signed = self.writer.rows(tx)
        offered = {id: self.offers.of(id) for id in ids}
        known = {id: signed_resource(signed, id) for id in ids}
        owners = tx.catalog_changes.owners_before([id for id in ids if known[id] is None])
        rules = SettlementRules(
            scopes=signed.scopes(),
            nodes=self._nodes(signed, _concerned(offered, known, owners)),
            kinds=self.kinds,
        )
        room = before.copy()  # The transaction may be made again.
        found: dict[str, Settled] = {}
        is_changed = False
        for id in ids:
            here = known[id]
            if isinstance(here, StateUnsigned):
                found[id] = _refused(offered[id], STATE_UNSIGNED)
                continue
            owner = owners.get(id)
            is_reserved = id in owners and owner is None
            settled = settle(offered[id], here, rules, reserved=is_reserved, finder=owner)
            wanted = settled.wanted
            if wanted is not None and not room.take(wanted, here):
                settled = _refused(offered[id], CATALOG_FULL)
            found[id] = settled
            if settled.wanted is not None:
                is_changed |= self.rows.bring(tx, actor, here, settled.wanted)
            elif here is not None and here.is_discovered:
                by_scope = settled.refusal == NO_SCOPE and reason in (SCOPE_CHANGED, SCOPE_REMOVED)
                why = reason if by_scope else settled.refusal or reason
                is_changed |= self.rows.depart(tx, actor, here, why)
        tx.publications.settle(self._otherwise(offered, found))
        return found, is_changed, room

    def _otherwise(
        self, offered: Mapping[str, Sequence[Offer]], settled: Mapping[str, Settled]
    ) -> list[PublishedRow]:
        """The published resources of which something else became than before."""
        return [
            self.row(one.key, one.resource, settled[id].verdicts[one.key], 0.0)
            for id, offers in offered.items()
            for one in offers
            if self._verdicts.get(one.key, {}).get(id) not in (None, settled[id].verdicts[one.key])
        ]

    def _nodes(self, signed: SignedRows, ids: Collection[str]) -> Mapping[str, Node]:
        found: dict[str, Node] = {}
        for id in ids:
            try:
                one = signed.node(id)
            except StateUnsigned:
                continue  # Not in force: nothing of it is admitted.
            if one is not None:
                found[id] = one
        return found

    def _room(self) -> _Room:
        room = _Room(self.left(_WITHOUT_LABELS))
        for one in self.writer.cache.state.catalog.values():
            finder = found_by(one.identity) if one.is_discovered else None
            if finder is not None:
                room.add(finder, 1, _bytes_of(one.labels))
        return room

    def _remember(self, settled: Mapping[str, Settled]) -> None:
        for id, one in settled.items():
            for key, verdict in one.verdicts.items():
                self._verdicts.setdefault(key, {})[id] = verdict

    def prune(self, key: SourceKey) -> None:
        """Forget what became of resources that the source has no more."""
        offered = {one.resource.id for one in self.offers.in_source(key)}
        known = self._verdicts.get(key, {})
        self._verdicts[key] = {id: one for id, one in known.items() if id in offered}

    def unsettled(self, key: SourceKey) -> set[str]:
        """What of this source waits since the store failed."""
        return self.waiting & {one.resource.id for one in self.offers.in_source(key)}

    def live_ids(self) -> set[str]:
        """The discovered resources that a Connector may serve."""
        catalog = self.writer.cache.state.catalog
        return {
            one.id for one in catalog.values() if one.is_discovered and one.assigned_to is not None
        }

    def verdict(self, key: SourceKey, resource_id: str) -> Verdict:
        """What became of a published resource, as far as this process knows."""
        return self._verdicts.get(key, {}).get(resource_id, Verdict())

    def scope_of(self, resource: Resource) -> str:
        """The scope that admits a discovered resource; empty: not known, or it departed."""
        for offer in self.offers.of(resource.id):
            if offer.node_id == resource.assigned_to:
                return self.verdict(offer.key, resource.id).scope
        return ""

    def row(
        self, key: SourceKey, one: PublishedResource, verdict: Verdict, at: float
    ) -> PublishedRow:
        """How a published resource is shown to operators."""
        return PublishedRow(
            node_id=key.node_id,
            source=key.source,
            resource_id=one.id,
            kind=one.kind,
            labels=one.labels,
            scope=verdict.scope,
            refused=verdict.refused,
            seen_at=at,
        )

    def forget(self, key: SourceKey) -> None:
        """Forget what became of everything that a source published."""
        self._verdicts.pop(key, None)


@define
class _Room:
    """What the discovered resources of each Connector take in the catalog: how many, and bytes.

    Attributes:
        left: Bytes that are left for all of them, beside what is not discovered.
    """

    left: int
    count: Counter[str] = field(factory=Counter)
    bytes: Counter[str] = field(factory=Counter)

    def add(self, node_id: str, count: int, size: int) -> None:
        """Count so many more."""
        self.count[node_id] += count
        self.bytes[node_id] += size

    def copy(self) -> _Room:
        """Another one with the same in it."""
        return _Room(self.left, self.count.copy(), self.bytes.copy())

    def take(self, wanted: WantedResource, known: Resource | None) -> bool:
        """Take the place of a resource that is added or changed; False: there is none.

        Args:
            known: What has its id now.
        """
        is_same = known is not None and wanted.is_same_as(known)
        count, size, node_id = int(not is_same), _bytes_of(wanted.labels), wanted.node_id
        if known is not None and is_same:
            size -= _bytes_of(known.labels)
        if count and (self.count[node_id] >= MAX_OF_NODE or self.count.total() >= MAX_OF_ALL):
            return False
        is_much = self.bytes[node_id] + size > MAX_BYTES_OF_NODE
        is_much = is_much or self.bytes.total() + size > MAX_BYTES_OF_ALL
        if size > 0 and (is_much or size > self.left):
            return False
        self.left -= size
        self.add(node_id, count, size)
        return True


def _concerned(
    offered: Mapping[str, Sequence[Offer]],
    known: Mapping[str, Resource | StateUnsigned | None],
    owners: Mapping[str, str | None],
) -> set[str]:
    """Every Connector whose name matters: those that offer something, and those that found it."""
    found = {one.node_id for some in offered.values() for one in some}
    found |= {owner for owner in owners.values() if owner is not None}
    here = (one for one in known.values() if isinstance(one, Resource))
    return found | {finder for one in here if (finder := found_by(one.identity)) is not None}


def _bytes_of(labels: Mapping[str, str]) -> int:
    """What a resource takes in a snapshot at most: JSON in ASCII, six bytes for other signs."""
    return _WITHOUT_LABELS + sum(
        len(name) + len(value) * (1 if value.isascii() else 6) + 6 for name, value in labels.items()
    )


def _refused(offers: Sequence[Offer], word: str) -> Settled:
    return Settled(None, {one.key: Verdict(refused=word) for one in offers})


def signed_resource(rows: SignedRows, id: str) -> Resource | StateUnsigned | None:
    """The resource, or why it is not in force."""
    try:
        return rows.resource(id)
    except StateUnsigned as refused:
        return refused

"""Decides what becomes of one id that Connectors publish: a pure function of its input.

An operator's word stands above every Connector's: what was declared under an id, now or at any
time before, is never a Connector's; labels that a Connector gave select a scope and are told
apart from those that an operator gave; who serves an id keeps it while it is offered; and an id is
that Connector's who found it, unless an operator's scope names both, it and another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from attrs import field, frozen

from svc.authority.discovery.offers import Offer, SourceKey
from svc.model.cluster.labels import as_discovered
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.onward import NEEDS_ONWARD_AUTH, OnwardAuth
from svc.model.cluster.resource import Resource, found_by
from svc.model.cluster.scope import (
    DECLARED,
    FOUND_BY_PEER,
    ID_RESERVED,
    KIND_DISABLED,
    MODE_REQUIRED,
    NO_SCOPE,
    ONWARD_AUTH_REFUSED,
    OWNED_BY_PEER,
    DiscoveryScope,
    PublishedResource,
    first_admitting,
)


@frozen
class Verdict:
    """What became of one published resource.

    Attributes:
        scope: That admits it; empty: none.
        refused: Why it is not served, as a word; empty: it is.
    """

    scope: str = ""
    refused: str = ""


@frozen
class WantedResource:
    """What the catalog is to hold of an id."""

    id: str
    kind: str
    node_id: str
    scope: str
    labels: Mapping[str, str] = field(hash=False)
    onward_auth: OnwardAuth | None

    def is_same_as(self, known: Resource) -> bool:
        """Whether *known* is this resource of this Connector, whatever is said of it."""
        return known.kind == self.kind and found_by(known.identity) == self.node_id


@frozen
class Settled:
    """What becomes of an id: what the catalog is to hold, and what each who offers it is told."""

    wanted: WantedResource | None
    verdicts: Mapping[SourceKey, Verdict]

    @property
    def refusal(self) -> str:
        """Why nobody's is served though it is offered; empty: it is not offered by who may."""
        words = (one.refused for one in self.verdicts.values())
        return next((word for word in words if word not in ("", FOUND_BY_PEER)), "")


@frozen(kw_only=True)
class SettlementRules:
    """What ids are settled by.

    Attributes:
        scopes: Those in force.
        nodes: Of each Connector that offers or found something, as signed records say.
        kinds: Enabled here.
    """

    scopes: Collection[DiscoveryScope]
    nodes: Mapping[str, Node]
    kinds: Collection[str]

    def are_named(self, scope: DiscoveryScope, node: Node, finder: str) -> bool:
        """Whether the scope says that *node* may serve what *finder*, by its id, found."""
        other = self.nodes.get(finder)
        return scope.names(node) and other is not None and scope.names(other)


def settle(
    offers: Iterable[Offer],
    known: Resource | None,
    rules: SettlementRules,
    *,
    reserved: bool = False,
    finder: str | None = None,
) -> Settled:
    """What becomes of one id.

    Args:
        offers: All there are of it, the longest first.
        known: What the catalog holds of it now.
        reserved: An operator declared a resource of this id at some time.
        finder: Where nothing is known now: the Connector that found a resource of this id last.
    """
    listed = list(offers)
    if known is not None and not known.is_discovered:
        return _all_refused(listed, DECLARED)
    if known is None and reserved:
        return _all_refused(listed, ID_RESERVED)
    holder = None if known is None else known.assigned_to
    finder = finder if known is None else found_by(known.identity)
    # Stable: among others the longest stays first.
    listed.sort(key=lambda one: one.node_id != holder)
    wanted: WantedResource | None = None
    verdicts: dict[SourceKey, Verdict] = {}
    for offer in listed:
        found = _admitted(offer, known, rules, finder)
        if isinstance(found, WantedResource) and wanted is not None:
            found = Verdict(found.scope, OWNED_BY_PEER)
        if isinstance(found, Verdict):
            verdicts[offer.key] = found
            continue
        wanted = found
        needs = found.kind in NEEDS_ONWARD_AUTH and found.onward_auth is None
        verdicts[offer.key] = Verdict(found.scope, MODE_REQUIRED if needs else "")
    return Settled(wanted, verdicts)


def _all_refused(offers: list[Offer], refused: str) -> Settled:
    return Settled(None, {one.key: Verdict(refused=refused) for one in offers})


def _admitted(
    offer: Offer, known: Resource | None, rules: SettlementRules, finder: str | None
) -> WantedResource | Verdict:
    """What the catalog would hold by this offer alone, or why nothing.

    Policies name ids: whoever got another's would get what they permit.
    """
    row, node = offer.resource, rules.nodes.get(offer.node_id)
    if row.kind not in rules.kinds:
        return Verdict(refused=KIND_DISABLED)
    if node is None or node.state is not NodeState.ACTIVE or node.role != "connector":
        return Verdict(refused=NO_SCOPE)
    scope = first_admitting(rules.scopes, row, node)
    if scope is None:
        return Verdict(refused=NO_SCOPE)
    if finder not in (None, node.id) and not rules.are_named(scope, node, finder or ""):
        return Verdict(scope.name, FOUND_BY_PEER)
    is_same = known is not None and finder == node.id
    chosen = known.onward_auth if known is not None and is_same else None
    if row.onward_auth is not None and not _is_allowed(scope, row):
        return Verdict(scope.name, ONWARD_AUTH_REFUSED)
    return WantedResource(
        id=row.id,
        kind=row.kind,
        node_id=node.id,
        scope=scope.name,
        labels={**scope.labels, **as_discovered(row.labels)},
        onward_auth=_mode(scope, row, chosen),
    )


def _is_allowed(scope: DiscoveryScope, row: PublishedResource) -> bool:
    return row.kind in NEEDS_ONWARD_AUTH and row.onward_auth in scope.onward_auth


def _mode(
    scope: DiscoveryScope, row: PublishedResource, chosen: OnwardAuth | None
) -> OnwardAuth | None:
    """How its target is signed on to; None: nobody chose, or it is of no kind that needs it."""
    if row.kind not in NEEDS_ONWARD_AUTH:
        return None
    if row.onward_auth is not None:
        return row.onward_auth
    if chosen in scope.onward_auth:
        return chosen
    return scope.onward_auth[0] if len(scope.onward_auth) == 1 else None

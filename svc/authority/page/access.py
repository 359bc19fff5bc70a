"""*My access*: the resources that the person may see, by kind, and how each is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import define, evolve, frozen

from svc.authority.access.offer import AccessOffers
from svc.authority.page.html import Content, code, moment, older, paragraph, table, text
from svc.authority.page.pages import Visit
from svc.authority.state.cache import ClusterStateCache
from svc.errors import Unavailable
from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.model.cluster.resource import Assigned, Resource
from svc.model.policy.access import Decision, EntityUid
from svc.model.policy.requests import context_at, may_open, may_view

MOST_SHOWN = 100
MOST_DECIDED = 5000
"""Resources that one page is looked for among."""

SLICE = 50
"""Resources that are decided before others have their turn."""

_OPENED_BY: Mapping[str, str] = MappingProxyType(
    {
        "ssh": 'ssh -o ProxyCommand="svc proxy-ssh --user %r %h" {id}',
        "postgres": "svc db {id}",
        "web": "svc open {id}",
        "kube": "kubectl --kubeconfig ~/.svc/kube/{id}.yaml get namespaces",
    }
)
_OTHERS = "svc resources list"
"""Shows the local address, which only the person's machine knows."""


@frozen
class _AccessRow:
    """A resource that the person may see.

    Attributes:
        approved: Until when an approval lets it open, in seconds since the epoch; None: none does.
        can_ask: Whether an approval would.
    """

    resource: Resource
    opening: Decision
    is_served: bool
    approved: int | None = None
    can_ask: bool = False


@define
class AccessPage:
    """The page.

    Attributes:
        offers: Knows what an approval would turn, and which approvals are in force.
        is_served: Whether a Connector serves a resource now.
        pause: Lets others have their turn.
    """

    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    kinds: Mapping[str, ServedKind]
    offers: AccessOffers
    is_served: Callable[[Assigned], bool]
    now: Callable[[], float]
    pause: Callable[[], Awaitable[object]]

    path = "/"
    title = "My access"

    async def content(self, visit: Visit) -> Content:
        """A table, a hundred resources at a time."""
        engine = self.engine()
        if engine is None:
            raise Unavailable("no policy is in force", reason="policy_unavailable")
        rows, after = await self._rows(engine, visit.visitor.person.id, visit.given)
        reasons = engine.reasons()
        found: list[Any] = [
            paragraph(
                "What the policy says now, to a request without parameters of its own, from no"
                " address in particular.  Each session is decided when it opens."
            ),
            table(
                ("Kind", "Resource", "Labels", "Served", "Opening it", "How"),
                (_cells(one, reasons) for one in rows),
                "There is no resource that you may see.",
            ),
        ]
        return [*found, older(self.path, "More resources", after=after)] if after else found

    async def _rows(
        self, engine: IPolicyEngine, person_id: str, given: Mapping[str, str]
    ) -> tuple[list[_AccessRow], str]:
        """The rows of a page, and after which resource the next one begins; empty: there is none.

        Resources are in order of kind and id.
        """
        begin = given.get("after", "")
        catalog = sorted(self.state_cache.state.catalog.values(), key=_place)
        left = [one for one in catalog if _word(one) > begin]
        found: list[_AccessRow] = []
        for count, resource in enumerate(left, 1):
            row = await self._row(engine, person_id, resource)
            if row is not None:
                found.append(row)
            if len(found) >= MOST_SHOWN or count >= MOST_DECIDED:
                return found, _word(resource) if count < len(left) else ""
            if count % SLICE == 0:
                await self.pause()
        return found, ""

    async def _row(
        self, engine: IPolicyEngine, person_id: str, resource: Resource
    ) -> _AccessRow | None:
        """None where the person may not know of it."""
        kind = self.kinds.get(resource.kind)
        if kind is None:
            return None
        target = EntityUid(kind.terms.entity_type, resource.id)
        if not engine.decide(may_view(person_id, target, self.now())).allowed:
            return None
        opening = may_open(
            kind.request_kind, kind.terms.open_action, person_id, target, context_at(self.now())
        )
        decision = engine.decide(opening)
        row = _AccessRow(resource, decision, self.is_served(resource.assigned))
        if decision.allowed or not self.offers.would_turn(engine, opening):
            return row
        action = kind.terms.open_action
        found = await self.offers.approvals.find(person_id, resource, action, {})
        ends_at = None if found is None else found.ends_at
        return evolve(row, approved=ends_at, can_ask=True)


def _place(resource: Resource) -> tuple[str, str]:
    return resource.kind, resource.id


def _word(resource: Resource) -> str:
    """Its place as a link names it; NUL is in no kind and no id."""
    return f"{resource.kind}\0{resource.id}"


def _cells(row: _AccessRow, reasons: Mapping[str, str]) -> list[Any]:
    one = row.resource
    labels = ", ".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
    return [
        text(one.kind),
        text(one.id),
        text(labels),
        "yes" if row.is_served else "no",
        _opening(row, reasons),
        _how(row),
    ]


def _how(row: _AccessRow) -> Any:
    """The command that opens it, or the one that asks for it."""
    one = row.resource
    if row.opening.allowed or row.approved is not None:
        return code(_OPENED_BY.get(one.kind, _OTHERS).format(id=one.id))
    return code(f"svc request {one.id}") if row.can_ask else ""


def _opening(row: _AccessRow, reasons: Mapping[str, str]) -> str:
    decision = row.opening
    if decision.allowed:
        return "allowed"
    if row.approved is not None:
        return f"allowed by an approved request until {moment(row.approved)}"
    if not decision.policies:
        return "denied: no policy permits it"
    named = (f"{one} ({reasons[one]})" if one in reasons else one for one in decision.policies)
    return text(f"denied by {', '.join(named)}")

"""What one person may view, decided again only where it may have changed.

All who follow a list of resources have it made anew at every change of the catalog or of what is
served here.  With two hundred people and two thousand resources, deciding each again would
keep a Proxy busy for a minute after every such change.
"""

from __future__ import annotations

from attrs import define, field

from svc.model.policy.access import AccessRequest, ContextValue, EntityUid
from svc.model.policy.requests import may_view
from svc.policy.engine import CompiledPolicy

_ANYTHING = EntityUid("TcpService", "")
"""For the facts of the question, which are the same for each resource."""


@define(eq=False)
class Viewable:
    """See the module.

    Attributes:
        source: The address that the person asks from.
        decisions: How many were made by the policy.
    """

    person_id: str
    source: str
    decisions: int = field(default=0, init=False)
    _mark: int = field(default=0, init=False)
    """Of the engine by which the answers stand."""

    _now: float = field(default=0.0, init=False)
    _context: dict[str, ContextValue] | None = field(default=None, init=False)
    """The facts with which they stand: the hour and the weekday are among them."""

    _answers: dict[EntityUid, bool] = field(factory=dict, init=False)
    _depend_on: frozenset[EntityUid] = field(default=frozenset(), init=False)
    """What any of the answers depends on, but for its own resource."""

    def follow(self, engine: CompiledPolicy, now: float) -> None:
        """Forget what *engine* may decide otherwise at *now* than what was followed before."""
        changed = engine.changed_since(self._mark)
        context = engine.lasting_context(self._question(_ANYTHING, now))
        before, self._context = self._context, context
        self._mark, self._now = engine.mark, now
        if changed is None or context != before or not changed.isdisjoint(self._depend_on):
            self._answers.clear()
            self._depend_on = frozenset()
        else:
            for uid in changed:
                self._answers.pop(uid, None)

    def allows(self, engine: CompiledPolicy, resource: EntityUid) -> bool:
        """Whether the person may view it, by the engine that was followed last and its moment."""
        known = self._answers.get(resource)
        if known is not None:
            return known
        self.decisions += 1
        request = self._question(resource, self._now)
        decision = engine.decide(request)
        depends_on = engine.depends_on(request)
        if depends_on is not None and decision.decision != "error":
            self._answers[resource] = decision.allowed
            besides = depends_on - {resource}
            if not besides <= self._depend_on:
                self._depend_on |= besides
        return decision.allowed

    def _question(self, resource: EntityUid, now: float) -> AccessRequest:
        return may_view(self.person_id, resource, now, self.source)

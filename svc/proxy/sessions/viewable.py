"""What one person may view, decided again only where it may have changed.

All who follow a list of resources have it made anew at every change of the catalog or of what is
served here.  With two hundred people and two thousand resources, deciding each again would
keep a Proxy busy for a minute after every such change.
"""

from __future__ import annotations

from attrs import define, field

from svc.model.policy.access import EntityUid
from svc.model.policy.requests import may_view
from svc.policy.engine import CompiledPolicy


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
    _mark: object = field(default=None, init=False)
    """Of the engine by which the answers stand."""

    _answers: dict[EntityUid, bool] = field(factory=dict, init=False)
    _depend_on: frozenset[EntityUid] = field(default=frozenset(), init=False)
    """What any of the answers depends on, but for its own resource."""

    def follow(self, engine: CompiledPolicy) -> None:
        """Forget what *engine* may decide otherwise than the one before it."""
        changed = engine.changed_since(self._mark)
        self._mark = engine.mark
        if changed is None or not changed.isdisjoint(self._depend_on):
            self._answers.clear()
            self._depend_on = frozenset()
        else:
            for uid in changed:
                self._answers.pop(uid, None)

    def allows(self, engine: CompiledPolicy, resource: EntityUid, now: float) -> bool:
        """Whether the person may view it, by the engine that was followed last."""
        known = self._answers.get(resource)
        if known is not None:
            return known
        self.decisions += 1
        request = may_view(self.person_id, resource, now, self.source)
        decision = engine.decide(request)
        depends_on = engine.depends_on(request)
        if depends_on is not None and decision.decision != "error":
            self._answers[resource] = decision.allowed
            if not depends_on <= self._depend_on:
                self._depend_on |= depends_on - {resource}
        return decision.allowed

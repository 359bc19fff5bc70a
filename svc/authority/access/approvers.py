"""Whether somebody who approved a request may still approve it at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve, frozen

from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.model.policy.access import EntityUid
from svc.model.policy.requested import RequestedAccess
from svc.model.policy.requests import REQUESTED_ACTION, may_approve


@frozen
class Approvers:
    """Asks the policy."""

    engine: Callable[[], IPolicyEngine | None]
    kinds: Mapping[str, ServedKind]

    def may_still(self, person_id: str, row: RequestedAccess) -> bool:
        """Whether the policy could let this person approve it, at whatever time of the day.

        An approval of the day lasts into the night, so no fact but the action is looked at.
        """
        engine, kind = self.engine(), self.kinds.get(row.kind)
        if engine is None or kind is None:
            return True  # nothing opens without a policy
        target = EntityUid(kind.terms.entity_type, row.resource_id)
        asked = may_approve(person_id, target, row.action, 0.0)
        known = {REQUESTED_ACTION: asked.context[REQUESTED_ACTION]}
        return engine.may_ever(evolve(asked, context=known))

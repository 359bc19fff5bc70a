"""What the permits say of themselves that people may ask for: shown to who was denied."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from svc.interfaces.policy import IPolicyEngine
from svc.model.policy.access import AccessRequest
from svc.model.policy.requested import APPROVED_REQUEST, ApprovedAccess


def requestable_reasons(
    engine: IPolicyEngine, asked: AccessRequest, ends_at: int
) -> Mapping[str, str]:
    """The ``@requestable`` permits by which an approval would allow what was denied.

    By ``@id``, each with its ``@reason``; empty for one that has none.
    """
    fact = ApprovedAccess(request_id="", approver="", ends_at=ends_at).fact
    turned = engine.decide(evolve(asked, context={**asked.context, APPROVED_REQUEST: fact}))
    if not turned.allowed:
        return {}
    found = [one for one in turned.policies if one in engine.requestable]
    reasons = engine.reasons() if found else {}
    return {one: reasons.get(one, "") for one in found}

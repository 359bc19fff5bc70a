"""What the permits say of themselves that people may ask for: shown to who was denied."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from svc.interfaces.policy import IPolicyEngine
from svc.model.policy.access import AccessRequest
from svc.model.policy.requested import APPROVED_REQUEST, approved_fact


def requestable_reasons(
    engine: IPolicyEngine, asked: AccessRequest, ends_at: int, *, has_text: bool = False
) -> Mapping[str, str]:
    """The ``@requestable`` permits by which an approval would allow what was denied.

    By ``@id``, each with its ``@reason``; empty for one that has none.

    Args:
        has_text: It is a request in a session, so an approval of its exact text may allow it.
    """
    found: dict[str, None] = {}
    for exact in (False, True) if has_text else (False,):
        fact = approved_fact("", "", ends_at, exact=exact)
        turned = engine.decide(evolve(asked, context={**asked.context, APPROVED_REQUEST: fact}))
        if turned.allowed:
            found |= dict.fromkeys(one for one in turned.policies if one in engine.requestable)
    reasons = engine.reasons() if found else {}
    return {one: reasons.get(one, "") for one in found}

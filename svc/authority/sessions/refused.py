"""How Authority answers for a session that it does not grant.

What may not be viewed is answered like what never was, byte for byte but for the id (rule R16).
"""

from __future__ import annotations

from svc.authority.registry.operators import for_want_of_factor
from svc.authority.sessions.request import IssuanceResult, VerifiedRequest
from svc.messages.control import AuthorizeAnswer
from svc.model.policy.requests import FACTOR_AGE
from svc.model.session.reasons import not_served_text

REFUSAL_TEXT = "access denied, or no such resource"
"""Of what may not be viewed, and of what never was; no policy is named beside it."""

DENIED_TEXT = "access denied"
"""Of a resource that is there and may be viewed."""

REQUESTABLE_TEXT = "access denied, unless another person approves a request for it"


def refused_answer(verified: VerifiedRequest, outcome: IssuanceResult) -> AuthorizeAnswer:
    """The answer; it says of the resource what its person may know."""
    resource = verified.request.resource
    if outcome.word == "not_served" and outcome.may_view:
        return AuthorizeAnswer(
            outcome.decision_id,
            reason=outcome.reason,
            text=f"{resource}: {not_served_text(outcome.reason)}",
            may_view=True,
        )
    # Of what is not in the catalog a policy may say that it may be viewed.
    is_told = outcome.may_view and verified.resource is not None
    return AuthorizeAnswer(
        outcome.decision_id,
        reason="denied",
        text=_denied_text(outcome) if is_told else REFUSAL_TEXT,
        policies=outcome.policies if is_told else (),
        may_view=outcome.may_view,
        request_hint=outcome.request_hint,
    )


def _denied_text(outcome: IssuanceResult) -> str:
    if outcome.wants_factor:
        is_known = FACTOR_AGE in outcome.decision.request.context
        return f"access denied {for_want_of_factor(is_known=is_known)}"
    if not outcome.request_hint:
        return DENIED_TEXT
    reason = outcome.request_reason
    return f"{REQUESTABLE_TEXT} ({reason})" if reason else REQUESTABLE_TEXT

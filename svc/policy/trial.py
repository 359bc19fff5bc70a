"""What a policy text would decide about a request, and what it looked at to do so.

Made in the process that tries texts, read by the one that asked for it.  What
comes from there is bounded and checked: the text may have been written by anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from attrs import field, frozen

from svc.errors import Malformed
from svc.model.policy.access import AccessRequest, Verdict
from svc.policy.engine import CompiledPolicy

MOST_POLICIES = 50
"""So many policies of each sort are named."""

MAX_REASON = 300
"""Characters of a ``@reason`` that are told."""

_VERDICTS = frozenset(get_args(Verdict))


@frozen
class TrialAnswer:
    """One request as the text decides it.

    Attributes:
        policies: The determining ones, by ``@id``.
        reasons: Their ``@reason``, where they have one.
        considered: Every policy whose scope fits the request.
        missing: Facts that these policies read and the request does not have.
    """

    decision: Verdict
    policies: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(factory=dict)
    considered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def trial_answer(engine: CompiledPolicy, request: AccessRequest) -> TrialAnswer:
    """How *engine* decides *request*."""
    decision = engine.decide(request)
    scope = engine.scope_of(request)
    reasons = engine.reasons()
    policies = decision.policies[:MOST_POLICIES]
    return TrialAnswer(
        decision=decision.decision,
        policies=policies,
        reasons={name: reasons[name][:MAX_REASON] for name in policies if name in reasons},
        considered=tuple(sorted(scope.policies))[:MOST_POLICIES],
        missing=tuple(sorted(scope.facts - set(request.context))),
        errors=decision.errors[:MOST_POLICIES],
    )


def answer_form(answer: TrialAnswer) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "decision": answer.decision,
        "policies": list(answer.policies),
        "reasons": dict(answer.reasons),
        "considered": list(answer.considered),
        "missing": list(answer.missing),
        "errors": list(answer.errors),
    }


def answer_from_form(form: Any) -> TrialAnswer:
    """The answer that :func:`answer_form` wrote.

    Raises:
        Malformed: *form* is not of that shape.
    """
    names = {"decision", "policies", "reasons", "considered", "missing", "errors"}
    if not isinstance(form, Mapping) or set(form) != names:
        raise Malformed("policy trial: the answer is malformed")
    if not isinstance(form["decision"], str) or form["decision"] not in _VERDICTS:
        raise Malformed("policy trial: the decision is unknown")
    reasons = form["reasons"]
    if not isinstance(reasons, Mapping):
        raise Malformed("policy trial: the reasons are malformed")
    return TrialAnswer(
        decision=cast(Verdict, form["decision"]),
        policies=_texts(form["policies"]),
        reasons=dict(zip(_texts(list(reasons)), _texts(list(reasons.values())), strict=True)),
        considered=_texts(form["considered"]),
        missing=_texts(form["missing"]),
        errors=_texts(form["errors"]),
    )


def _texts(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Malformed("policy trial: a list of texts is malformed")
    return tuple(found)

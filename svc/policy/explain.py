"""What may be told of a decision, and to whom.

Who may not view a resource learns as much as about a name that never existed:
nothing but the id by which an operator finds the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen

from svc.model.access import Decision

DENIED = "denied"
_NONE: Mapping[str, str] = MappingProxyType({})


@frozen(hash=False)
class Explanation:
    """The part of a decision that its reader may see; empty fields are withheld.

    Args:
        reason: ``allowed``, ``denied``, ``no_policy_permits``, ``forbidden``
            or ``policy_error``.
        policies: The ``@id`` of the determining policies.
        why: Each such policy's ``@reason``, where it has one.
        texts: Each such policy's text, for holders of ``viewPolicy``.
    """

    reason: str
    policies: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    why: Mapping[str, str] = _NONE
    texts: Mapping[str, str] = _NONE


def explain(
    decision: Decision,
    may_view: bool,
    may_view_policy: bool = False,
    reasons: Mapping[str, str] = _NONE,
    texts: Mapping[str, str] = _NONE,
) -> Explanation:
    """What to tell of *decision*.

    Args:
        may_view: Whether the reader may ``view`` the resource (for the
            decision's own principal) or holds ``viewAudit``.
        may_view_policy: Whether the reader holds ``viewPolicy``.
        reasons: ``@reason`` by ``@id``, of the policy version that decided.
        texts: Policy text by ``@id``, of the same version.
    """
    if not may_view:
        return Explanation(DENIED)
    named = decision.policies
    return Explanation(
        _reason(decision),
        named,
        decision.errors,
        {name: reasons[name] for name in named if name in reasons},
        {name: texts[name] for name in named if name in texts} if may_view_policy else _NONE,
    )


def _reason(decision: Decision) -> str:
    if decision.allowed:
        return "allowed"
    if decision.decision == "error":
        return "policy_error"
    return "forbidden" if decision.policies else "no_policy_permits"

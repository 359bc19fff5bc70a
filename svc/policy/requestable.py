"""The policies that people may ask for: those marked ``@requestable``.

Whether a denied person is told how to ask follows from the mark, so a mark where an approval
changes nothing would promise what nobody can give.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve
from cedarpy import pst

from svc.interfaces.policy import IPolicyEngine
from svc.model.policy.access import AccessRequest
from svc.model.policy.requested import APPROVED_REQUEST, REQUESTABLE, approved_fact
from svc.policy.reads import reads_of
from svc.policy.refusals import INVALID, refused


def check_requestable(policies: Mapping[str, pst.Template]) -> None:
    """Refuse a mark on a forbid, or on a permit that holds without an approval.

    Raises:
        PolicyRefused: ``policy_invalid``, naming the first such policy.
    """
    for name, policy in policies.items():
        if REQUESTABLE not in policy.annotations:
            continue
        if policy.effect != "permit":
            raise refused(
                INVALID,
                f"policy {name}: only a permit can be @requestable; a forbid holds for approved "
                "requests too",
            )
        reads = reads_of(policy.clauses)
        if reads is not None and APPROVED_REQUEST not in reads:
            raise refused(
                INVALID,
                f"policy {name}: it is @requestable and permits without an approval; add "
                "`when { context has approved_request }`",
            )


def would_turn(
    engine: IPolicyEngine, asked: AccessRequest, ends_at: int, *, exact: bool = False
) -> bool:
    """Whether an approval would allow what was denied, by a permit that people may ask for.

    Args:
        exact: One of the exact text of that request.
    """
    turned = engine.decide(_approved(asked, ends_at, exact=exact))
    return turned.allowed and not engine.requestable.isdisjoint(turned.policies)


def might_turn(
    engine: IPolicyEngine, asked: AccessRequest, ends_at: int, *, exact: bool = False
) -> bool:
    """As :func:`would_turn`, where what the request does is not known yet."""
    return not engine.requestable.isdisjoint(
        engine.may_ever_by(_approved(asked, ends_at, exact=exact))
    )


def _approved(asked: AccessRequest, ends_at: int, *, exact: bool) -> AccessRequest:
    fact = approved_fact("", "", ends_at, exact=exact)
    return evolve(asked, context={**asked.context, APPROVED_REQUEST: fact})

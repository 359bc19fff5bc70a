"""Cedar is asked: a plan, the facts of one request, and what the evaluator answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import frozen
from cedarpy import Decision as CedarDecision
from cedarpy import Entities, Schema, is_authorized

from svc.model.policy.access import EntityUid, Verdict
from svc.policy.fact_reads import FactRead
from svc.policy.slices import Slice
from svc.policy.vocabulary import Vocabulary

_ERRED = re.compile(r"policy `([^`]+)`")


@frozen(eq=False)
class Evaluation:
    """What evaluation gave, without the request it was for."""

    allowed: bool
    decision: Verdict
    policies: tuple[str, ...]
    errors: tuple[str, ...]


@frozen(eq=False)
class SlicePlan:
    """All that principal, action and resource fix: compared by identity.

    Attributes:
        looked_at: Every entity that a decision can depend on, whether it exists or not.
        entities: Those of them that exist, as the evaluator reads them.
    """

    slice: Slice
    reads: tuple[FactRead, ...]
    ticking: bool
    digest: str
    looked_at: frozenset[EntityUid]
    entities: Entities
    principal: Mapping[str, str]
    action: Mapping[str, str]
    resource: Mapping[str, str]


def evaluate(plan: SlicePlan, read: tuple[Any, ...]) -> Evaluation:
    """Ask Cedar; whatever goes wrong is an error that denies, never an exception."""
    try:
        written = [
            one.write(value)
            for one, value in zip(plan.reads, read, strict=True)
            if value is not None
        ]
        result = is_authorized(
            {
                "principal": plan.principal,
                "action": plan.action,
                "resource": plan.resource,
                "context": "{" + ",".join(written) + "}",
            },
            plan.slice.policies or "",
            plan.entities,
        )
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:  # a panic in the evaluator is no Exception
        # Imported here: the process that tries a text starts for each, and needs no log.
        from twisted.logger import Logger

        Logger(namespace="svc_policy").error(
            "a policy could not be evaluated",
            action=plan.action["id"],
            reason="evaluator_failed",
            raised=type(failure).__name__,
        )
        return Evaluation(
            allowed=False, decision="error", policies=(), errors=("evaluator_failed",)
        )
    return _answer_of(result.decision, result.diagnostics.reasons, result.diagnostics.errors)


@lru_cache(4)
def parse_schema(vocabulary: Vocabulary) -> Schema:
    """The schema's handle."""
    return Schema.from_str(vocabulary.schema, release_gil=True)


def _answer_of(decision: CedarDecision, reasons: list[str], errors: list[str]) -> Evaluation:
    policies = tuple(sorted(reasons))
    if errors:
        return Evaluation(
            allowed=False,
            decision="error",
            policies=policies,
            errors=tuple(sorted({_word_of(text) for text in errors})),
        )
    if decision is CedarDecision.Allow:
        return Evaluation(allowed=True, decision="allow", policies=policies, errors=())
    if decision is CedarDecision.Deny:
        return Evaluation(allowed=False, decision="deny", policies=policies, errors=())
    return Evaluation(allowed=False, decision="error", policies=policies, errors=("no_decision",))


def _word_of(error: str) -> str:
    """A stable word for Cedar's sentence, which may quote the policy."""
    found = _ERRED.search(error)
    return f"policy_erred:{found[1]}" if found else "request_refused"

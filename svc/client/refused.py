"""Sessions that were not opened, kept for the person to look at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.errors import SvcError

_log = Logger(namespace="svc_client")

KEPT = 64


@frozen
class Refused:
    """One refusal.

    Attributes:
        at: Unix seconds.
        decision_id: Empty where nothing was decided.
    """

    at: float
    resource: str
    reason: str
    text: str
    decision_id: str = ""
    policies: tuple[str, ...] = ()


@define
class Refusals:
    """The newest refusals; each is one log line, which is where a person sees it first."""

    now: Callable[[], float]
    kept: deque[Refused] = field(factory=lambda: deque(maxlen=KEPT), init=False)

    def note(self, resource: str, error: SvcError) -> Refused:
        """Remember and log one; returns it."""
        refused = Refused(
            self.now(),
            resource,
            error.reason,
            error.text,
            error.details.get("decision_id", ""),
            policies_of(error),
        )
        self.kept.append(refused)
        _log.warn(
            "session refused",
            resource=resource,
            reason=refused.reason,
            decision_id=refused.decision_id,
            policies=",".join(refused.policies),
            text=refused.text,
        )
        return refused


def policies_of(error: SvcError) -> tuple[str, ...]:
    """The policies a refusal names, by ``@id``; none where they may not be known."""
    return tuple(name for name in error.details.get("policies", "").split(",") if name)


def said(resource: str, error: SvcError) -> str:
    """A refusal as one line for a person; not yet escaped."""
    text = error.text.removeprefix(f"{resource}: ")
    parts = [f"{resource}: {text}", f"reason {error.reason}"]
    decision_id = error.details.get("decision_id", "")
    if decision_id:
        parts.append(f"decision {decision_id}")
    policies = policies_of(error)
    if policies:
        parts.append(f"policies {', '.join(policies)}")
    return "; ".join(parts)

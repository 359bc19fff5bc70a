"""Why a decision came out as it did, in plain words for its person.

A record says it in one stable word.  Those of sessions are all here; the words of requests that a
kind's gate refuses by itself are the kind's own (:class:`svc.interfaces.kinds.KindTerms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from attrs import frozen

DecidedReason = Literal[
    "denied", "proxy_denied", "identity_denied", "unknown", "departed", "onward_unavailable"
]
"""Every reason that Authority or a Proxy gives of itself for not allowing something."""

REASONS: tuple[DecidedReason, ...] = get_args(DecidedReason)


@frozen
class ReasonWords:
    """What a person is told of a reason.

    Attributes:
        text: What happened.
        hint: Who can mend it, and what to do next.
    """

    text: str
    hint: str


_ABSENT = ReasonWords(
    "the policy allows it, but no Connector has served a resource of this name and kind",
    "check the name with `svc resources list`; if it is right, an operator sees what is missing "
    "with `svc --config FILE authority resources list`: a Connector that declares the resource, or "
    "its assignment",
)

WORDS: Mapping[DecidedReason, ReasonWords] = MappingProxyType(
    {
        "denied": ReasonWords(
            "a policy forbids it",
            "only whoever decides about the policies named here can allow it: ask an operator",
        ),
        "proxy_denied": ReasonWords(
            "the policy of the Authority allows it, but that of the Proxy did not at that moment",
            "the Proxy gets a new policy within seconds: try again; if that does not help, ask an "
            "operator to look at `svc doctor` on the Proxy",
        ),
        "identity_denied": ReasonWords(
            "there is no person of the name in the request, or you may not act as that person",
            "send the request in your own name, or ask an operator to permit actAs for that person",
        ),
        "unknown": _ABSENT,
        "departed": ReasonWords(
            "the policy allows it, but no Connector serves the resource now",
            "try again in a minute; if that does not help, an operator sees which Connector has to "
            "be started or connected with `svc --config FILE authority resources list`",
        ),
        "onward_unavailable": ReasonWords(
            "the policy allows it, but the cluster has no certificate to log in at this host with",
            "ask an operator: the Authority's log tells what is missing",
        ),
    }
)
"""Each reason in words."""

UNPERMITTED = ReasonWords(
    "no policy permits it",
    "if you need it, ask an operator for a policy that permits it",
)
"""Of a denial that no policy determined."""

UNDECIDED = ReasonWords(
    "the policy could not be evaluated, and what cannot be decided is denied",
    "ask an operator: the policies need to be corrected",
)
"""Of what ended in an error."""

_BY_REQUEST = "another person can approve it: ask with the command below"
_BY_GATE = "the request itself has to be changed: no policy decides this"


def words_of(
    decision: str,
    reason: str,
    *,
    policies: bool,
    requestable: bool,
    kind_reasons: Mapping[str, str],
) -> ReasonWords | None:
    """What is told of a decision; None for what was allowed.

    Args:
        decision: As it is recorded: ``allow``, ``deny``, ``error`` or ``not_served``.
        policies: Whether the record names policies that decided.
        requestable: Whether an approval would turn it.
        kind_reasons: The words of the resource's kind for what its gate refuses.
    """
    if decision == "allow":
        return None
    if decision == "error":
        return UNDECIDED
    known: ReasonWords | None = WORDS.get(reason)  # type: ignore[call-overload]
    if known is None:
        text = kind_reasons.get(reason, "the gate of this kind of resource refuses such a request")
        return ReasonWords(text, _BY_GATE)
    if reason != "denied":
        return known
    words = known if policies else UNPERMITTED
    return ReasonWords(words.text, _BY_REQUEST) if requestable else words


def not_served_text(reason: str) -> str:
    """What a person is told at once whose session the policy allows and nobody serves."""
    words = WORDS.get(reason, _ABSENT)  # type: ignore[call-overload]
    return f"{words.text}; {words.hint}"

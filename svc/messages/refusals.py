"""``gate.v1.Control/Refused``: what a Proxy's budgets refused, summed up."""

from __future__ import annotations

from collections.abc import Iterable

from svc.errors import Malformed
from svc.messages.checks import text, uid
from svc.model.audit import Actor
from svc.model.budget import BUDGETS
from svc.model.ids import is_opaque_id
from svc.model.tally import OTHERS, Refused
from svc.proto.gate.v1 import control_pb2 as pb

REFUSED_METHOD = "/gate.v1.Control/Refused"
MAX_REFUSED = 100
"""Counts in one report."""

_WORD = 63
_LARGEST = 2**53
_LATEST_MS = 253402300799000
_OTHER = "other"
_KINDS = {pb.RefusedCalls.PERSON: "person", pb.RefusedCalls.NODE: "node"}
_CALLERS = {kind: number for number, kind in _KINDS.items()}


def refused_message(report: str, refused: Iterable[Refused]) -> pb.RefusedRequest:
    """A report as it travels.

    Args:
        report: Its random id: sent again, it is the same report.
    """
    return pb.RefusedRequest(
        report=bytes.fromhex(report),
        refused=[
            pb.RefusedCalls(
                caller=_CALLERS.get(one.caller.kind, pb.RefusedCalls.OTHERS),
                caller_id="" if one.caller == OTHERS else one.caller.id,
                budget=one.budget,
                count=one.count,
                first_ms=int(one.first * 1000),
                last_ms=int(one.last * 1000),
            )
            for one in refused
        ],
    )


def read_refused(message: pb.RefusedRequest) -> tuple[str, tuple[Refused, ...]]:
    """A report's id and its counts as they came, bounded."""
    report = uid(message.report, "refused: report")
    if len(message.refused) > MAX_REFUSED:
        raise Malformed(f"refused: more than {MAX_REFUSED}")
    return report, tuple(_read(one) for one in message.refused)


def _read(one: pb.RefusedCalls) -> Refused:
    budget = text(one.budget, _WORD, "refused: budget")
    if not 0 <= one.first_ms <= one.last_ms <= _LATEST_MS:
        raise Malformed("refused: times that no calendar knows")
    return Refused(
        _caller(one),
        budget if budget in BUDGETS else _OTHER,
        min(max(1, one.count), _LARGEST),
        one.first_ms / 1000,
        one.last_ms / 1000,
    )


def _caller(one: pb.RefusedCalls) -> Actor:
    kind = _KINDS.get(one.caller)
    if kind is None:
        return OTHERS
    if not is_opaque_id(one.caller_id):
        raise Malformed("refused: caller_id: not an id")
    return Actor(kind, one.caller_id)

"""At the Proxy: passes on what the server answers; finds the errors that are denials of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from svc.interfaces.gating import IGatedStream
from svc.kinds.postgres.messages import HEAD, LONGEST_TEXT, check_length, head_at, size_of
from svc.kinds.postgres.pipeline import FORGETTING, Decided, Pipeline

_READ = frozenset(b"CEZS")
"""Answers whose body is read."""

_LOOKED_AT: Mapping[int, str] = {
    **dict.fromkeys(b"13GEZS", ""),
    ord("2"): "2",
    ord("T"): "T",
    ord("n"): "T",
    ord("C"): "C",
    ord("I"): "C",
    ord("s"): "C",
}
"""Answers, and the kind of what is owed of which they say nothing but that it has come, if any."""

_TOLD_BY_KIND = frozenset("2T")
"""Of these, answers whose bodies say nothing."""


async def pass_answers(
    stream: IGatedStream, pipeline: Pipeline, passed: Callable[[], object]
) -> None:
    """Pass on all answers up to the stream's end, and name the edit of each denial.

    Args:
        passed: Called whenever some were.
    """
    need = HEAD
    while await stream.at_least(need) is not None:
        held, at = stream.held, 0
        at, need, denial = looked_through(held, at, pipeline)
        while denial is not None:
            size = size_of(held, at)
            await stream.pass_on(at)
            stream.edit(size, "denied", told(denial))
            held = held[at + size :]
            at, need, denial = looked_through(held, 0, pipeline)
        await stream.pass_on(at)
        passed()


def looked_through(held: bytes, at: int, pipeline: Pipeline) -> tuple[int, int, Decided | None]:
    """Tell *pipeline* of the answers from *at* on, up to a denial or to what has not come whole.

    Returns:
        Where that is, how many bytes are needed to go on, and the denial.
    """
    owed, end, looked_at = pipeline.owed, len(held), _LOOKED_AT
    while end - at >= HEAD:
        kind, length = head_at(held, at)
        after = at + length + 1
        if length < 4:
            check_length(length)
        elif (settled := looked_at.get(kind)) is None:
            pass  # most are rows
        elif settled in _TOLD_BY_KIND and owed and owed[0].kind == settled:
            owed.popleft()
        else:
            body = b""
            if kind in _READ and length < LONGEST_TEXT:
                if end < after:
                    return at, after - at, None
                body = held[at + HEAD : after]
            if owed and owed[0].kind == settled and body not in FORGETTING:
                owed.popleft()
            elif (denial := pipeline.answered(kind, body)) is not None:
                return at, HEAD, denial
        at = after
    return at, HEAD, None


def told(denial: Decided) -> Mapping[str, str]:
    """What the person's end words a denial with."""
    verdict, effects = denial.verdict, denial.effects
    values = {
        "decision": verdict.decision_id,
        "policies": ", ".join(verdict.policies),
        "reason": verdict.reason,
        "unread": effects.incomplete,
    }
    if verdict.request_hint:
        values["request"] = verdict.request_hint
    elif verdict.lacks_text:
        values["no_text"] = denial.no_text
    if effects.complaint is not None:
        values["complaint"] = effects.complaint.text
        values["position"] = str(effects.complaint.position)
    return values

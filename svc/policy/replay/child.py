"""The process that decides recorded requests again by a candidate policy.

It is confined as the one that tries texts is, and has nothing but what comes
on stdin.  One line of JSON goes out: what was found, or why the text is refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, BinaryIO

from attrs import define, field

from svc.errors import Malformed, SvcError
from svc.model.policy.access import AccessRequest, EntityUid
from svc.policy.child import CPU_SECONDS, confine, try_policy
from svc.policy.claims import refuse_claims
from svc.policy.compile import compile_policy, read_policies
from svc.policy.engine import CompiledPolicy
from svc.policy.prescan import PolicyLimits
from svc.policy.refusals import REASONS
from svc.policy.replay.lines import MAX_LINE, SliceWindow
from svc.policy.replay.outcome import ERASED, NO_ENTITIES, NOT_ASKABLE, ReplayTally, Verdicted
from svc.policy.replay.slices import SlicedEngines, entities_of_slice
from svc.policy.terms_json import terms_from_form
from svc.policy.vocabulary import vocabulary_of_terms

_loads = json.JSONDecoder().decode

ROWS_A_SECOND = 500
"""A record takes a tenth of the time that this gives it."""


def main() -> int:
    """Run the whole of the process; 0 when an answer was written."""
    return answer(sys.stdin.buffer, sys.stdout.buffer)


def answer(stdin: BinaryIO, stdout: BinaryIO, *, confined: bool = True) -> int:
    """Decide what comes on *stdin* again, and write what was found to *stdout*."""
    try:
        job = json.loads(_line(stdin))
        if confined:
            confine(CPU_SECONDS + int(job["rows"]) // ROWS_A_SECOND)
        outcome = _replayed(job, stdin)
    except SvcError as refusal:
        outcome = {"reason": refusal.reason, "text": refusal.text}
        if refusal.reason not in REASONS:
            return 2
    stdout.write(json.dumps(outcome).encode("ascii") + b"\n")
    stdout.flush()
    return 0


def _line(stdin: BinaryIO) -> bytes:
    line = stdin.readline(MAX_LINE + 1)
    if len(line) > MAX_LINE:
        raise Malformed("policy replay: a line is too long")
    return line


def _replayed(job: Any, stdin: BinaryIO) -> dict[str, Any]:
    words = vocabulary_of_terms(terms_from_form(job["terms"]))
    limits = PolicyLimits(**job["limits"])
    try_policy(job["text"], words, limits)
    candidate = compile_policy(job["text"], words, (), 0, 0, limits)
    refuse_claims(candidate.claims)
    active = compile_policy(job["active"], words, (), job["active_version"], 0, limits)
    replay = Replay(SlicedEngines(candidate), SlicedEngines(active))
    while line := _line(stdin):
        replay.take(line.decode())
    named = set(read_policies(job["text"], words, limits))
    return {**replay.tally.form(), "unused": sorted(named - replay.tally.determining)}


@define
class Replay:
    """Takes line after line.

    Attributes:
        active: Decides those again that were decided by another version than the one in force.
    """

    candidate: SlicedEngines
    active: SlicedEngines
    tally: ReplayTally = field(factory=ReplayTally)
    _slices: SliceWindow = field(factory=SliceWindow, init=False)

    def take(self, line: str) -> None:
        """One line: a slice, or a request."""
        if line[0] == "S":
            digest, _, text = line[1:-1].partition(" ")
            self._slices.add(digest, text)
        else:
            self._request(*_loads(line[1:]))

    def _request(
        self,
        seq: int,
        digest: str,
        form: Any,
        erased: Iterable[str],
        decision: str,
        policies: Iterable[str],
        version: int,
    ) -> None:
        request = _request_of(form)
        lacking = frozenset(erased)
        after = self._decided(self.candidate, digest, request, lacking)
        if isinstance(after, str):
            self.tally.cannot_decide(seq, after)
            return
        before = (
            Verdicted(decision, tuple(policies))
            if version == self.active.base.version
            else self._decided(self.active, digest, request, lacking)
        )
        if isinstance(before, str):
            self.tally.cannot_decide(seq, before)
            return
        self.tally.compare(
            seq,
            request.principal.id,
            request.resource.id,
            request.action,
            before=before,
            after=after,
        )

    def _decided(
        self, engines: SlicedEngines, digest: str, request: AccessRequest, erased: frozenset[str]
    ) -> Verdicted | str:
        """What this policy says; or why nothing true can be said."""
        engine = self._engine(engines, digest)
        if engine is None:
            return NO_ENTITIES
        if erased and erased & engine.scope_of(request).facts:
            return ERASED
        found = engine.decide(request)
        if not found.entities_digest:  # what cannot be asked is decided over nothing
            return NOT_ASKABLE
        return Verdicted(found.decision, found.policies)

    def _engine(self, engines: SlicedEngines, digest: str) -> CompiledPolicy | None:
        if engines.has(digest):
            return engines.over(digest, None)
        text = self._slices.get(digest)
        return engines.over(digest, None if text is None else entities_of_slice(digest, text))


def _request_of(form: Any) -> AccessRequest:
    """The request; its values are checked by the vocabulary before anything is decided."""
    who, what = form["principal"], form["resource"]
    return AccessRequest(
        request_kind=form["request_kind"],
        principal=EntityUid(who["type"], who["id"]),
        action=form["action"],
        resource=EntityUid(what["type"], what["id"]),
        context=form["context"],
    )


if __name__ == "__main__":
    sys.exit(main())

"""The process that decides recorded requests again by a candidate policy.

It is confined as the one that tries texts is, and has nothing but what comes
on stdin.  Lines of JSON go out: what was found of a turn, in one or several; at the end
which policies decided; or, as the only line, why the text is refused.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from attrs import define, field, frozen

from svc.errors import Malformed, SvcError
from svc.model.policy.access import AccessRequest, EntityUid
from svc.policy.child import CPU_SECONDS, confine, limit_cpu, try_policy
from svc.policy.claims import refuse_claims
from svc.policy.compile import compile_policy, read_policies
from svc.policy.engine import CompiledPolicy
from svc.policy.prescan import PolicyLimits
from svc.policy.refusals import REASONS
from svc.policy.replay.lines import (
    MAX_LINE,
    TURN_END,
    VOLATILE,
    QuestionWindow,
    SliceWindow,
)
from svc.policy.replay.outcome import (
    ERASED,
    NO_ENTITIES,
    NOT_ASKABLE,
    ReplayFindings,
    Verdicted,
)
from svc.policy.replay.slices import SlicedEngines, entities_of_slice
from svc.policy.terms_json import terms_from_form
from svc.policy.vocabulary import vocabulary_of_terms

_loads = json.JSONDecoder().decode

REQUESTS_A_SECOND = 500
"""A request takes a tenth of the time that this gives it."""

_MANY = 1000
"""So many requests are read before they get their time."""


def main() -> int:
    """Run the whole of the process; 0 when an answer was written."""
    return answer(sys.stdin.buffer, sys.stdout.buffer)


def answer(stdin: BinaryIO, stdout: BinaryIO, *, confined: bool = True) -> int:
    """Decide what comes on *stdin* again, and write what was found to *stdout*."""
    try:
        line = _line(stdin)
        if not line:
            _tell(stdout, {"named": [], "determining": []})
            return 0
        job = json.loads(line)
        if confined:
            confine(CPU_SECONDS, growing=True)
        for told in _replayed(job, _lines(stdin, confined=confined)):
            _tell(stdout, told)
    except SvcError as refusal:
        if refusal.reason not in REASONS:
            return 2
        _tell(stdout, {"reason": refusal.reason, "text": refusal.text})
    return 0


def _tell(stdout: BinaryIO, told: Mapping[str, Any]) -> None:
    stdout.write(json.dumps(told, check_circular=False).encode("ascii") + b"\n")
    stdout.flush()


def _line(stdin: BinaryIO) -> bytes:
    """The next line; empty at the end, also if that is within a line."""
    line = stdin.readline(MAX_LINE + 1)
    if len(line) > MAX_LINE:
        raise Malformed("policy replay: a line is too long")
    # Whoever wrote it was killed within it; that is no fault of the policy's.
    return line if line.endswith(b"\n") else b""


def _lines(stdin: BinaryIO, *, confined: bool) -> Iterator[str]:
    """All of them; the time that the process may take grows with their number."""
    taken, due = 0, _MANY
    if confined:
        gc.freeze()  # what was parsed stays: no search for cycles has to look at it again
    while line := _line(stdin):
        # Of a line of requests: one each.
        taken += 1 + (line.count(b" ") // 2 if line[:1] == b"R" else 0)
        if confined and taken >= due:
            due = taken + _MANY
            limit_cpu(CPU_SECONDS + taken // REQUESTS_A_SECOND)
        yield line.decode()


def _replayed(job: Any, lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    """What was found, told as the lines come."""
    words = vocabulary_of_terms(terms_from_form(job["terms"]))
    limits = PolicyLimits(**job["limits"])
    try_policy(job["text"], words, limits)
    candidate = compile_policy(job["text"], words, (), 0, 0, limits)
    refuse_claims(candidate.claims)
    active = compile_policy(job["active"], words, (), job["active_version"], 0, limits)
    replay = Replay(SlicedEngines(candidate), SlicedEngines(active))
    found = replay.findings
    for line in lines:
        if line == TURN_END:
            yield found.told(ends=True)
            continue
        replay.take(line)
        if found.due:
            yield found.told(ends=False)
    named = sorted(read_policies(job["text"], words, limits))
    yield {"named": named, "determining": sorted(found.determining)}


@frozen
class Compared:
    """What both policies say of a question, whatever its volatile fact is."""

    person: str
    resource: str
    action: str
    before: Verdicted
    after: Verdicted

    @property
    def is_same(self) -> bool:
        """Whether both say it by the same policies."""
        return self.before == self.after


@define
class Asked:
    """A question; what is said of it, if that holds for every request that asks it.

    Attributes:
        text: Its JSON; needed until something is said that holds.
        is_same: Whether that is the same before and after.
    """

    text: str
    compared: Compared | None = None
    is_same: bool = False


@define
class Replay:
    """Takes line after line.

    Attributes:
        active: Decides those again that were decided by another version than the one in force.
    """

    candidate: SlicedEngines
    active: SlicedEngines
    findings: ReplayFindings = field(factory=ReplayFindings)
    _slices: SliceWindow = field(factory=SliceWindow, init=False)
    _questions: QuestionWindow[str, Asked] = field(factory=QuestionWindow, init=False)

    def take(self, line: str) -> None:
        """One line: a slice, a question, or requests that ask such."""
        if line[0] == "S":
            digest, _, text = line[1:-1].partition(" ")
            self._slices.add(digest, text)
        elif line[0] == "Q":
            number, _, text = line[1:-1].partition("\t")
            self._questions.add(number, Asked(text), len(text))
        else:
            self._requests(*line[1:-1].split("\t"))

    def _requests(self, number: str, asked: str, nows: str) -> None:
        seq, same, kept = int(number), 0, self._questions.kept
        facts: list[str] | None = None
        for at, one in enumerate(map(kept.__getitem__, asked.split(" "))):
            if one.is_same:
                same += 1
            elif one.compared is not None:
                self._tell(seq, one.compared)
            else:
                if facts is None:
                    facts = nows.split(" ")
                self._request(seq, one, facts[at])
        self.findings.decided += same

    def _tell(self, seq: int, known: Compared) -> None:
        self.findings.compare(
            seq,
            known.person,
            known.resource,
            known.action,
            before=known.before,
            after=known.after,
        )

    def _request(self, seq: int, asked: Asked, now: str) -> None:
        digest, sides, entry, erased, version, is_apart = _loads(asked.text)
        if is_apart:
            entry["context"][VOLATILE] = int(now)
        request, lacking = _request_of(sides, entry), frozenset(erased)
        after = self._decided(self.candidate, digest, request, lacking)
        if isinstance(after, str):
            self.findings.cannot_decide(seq, after)
            return
        is_ours = version == self.active.base.version
        before = (
            Verdicted(entry["decision"], tuple(entry.get("policies", ())))
            if is_ours
            else self._decided(self.active, digest, request, lacking)
        )
        if isinstance(before, str):
            self.findings.cannot_decide(seq, before)
            return
        compared = Compared(
            person=request.principal.id,
            resource=request.resource.id,
            action=request.action,
            before=before,
            after=after,
        )
        self._tell(seq, compared)
        engines = (self.candidate,) if is_ours else (self.candidate, self.active)
        # Asked of the policy over these entities: without them, groups have nobody.
        over = [one.over(digest, None) for one in engines]
        if not any(one is None or one.reads(request, VOLATILE) for one in over):
            asked.compared, asked.is_same, asked.text = compared, compared.is_same, ""

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


def _request_of(sides: Any, entry: Any) -> AccessRequest:
    """The request; its values are checked by the vocabulary before anything is decided."""
    who, what = sides["principal"], sides["resource"]
    return AccessRequest(
        request_kind=entry["action"],
        principal=EntityUid(who["type"], who["id"]),
        action=entry["cedar_action"],
        resource=EntityUid(what["type"], what["id"]),
        context=entry["context"],
    )


if __name__ == "__main__":
    sys.exit(main())

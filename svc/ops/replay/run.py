"""Decides the requests of a stretch of the log again, and states what came out.

The store is read directly, a part at a time, over a snapshot each: records that are
there change no more.  The child has nothing but what it is given, and this process
parses no candidate; both take memory that does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from attrs import frozen

from svc.model.audit.record import rfc3339
from svc.model.canonical import encode
from svc.ops.replay.process import ReplayProcess
from svc.ops.replay.reading import RecordedRequestReader, ReplayCoverage
from svc.ops.replay.span import ReplaySpan, stretch
from svc.ops.store import StorePlace
from svc.policy.prescan import PolicyLimits, check_size
from svc.policy.replay.lines import ReplayJob
from svc.policy.vocabulary import Vocabulary

FORM = "svc-policy-replay-v1"
TURN = 8192
"""Records that are read over one snapshot."""


@frozen
class Replayed:
    """What a replay found.

    Attributes:
        statement: What its digest covers.
        found: As ``ReplayTally.form`` tells it, and the candidate's policies that decided nothing.
    """

    span: ReplaySpan
    statement: Mapping[str, Any]
    found: Mapping[str, Any]
    coverage: ReplayCoverage

    @property
    def digest(self) -> str:
        """SHA-256 over the statement, in hex."""
        return sha256(encode(dict(self.statement))).hexdigest()


def replay(place: StorePlace, job: ReplayJob, vocabulary: Vocabulary, span: ReplaySpan) -> Replayed:
    """Decide the requests of *span* again; blocks.

    Raises:
        PolicyRefused: the candidate is refused, or took too long, or ended its process.
        AuditBroken: the records are not a chain.
        StoreUnavailable: the store cannot be read.
    """
    limits = PolicyLimits()
    check_size(job.text, limits)
    first, last = place.look("policy replay", lambda tx: stretch(tx, span))
    reader = RecordedRequestReader(place, span)
    with ReplayProcess() as child:
        child.send(job.line(vocabulary, limits))
        for start in range(first, last + 1, TURN):
            reader.give(start, min(start + TURN - 1, last), child.send)
        found = child.ended()
    statement = {
        "form": FORM,
        "policy_digest": sha256(job.text.encode()).hexdigest(),
        "parent_digest": sha256(job.active.encode()).hexdigest(),
        "schema_digest": vocabulary.digest,
        "since": rfc3339(span.since),
        "until": None if span.until is None else rfc3339(span.until),
        "first_n": first,
        "last_n": last,
        "last_hash": reader.last_hash.hex(),
        "requests": reader.coverage.requests,
        "decided": found["decided"],
        "changed": found["changed"],
        "undecidable": found["undecidable"],
        "changes_digest": found["changes_digest"],
    }
    return Replayed(span=span, statement=statement, found=found, coverage=reader.coverage)

"""Decides the requests of a stretch of the log again, and states what came out.

The store is read directly, a part at a time, over a snapshot each: records that are
there change no more.  What decides has nothing but what it is given, and what reads
parses no candidate; all take memory that does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from attrs import frozen

from svc.model.audit.record import rfc3339
from svc.model.canonical import encode
from svc.ops.replay.coverage import ReplayCoverage
from svc.ops.replay.span import ReplaySpan, stretch
from svc.ops.replay.workers import TURN, ReplayJoin, ReplayStretch, replay_workers
from svc.ops.store import StorePlace
from svc.ops.turns import cores
from svc.policy.prescan import PolicyLimits, check_size
from svc.policy.replay.lines import ReplayJob
from svc.policy.vocabulary import Vocabulary

FORM = "svc-policy-replay-v1"


@frozen
class Replayed:
    """What a replay found.

    Attributes:
        statement: What its digest covers.
        found: As ``ReplayTotals.form`` tells it, and the candidate's policies that decided nothing.
    """

    span: ReplaySpan
    statement: Mapping[str, Any]
    found: Mapping[str, Any]
    coverage: ReplayCoverage

    @property
    def digest(self) -> str:
        """SHA-256 over the statement, in hex."""
        return sha256(encode(dict(self.statement))).hexdigest()


def replay(
    place: StorePlace,
    job: ReplayJob,
    vocabulary: Vocabulary,
    span: ReplaySpan,
    *,
    jobs: int = 0,
    turn: int = TURN,
) -> Replayed:
    """Decide the requests of *span* again; blocks.

    Args:
        jobs: How many pairs of processes read and decide; 0: one for each core.
        turn: How many records one of them reads at a time.

    Raises:
        PolicyRefused: the candidate is refused, or took too long, or ended its process.
        AuditBroken: the records are not a chain.
        StoreUnavailable: the store cannot be read.
        SvcError: ``replay_interrupted``: a process that reads was ended.
    """
    limits = PolicyLimits()
    check_size(job.text, limits)
    first, last = place.look("policy replay", lambda tx: stretch(tx, span))
    whole = ReplayStretch(place=place, span=span, first=first, last=last, length=turn)
    join = ReplayJoin(whole)
    with replay_workers(whole, job.line(vocabulary, limits), jobs or cores()) as workers:
        join.join(workers)
    found = join.totals.form()
    statement = {
        "form": FORM,
        "policy_digest": sha256(job.text.encode()).hexdigest(),
        "parent_digest": sha256(job.active.encode()).hexdigest(),
        "schema_digest": vocabulary.digest,
        "since": rfc3339(span.since),
        "until": None if span.until is None else rfc3339(span.until),
        "first_n": first,
        "last_n": last,
        "last_hash": join.last_hash.hex(),
        "requests": join.coverage.requests,
        "decided": found["decided"],
        "changed": found["changed"],
        "undecidable": found["undecidable"],
        "changes_digest": found["changes_digest"],
    }
    return Replayed(span=span, statement=statement, found=found, coverage=join.coverage)

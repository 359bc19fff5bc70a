"""Recorded requests decided again by a policy that changes one of them.

A log of statements, in batches as gated sessions leave them, in a SQLite file;
*distinct* are all of other facts, *repeated* one in ten.  The peer
is bare Cedar: the same requests asked of the same policies and entities, parsed
beforehand.  Memory is what the largest child needed at most, of a short log and of the whole.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

from cedarpy import Entities, PolicySet, is_authorized

from contrib.bench.request_log import (
    BEGIN,
    ENTRIES,
    PEOPLE,
    WORDS,
    entities,
    log_of,
    statement,
    table_of,
)
from contrib.bench.rows import Goal, Row, less_is_better, more_is_better
from svc.model.policy.access import context_form
from svc.ops.replay.run import Replayed, replay
from svc.ops.replay.span import ReplaySpan
from svc.ops.store import StorePlace
from svc.policy.entities import cedar_json
from svc.policy.evaluation import parse_schema
from svc.policy.replay.lines import ReplayJob

_SHORT = 20_000
_ACTIVE = "\n".join(
    [
        f'@id("team-{n}")'
        f' permit (principal in Group::"g{n}", action == Action::"dbQuery", resource)'
        ' when { context has effects && context.effects.contains("read") };'
        for n in range(100)
    ]
)
_DISTINCT, _REPEATED = Goal(value=5_000), Goal(value=20_000)


def candidate(at: int) -> str:
    """The active policy, and one more that denies statement *at*."""
    return (
        f'{_ACTIVE}\n@id("not-this") forbid (principal, action == Action::"dbQuery", resource)'
        f' when {{ context has tables_read && context.tables_read.contains("{table_of(at)}") }};'
    )


def rows(directory: Path, records: int) -> list[Row]:
    """Rates of a log of distinct and of one of repeated requests, and the memory they took."""
    found: list[Row] = []
    most: list[int] = []
    for name, share, goal in (("distinct", 1, _DISTINCT), ("9 of 10 repeated", 10, _REPEATED)):
        log = log_of(directory / f"{share}.db", records, share)
        if not most:
            timed(log, ReplaySpan(0.0, last=PEOPLE + min(_SHORT, records) // ENTRIES))
            most.append(_peak())
        took, done = timed(log, ReplaySpan(0.0))
        assert done.found["changed"] == share, done.found["changed"]
        found.append(
            more_is_better(
                f"policy replay, {name}", records / took, "requests/s", "bare Cedar", _bare(), goal
            )
        )
    most.append(_peak())
    short, whole = (kib / 1024 for kib in most)
    found.append(
        less_is_better("policy replay, memory", whole, "MiB", f"of {_SHORT} requests", short)
    )
    return found


def timed(log: StorePlace, span: ReplaySpan) -> tuple[float, Replayed]:
    """How long a replay took, and what it found."""
    job = ReplayJob(text=candidate(_SHORT // 2), active=_ACTIVE, active_version=1)
    began = time.perf_counter()
    done = replay(log, job, WORDS, span)
    return time.perf_counter() - began, done


def _peak() -> int:
    """KiB that a child needed at most."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def _bare() -> float:
    """Requests a second that Cedar decides with everything parsed, one after another."""
    policies = PolicySet.from_str(candidate(_SHORT // 2))
    known = Entities.from_json_str(cedar_json(entities(1)), parse_schema(WORDS))
    request = statement(1, BEGIN, table_of(1))
    asked = {
        "principal": request.principal.form(),
        "action": {"type": "Action", "id": request.action},
        "resource": request.resource.form(),
        "context": context_form(request.context),
    }
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        is_authorized(asked, policies, known)
        count += 1
    return count / (time.perf_counter() - began)

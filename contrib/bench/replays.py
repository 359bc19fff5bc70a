"""Recorded requests decided again by a policy that changes one of them.

A log of statements, each by one of a thousand people on one of a hundred databases,
in a SQLite file; *distinct* are all of other facts, *repeated* one in ten.  The peer
is bare Cedar: the same requests asked of the same policies and entities, parsed
beforehand.  Memory is what the child needed at most, of a short log and of the whole.
"""

from __future__ import annotations

import resource
import sqlite3
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from cedarpy import Entities, PolicySet, is_authorized

from contrib.bench.rows import Goal, Row, less_is_better, more_is_better
from svc.audit.log.record import seal
from svc.model.audit.events import SESSION_START
from svc.model.audit.record import GENESIS, Actor, AuditRecord, SealedRecord, chain_hash
from svc.model.policy.access import AccessRequest, Entity, EntityUid
from svc.ops.replay.run import Replayed, replay
from svc.ops.replay.span import ReplaySpan
from svc.ops.store import StorePlace
from svc.plugins.store_sqlite import store_sqlite
from svc.policy.engine import parse_schema
from svc.policy.entities import (
    GroupFacts,
    PersonFacts,
    ResourceFacts,
    cedar_json,
    entity_of,
    slice_digest,
)
from svc.policy.replay.lines import ReplayJob
from svc.policy.vocabulary import vocabulary

_PEOPLE, _DATABASES = 1_000, 100
_BEGIN = 1_900_000_000.0
_SHORT = 20_000
_WORDS = vocabulary()
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
    """The active policy, and one more that denies the statement of record *at*."""
    return (
        f'{_ACTIVE}\n@id("not-this") forbid (principal, action == Action::"dbQuery", resource)'
        f' when {{ context has fingerprint && context.fingerprint == "{_fingerprint(at)}" }};'
    )


def rows(directory: Path, records: int) -> list[Row]:
    """Rates of a log of distinct and of one of repeated requests, and the memory they took."""
    found: list[Row] = []
    most: list[int] = []
    for name, share, goal in (("distinct", 1, _DISTINCT), ("9 of 10 repeated", 10, _REPEATED)):
        log = log_of(directory / f"{share}.db", records, share)
        if not most:
            timed(log, ReplaySpan(0.0, last=min(_SHORT, records)))
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
    job = ReplayJob(text=candidate(_SHORT // 2), active=_ACTIVE, active_version=1, rows=0)
    began = time.perf_counter()
    done = replay(log, job, _WORDS, span)
    return time.perf_counter() - began, done


def _peak() -> int:
    """KiB that a child needed at most."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def _fingerprint(at: int) -> str:
    return sha256(at.to_bytes(8, "big")).hexdigest()[:32]


def _entities(n: int) -> tuple[Entity, ...]:
    person, database = n * 7919 % _PEOPLE, n % _DATABASES
    groups = tuple(f"g{(person + more) % 100}" for more in (0, 1, 2))
    return (
        entity_of(PersonFacts(f"u{person}", f"name{person}", groups)),
        *(entity_of(GroupFacts(group)) for group in groups),
        entity_of(
            ResourceFacts(
                id=f"d{database}", entity_type="Database", kind="db", labels={"env": "prod"}
            )
        ),
    )


_ID, _PRINT, _NOW = "1" * 32, "f" * 32, 8_888_888_888
"""What stands in a form for a record's number, a statement's fingerprint, and its time."""


def _form(pair: int) -> SealedRecord:
    """A record of this person and database, sealed once: every other differs in its numbers."""
    request = _request(pair)
    facts = {fact.name: fact for fact in _WORDS.terms.facts}
    return seal(_record(request, slice_digest(_entities(pair))), lambda size: bytes(size), facts)


def _numbered(canonical: bytes, n: int, share: int) -> bytes:
    print_of = _fingerprint(n // share * share)
    for old, new in ((_ID, f"{n:032x}"), (_PRINT, print_of), (str(_NOW), f"19{n:08d}")):
        canonical = canonical.replace(old.encode(), new.encode())
    return canonical


def _request(pair: int) -> AccessRequest:
    person, database = pair * 7919 % _PEOPLE, pair % _DATABASES
    return AccessRequest(
        request_kind="db_query",
        principal=EntityUid("User", f"u{person}"),
        action="dbQuery",
        resource=EntityUid("Database", f"d{database}"),
        context={
            "now": _NOW,
            "hour": 9,
            "effects": ("read",),
            "objects": ("public.orders", f"public.t{pair % 50}"),
            "fingerprint": _PRINT,
            "proxy_reported": {"source_address": "192.0.2.7"},
        },
    )


def log_of(file: Path, count: int, share: int) -> StorePlace:
    """A store on disk whose log has so many requests."""
    url = f"sqlite://{file.absolute()}"
    store_sqlite.migrate(url, "bench", lambda: _BEGIN, time.monotonic)
    forms = [_form(pair) for pair in range(_PEOPLE)]

    def links() -> Iterator[tuple[int, bytes, bytes, str]]:
        last = GENESIS
        for n in range(1, count + 1):
            canonical = _numbered(forms[n // share % _PEOPLE].canonical, n, share)
            before, last = last, chain_hash(n, last, canonical)
            yield n, before, last, canonical.decode()

    def values() -> Iterator[tuple[int, str, bytes, str]]:
        for n in range(1, count + 1):
            for one in forms[n // share % _PEOPLE].personal:
                yield n, one.path, one.salt, one.value

    with sqlite3.connect(file) as kept:
        kept.executemany(
            "INSERT INTO audit_log (seq, prev_hash, hash, canonical) VALUES (?, ?, ?, ?)", links()
        )
        kept.executemany(
            "INSERT INTO personal_values (seq, path, salt, value) VALUES (?, ?, ?, ?)",
            values(),
        )
        slices = {slice_digest(one): cedar_json(one) for one in map(_entities, range(_PEOPLE))}
        kept.executemany("INSERT INTO entity_slices (digest, text) VALUES (?, ?)", slices.items())
    kept.close()
    return StorePlace(store_sqlite, url)


def _record(request: AccessRequest, digest: str) -> AuditRecord:
    return AuditRecord(
        event_id="01ba60d3-3800-7b86-b273-000000000000",
        time=_BEGIN,
        event=SESSION_START,
        actor=Actor("person", request.principal.id),
        origin="a" * 26,
        resource_id=request.resource.id,
        resource_kind="db",
        session_uid=_ID,
        action="db_query",
        cedar_action="dbQuery",
        decision="allow",
        decision_id=_ID,
        policies=("team-1",),
        policy_version=1,
        request=request,
        entities_digest=digest,
    )


def _bare() -> float:
    """Requests a second that Cedar decides with everything parsed, one after another."""
    policies = PolicySet.from_str(candidate(_SHORT // 2))
    entities = Entities.from_json_str(cedar_json(_entities(1)), parse_schema(_WORDS))
    request = _request(1)
    asked = {
        "principal": request.principal.form(),
        "action": {"type": "Action", "id": request.action},
        "resource": request.resource.form(),
        "context": {"effects": ["read"], "fingerprint": _fingerprint(1)},
    }
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 0.5:
        is_authorized(asked, policies, entities)
        count += 1
    return count / (time.perf_counter() - began)

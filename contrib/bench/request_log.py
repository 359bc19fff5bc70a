"""A log of statements as gated sessions leave it, written once: batches of a Proxy, chained.

Each of a thousand people has a session with one of a hundred databases.  What is written is what
Authority's drain writes: entries sealed by the code of a Proxy, in rows that it signed, with the
texts beside them; only the way through spool and outbox is left out.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from svc.audit.log.record import Sealer, seal
from svc.audit.spool.entry.forms import seal_request
from svc.audit.spool.rows import RowMaker
from svc.kinds.postgres.terms import DATABASE, QUERY, ROLE, TERMS
from svc.model.audit.decision_ids import DecisionIds
from svc.model.audit.events import SESSION_START
from svc.model.audit.record import GENESIS, Actor, AuditRecord, SealedRecord, chain_hash
from svc.model.audit.request import RequestRecord, SessionNumbers
from svc.model.audit.spool import SpoolPlace, SpoolRow, row_hash
from svc.model.ids import event_id, random_id
from svc.model.policy.access import AccessRequest, Entity, EntityUid
from svc.model.policy.requests import context_at
from svc.ops.store import StorePlace
from svc.plugins.store_sqlite import store_sqlite
from svc.policy.entities import (
    GroupFacts,
    PersonFacts,
    ResourceFacts,
    cedar_json,
    entity_of,
    slice_digest,
)
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary

PEOPLE, DATABASES = 1_000, 100
WORDS = vocabulary(kind_terms(TERMS))
BEGIN = 1_900_000_000.0
ENTRIES = 128
"""Of a batch: as many as its texts have room for."""

_ORIGIN = "p" * 26
_SESSION = (
    "INSERT INTO sessions (uid, person_id, resource_id, kind, connector_id, proxy_id, decision_id,"
    " started_at, state, end_reason, bytes_up, bytes_down)"
    " VALUES (?, ?, ?, 'postgres', ?, ?, ?, ?, 'open', '', 0, 0)"
)


def entities(n: int) -> tuple[Entity, ...]:
    """What a decision about this person and their database looks at."""
    groups = tuple(f"g{(n + more) % 100}" for more in (0, 1, 2))
    database = ResourceFacts(
        id=f"d{n % DATABASES}", entity_type="Database", kind="postgres", labels={"env": "prod"}
    )
    return (
        entity_of(PersonFacts(f"u{n}", f"name{n}", groups)),
        *(entity_of(GroupFacts(group)) for group in groups),
        entity_of(database),
    )


def statement(person: int, at: float, table: str) -> AccessRequest:
    """A SELECT."""
    facts = {"effects": ("read",), "functions": ("count",), "schemas": ("sales",)}
    tables = {"objects": (table,), "tables_read": (table,), "tables_written": ()}
    return AccessRequest(
        request_kind="db_query",
        principal=EntityUid("User", f"u{person}"),
        action=QUERY,
        resource=EntityUid("Database", f"d{person % DATABASES}"),
        context=context_at(at, "192.0.2.7", {DATABASE: "shop", ROLE: "app"}) | facts | tables,
    )


def table_of(n: int) -> str:
    """What only the *n*-th statement, and its repetitions, read."""
    return f"sales.orders_{n}"


@define
class RequestLog:
    """Makes the rows, batch after batch.

    Attributes:
        share: Each statement is made so many times.
    """

    share: int
    now: float = BEGIN
    ids: DecisionIds = field(init=False)
    sessions: list[SessionNumbers] = field(init=False)
    digests: list[str] = field(init=False)
    _maker: RowMaker = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.ids = DecisionIds(_ORIGIN, lambda: self.now, os.urandom)
        self.sessions = [SessionNumbers(random_id(os.urandom)) for _ in range(PEOPLE)]
        self.digests = [slice_digest(entities(n)) for n in range(PEOPLE)]
        self._maker = RowMaker(
            origin=_ORIGIN,
            key=Ed25519PrivateKey.generate(),
            sealer=Sealer(os.urandom, {fact.name: fact for fact in WORDS.terms.facts}),
            now=lambda: self.now,
            entropy=os.urandom,
        )

    def rows(self, count: int) -> Iterator[SpoolRow]:
        """The row of each batch."""
        spool_id, tip = random_id(os.urandom), GENESIS
        for number, first in enumerate(range(0, count, ENTRIES), 1):
            sealed = [
                seal_request(self._record(n), os.urandom, self._maker.sealer.facts)
                for n in range(first, min(first + ENTRIES, count))
            ]
            numbers: dict[SessionNumbers, int] = {}
            row = self._maker.batch(sealed, SpoolPlace(spool_id, number, tip), numbers)
            for session, last in numbers.items():
                session.last = last
            tip = row_hash(row.canonical)
            yield row

    def _record(self, n: int) -> RequestRecord:
        self.now += 0.001
        what = n // self.share
        person = what * 7919 % PEOPLE
        return RequestRecord(
            numbers=self.sessions[person],
            time=self.now,
            request=statement(person, self.now, table_of(what)),
            decision="allow",
            decision_id=self.ids.next(),
            policies=(f"team-{person % 100}",),
            policy_version=1,
            entities_digest=self.digests[person],
        )


def log_of(file: Path, count: int, share: int) -> StorePlace:
    """A store on disk whose log has so many requests, which a file of that name is or becomes."""
    url = f"sqlite://{file.absolute()}"
    if not file.exists():
        store_sqlite.migrate(url, "bench", lambda: BEGIN, time.monotonic)
        made = RequestLog(share)
        with sqlite3.connect(file) as kept:
            _write(kept, made, count)
        kept.close()
    return StorePlace(store_sqlite, url)


def _write(kept: sqlite3.Connection, made: RequestLog, count: int) -> None:
    last = GENESIS
    rows: Iterator[SealedRecord | SpoolRow] = chain(_openings(kept, made), made.rows(count))
    for n, row in enumerate(rows, 1):
        before, last = last, chain_hash(n, last, row.canonical)
        kept.execute(
            "INSERT INTO audit_log (seq, prev_hash, hash, canonical, signature)"
            " VALUES (?, ?, ?, ?, ?)",
            (n, before, last, row.canonical.decode(), getattr(row, "signature", None)),
        )
        kept.executemany(
            "INSERT INTO personal_values (seq, path, salt, value) VALUES (?, ?, ?, ?)",
            [(n, one.path, one.salt, one.value) for one in row.personal],
        )
    slices = {slice_digest(one): cedar_json(one) for one in map(entities, range(PEOPLE))}
    kept.executemany("INSERT INTO entity_slices (digest, text) VALUES (?, ?)", slices.items())


def _openings(kept: sqlite3.Connection, made: RequestLog) -> Iterator[SealedRecord]:
    """The record of each session's opening, which says whose it is; its row leads there."""
    for person, one in enumerate(made.sessions):
        database, decision_id = f"d{person % DATABASES}", random_id(os.urandom)
        ids = f"u{person}", database, "c" * 26, _ORIGIN, decision_id
        kept.execute(_SESSION, (one.session_uid, *ids, BEGIN))
        record = AuditRecord(
            event_id=event_id(BEGIN, os.urandom),
            time=BEGIN,
            event=SESSION_START,
            actor=Actor("person", f"u{person}"),
            origin="a" * 26,
            session_uid=one.session_uid,
            resource_id=database,
            resource_kind="postgres",
            decision="allow",
            decision_id=decision_id,
        )
        yield seal(record, os.urandom)

"""A process that drains: ``draining URL COUNT [batches]`` prints drained and appended a second.

The rows are requests that a Proxy decided, signed by it, one each or in batches; the same bytes are
then appended as the leader's own, as many to a transaction.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from contrib.bench.requesting import SESSIONS, request
from svc.audit.ingest.requests import GatedKind
from svc.audit.ingest.validate import may_write_with
from svc.audit.log.kind_events import kind_events
from svc.audit.log.record import Sealer
from svc.audit.spool.entry.forms import seal_request
from svc.audit.spool.rows import RowMaker
from svc.audit.state.in_force import StateLedger
from svc.authority.ingest.drain import BATCH, QueueConsumer
from svc.authority.ingest.origins import OriginKeys
from svc.authority.ingest.signatures import SignaturesApart
from svc.authority.state.adopt import adopt
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, operator, person
from svc.compose.authority.state import origin_key
from svc.interfaces.kinds import KindEvent
from svc.interfaces.store import IStore, ITransaction, StoreNeeds
from svc.model.audit.decision_ids import DecisionIds
from svc.model.audit.events import SESSION_START
from svc.model.audit.ledger import GENESIS
from svc.model.audit.outbox import Offered
from svc.model.audit.record import Actor, AuditRecord, chain_hash
from svc.model.audit.request import SessionNumbers
from svc.model.audit.spool import SpoolPlace, SpoolRow, row_hash
from svc.model.cluster.node import Leaf, Node
from svc.model.cluster.person import Person
from svc.model.ids import event_id, random_id
from svc.model.session.session import Session
from svc.pki.audit_signatures import origin_verifier
from svc.pki.root import make_cluster
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.policy.vocabulary import vocabulary
from svc.runtime.apart import WorkApart
from svc.runtime.heap import settle_heap
from svc.runtime.threads import in_pool
from tests.support.nothing import nothing

_CLUSTER = "bench.example"
_NOTED = kind_events("tcp", {"tcp.odd": KindEvent("something odd", {"size": "number public"})})
_MAY_WRITE = may_write_with(
    _NOTED.values(), {"tcp": GatedKind("TcpService", {"tcpConnect": "connect"})}
)
"""What a gate notes is a row of its own; batches of requests are the rows that are written most."""

_ORIGIN, _LEADER, _PERSON = "p" * 26, "a" * 26, "b" * 26


async def _measure(reactor: Any, url: str, count: int, *, batches: bool) -> None:
    needs = StoreNeeds(
        clock=reactor, now=time.time, call_from_thread=reactor.callFromThread, chain_hash=chain_hash
    )
    factory = store_sqlite if url.startswith("sqlite:") else store_postgresql
    store = factory.open(url, needs)
    keys = make_cluster(_CLUSTER, time.time, os.urandom)
    sealer = Sealer(os.urandom, {fact.name: fact for fact in vocabulary().terms.facts})
    ledger = StateLedger(origin_verifier(keys.root_der, _CLUSTER))
    recorder = Recorder(
        origin=_LEADER,
        sealer=sealer,
        now=time.time,
        entropy=os.urandom,
        ledger=ledger,
        key=origin_key(keys),
    )
    key = ed25519.Ed25519PrivateKey.generate()
    await store.run("register", lambda tx: _register(tx, recorder, key))
    state_cache = ClusterStateCache(store, ledger, time.time, advanced=nothing)
    await state_cache.refresh()
    maker = RowMaker(origin=_ORIGIN, key=key, sealer=sealer, now=time.time, entropy=os.urandom)
    rows = await (_batches if batches else _made)(store, recorder, maker, count)
    for start in range(0, len(rows), BATCH):
        await store.run("queue", partial(_queue, rows[start : start + BATCH]))
    apart = WorkApart(reactor=reactor, clock=reactor)
    drain = QueueConsumer(
        store=store,
        recorder=recorder,
        keys=OriginKeys(state_cache),
        now=time.time,
        held=lambda _: None,
        may_write=_MAY_WRITE,
        in_thread=in_pool(reactor),
        signatures=SignaturesApart(apart, time.monotonic),
    )
    settle_heap(reactor).join()  # as a role does when it has started
    begun = time.monotonic()
    await drain.drain()
    drained = count / (time.monotonic() - begun)
    left = (await store.read("left", lambda tx: tx.outbox.counts())).rows
    assert not left, f"{left} rows were not drained"
    appended = await _appended(store, [one.row for one in rows]) * count / len(rows)
    await apart.stop()
    await store.close()
    print(drained, appended)


def _queue(rows: Sequence[Offered], tx: ITransaction) -> None:
    tx.outbox.add(rows, time.time())


async def _appended(store: IStore, rows: Sequence[SpoolRow]) -> float:
    begun = time.monotonic()
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]

        def append(tx: ITransaction, part: Sequence[SpoolRow] = part) -> None:
            for row in part:
                tx.audit.append(row.canonical, row.personal)

        await store.run("append", append)
    return len(rows) / (time.monotonic() - begun)


def _register(tx: ITransaction, recorder: Recorder, key: ed25519.Ed25519PrivateKey) -> None:
    public, leaf = key.public_key().public_bytes_raw(), Leaf("01", bytes(32), 9e9)
    tx.nodes.register(
        Node(
            id=_ORIGIN,
            name="edge1",
            role="proxy",
            key_sha256=bytes(32),
            audit_key=public,
            leaf=leaf,
            enrolled_at=1.0,
        )
    )
    tx.people.add(Person(_PERSON, "ada", salt=os.urandom(16)), 1.0)
    adopt(tx, recorder, operator(0), time.time())


async def _made(store: IStore, recorder: Recorder, maker: RowMaker, count: int) -> list[Offered]:
    [session] = await _opened(store, recorder, 1)
    spool_id, tip, rows = random_id(os.urandom), GENESIS, list[Offered]()
    record = maker.opening(spool_id, ())
    for n in range(1, count + 1):
        row = maker.row(record, SpoolPlace(spool_id, n, tip))
        rows.append(Offered(row=row, origin=_ORIGIN, spool_id=spool_id, n=n))
        tip = row_hash(row.canonical)
        record = _note(session)
    return rows


async def _opened(store: IStore, recorder: Recorder, count: int) -> list[SessionNumbers]:
    """Sessions that were granted to the Proxy."""
    sessions = [SessionNumbers(random_id(os.urandom)) for _ in range(count)]

    def open_all(tx: ITransaction) -> None:
        for one in sessions:
            decision_id = random_id(os.urandom)
            tx.sessions.insert(
                Session(
                    uid=one.session_uid,
                    person_id=_PERSON,
                    resource_id="db1",
                    kind="tcp",
                    connector_id="c" * 26,
                    proxy_id=_ORIGIN,
                    decision_id=decision_id,
                    started_at=time.time(),
                )
            )
            recorder.append(
                tx,
                SESSION_START,
                person(_PERSON),
                session_uid=one.session_uid,
                resource_id="db1",
                resource_kind="tcp",
                decision_id=decision_id,
                details={"proxy_id": _ORIGIN},
            )

    await store.run("sessions", open_all)
    return sessions


async def _batches(store: IStore, recorder: Recorder, maker: RowMaker, count: int) -> list[Offered]:
    """As one commit of a hundred sessions makes them, a request of each."""
    sessions = await _opened(store, recorder, SESSIONS)
    spool_id, ids = random_id(os.urandom), DecisionIds(_ORIGIN, time.time, os.urandom)
    first = maker.row(maker.opening(spool_id, ()), SpoolPlace(spool_id, 1, GENESIS))
    rows = [Offered(row=first, origin=_ORIGIN, spool_id=spool_id, n=1)]
    for n in range(2, count // SESSIONS + 2):
        sealed = [
            seal_request(request(one, ids), maker.sealer.entropy, maker.sealer.facts)
            for one in sessions
        ]
        place = SpoolPlace(spool_id, n, row_hash(rows[-1].row.canonical))
        numbers: dict[SessionNumbers, int] = {}
        row = maker.batch(sealed, place, numbers)
        for session, last in numbers.items():
            session.last = last
        rows.append(Offered(row=row, origin=_ORIGIN, spool_id=spool_id, n=n))
    return rows


def _note(session: SessionNumbers) -> AuditRecord:
    at = time.time()
    return AuditRecord(
        event_id=event_id(at, os.urandom),
        time=at,
        event=_NOTED["tcp.odd"],
        actor=Actor("person", _PERSON),
        origin=_ORIGIN,
        resource_id="db1",
        resource_kind="tcp",
        session_uid=session.session_uid,
        details={"size": 7, "proxy_id": _ORIGIN, "source_address": "192.0.2.7"},
    )


if __name__ == "__main__":
    _url, _rows = sys.argv[1], int(sys.argv[2])
    _batched = sys.argv[3:] == ["batches"]
    react(lambda r: Deferred.fromCoroutine(_measure(r, _url, _rows, batches=_batched)))

"""The audit log as an outsider reads it: verified, exported, and an export verified.

Of records as a session's start leaves them, with two personal values each, in
a SQLite file that the kernel has in memory.  The peer reads the same rows from
SQLite and hashes each twice, as anybody must who verifies a chain and a tree.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve

from contrib.bench.rows import NO_GOAL, Goal, Row, more_is_better
from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.checkpoint.head import NO_HEAD, AnchorKey, sign_head
from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.audit.log.export import head_line, json_lines
from svc.audit.log.record import seal
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import SESSION_START
from svc.model.audit.ledger import EntitySlice
from svc.model.audit.record import Actor, AuditRecord, Head, chain_hash, rfc3339
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.signing import Purpose
from svc.ops.store import StorePlace
from svc.ops.turns import cores, uncollected
from svc.ops.verify.log import OutsideLog
from svc.pki.audit_signatures import head_verifier, origin_verifier
from svc.pki.root import make_cluster
from svc.plugins.store_sqlite import store_sqlite
from svc.policy.entities import cedar_json, slice_digest
from svc.policy.vocabulary import vocabulary
from svc.store.sqlite.memory import memory_store

_RECORDS = 50_000
_CLUSTER = "bench.example"
_BEGIN = 1_900_000_000.0
_HEAD_EVERY = 256
_GOAL = Goal(value=100_000)
_TOLD = Goal(value=30_000)
_PROGRAM = Path(__file__).parents[1] / "verify_audit.py"


def rows(directory: Path) -> list[Row]:
    """Verified, with and without personal values; exported; an export verified."""
    file = directory / "store.db"
    log = _log(file, directory / "audit")
    bare = _bare(log)
    peer = _rate(lambda: _read(bare))
    export = directory / "export.jsonl"
    one, whole = (_rate(partial(log.verified, jobs=jobs)) for jobs in (1, cores()))
    exported = _rate(lambda: _export(log, export))
    audited = _rate(lambda: _audited(log, export))
    _erase(file)
    erased = _rate(lambda: log.verified(jobs=cores()))
    return [
        more_is_better(name, rate, "records/s", "SQLite and SHA-256 alone", peer, goal)
        for name, rate, goal in (
            ("audit verify", whole, _GOAL),
            ("audit verify, one process", one, NO_GOAL),
            ("audit verify, personal values erased", erased, _GOAL),
            ("audit export", exported, _TOLD),
            ("contrib/verify_audit.py", audited, _TOLD),
        )
    ]


def _rate(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return _RECORDS / (time.perf_counter() - began)


def _log(file: Path, directory: Path) -> OutsideLog:
    entropy = _entropy()
    keys = make_cluster(_CLUSTER, lambda: _BEGIN, entropy)
    signer = keys.signer(Purpose.AUDIT_HEAD)
    key = AnchorKey(lambda data: signer(data).signature, signer(b"").chain)
    store, keeper = memory_store(chain_hash), AnchorDirectory(directory)
    facts = {fact.name: fact for fact in vocabulary().terms.facts}
    tree, head = (
        Tree(),
        Head(
            cluster=_CLUSTER,
            log_id=_CLUSTER,
            tree_size=0,
            root=bytes(32),
            last_hash=bytes(32),
            time=rfc3339(_BEGIN),
            lease_epoch=1,
            leader="a" * 26,
            previous_head_hash=NO_HEAD,
            key_id=key.key_id,
        ),
    )

    def append(tx: ITransaction) -> None:
        nonlocal head
        for n in range(1, _RECORDS + 1):
            sealed = seal(_record(n), entropy, facts)
            row = tx.audit.append(sealed.canonical, sealed.personal, _ENTITIES)
            tree.append(leaf_hash(row.canonical))
            if n % _HEAD_EVERY == 0 or n == _RECORDS:
                head = evolve(head, tree_size=n, root=tree.root, last_hash=row.hash)
                signed = sign_head(head, key, tree.edge)
                keeper.keep(signed)
                head = evolve(head, previous_head_hash=signed.hash)

    _at_once(store.run("fill", append))
    url = f"sqlite://{file.absolute()}"
    store_sqlite.migrate(url, "bench", lambda: _BEGIN, time.monotonic)
    with sqlite3.connect(file) as kept:
        _copy(store, kept)
    place = StorePlace(store_sqlite, url)
    origins = origin_verifier(keys.root_der, _CLUSTER)
    verify_head = head_verifier(keys.root_der, _CLUSTER)
    return OutsideLog(
        store=place, keeper=keeper, verify_head=verify_head, cluster=_CLUSTER, origins=origins
    )


def _copy(store: IStore, kept: sqlite3.Connection) -> None:
    """The log from memory into a file."""
    log = _at_once(store.read("rows", lambda tx: tx.audit.rows(1, _RECORDS)))
    values = _at_once(store.read("values", lambda tx: tx.audit.personal(1, _RECORDS)))
    kept.executemany(
        "INSERT INTO audit_log (seq, prev_hash, hash, canonical) VALUES (?, ?, ?, ?)",
        [(row.seq, row.prev_hash, row.hash, row.canonical.decode()) for row in log],
    )
    kept.executemany(
        "INSERT INTO personal_values (seq, path, salt, value) VALUES (?, ?, ?, ?)",
        [(seq, one.path, one.salt, one.value) for seq, found in values.items() for one in found],
    )
    kept.execute(
        "INSERT INTO entity_slices (digest, text) VALUES (?, ?)", (_ENTITIES.digest, _ENTITIES.text)
    )


def _entropy() -> Callable[[int], bytes]:
    drawn = iter(range(1 << 62))
    return lambda count: sha256(next(drawn).to_bytes(8, "big")).digest()[:count]


_ENTITIES = EntitySlice(slice_digest(()), cedar_json(()))
"""What each decision was made over; what is in it makes no difference here."""


def _record(n: int) -> AuditRecord:
    return AuditRecord(
        event_id=f"01ba60d3-3800-7b86-b273-{n:012x}",
        time=_BEGIN + n / 100,
        event=SESSION_START,
        actor=Actor("person", "p" * 26),
        origin="a" * 26,
        node_id="c" * 26,
        resource_id="db1",
        resource_kind="tcp",
        session_uid=f"{n:032x}",
        action="connect",
        cedar_action="tcpConnect",
        decision="allow",
        decision_id=f"{n:032x}",
        policies=("staff",),
        policy_version=3,
        catalog_version=9,
        request=AccessRequest(
            request_kind="connect",
            principal=EntityUid("User", "p" * 26),
            action="tcpConnect",
            resource=EntityUid("TcpService", "db1"),
            context={"hour": 9, "weekday": 3, "proxy_reported": {"source_address": "192.0.2.7"}},
        ),
        entities_digest=_ENTITIES.digest,
        details={"source_address": "192.0.2.7", "proxy_id": "x" * 26, "connector_id": "c" * 26},
    )


def _bare(log: OutsideLog) -> sqlite3.Connection:
    """The same rows, for the peer."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (seq INTEGER PRIMARY KEY, canonical TEXT)")
    _, lines = log.lines(0, lambda entry: [entry.row.canonical.decode()], personal=False)
    connection.executemany("INSERT INTO rows VALUES (?, ?)", enumerate(lines, 1))
    return connection


def _read(connection: sqlite3.Connection) -> None:
    """The peer: each row read, and hashed for the chain and for the tree."""
    last = bytes(32)
    for seq, canonical in connection.execute("SELECT seq, canonical FROM rows ORDER BY seq"):
        data = canonical.encode()
        last = sha256(last + seq.to_bytes(8, "big") + data).digest()
        sha256(data).digest()


def _export(log: OutsideLog, path: Path) -> None:
    head, lines = log.lines(0, json_lines, personal=True, jobs=cores())
    with path.open("w") as file, uncollected():
        for line in lines:
            file.write(line + "\n")
        file.write(head_line(head) + "\n")


def _audited(log: OutsideLog, export: Path) -> None:
    key = log.head().head.key_id
    command = [sys.executable, str(_PROGRAM), "--fingerprint", key, str(export)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _erase(file: Path) -> None:
    with sqlite3.connect(file) as kept:
        kept.execute("DELETE FROM personal_values")


def _at_once(coroutine: Any) -> Any:
    """What a store in memory answers."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a store in memory answers at once")

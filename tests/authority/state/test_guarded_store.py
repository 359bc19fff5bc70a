"""Whoever signs heads hears of the records there are, not of the transactions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.latest import LatestCheckpoint
from svc.audit.checkpoint.monitor import LogWatch
from svc.authority.state.guarded_store import LogGuardedStore
from svc.errors import AuditBroken, LeaseLost, StoreFull, StoreUnavailable, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.ledger import ChainHead
from svc.model.audit.record import chain_hash
from svc.model.cluster.lease import LeaderLease
from svc.store.sqlite.memory import memory_store
from tests.audit.logs import MemoryHeads, MemoryLog, verify_head
from tests.support.nothing import none_later, nothing, nothing_later


def guarded(store: IStore, watch: LogWatch, committed: Callable[[int], object]) -> LogGuardedStore:
    """A guarded store under a lease that is taken now; nobody is told that it is full."""
    lease = _led_by("a", store)
    return LogGuardedStore(
        store=store,
        lease=lambda: lease,
        watch=watch,
        position=watch.own,
        committed=committed,
        full=list[StoreFull]().append,
    )


class NoticingTests(SynchronousTestCase):
    """A store over another one."""

    def test_records(self) -> None:
        """It tells how many records a transaction left; nothing of one that left none or failed."""
        told: list[int] = []
        store = guarded(memory_store(chain_hash), _watch(self.mktemp(), []), told.append)

        def appending(count: int) -> Callable[[ITransaction], int]:
            def append(tx: ITransaction) -> int:
                for _ in range(count):
                    tx.audit.append(b"{}")
                return count

            return append

        def refused(tx: ITransaction) -> None:
            appending(2)(tx)
            raise SvcError("no")

        for count in (3, 0, 1):
            run = Deferred.fromCoroutine(store.run("some", appending(count)))
            self.assertEqual(self.successResultOf(run), count)
        self.failureResultOf(Deferred.fromCoroutine(store.run("refused", refused)), SvcError)
        self.assertEqual(told, [3, 1])

    def test_another_leads(self) -> None:
        """Nothing is written, and nobody is told, once another Authority took the lease."""
        told: list[int] = []
        inner = memory_store(chain_hash)
        store = guarded(inner, _watch(self.mktemp(), []), told.append)
        _led_by("b", inner)
        writing = Deferred.fromCoroutine(store.run("write", lambda tx: tx.audit.append(b"{}")))
        self.assertEqual(self.failureResultOf(writing, LeaseLost).value.leader, "b")
        head = Deferred.fromCoroutine(inner.read("head", lambda tx: tx.audit.head()))
        self.assertEqual((self.successResultOf(head), told), (ChainHead(), []))

    def test_put_back(self) -> None:
        """Nothing is written to a store that ends before what this process has written."""
        told: list[AuditBroken | None] = []
        watch = _watch(self.mktemp(), told)
        inner = memory_store(chain_hash)
        store = guarded(inner, watch, lambda records: None)
        done: list[str] = []

        def append(tx: ITransaction) -> None:
            done.append("ran")
            tx.audit.append(b"{}")

        for _ in range(3):
            self.successResultOf(Deferred.fromCoroutine(store.run("write", append)))

        def put_back(tx: Any) -> None:
            for (trigger,) in tx.audit._db.all(
                "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit_log'"
            ):
                tx.audit._db.change(f'DROP TRIGGER "{trigger}"')
            tx.audit._db.change("DELETE FROM audit_log WHERE seq > 1")

        self.successResultOf(Deferred.fromCoroutine(inner.run("put back", put_back)))
        for _ in range(2):
            failed = Deferred.fromCoroutine(store.run("write", append))
            error: Any = self.failureResultOf(failed, AuditBroken).value
            self.assertEqual(error.reason, "audit_rolled_back")
            self.assertIn("record 2 is the first that is missing", error.text)
        self.assertEqual((len(done), len(told)), (3, 2))
        last = Deferred.fromCoroutine(inner.read("last", lambda tx: tx.audit.head().seq))
        self.assertEqual(self.successResultOf(last), 1)

    def test_put_behind(self) -> None:
        """Nothing is written behind a record that came into the store otherwise."""
        told: list[AuditBroken | None] = []
        watch = _watch(self.mktemp(), told)
        inner = memory_store(chain_hash)
        store = guarded(inner, watch, lambda records: None)
        watch.own.take_over(ChainHead())

        def append(tx: ITransaction) -> None:
            tx.audit.append(b"{}")

        def lost(tx: ITransaction) -> None:
            tx.audit.append(b'{"n":1}')
            raise SvcError("undone")

        self.successResultOf(Deferred.fromCoroutine(store.run("write", append)))
        self.failureResultOf(Deferred.fromCoroutine(store.run("undone", lost)), SvcError)
        self.successResultOf(Deferred.fromCoroutine(store.run("write", append)))
        self.successResultOf(Deferred.fromCoroutine(inner.run("by SQL", append)))
        for _ in range(2):
            failed = Deferred.fromCoroutine(store.run("write", append))
            error: Any = self.failureResultOf(failed, AuditBroken).value
            self.assertEqual(error.reason, "audit_foreign_record")
            self.assertIn("record 3 was not written by this Authority", error.text)
        self.assertEqual([each and each.reason for each in told], ["audit_foreign_record"] * 2)
        last = Deferred.fromCoroutine(inner.read("last", lambda tx: tx.audit.head().seq))
        self.assertEqual(self.successResultOf(last), 3)

    def test_outcome_unknown(self) -> None:
        """A write that was committed though its caller heard otherwise is gone on from."""
        watch = _watch(self.mktemp(), [])
        inner = memory_store(chain_hash)
        watch.own.take_over(ChainHead())

        class Deaf:
            """Its answers are lost."""

            async def run(self, desc: str, fn: Callable[[ITransaction], Any]) -> Any:
                await inner.run(desc, fn)
                raise StoreUnavailable("no answer", reason="store_outcome_unknown")

        deaf: Any = Deaf()
        told: list[int] = []
        store = guarded(inner, watch, told.append)
        store.store = deaf
        writing = store.run("write", lambda tx: tx.audit.append(b"{}"))
        self.failureResultOf(Deferred.fromCoroutine(writing), StoreUnavailable)
        store.store = inner
        self.assertEqual(told, [])
        self.successResultOf(Deferred.fromCoroutine(store.run("nothing", lambda tx: None)))
        self.assertEqual(told, [1], "the record wants a head, whoever hears that it is there")
        link = self.successResultOf(
            Deferred.fromCoroutine(store.run("write", lambda tx: tx.audit.append(b"{}")))
        )
        self.assertEqual((link.seq, watch.own.known.seq), (2, 2))
        self.assertEqual(told, [1, 1])


def _led_by(owner: str, store: IStore) -> LeaderLease:
    """The lease of *store*, taken from whoever held it."""
    taken: list[LeaderLease | None] = []
    taking = store.run("lead", lambda tx: tx.lease.take(owner, f"{owner}-1", tx.lease.held()))
    Deferred.fromCoroutine(taking).addCallback(taken.append)
    [lease] = taken
    assert lease is not None
    return lease


def _watch(path: str, told: list[AuditBroken | None]) -> LogWatch:
    latest_checkpoint, clock = (
        LatestCheckpoint(
            path=Path(path), verify_head=verify_head, cluster="demo.example", log_id="log"
        ),
        Clock(),
    )
    reactor: Any = clock
    return LogWatch(
        chain=MemoryLog(),
        keeper=MemoryHeads(),
        latest_checkpoint=latest_checkpoint,
        verify_head=verify_head,
        clock=reactor,
        on_fault=told.append,
        restorations=tuple,
        others=none_later,
        led_end=nothing_later,
        appended=nothing,
        verify=nothing_later,
        keeps=nothing_later,
    )

"""Whoever signs heads hears of the records there are, not of the transactions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.greatest import GreatestHead
from svc.audit.watch import LogWatch
from svc.authority.noticing import NoticingStore
from svc.errors import AuditBroken, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit import chain_hash
from svc.store.memory import memory_store
from tests.audit.logs import MemoryHeads, MemoryLog, judge


class NoticingTests(SynchronousTestCase):
    """A store over another one."""

    def test_records(self) -> None:
        """It tells how many records a transaction left; nothing of one that left none or failed."""
        told: list[int] = []
        store = NoticingStore(memory_store(chain_hash), told.append)

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

    def test_put_back(self) -> None:
        """Nothing is written to a store that ends before what this process has written."""
        told: list[AuditBroken | None] = []
        clock: Any = Clock()
        greatest = GreatestHead(Path(self.mktemp()), judge, "demo.example", "log")
        watch = LogWatch(MemoryLog(), MemoryHeads(), greatest, judge, clock, told=told.append)
        inner = memory_store(chain_hash)
        store = NoticingStore(inner, watch=watch)
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

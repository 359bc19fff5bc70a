"""Whoever signs heads hears of the records there are, not of the transactions."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.noticing import NoticingStore
from svc.errors import SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit import chain_hash
from svc.store.memory import memory_store


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

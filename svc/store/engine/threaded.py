"""A store whose jobs run in threads: one writes, the others read.

Which database it is stands in the batches the threads run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface import implementer

from svc.errors import StoreUnavailable
from svc.interfaces.store import IStore, ITransaction, StoreNeeds
from svc.store.engine.jobs import Job

T = TypeVar("T")


class Threads(Protocol):
    """What runs jobs: a :class:`svc.store.engine.worker.Worker`, or threads that share a queue."""

    def submit(self, job: Job) -> None:
        """Queue a job; its answer fires on the reactor's thread."""

    def stop(self) -> Deferred[None]:
        """Finish what is queued and end; fires on the reactor's thread."""


def closed(desc: str) -> StoreUnavailable:
    """The refusal of a store that was closed."""
    return StoreUnavailable(f"store: {desc}: the store is closed; nothing was written")


@implementer(IStore)
@define(eq=False)
class ThreadedStore:
    """One thread writes, others read; ``release`` is called when all have ended."""

    _needs: StoreNeeds
    _writer: Threads
    _reader: Threads
    _release: Callable[[], object]
    _stopping: bool = field(init=False, default=False)

    async def run(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        return await self._ask(self._writer, desc, fn)

    async def read(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        return await self._ask(self._reader, desc, fn)

    async def close(self) -> None:
        if not self._stopping:
            self._stopping = True
            await self._reader.stop()
            await self._writer.stop()  # last, so that a SQLite file takes its -wal file with it
            self._release()

    async def _ask(self, threads: Threads, desc: str, fn: Callable[[ITransaction], T]) -> T:
        if self._stopping:
            raise closed(desc)
        job = Job(desc, fn, Deferred(lambda _: _cancelled(job)))
        timer = self._needs.clock.callLater(self._needs.transaction_secs, self._late, job)
        threads.submit(job)
        try:
            return cast(T, await job.answer)
        finally:
            if timer.active():
                timer.cancel()

    def _late(self, job: Job) -> None:
        """The deadline: nobody waits longer, and nothing is granted on it."""
        secs = self._needs.transaction_secs
        if job.give_up():
            refusal = StoreUnavailable(
                f"store: {job.desc}: no answer within {secs:g} s; nothing was written"
            )
        else:
            refusal = StoreUnavailable(
                f"store: {job.desc}: no answer within {secs:g} s; "
                "it is unknown whether the data was written",
                reason="store_outcome_unknown",
            )
        job.answer.errback(refusal)


def _cancelled(job: Job) -> None:
    """The caller went away: what has not been sealed is not written."""
    job.give_up()

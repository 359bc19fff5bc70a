"""A store whose jobs run in threads: one writes, the others read.

Which database it is stands in the batches the threads run.

A job is one caller's function on its way through the store.  It is claimed by the thread that runs
it or given up by its caller, whichever is first; the lock is what decides.  A job given up before
it was claimed never runs; one given up while it runs is rolled back if that is still possible.

The thread that writes takes whatever has gathered while one batch ran as the next batch: under load
many jobs share one commit, alone a job waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import StoreUnavailable
from svc.interfaces.crash import CrashPoint
from svc.interfaces.store import IStore, ITransaction, StoreNeeds

T = TypeVar("T")

BATCH_LIMIT = 256


class _State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    SEALED = "sealed"
    GIVEN_UP = "given up"


@define(eq=False)
class Job:
    """What to run, and whom to tell."""

    desc: str
    fn: Callable[[ITransaction], Any]
    answer: Deferred[Any]
    outcome: Any = None
    _state: _State = _State.WAITING
    _lock: Lock = field(factory=Lock)

    def claim(self) -> bool:
        """Whether it may run now; called once, by the thread that would run it."""
        with self._lock:
            if self._state is not _State.WAITING:
                return False
            self._state = _State.RUNNING
            return True

    def seal(self) -> bool:
        """Whether its writes may be kept; from here on giving up comes too late."""
        with self._lock:
            if self._state is not _State.RUNNING:
                return False
            self._state = _State.SEALED
            return True

    def unseal(self) -> None:
        """Its transaction was undone before it was committed, and will be run again."""
        self.outcome = None
        with self._lock:
            if self._state is _State.SEALED:
                self._state = _State.RUNNING

    def give_up(self) -> bool:
        """Stop waiting for it; whether it is certain that nothing is written."""
        with self._lock:
            if self._state is _State.SEALED:
                return False
            self._state = _State.GIVEN_UP
            return True

    def deliver(self) -> None:
        """Tell the caller, on the reactor's thread, unless it stopped waiting."""
        if self.answer.called:
            return
        if isinstance(self.outcome, Failure):
            self.answer.errback(self.outcome)
        else:
            self.answer.callback(self.outcome)


class Batch(Protocol):
    """What the thread runs: :class:`WriteBatch` or :class:`ReadBatch`."""

    def perform(self, jobs: Sequence[Job]) -> None:
        """Run *jobs*; each has its outcome when this returns.  Never raises."""

    def close(self) -> None:
        """Close the connection."""


@define(eq=False)
class Worker:
    """One thread over one batch runner; started when made, ended by :meth:`stop`."""

    _batch: Batch
    _call_from_thread: Callable[..., object]
    _crash_point: CrashPoint
    _queue: SimpleQueue[list[Job] | None] = field(init=False, factory=SimpleQueue)
    _held: list[Job] | None = field(init=False, default=None)
    _stopped: Deferred[None] = field(init=False, factory=Deferred)

    def start(self, name: str) -> None:
        """Start the thread; called once."""
        Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Job) -> None:
        """Queue a job; its answer fires on the reactor's thread."""
        if self._held is None:
            self._queue.put([job])
        else:
            self._held.append(job)

    def stop(self) -> Deferred[None]:
        """Finish what is queued, close, and end; fires on the reactor's thread."""
        if self._held:
            self._queue.put(self._held[:])
            self._held.clear()
        self._queue.put(None)
        return self._stopped

    def _work(self) -> None:
        going = True
        while going:
            jobs, going = self._gather()
            if jobs:
                self._batch.perform(jobs)
                self._call_from_thread(self._deliver, jobs)
        self._batch.close()
        self._call_from_thread(self._stopped.callback, None)

    def _gather(self) -> tuple[list[Job], bool]:
        """Wait for a job, then take what is there; False once stop was asked for."""
        jobs: list[Job] = []
        item = self._queue.get()
        try:
            while item is not None:
                jobs += item
                if len(jobs) >= BATCH_LIMIT:
                    return jobs, True
                item = self._queue.get_nowait()
        except Empty:
            return jobs, True
        return jobs, False

    def _deliver(self, jobs: Sequence[Job]) -> None:
        """Tell every caller; what they ask for next goes on as one batch.

        Otherwise the first of them would wake the thread and have a commit to
        itself, and all the others would wait for that disk write too.
        """
        self._crash_point("before_answer")
        held: list[Job] = []
        self._held = held
        try:
            for job in jobs:
                job.deliver()
        finally:
            self._held = None
            for start in range(0, len(held), BATCH_LIMIT):
                self._queue.put(held[start : start + BATCH_LIMIT])


@define(eq=False)
class Readers:
    """Threads behind one queue, each over a batch runner of its own: the next free one takes the
    next job.  Ended by :meth:`stop`.
    """

    _call_from_thread: Callable[..., object]
    _queue: SimpleQueue[Job | None] = field(init=False, factory=SimpleQueue)
    _left: int = field(init=False, default=0)
    _stopped: Deferred[None] = field(init=False, factory=Deferred)

    def start(self, name: str, batches: list[Batch]) -> None:
        """Start a thread for each of *batches*; called once."""
        self._left = len(batches)
        for batch in batches:
            Thread(target=self._work, args=(batch,), name=name, daemon=True).start()

    def submit(self, job: Job) -> None:
        """Queue a job; its answer fires on the reactor's thread."""
        self._queue.put(job)

    def stop(self) -> Deferred[None]:
        """Finish what is queued, close, and end; fires on the reactor's thread."""
        for _ in range(self._left):
            self._queue.put(None)
        return self._stopped

    def _work(self, batch: Batch) -> None:
        while (job := self._queue.get()) is not None:
            batch.perform([job])
            self._call_from_thread(job.deliver)
        batch.close()
        self._call_from_thread(self._ended)

    def _ended(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._stopped.callback(None)


class Threads(Protocol):
    """What runs jobs: a :class:`Worker`, or :class:`Readers`."""

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

    def run(self, desc: str, fn: Callable[[ITransaction], T]) -> Coroutine[Any, Any, T]:
        return self._ask(self._writer, desc, fn)

    def read(self, desc: str, fn: Callable[[ITransaction], T]) -> Coroutine[Any, Any, T]:
        return self._ask(self._reader, desc, fn)

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
            outcome: T = await job.answer
            return outcome
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

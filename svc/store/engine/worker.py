"""A thread that runs jobs in batches and returns their results.

Whatever has gathered while one batch ran is the next batch: under load many
jobs share one commit, alone a job waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred

from svc.interfaces.crash import CrashPoint
from svc.store.engine.jobs import Job

BATCH_LIMIT = 256


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

"""A thread that runs jobs in batches and brings their answers back.

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

from svc.store.batch import BATCH_LIMIT
from svc.store.jobs import Job


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
    _crash_point: Callable[[str], None]
    _queue: SimpleQueue[Job | None] = field(init=False, factory=SimpleQueue)
    _stopped: Deferred[None] = field(init=False, factory=Deferred)

    def start(self, name: str) -> None:
        """Start the thread; called once."""
        Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Job) -> None:
        """Queue a job; its answer fires on the reactor's thread."""
        self._queue.put(job)

    def stop(self) -> Deferred[None]:
        """Finish what is queued, close, and end; fires on the reactor's thread."""
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
                jobs.append(item)
                if len(jobs) == BATCH_LIMIT:
                    return jobs, True
                item = self._queue.get_nowait()
        except Empty:
            return jobs, True
        return jobs, False

    def _deliver(self, jobs: Sequence[Job]) -> None:
        self._crash_point("before_answer")
        for job in jobs:
            job.deliver()

"""Reader threads behind one queue: the next free one takes the next job."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from attrs import define, field
from twisted.internet.defer import Deferred

from svc.store.engine.jobs import Job
from svc.store.engine.worker import Batch


@define(eq=False)
class Readers:
    """Some threads, each over a batch runner of its own; ended by :meth:`stop`."""

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

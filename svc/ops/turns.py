"""Work on a log by turns, in several processes.

What they have done is joined in order by whoever reads it, and as each waits until its last turn
was taken, memory stays bounded.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

_T = TypeVar("_T")

TURN_TIMEOUT_SECS = 60.0
"""How long one turn of another process may take; it takes less than a second."""

STOP_SECS = 5.0
"""For the end of a process that was asked to end."""


def cores() -> int:
    """How many processes may work on a log at once."""
    return len(os.sched_getaffinity(0)) if "fork" in get_all_start_methods() else 1


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles: rows have none, and looking at each takes a tenth of verifying it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def done_by_turns(
    turns: range, work: Callable[[int], _T], jobs: int, timeout: float = TURN_TIMEOUT_SECS
) -> Iterator[Iterator[tuple[int, _T | None]]]:
    """Each of *turns* in order, with what *work* made of it in one of *jobs* processes.

    None where that process raised, was ended or hangs: it cannot say why.  They end with the
    context, which is entered where no other thread runs and no connection to the store is open:
    they are forked.
    """
    context = get_context("fork")
    ends: list[Connection] = []
    workers = []
    try:
        for number in range(min(jobs, len(turns))):
            here, there = context.Pipe(duplex=False)
            ends.append(here)
            args = (work, turns[number::jobs], there, tuple(ends))
            worker = context.Process(target=_work, args=args, daemon=True)
            worker.start()
            workers.append(worker)
            there.close()
        yield ((first, _taken(ends[n % jobs], timeout)) for n, first in enumerate(turns))
    finally:
        for end in ends:
            end.close()
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(STOP_SECS)
            worker.kill()
            worker.join()


def _work(
    work: Callable[[int], object], turns: range, out: Connection, inherited: Sequence[Connection]
) -> None:
    """Do the work of each of *turns*; runs in a separate process."""
    for end in inherited:
        end.close()
    with suppress(BrokenPipeError), uncollected():
        for first in turns:
            found = None
            with suppress(Exception):
                found = work(first)
            out.send(found)


def _taken(end: Connection, timeout: float) -> Any:
    """The next turn of the process at the other end; None where it gives none in time."""
    with suppress(EOFError, OSError):
        if end.poll(timeout):
            return end.recv()
        end.close()  # A turn that comes later would be taken for the one after it.
    return None

"""A store in memory: the SQLite store without a file, for tests of other rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.task import Clock

from svc.interfaces.crash import CrashPoint
from svc.interfaces.store import ChainHash, StoreNeeds
from svc.store.sqlite.factory import SqliteFactory
from svc.store.sqlite.store import MemoryStore


def memory_store(chain_hash: ChainHash, crash_point: CrashPoint | None = None) -> MemoryStore:
    """A migrated, empty store; every ``run`` and ``read`` has its answer at once."""
    clock: Any = Clock()  # nobody waits for an answer that is there at once
    needs = StoreNeeds(
        clock=clock, now=clock.seconds, call_from_thread=_at_once, chain_hash=chain_hash
    )
    if crash_point is not None:
        needs = evolve(needs, crash_point=crash_point)
    return SqliteFactory().open_memory(needs)


def _at_once(fn: Callable[..., object], *args: object) -> None:
    """There is no other thread to come from."""
    fn(*args)

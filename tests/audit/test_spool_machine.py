"""Any interleaving of what may happen to a Proxy's spool: nothing is lost or doubled."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from twisted.trial.unittest import SynchronousTestCase

from svc.model.canonical import decode
from tests.audit.spools import FaultyDisk, Killed, Taken, files, kept, written

EXAMPLES = 500 if os.environ.get("SVC_LONG") == "1" else 15


def has_spools(machine: SpoolMachine) -> bool:
    """Not where the newest one failed and those before it are covered."""
    return bool(machine.spool.spools())


class SpoolMachine(RuleBasedStateMachine):
    """Any interleaving of writes, kills, failures, deliveries and answers."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.root = self.directory / "spool"
        self.disk, self.taken = FaultyDisk(), Taken()
        self.acknowledged: set[str] = set()
        self.number = 0
        self.spool = files(self.root, self.disk)
        self.spool.open()

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    def _names(self, count: int) -> list[str]:
        self.number += count
        return [f"r{n}" for n in range(self.number - count, self.number)]

    @rule(count=st.integers(1, 12))
    def write(self, count: int) -> None:
        some = self._names(count)
        assert written(self.spool, *some) == [""] * count
        self.acknowledged.update(some)

    @rule(count=st.integers(1, 6), call=st.sampled_from(["write", "sync", "sync_directory"]))
    def fail(self, count: int, call: str) -> None:
        self.disk.errors[call] = OSError(errno.ENOSPC, "no")
        some = self._names(count)
        outcomes = written(self.spool, *some)
        self.disk.errors.clear()
        self.acknowledged.update(n for n, why in zip(some, outcomes, strict=True) if not why)

    @rule(count=st.integers(1, 6), cut=st.integers(0, 100_000))
    def killed_writing(self, count: int, cut: int) -> None:
        self.disk.cut = cut
        try:
            written(self.spool, *self._names(count))
        except Killed:
            pass
        self.disk.cut = None
        self.restart()

    @rule()
    def restart(self) -> None:
        self.spool = files(self.root, self.disk)
        assert self.spool.open() is None

    @precondition(has_spools)
    @rule(which=st.integers(0, 5), batches=st.integers(1, 3))
    def deliver(self, which: int, batches: int) -> None:
        spools = self.spool.spools()
        one = spools[which % len(spools)]
        state = self.taken.state(one.spool_id)
        for _ in range(batches):
            rows = self.spool.rows(one.spool_id, state.received + 1)
            state = self.taken.take(one.spool_id, [row for _, row in rows])

    @precondition(has_spools)
    @rule(which=st.integers(0, 5))
    def cover(self, which: int) -> None:
        spools = self.spool.spools()
        one = spools[which % len(spools)]
        self.taken.cover(one.spool_id)
        self.spool.covered(one.spool_id, self.taken.state(one.spool_id).covered)

    @precondition(has_spools)
    @rule(which=st.integers(0, 5))
    def go_back(self, which: int) -> None:
        spools = self.spool.spools()
        self.taken.go_back(spools[which % len(spools)].spool_id)

    @invariant()
    def nothing_is_lost(self) -> None:
        here: set[str] = set()
        for one in self.spool.spools():
            rows = kept(self.spool, one)
            assert [n for n, _ in rows] == list(range(one.first, one.last + 1))
            assert one.first <= self.taken.state(one.spool_id).covered + 1
            here.update(str(decode(row.canonical)["event_id"]) for _, row in rows)  # type: ignore
        there = {
            str(decode(row.canonical)["event_id"])  # type: ignore
            for rows in self.taken.received.values()
            for row in rows
        }
        assert self.acknowledged <= here | there


class PropertyTests(SynchronousTestCase):
    def test_machine(self) -> None:
        """Every acknowledged row is delivered or on the disk; no number is left out or doubled."""
        run_state_machine_as_test(
            SpoolMachine,
            settings=settings(deadline=None, max_examples=EXAMPLES, stateful_step_count=25),
        )

"""A replay by several processes finds what one would find, and tells of those that end."""

from __future__ import annotations

import os
import signal
import sqlite3
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from contrib.bench import request_log
from contrib.bench.request_log import WORDS, log_of, table_of
from svc.errors import AuditBroken, StoreUnavailable, SvcError
from svc.ops.replay import process
from svc.ops.replay.run import Replayed, replay
from svc.ops.replay.span import ReplaySpan
from svc.ops.replay.workers import ReplayJoin, ReplayStretch, replay_workers
from svc.policy.prescan import PolicyLimits
from svc.policy.refusals import PolicyRefused
from svc.policy.replay.lines import ReplayJob

PEOPLE, REQUESTS, BATCH = 20, 240, 4
ROWS = PEOPLE + REQUESTS // BATCH

ACTIVE = '@id("all") permit (principal, action == Action::"dbQuery", resource);'
CANDIDATE = (
    ACTIVE
    + '@id("seven") forbid (principal in Group::"g7", action == Action::"dbQuery", resource);'
    + '@id("one") forbid (principal, action == Action::"dbQuery", resource)'
    + f' when {{ context has tables_read && context.tables_read.contains("{table_of(50)}") }};'
)
JOB = ReplayJob(text=CANDIDATE, active=ACTIVE, active_version=1)
OLDER = ReplayJob(text=CANDIDATE, active=ACTIVE, active_version=2)

CHANGES = (
    "UPDATE audit_log SET prev_hash = zeroblob(32)",
    "DELETE FROM audit_log",
    "UPDATE personal_values SET value = '[]'",
)


class ReplayWorkersTests(SynchronousTestCase):
    """Over openings and batches in a file: statements made twice, some without their entities.

    Attributes:
        kept: The file as the first test has made it.
        one: What one process finds in it.
    """

    kept = b""
    one: Replayed

    def setUp(self) -> None:
        self.patch(request_log, "ENTRIES", BATCH)
        self.patch(request_log, "PEOPLE", PEOPLE)
        self.file = Path(self.mktemp()).absolute()
        if self.kept:
            self.file.write_bytes(self.kept)
        self.place = log_of(self.file, REQUESTS, 2)
        if not self.kept:
            self.change("DELETE FROM entity_slices WHERE digest < '4'")
            kind = type(self)
            kind.kept, kind.one = self.file.read_bytes(), self.replayed(jobs=1, turn=ROWS)

    def change(self, statement: str) -> None:
        """Change what is stored."""
        with sqlite3.connect(self.file) as kept:
            kept.execute(statement)
        kept.close()

    def replayed(self, job: ReplayJob = JOB, *, jobs: int = 3, turn: int = 7) -> Replayed:
        """The whole log, decided again."""
        return replay(self.place, job, WORDS, ReplaySpan(0.0), jobs=jobs, turn=turn)

    def failed(self, **how: int) -> SvcError:
        """Why it cannot be replayed."""
        return self.assertRaises(SvcError, self.replayed, **how)  # type: ignore[no-any-return]

    def test_what_is_found(self) -> None:
        """The log has a change of each policy, and requests that cannot be decided."""
        found = self.one.found
        by = {policy for each in found["changes"] for policy in each["policies_after"]}
        self.assertEqual(by, {"seven", "one"})
        self.assertTrue(found["undecidable"]["entities_not_recorded"])
        self.assertEqual(self.one.coverage.requests, REQUESTS)

    @settings(max_examples=3, deadline=None)
    @given(st.integers(2, 3), st.integers(1, ROWS + 1))
    def test_any_split(self, jobs: int, turn: int) -> None:
        """Whatever the turns and the number of processes, all that is found is the same."""
        self.assertEqual(self.replayed(jobs=jobs, turn=turn), self.one)

    def test_of_another_version(self) -> None:
        """Where the active policy decides again, too."""
        self.assertEqual(self.replayed(OLDER), self.replayed(OLDER, jobs=1, turn=ROWS))

    def test_altered(self) -> None:
        """Of a log that was altered at the border of a turn the same is said."""
        kept = self.file.read_bytes()
        for n, change in enumerate(CHANGES):
            self.change(f"{change} WHERE seq = {36 - n % 2}")
            told = self.failed(jobs=1, turn=ROWS)
            self.assertIsInstance(told, AuditBroken, change)
            self.assertEqual(self.failed(jobs=2).text, told.text, change)
            self.file.write_bytes(kept)
        self.change("DROP TABLE entity_slices")
        self.assertIsInstance(self.failed(), StoreUnavailable)

    def test_refused(self) -> None:
        """A text that could not be activated is refused, however long the log is."""
        for text in ("permit (", "permit (principal, action, resource);"):
            job = ReplayJob(text=text, active=ACTIVE, active_version=1)
            told = [
                self.assertRaises(PolicyRefused, self.replayed, job, jobs=jobs) for jobs in (1, 2)
            ]
            self.assertEqual(told[0].text, told[1].text)

    def test_ended(self) -> None:
        """A process that is ended is told of, whichever it is; none is left behind."""
        # A reader waits for the process that it feeds, so neither is through before it is ended.
        self.patch(process, "AHEAD", 4096)
        for which, reason in (("reads", "replay_interrupted"), ("decides", "policy_guard_timeout")):
            stretch = ReplayStretch(self.place, ReplaySpan(0.0), first=1, last=ROWS, length=7)
            line = JOB.line(WORDS, PolicyLimits())
            with replay_workers(stretch, line, 2) as workers:
                pids = [worker.decides.pid for worker in workers]
                ended = min(one.pid or 0 for one in active_children())
                os.kill(ended if which == "reads" else pids[1], signal.SIGKILL)
                told: Any = self.assertRaises(SvcError, ReplayJoin(stretch).join, workers)
            self.assertEqual(told.reason, reason, which)
            self.assertEqual(active_children(), [])
            for pid in pids:
                self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_nothing_to_read(self) -> None:
        """A stretch without a record tells of nothing, and refuses what it would refuse."""
        span = ReplaySpan(0.0, after=ROWS)
        found = replay(self.place, JOB, WORDS, span)
        self.assertEqual(
            (found.coverage.requests, found.found["unused"]), (0, ["all", "one", "seven"])
        )
        wrong = ReplayJob(text="permit (", active=ACTIVE, active_version=1)
        self.assertRaises(PolicyRefused, replay, self.place, wrong, WORDS, span)

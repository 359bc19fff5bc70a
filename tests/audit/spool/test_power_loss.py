"""A power cut keeps what was synced and any part of the rest: each request is in a row once."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import Sealer
from svc.audit.spool.disk import AHEAD
from svc.audit.spool.spool import AHEAD_SECS, Spool
from svc.errors import SvcError
from svc.model.audit.batch import read_batch
from svc.model.audit.request import SessionNumbers
from svc.model.canonical import decode
from tests.audit.spool.test_spool import Thread
from tests.audit.spools import FaultyDisk, Killed, entropy, files, kept, record
from tests.model.audit.test_batch import FACTS, request
from tests.support.nothing import nothing

_SECTOR = 512

EXAMPLES = 300 if os.environ.get("SVC_LONG") == "1" else 15


class PowerDisk(FaultyDisk):
    """A disk that knows what a power cut would leave of it.

    Attributes:
        held: Holds a link to each file, so that no number of one is used again.
        cut_at_sync: The power fails at the end of so many more syncs, before they are done.
    """

    def __init__(self, held: Path) -> None:
        super().__init__()
        held.mkdir()
        self.held = held
        self.cut_at_sync: int | None = None
        self._contents: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int | None]] = {}

    def sync(self, descriptor: int) -> None:
        if self.cut_at_sync is not None:
            self.cut_at_sync -= 1
            if self.cut_at_sync < 0:
                raise Killed
        super().sync(descriptor)
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            self._contents[os.fstat(descriptor).st_ino] = file.read()

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self._names[path] = self._scanned(path)

    def durable_names(self, path: Path) -> set[str]:
        """Names that a power cut leaves in a directory, whatever else it does."""
        return set(self._names.get(path, {}))

    def _scanned(self, path: Path) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for one in path.iterdir() if path.is_dir() else ():
            found[one.name] = None if one.is_dir() else one.stat().st_ino
            link = self.held / str(found[one.name])
            if found[one.name] is not None and not link.exists():
                os.link(one, link)
        return found

    def lose_power(self, place: Path, random: Random) -> None:
        """Make *place* what a power cut leaves there."""
        left = place.with_name("left")
        self._leave(place, left, random)
        self._contents.clear()
        self._names.clear()
        shutil.rmtree(place)
        left.rename(place)
        self._settle(place)

    def _settle(self, path: Path) -> None:
        """What is there after a start is durable."""
        self._names[path] = self._scanned(path)
        for one in path.iterdir():
            if one.is_dir():
                self._settle(one)
            else:
                self._contents[one.stat().st_ino] = one.read_bytes()

    def _leave(self, source: Path, target: Path, random: Random) -> None:
        target.mkdir()
        durable, now = self._names.get(source, {}), self._scanned(source)
        for name in sorted({*durable, *now}):
            names = durable if random.random() < 0.5 else now
            if name not in names:
                continue
            ino = names[name]
            if ino is None:
                self._leave(source / name, target / name, random)
            else:
                (target / name).write_bytes(self._torn(ino, random))
        if source.is_dir():
            at = source.stat().st_mtime_ns
            os.utime(target, ns=(at, at))

    def _torn(self, ino: int, random: Random) -> bytes:
        durable = self._contents.get(ino, b"")
        now = (self.held / str(ino)).read_bytes()
        part = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        size = len(now) if random.random() < part else len(durable)
        pieces = [
            (now if random.random() < part else durable)[at : at + _SECTOR].ljust(_SECTOR, b"\0")
            for at in range(0, size, _SECTOR)
        ]
        return b"".join(pieces)[:size]


class Lives:
    """A node that is killed, or loses its power, now and then; its thread and clock are ours."""

    def __init__(self, place: Path) -> None:
        self.place = place / "state"
        self.place.mkdir()
        self.disk = PowerDisk(place / "held")
        self.passed: set[str] = set()
        self.refused: set[str] = set()
        self.asked: dict[str, list[str]] = {}
        self.rows: dict[tuple[str, int], Any] = {}
        self.count = 0
        self._begin()

    def _begin(self) -> None:
        self.disk.errors.clear()
        self.disk.cut = self.disk.cut_at_sync = None
        self.files = files(self.place / "spool", self.disk)
        self.files._ahead.file_bytes = 4096
        self.files.maker.sealer = Sealer(entropy, FACTS)
        self.clock, self.thread = Clock(), Thread()
        self.sink = Spool(
            self.files, self.thread, committed=nothing, has_room=nothing, clock=self.clock
        )
        Deferred.fromCoroutine(self.sink.open())
        self.thread.run()
        assert self.files.is_live
        self.sessions = [SessionNumbers(entropy(16).hex()) for _ in range(3)]
        self.outstanding: list[Deferred[None]] = []

    def _again(self) -> None:
        for one in self.files._ahead._files:
            with contextlib.suppress(OSError):
                os.close(one.descriptor)
        if self.files._live is not None:
            self.files._live.leave()
        self._collect()
        self._begin()

    def do(self, step: str, number: int) -> None:
        """One step."""
        try:
            getattr(self, step)(number)
        except Killed:
            if self.disk.cut_at_sync is not None:
                self.power(number)
            else:
                self._again()

    def ask(self, number: int) -> None:
        session = self.sessions[number % 3]
        for _ in range(number % 7 + 1):
            self.count += 1
            decision_id = entropy(16).hex()
            made = evolve(request(session, self.count), decision_id=decision_id)
            try:
                waiting = self.sink.write_request(made, f"{number % 3:026d}")
            except SvcError:
                self.refused.add(decision_id)
                continue
            assert waiting is not None
            self.asked.setdefault(session.session_uid, []).append(decision_id)
            waiting.addCallbacks(
                partial(self._has_passed, decision_id), partial(self._is_refused, decision_id)
            )
            self.outstanding.append(waiting)

    def _has_passed(self, decision_id: str, _: None) -> None:
        self.passed.add(decision_id)

    def _is_refused(self, decision_id: str, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            failure.trap(SvcError)
            self.refused.add(decision_id)

    def cancel(self, number: int) -> None:
        if self.outstanding:
            self.outstanding.pop(number % len(self.outstanding)).cancel()

    def turn(self, number: int) -> None:
        self.clock.advance(0)

    def run(self, number: int) -> None:
        self.clock.advance(0)
        for _ in range(number % 3 + 1):
            if self.thread.asked:
                self.thread.run()

    def wait(self, number: int) -> None:
        self.clock.advance(AHEAD_SECS)

    def mend(self, number: int) -> None:
        Deferred.fromCoroutine(self.sink.mend())

    def other(self, number: int) -> None:
        Deferred.fromCoroutine(self.sink.write(record("x", number * 10))).addErrback(
            lambda failure: failure.trap(SvcError)
        )

    def fail(self, number: int) -> None:
        calls = ["write", "sync", "wipe", "truncate", "sync_directory"]
        self.disk.errors[calls[number % 5]] = OSError(errno.EIO, "no")

    def cut(self, number: int) -> None:
        self.disk.cut = number * 97

    def kill(self, number: int) -> None:
        self._again()

    def power(self, number: int) -> None:
        self._collect()
        self.disk.lose_power(self.place, Random(number))
        self._again()

    def power_soon(self, number: int) -> None:
        self.disk.cut_at_sync = number % 5

    def cover(self, number: int) -> None:
        """Authority takes and covers all rows of a spool."""
        self._collect()
        spools = self.files.spools()
        if spools:
            one = spools[number % len(spools)]
            self.files.covered(one.spool_id, one.last)

    def close(self, number: int) -> None:
        Deferred.fromCoroutine(self.sink.close())
        self._run_all()
        self._again()

    def _run_all(self) -> None:
        self.clock.advance(0)
        while self.thread.asked:
            self.thread.run()
            self.clock.advance(0)

    def end(self) -> None:
        """All that is owed is written."""
        self.disk.errors.clear()
        self.disk.cut = self.disk.cut_at_sync = None
        for _ in range(4):
            self.mend(0)
            self._run_all()
            self.wait(0)
            self._run_all()
        self.close(0)
        self._collect()

    def _collect(self) -> None:
        """Rows that Authority would have."""
        for extent in self.files.spools():
            for n, row in kept(self.files, extent):
                self.rows.setdefault((extent.spool_id, n), row)

    def entries(self) -> dict[str, list[tuple[int, str]]]:
        found: dict[str, list[tuple[int, str]]] = {}
        for row in self.rows.values():
            form: Any = decode(row.canonical)
            if form["event"] != "request.batch":
                continue
            batch = read_batch(form, row.personal)
            for at, one in enumerate(batch.entries):
                uid = batch.header(at).session_uid
                found.setdefault(uid, []).append((int(one["session_n"]), one["decision_id"]))
        return found


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["ask"] * 6
            + ["run"] * 8
            + ["wait"] * 4
            + ["other", "power_soon"] * 2
            + ["turn", "cancel", "mend", "cut", "kill", "power", "cover", "close"]
        ),
        st.integers(0, 400),
    ),
    min_size=40,
    max_size=80,
)


class PowerTests(SynchronousTestCase):
    """Requests through the reactor's side of a spool, on a disk that loses its power."""

    if not sys.platform.startswith("linux"):
        skip = "it reads files by their descriptors in /proc"

    def setUp(self) -> None:
        place = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, place)
        self.lives = Lives(place)

    def ahead(self) -> Path:
        return self.lives.place / "spool" / AHEAD

    def test_removed_for_good(self) -> None:
        """A file whose requests are in rows does not come back: its removal is durable."""
        for step in ("ask", "run", "kill", "run"):
            self.lives.do(step, 0)
        self.assertEqual(list(self.ahead().glob("*")), [])
        self.assertEqual(self.lives.disk.durable_names(self.ahead()), set())

    def test_new_directory(self) -> None:
        """Nothing passes before the name of its directory is durable, whatever failed before."""
        self.lives.disk.errors["sync_directory"] = OSError(errno.EIO, "no")
        for step in ("ask", "run"):
            self.lives.do(step, 0)
        self.assertEqual((len(self.lives.refused), len(self.lives.passed)), (1, 0))
        for step in ("ask", "run"):
            self.lives.do(step, 0)
        self.assertEqual(len(self.lives.passed), 1)
        self.assertIn(AHEAD, self.lives.disk.durable_names(self.ahead().parent))


class AnyPowerTests(SynchronousTestCase):
    """Whatever is asked, whatever fails, whenever the process or the power ends."""

    skip = PowerTests.skip if hasattr(PowerTests, "skip") else None

    @given(_STEPS)
    @settings(max_examples=EXAMPLES, deadline=None)
    def test_each_once(self, steps: list[tuple[str, int]]) -> None:
        """What passed is in a row once; a session's numbers are in order, and none is left out."""
        place = Path(tempfile.mkdtemp())
        try:
            lives = Lives(place)
            for step, number in steps:
                lives.do(step, number)
            lives.end()
            self._check(lives)
        finally:
            shutil.rmtree(place)

    def _check(self, lives: Lives) -> None:
        entries = lives.entries()
        times = Counter(id for of in entries.values() for _, id in of)
        self.assertEqual(lives.passed - set(times), set())
        self.assertEqual(lives.refused & set(times), set())
        self.assertEqual([id for id, count in times.items() if count > 1], [])
        for uid, of in entries.items():
            self.assertEqual([n for n, _ in of], list(range(1, len(of) + 1)))
            self.assertEqual([id for _, id in of], [id for id in lives.asked[uid] if id in times])

"""The spool: what it acknowledges is delivered or on the disk, whatever becomes of the process."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.audit.spool.aside import DAMAGED, KEPT_ASIDE
from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.entries import SpoolEntry
from svc.audit.spool.framing import Damaged, Framed, framed, frames
from svc.audit.spool.quota import SEGMENT_COST
from svc.audit.spool.spool import BATCH, MAX_WAITING, Spool
from svc.errors import SpoolFull, SvcError
from svc.interfaces.audit import IAuditSink
from svc.model.canonical import decode
from tests.audit.spools import FaultyDisk, Killed, Taken, files, kept, names, record, written
from tests.store.places import ROOT
from tests.support.nothing import nothing
from tests.support.proof import proves
from tests.support.tools import stock_tool


class FramingTests(SynchronousTestCase):
    """Rows in a file."""

    def test_whole(self) -> None:
        """What was written is read, in order."""
        data = b"".join(framed(n, bytes([n]) * n) for n in range(1, 6))
        found = list(frames(data))
        self.assertEqual(
            [(one.n, one.payload) for one in found if isinstance(one, Framed)],
            [(n, bytes([n]) * n) for n in range(1, 6)],
        )
        self.assertEqual(found[-1].end, len(data))

    def test_every_bit(self) -> None:
        """Whichever bit of a row is flipped, it alone is lost, and its bytes are named."""
        parts = [framed(n, b"payload %d" % n) for n in (1, 2, 3)]
        data = b"".join(parts)
        first, last = len(parts[0]), len(parts[0] + parts[1])
        for bit in range(first * 8, last * 8):
            broken = bytearray(data)
            broken[bit // 8] ^= 1 << bit % 8
            found = list(frames(bytes(broken)))
            self.assertEqual(found[1], Damaged(first, last))
            self.assertEqual([one.n for one in found if isinstance(one, Framed)], [1, 3])

    def test_cut_anywhere(self) -> None:
        """A file that ends in the middle of a row holds the rows before."""
        parts = [framed(n, b"payload") for n in (1, 2)]
        for end in range(len(parts[1])):
            found = list(frames(parts[0] + parts[1][:end]))
            self.assertEqual([one.n for one in found if isinstance(one, Framed)], [1])


class FilesCase(SynchronousTestCase):
    """A directory for spools, and a disk that can fail."""

    def setUp(self) -> None:
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        self.root = Path(directory) / "spool"
        self.disk = FaultyDisk()
        self.spool = self.opened()

    def opened(self, **how: Any) -> SpoolFiles:
        made = files(self.root, self.disk, **how)
        self.assertIsNone(made.open())
        return made

    def segments(self) -> list[Path]:
        return sorted(self.root.glob("*/*.rows"))


class FilesTests(FilesCase):
    def test_numbered(self) -> None:
        """A life begins with its announcement; rows are numbered from there without a hole."""
        self.assertEqual(written(self.spool, "a", "b"), ["", ""])
        self.assertEqual(names(self.spool), [[(1, "spool.open"), (2, "a"), (3, "b")]])

    def test_one_sync(self) -> None:
        """However many records are written together, the disk is waited for once."""
        self.disk.syncs = 0
        written(self.spool, *map(str, range(100)))
        self.assertEqual(self.disk.syncs, 1)

    def test_next_life(self) -> None:
        """A new life has a new spool, which names the former one and how far it reached."""
        written(self.spool, "a")
        [former] = self.spool.spools()
        again = self.opened()
        self.assertEqual(names(again), [[(1, "spool.open"), (2, "a")], [(1, "spool.open")]])
        [(_, row)] = kept(again, again.spools()[1])
        form: Any = decode(row.canonical)
        self.assertEqual(form["details"]["former_spools"], [f"{former.spool_id}:2"])
        self.assertEqual(form["details"]["spool_id"], again.spools()[1].spool_id)

    def test_closed(self) -> None:
        """A life that ends in order says so in its last row, and takes nothing after it."""
        written(self.spool, "a")
        self.assertIsNone(self.spool.close())
        self.assertEqual(names(self.spool)[0][-1], (3, "spool.close"))
        self.assertEqual(written(self.spool, "b"), ["draining"])
        [extent] = self.spool.spools()
        form: Any = decode(kept(self.spool, extent)[-1][1].canonical)
        self.assertEqual(form["details"], {"last_n": 3, "spool_id": extent.spool_id})

    def test_removed_when_covered(self) -> None:
        """A file goes when all its rows are covered; a former spool's directory with its last."""
        written(self.spool, *map(str, range(40)))
        written(self.spool, *map(str, range(40)))
        [extent] = self.spool.spools()
        self.assertGreater(len(self.segments()), 1)
        second = int(self.segments()[1].stem)
        self.spool.covered(extent.spool_id, second - 2)
        self.assertEqual(self.spool.spools()[0].first, 1)
        self.spool.covered(extent.spool_id, second - 1)
        self.assertEqual(self.spool.spools()[0].first, second)
        again = self.opened()
        again.covered(extent.spool_id, extent.last)
        self.assertFalse((self.root / extent.spool_id).exists())
        self.assertEqual(len(again.spools()), 1)

    def test_room_comes_back(self) -> None:
        """What was covered is taken of the room no more, of nobody's share either."""
        for _ in range(20):
            written(self.spool, *map(str, range(20)), holder="ann")
        [extent] = self.spool.spools()
        self.spool.covered(extent.spool_id, extent.last)
        self.opened()
        again = self.opened()
        for one in again.spools()[:-1]:
            again.covered(one.spool_id, one.last)
        fresh = again.room.used
        self.assertLess(fresh, 2 * SEGMENT_COST)
        self.spool.covered(extent.spool_id, extent.last)
        self.assertLess(self.spool.room.used, SEGMENT_COST + 4096 * 20)
        self.assertEqual(written(self.spool, "again", holder="ann"), [""])

    def test_put_back(self) -> None:
        """A directory put back to yesterday is a former spool: no number of it is used again."""
        written(self.spool, "a")
        yesterday = self.root.with_name("yesterday")
        shutil.copytree(self.root, yesterday)
        written(self.spool, "b", "c")
        [extent] = self.spool.spools()
        taken = Taken()
        taken.take(extent.spool_id, [row for _, row in kept(self.spool, extent)])
        taken.cover(extent.spool_id)
        shutil.rmtree(self.root)
        yesterday.rename(self.root)
        again = self.opened()
        written(again, "d")
        for one in again.spools():
            state = taken.take(one.spool_id, [row for _, row in kept(again, one)])
            taken.cover(one.spool_id)
            again.covered(one.spool_id, state.received)
        self.assertFalse((self.root / extent.spool_id).exists())
        self.assertEqual(len(taken.seen), 4 + 2)

    def test_unrecordable(self) -> None:
        """A record that may not be written is refused alone, and leaves no hole."""
        odd_one = evolve(record("odd"), details={"nobody_classified": 1})
        entries = [SpoolEntry(record("a")), SpoolEntry(odd_one), SpoolEntry(record("b"))]
        first, odd, last = self.spool.commit(entries)
        self.assertEqual((first, last), (None, None))
        self.assertEqual(odd and odd.reason, "audit_unrecordable")
        self.assertEqual(names(self.spool)[0][1:], [(2, "a"), (3, "b")])


_WRITES = """
import os, sys
from svc.audit.spool.file_system import Disk
disk, descriptor = Disk(), os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
disk.write(descriptor, b"row")
disk.sync(descriptor)
os.write(1, b"told")
"""


class KernelTests(SynchronousTestCase):
    """What the kernel is asked for."""

    @proves("G-OPEN-16")
    def test_waits_for_the_disk(self) -> None:
        """Nobody is told of a row before the disk has it."""
        place = Path(self.mktemp()).absolute()
        place.mkdir()
        strace = [stock_tool("strace"), "-o", str(place / "calls"), "-e", "write,fdatasync,fsync"]
        subprocess.run(
            [*strace, sys.executable, "-c", _WRITES, str(place / "rows")],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
        calls = (place / "calls").read_text("ascii", "replace").splitlines()
        at = next(number for number, call in enumerate(calls) if '"row"' in call)
        written, synced, told = calls[at : at + 3]
        number = written.partition("(")[2].partition(",")[0]
        self.assertRegex(synced, rf"^f(data)?sync\({number}\) += 0")
        self.assertIn('"told"', told)


class DamageTests(FilesCase):
    def damaged(self, at: int) -> SpoolFiles:
        """The next life finds a bit flipped at *at* of the first file."""
        path = self.segments()[0]
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        return self.opened()

    def test_torn(self) -> None:
        """Bytes of a row that was never written whole are no row; what was whole is delivered."""
        written(self.spool, "a")
        with self.segments()[0].open("ab") as file:
            file.write(framed(3, b"x" * 100)[:50])
        self.assertEqual(names(self.opened())[0], [(1, "spool.open"), (2, "a")])

    def test_in_the_middle(self) -> None:
        """A damaged row is named and kept aside; the rows behind it are delivered."""
        whole = self.segments()[0].stat().st_size
        written(self.spool, "a", "b")
        with capturedLogs() as events:
            again = self.damaged(whole + 40)
            former = again.spools()[0]
            self.assertEqual([n for n, _ in kept(again, former)], [1, 3])
            kept(again, former)
        [event] = [one for one in events if "damaged" in str(one.get("log_format"))]
        self.assertEqual((event["spool"], event["first_n"]), (former.spool_id, 2))
        again.covered(former.spool_id, 3)
        [aside] = (self.root / DAMAGED).iterdir()
        self.assertTrue(aside.name.startswith(former.spool_id))

    def test_few_are_kept_aside(self) -> None:
        """Damaged files do not gather for ever."""
        aside = self.root / DAMAGED
        aside.mkdir()
        for number in range(40):
            (aside / f"{number}.rows").write_bytes(b"x")
        whole = self.segments()[0].stat().st_size
        written(self.spool, "a", "b")
        again = self.damaged(whole + 40)
        former = again.spools()[0]
        kept(again, former)
        again.covered(former.spool_id, 3)
        self.assertEqual(len(list(aside.iterdir())), KEPT_ASIDE)

    def test_a_file_is_gone(self) -> None:
        """Where a whole file is missing, the rows of the others are delivered."""
        for _ in range(3):
            written(self.spool, *map(str, range(20)))
        self.segments()[1].unlink()
        again = self.opened()
        numbers = [n for n, _ in kept(again, again.spools()[0])]
        self.assertEqual((numbers[0], numbers[-1]), (1, 61))
        self.assertLess(len(numbers), 61)


class FullTests(FilesCase):
    room = 1 << 18

    def setUp(self) -> None:
        super().setUp()
        self.spool.room.most = self.room
        self.spool.room._quota.places = self.room
        self.spool.room._quota.most = self.room // 8

    def fill(self, holder: str | None) -> int:
        """Write until it is refused; how many were written."""
        for number in range(10_000):
            [refusal] = self.spool.commit([SpoolEntry(record("r", 900), holder)])
            if refusal is not None:
                self.assertIsInstance(refusal, SpoolFull)
                self.assertEqual(refusal.reason, "audit_spool_full")
                return number
        raise AssertionError("never full")

    def size(self) -> int:
        return sum(one.stat().st_size for one in self.segments())

    def test_one_holder(self) -> None:
        """One person takes an eighth at most, and nobody else notices."""
        self.assertGreater(self.fill("ann"), 10)
        self.assertLessEqual(self.size(), self.room // 8 + 2048)
        self.assertGreater(self.fill("bob"), 10)

    def test_kept(self) -> None:
        """All holders together leave a quarter, which the origin's own events may use."""
        for number in range(20):
            self.fill(f"person {number}")
        self.assertLessEqual(self.spool.room.used, self.room - self.room // 4 + SEGMENT_COST)
        self.assertGreater(self.fill(None), 10)
        self.assertLessEqual(self.size(), self.room)

    def test_delivered(self) -> None:
        """Once rows are covered there is room again, without a restart."""
        self.fill("ann")
        [extent] = self.spool.spools()
        self.spool.covered(extent.spool_id, extent.last)
        self.assertGreater(self.fill("ann"), 10)

    def test_former_fill_it(self) -> None:
        """What former lives left counts: a new one is not even begun while there is no room."""
        self.fill(None)
        again = files(self.root, self.disk, room=self.room)
        refusal = again.open()
        self.assertEqual(refusal and refusal.reason, "audit_spool_full")
        [former] = again.spools()
        again.covered(former.spool_id, former.last)
        self.assertEqual(written(again, "a"), [""])
        self.assertEqual(names(again), [[(1, "spool.open"), (2, "a")]])


class FailureTests(FilesCase):
    def test_no_false_acknowledgement(self) -> None:
        """Whatever call fails, its writers are refused; the next record begins a new spool."""
        for call in ("write", "sync"):
            for number, reason in (
                (errno.ENOSPC, "audit_spool_full"),
                (errno.EFBIG, "audit_spool_full"),
                (errno.EIO, "audit_unavailable"),
            ):
                before = names(self.spool)
                self.disk.errors[call] = OSError(number, "no")
                self.assertEqual(written(self.spool, "lost", "also"), [reason] * 2)
                self.assertEqual(names(self.spool), before)
                self.assertEqual(written(self.spool, "next"), [""])
                self.assertEqual(names(self.spool), [*before, [(1, "spool.open"), (2, "next")]])

    def test_beginning_fails(self) -> None:
        """A spool that could not be begun leaves nothing, and is begun when the disk lets it."""
        for call in ("write", "sync", "sync_directory"):
            shutil.rmtree(self.root)
            self.disk.errors[call] = OSError(errno.ENOSPC, "no")
            spool = files(self.root, self.disk)
            refusal = spool.open()
            self.assertEqual(refusal and refusal.reason, "audit_spool_full")
            self.assertEqual([*self.root.iterdir()], [])
            self.assertEqual(spool.room.used, 0)
            self.assertEqual(written(spool, "a"), [""])
            self.assertEqual(names(spool), [[(1, "spool.open"), (2, "a")]])

    def test_never_written_again(self) -> None:
        """After a failed sync the file is not written any more, even at another life's start."""
        written(self.spool, "a")
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        written(self.spool, "doubtful")
        size = self.segments()[0].stat().st_size
        written(self.spool, "b")
        again = self.opened()
        self.assertEqual(self.segments()[0].stat().st_size, size)
        self.assertEqual([rows[1:] for rows in names(again)], [[(2, "a")], [(2, "b")], []])

    def test_come_back(self) -> None:
        """A row that was refused is not delivered, though the failed disk has it after all."""
        written(self.spool, "a")
        [path] = self.segments()
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        written(self.spool, "refused")
        doubtful = path.read_bytes() + framed(3, b"whatever a sync left behind")
        written(self.spool, "b")
        path.write_bytes(doubtful)
        self.assertEqual([rows[1:] for rows in names(self.opened())], [[(2, "a")], [(2, "b")], []])

    def test_taken_away(self) -> None:
        """A directory deleted under us: nothing is acknowledged into it, nothing waits."""
        written(self.spool, "a", "b")
        lost = self.spool.spools()[0].spool_id
        shutil.rmtree(self.root)
        self.assertEqual(written(self.spool, "c"), [""])
        remembered, fresh = names(self.spool)
        self.assertEqual(remembered, [(1, "spool.open"), (2, "a"), (3, "b")])
        self.assertEqual(fresh, [(1, "spool.open"), (2, "c")])
        self.assertEqual(names(self.opened()), [fresh, [(1, "spool.open")]])
        form: Any = decode(kept(self.spool, self.spool.spools()[1])[0][1].canonical)
        self.assertEqual(form["details"]["former_spools"], [f"{lost}:3"])
        self.spool.covered(lost, 3)
        self.assertEqual(len(self.spool.spools()), 1)

    def test_taken_away_meanwhile(self) -> None:
        """A file deleted while it is written holds nothing: its rows are written again."""

        class Deleting(FaultyDisk):
            def sync(self, descriptor: int) -> None:
                if self.errors.pop("delete", None):
                    shutil.rmtree(root)

        root, self.disk = self.root, Deleting()
        self.spool = self.opened()
        self.disk.errors["delete"] = OSError()
        self.assertEqual(written(self.spool, "c"), [""])
        self.assertEqual(names(self.spool)[-1], [(1, "spool.open"), (2, "c")])
        self.assertEqual(names(self.opened())[0], [(1, "spool.open"), (2, "c")])

    @proves("G-OPEN-16")
    def test_killed_anywhere(self) -> None:
        """Killed after any byte of a write, the next life has what was acknowledged."""
        [before] = names(self.spool)
        copy = self.root.with_name("copy")
        shutil.copytree(self.root, copy)
        for cut in range(0, 1500, 31):
            shutil.rmtree(self.root)
            shutil.copytree(copy, self.root)
            spool = self.opened()
            self.disk.cut = cut
            self.assertRaises(Killed, written, spool, "b", "c")
            self.disk.cut = None
            found = names(self.opened())
            self.assertEqual((found[0], found[1][0]), (before, (1, "spool.open")))
            self.assertEqual(found[1][1:], [(2, "b"), (3, "c")][: len(found[1]) - 1])
            self.assertEqual(len(found), 3)


class Thread:
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Deferred[Any]]] = []

    def __call__(self, call: Any) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append((call, answer))
        return answer

    def run(self) -> None:
        call, answer = self.asked.pop(0)
        try:
            outcome = call()
        except Exception:
            answer.errback()
        else:
            answer.callback(outcome)


class GroupTests(FilesCase):
    """Many writers, one thread."""

    def setUp(self) -> None:
        super().setUp()
        self.thread = Thread()
        self.sink = Spool(
            self.spool, self.thread, committed=nothing, has_room=nothing, clock=Clock()
        )

    def ask(self, name: str = "r") -> Deferred[None]:
        return Deferred.fromCoroutine(self.sink.write(record(name)))

    def test_contract(self) -> None:
        """It is a sink."""
        verifyObject(IAuditSink, self.sink)

    def test_group(self) -> None:
        """One write is under way at a time; what comes meanwhile shares the next."""
        told: list[int] = []
        self.sink.committed = lambda: told.append(1)
        first = self.ask()
        rest = [self.ask() for _ in range(50)]
        self.assertEqual(len(self.thread.asked), 1)
        self.thread.run()
        self.successResultOf(first)
        self.assertNoResult(rest[0])
        self.disk.syncs = 0
        self.thread.run()
        for one in rest:
            self.successResultOf(one)
        self.assertEqual((self.disk.syncs, self.thread.asked, len(told)), (1, [], 2))

    def test_bounded(self) -> None:
        """A batch is of bounded size, and so is the queue: past it writers are refused at once."""
        asked = [self.ask() for _ in range(BATCH + 2)]
        self.thread.run()
        self.thread.run()
        self.successResultOf(asked[BATCH])
        self.assertNoResult(asked[BATCH + 1])
        asked += [self.ask() for _ in range(MAX_WAITING)]
        self.assertIsInstance(self.failureResultOf(self.ask()).value, SpoolFull)
        self.assertNoResult(asked[-1])

    def test_refused(self) -> None:
        """Each writer hears its own outcome."""
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        asked = self.ask()
        self.thread.run()
        refusal = self.failureResultOf(asked, SvcError).value
        self.assertEqual(refusal.reason, "audit_unavailable")

    def test_broken(self) -> None:
        """What nobody foresaw refuses its writers too, and the next are served."""
        self.disk.errors["sync"] = ZeroDivisionError()
        asked = self.ask()
        self.thread.run()
        self.assertEqual(self.failureResultOf(asked, SvcError).value.reason, "audit_unavailable")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        after = self.ask("after")
        self.thread.run()
        self.successResultOf(after)
        self.assertEqual(names(self.spool)[-1], [(1, "spool.open"), (2, "after")])

    def test_writer_went_away(self) -> None:
        """A writer that waits no more spoils nothing for the others."""
        gone, stays = self.ask(), self.ask()
        gone.cancel()
        self.failureResultOf(gone)
        self.thread.run()
        self.thread.run()
        self.successResultOf(stays)

    def test_close(self) -> None:
        """The last row comes after all that was asked for before."""
        asked = [self.ask("a"), self.ask("b")]
        closed = Deferred.fromCoroutine(self.sink.close())
        self.thread.run()
        self.thread.run()
        self.thread.run()
        self.successResultOf(closed)
        for one in asked:
            self.successResultOf(one)
        self.assertEqual(names(self.spool)[0][1:], [(2, "a"), (3, "b"), (4, "spool.close")])

    def test_said_once(self) -> None:
        """The log says once that each part of the room is taken, and once that there is room."""
        with capturedLogs() as events:
            for part in (0.4, 0.5, 0.6, 0.8, 0.95, 0.9, 0.7, 0.2, 0.6):
                self.spool.room.used = int(part * self.spool.room.most)
                self.sink._report()
        said = [one.get("percent", "room") for one in events]
        self.assertEqual(said, [50, 80, 95, "room", 60])

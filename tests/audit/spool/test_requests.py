"""Requests in a spool: many in one row and one write, none passed that is not recorded."""

from __future__ import annotations

import errno
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from svc.audit.log.record import Sealer, Unrecordable
from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.entries import SpoolEntry
from svc.audit.spool.rows import RowMaker
from svc.audit.spool.spool import AHEAD_SECS, BATCH, BUFFERED_SECS, MAX_WAITING, Spool
from svc.errors import SpoolFull, SvcError
from svc.model.audit.batch import MAX_ENTRIES, RequestBatch, read_batch
from svc.model.audit.request import RequestRecord, SessionNumbers
from svc.model.canonical import decode
from tests.audit.spool.test_spool import FilesCase, Thread
from tests.audit.spools import entropy, files, kept, record
from tests.model.audit.test_batch import FACTS, request
from tests.support.nothing import nothing
from tests.support.proof import proves

PERSON = "b" * 26


def batches_of(spool: SpoolFiles) -> list[RequestBatch]:
    """The batches of a node's rows."""
    found = []
    for extent in spool.spools():
        for _, row in kept(spool, extent):
            form: Any = decode(row.canonical)
            if form["event"] == "request.batch":
                found.append(read_batch(form, row.personal))
    return found


def _defective(maker: RowMaker, requests: Any) -> None:
    """In the place of RowMaker.seal."""
    if requests:
        raise ZeroDivisionError


class RequestCase(FilesCase):
    """One session, and a spool whose thread and clock run when the test says so."""

    waits = True

    def setUp(self) -> None:
        super().setUp()
        self.spool.maker.sealer = Sealer(entropy, FACTS)
        self.numbers, self.count = SessionNumbers("1" * 32), 0
        self.made()

    def made(self) -> None:
        """A spool over the files."""
        self.clock, self.thread = Clock(), Thread()
        self.sink = Spool(
            self.spool,
            self.thread,
            committed=nothing,
            has_room=nothing,
            clock=self.clock,
            waits=self.waits,
        )

    def run_all(self) -> None:
        """Run what the thread was asked for, until no turn asks for more."""
        self.clock.advance(0)
        while self.thread.asked:
            self.thread.run()
            self.clock.advance(0)

    def put_in_rows(self) -> None:
        """Let the time pass after which what passed enters a row."""
        self.clock.advance(AHEAD_SECS if self.waits else BUFFERED_SECS)
        self.run_all()

    def closed(self) -> None:
        """Close the spool."""
        closing = Deferred.fromCoroutine(self.sink.close())
        self.run_all()
        self.successResultOf(closing)

    def request(self, **more: Any) -> RequestRecord:
        """The next request of the session."""
        self.count += 1
        return request(self.numbers, self.count, **more)

    def ask(self, holder: str = PERSON, **more: Any) -> Deferred[None]:
        """Record one."""
        record = self.request(**more)

        async def recorded() -> None:
            waiting = self.sink.write_request(record, holder)
            if waiting is not None:
                await waiting

        return Deferred.fromCoroutine(recorded())

    def batches(self) -> list[list[int]]:
        """The numbers of the requests in each batch."""
        return [[one["session_n"] for one in batch.entries] for batch in batches_of(self.spool)]

    def recorded(self) -> list[int]:
        """The numbers of all of them."""
        return [n for batch in self.batches() for n in batch]


class DurableTests(RequestCase):
    """Each waits for the disk, and enters a row later."""

    def test_group(self) -> None:
        """What is asked for in one turn is one write, and so is what is asked for during it."""
        asked = [self.ask() for _ in range(5)]
        self.assertEqual(self.thread.asked, [])
        self.clock.advance(0)
        late = [self.ask() for _ in range(50)]
        self.disk.syncs = 0
        self.thread.run()
        for one in asked:
            self.successResultOf(one)
        self.assertNoResult(late[0])
        self.assertEqual(self.sink.not_durable, 50)
        self.disk.syncs = 0
        self.run_all()
        for one in late:
            self.successResultOf(one)
        self.assertEqual((self.disk.syncs, self.batches(), self.sink.not_durable), (1, [], 0))
        self.put_in_rows()
        self.assertEqual(self.batches(), [list(range(1, 56))])

    def test_many(self) -> None:
        """Those that are too many for one row have several, and so have those of a whole write."""
        asked = [self.ask() for _ in range(MAX_ENTRIES + 3)]
        self.run_all()
        for one in asked:
            self.successResultOf(one)
        self.put_in_rows()
        self.assertEqual(len(self.batches()), 2)
        self.assertLessEqual(max(map(len, self.batches())), MAX_ENTRIES)
        self.assertEqual(self.recorded(), list(range(1, len(asked) + 1)))
        for number in range(BATCH):
            self.ask(holder=f"{number % 8:026d}")
        self.run_all()
        self.assertEqual(len(self.recorded()), len(asked) + BATCH)

    def test_a_bad_entry(self) -> None:
        """What cannot be recorded is refused alone and takes no number."""
        asked = [self.ask(), self.ask(entities_digest="x"), self.ask()]
        other = evolve(self.request().request, context={"unheard_of": 1})
        asked.append(self.ask(request=other))
        self.run_all()
        for at in (1, 3):
            self.failureResultOf(asked[at], Unrecordable)
        self.successResultOf(asked[2])
        self.put_in_rows()
        self.assertEqual(self.recorded(), [1, 2])

    @proves("G-SES-06")
    def test_refused(self) -> None:
        """A disk that refuses refuses each request; their numbers and their room come back."""
        used = self.spool.room.used
        for call in ("write", "sync"):
            self.disk.errors[call] = OSError(errno.EIO, "no")
            asked = self.ask()
            self.run_all()
            refusal = self.failureResultOf(asked, SvcError).value
            self.assertEqual((refusal.reason, self.numbers.ahead), ("audit_unavailable", 0))
            self.assertEqual(self.spool.room.used, used)
        again = self.ask()
        self.run_all()
        self.successResultOf(again)
        self.put_in_rows()
        self.assertEqual((self.batches(), self.numbers.last), ([[1]], 1))

    def mend(self) -> None:
        """One look at the disk."""
        mending = Deferred.fromCoroutine(self.sink.mend())
        self.run_all()
        self.successResultOf(mending)

    def test_told(self) -> None:
        """While requests are refused that is told; it ends with one that passes."""
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        asked = self.ask()
        self.run_all()
        self.failureResultOf(asked, SvcError)
        refusal = self.assertRaises(SvcError, self.sink.check_requests)
        self.assertEqual(refusal.reason, "audit_unavailable")
        self.sink.check()  # rows can be written, so sessions open
        again = self.ask()
        self.run_all()
        self.successResultOf(again)
        self.sink.check_requests()

    def test_tried(self) -> None:
        """Where nobody asks any more, whether a request would be refused is tried."""
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        refused = self.ask()
        self.run_all()
        self.failureResultOf(refused, SvcError)
        self.mend()
        self.assertRaises(SvcError, self.sink.check_requests)
        self.disk.errors["write"] = OSError(errno.EIO, "no")
        self.mend()
        self.assertRaises(SvcError, self.sink.check_requests)
        self.mend()
        self.sink.check_requests()
        asked = self.ask()
        self.run_all()
        self.successResultOf(asked)
        self.put_in_rows()
        self.assertEqual(self.recorded(), [1])
        self.closed()
        self.assertEqual(list(self.root.glob("ahead/*")), [])

    def test_a_defect_ahead(self) -> None:
        """A defect that refuses each request is told as long as it does."""
        seal = self.spool.maker.seal
        self.patch(RowMaker, "seal", _defective)
        for _ in range(3):
            asked = self.ask()
            self.run_all()
            self.failureResultOf(asked, SvcError)
            self.mend()
            self.assertRaises(SvcError, self.sink.check_requests)
        self.flushLoggedErrors(ZeroDivisionError)
        self.patch(RowMaker, "seal", lambda maker, requests: seal(requests))
        asked = self.ask()
        self.run_all()
        self.successResultOf(asked)
        self.sink.check_requests()

    def test_full(self) -> None:
        """A person who has their share is refused, and so is everybody once the queue is full."""
        self.spool = files(self.root.with_name("small"), room=1 << 17)
        self.spool.maker.sealer = Sealer(entropy, FACTS)
        self.assertIsNone(self.spool.open())
        self.made()
        for _ in range(6):
            self.assertNoResult(self.ask())
        self.assertIsInstance(self.failureResultOf(self.ask()).value, SpoolFull)
        self.assertNoResult(self.ask(holder="e" * 26))
        self.made()
        waiting = SpoolEntry(record("r"))
        self.sink._waiting.extend([waiting] * MAX_WAITING)
        self.assertIsInstance(self.failureResultOf(self.ask(holder="f" * 26)).value, SpoolFull)

    def test_room(self) -> None:
        """A request takes of the room what its row needs, in the end."""
        used = self.spool.room.used
        asked = [self.ask() for _ in range(20)]
        self.run_all()
        self.successResultOf(asked[-1])
        self.put_in_rows()
        segments = [one for spool in self.spool._stored.values() for one in spool.segments]
        self.assertEqual(self.spool.room.used, sum(one.cost for one in segments))
        self.assertGreater(self.spool.room.used, used)

    def test_rows_are_refused(self) -> None:
        """What passed enters a row once the disk takes one, in its order; nothing passes before."""
        self.ask()
        self.run_all()
        before = self.ask()
        self.clock.advance(0)
        self.clock.advance(AHEAD_SECS)
        self.thread.run()
        self.successResultOf(before)
        after = self.ask()
        self.clock.advance(0)
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        self.thread.run()
        self.assertEqual(self.recorded(), [])
        refusal = self.failureResultOf(self.ask(), SvcError).value
        self.assertEqual(refusal.reason, "audit_unavailable")
        self.thread.run()
        self.successResultOf(after)
        # Another record finds a disk that takes rows; neither of the later two may enter one.
        other = Deferred.fromCoroutine(self.sink.write(record()))
        self.run_all()
        self.successResultOf(other)
        self.assertEqual((self.recorded(), self.sink.not_durable), ([], 0))
        mending = Deferred.fromCoroutine(self.sink.mend())
        self.run_all()
        self.successResultOf(mending)
        self.assertEqual(self.recorded(), [1, 2, 3])
        self.closed()
        self.assertEqual(list(self.root.glob("ahead/*")), [])

    def test_written_meanwhile(self) -> None:
        """Where another record found that the disk takes rows again, what passed enters one too."""
        self.ask()
        self.run_all()
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        self.put_in_rows()
        other = Deferred.fromCoroutine(self.sink.write(record()))
        self.run_all()
        self.successResultOf(other)
        mending = Deferred.fromCoroutine(self.sink.mend())
        self.run_all()
        self.successResultOf(mending)
        self.assertEqual(self.recorded(), [1])

    def test_close(self) -> None:
        """What waits for the disk is written, all enters a row, and no file is left behind."""
        asked = [self.ask()]
        self.run_all()
        asked.append(self.ask())
        self.closed()
        for one in asked:
            self.successResultOf(one)
        self.assertEqual(self.recorded(), [1, 2])
        self.assertEqual(list(self.root.glob("ahead/*")), [])


class BufferedTests(RequestCase):
    """Each passes at once, once there is room for it."""

    waits = False

    def test_at_once(self) -> None:
        """It passes at once, and what passed is written a moment later, together."""
        for _ in range(5):
            self.successResultOf(self.ask())
        self.assertEqual(self.thread.asked, [])
        self.clock.advance(BUFFERED_SECS)
        self.thread.run()
        self.assertEqual(self.batches(), [[1, 2, 3, 4, 5]])
        for number in range(BATCH):
            self.successResultOf(self.ask(holder=str(number % 8)))
        self.assertEqual(len(self.thread.asked), 1)

    def test_during_a_write(self) -> None:
        """What passes during a write waits for others, too, and is written when the spool ends."""
        self.successResultOf(self.ask())
        self.clock.advance(BUFFERED_SECS)
        for _ in range(3):
            self.successResultOf(self.ask())
        self.thread.run()
        self.assertEqual(self.thread.asked, [])
        self.successResultOf(self.ask())
        closing = Deferred.fromCoroutine(self.sink.close())
        while self.thread.asked:
            self.thread.run()
        self.successResultOf(closing)
        self.assertEqual(self.batches(), [[1], [2, 3, 4, 5]])

    def test_refused(self) -> None:
        """What passed stays until the disk takes it; meanwhile nothing more passes."""
        self.successResultOf(self.ask())
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        self.clock.advance(BUFFERED_SECS)
        self.thread.run()
        self.assertEqual(
            self.failureResultOf(self.ask(), SvcError).value.reason, "audit_unavailable"
        )
        mending = Deferred.fromCoroutine(self.sink.mend())
        self.thread.run()
        self.successResultOf(mending)
        self.thread.run()
        self.assertEqual(self.batches()[-1], [1])
        self.successResultOf(self.ask())

    def test_a_defect(self) -> None:
        """One that cannot be sealed after all: nothing more passes, and what passed stays."""
        self.successResultOf(self.ask())
        seal = self.spool.maker.seal
        self.patch(RowMaker, "seal", _defective)
        self.clock.advance(BUFFERED_SECS)
        self.thread.run()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        for _ in range(2):
            refusal = self.failureResultOf(self.ask(), SvcError).value
            self.assertEqual(refusal.reason, "audit_unavailable")
            mending = Deferred.fromCoroutine(self.sink.mend())
            self.run_all()
            self.flushLoggedErrors(ZeroDivisionError)
            self.successResultOf(mending)
            self.assertRaises(SvcError, self.sink.check)
        self.assertEqual(self.sink.not_durable, 1)
        self.patch(RowMaker, "seal", lambda maker, requests: seal(requests))
        mending = Deferred.fromCoroutine(self.sink.mend())
        self.run_all()
        self.successResultOf(mending)
        self.assertEqual(self.recorded(), [1])
        self.successResultOf(self.ask())

    def test_close(self) -> None:
        """What passed is written before the spool ends."""
        self.successResultOf(self.ask())
        closing = Deferred.fromCoroutine(self.sink.close())
        while self.thread.asked:
            self.thread.run()
        self.successResultOf(closing)
        self.assertEqual(self.batches(), [[1]])

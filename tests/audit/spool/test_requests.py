"""Requests in a spool: many in one row and one write, none passed that is not recorded."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from svc.audit.log.record import Sealer, Unrecordable
from svc.audit.spool.spool import BATCH, BUFFERED_SECS, MAX_WAITING, Spool
from svc.errors import SpoolFull, SvcError
from svc.model.audit.batch import MAX_ENTRIES, read_batch
from svc.model.audit.request import RequestRecord, SessionNumbers
from svc.model.canonical import decode
from tests.audit.spool.test_spool import FilesCase, Thread
from tests.audit.spools import Killed, entropy, files, kept
from tests.model.audit.test_batch import FACTS, request
from tests.support.nothing import nothing
from tests.support.proof import proves

PERSON = "b" * 26


class RequestCase(FilesCase):
    """One session, and a spool whose thread runs when the test says so."""

    def setUp(self) -> None:
        super().setUp()
        self.spool.maker.sealer = Sealer(entropy, FACTS)
        self.numbers, self.count = SessionNumbers("1" * 32), 0
        self.clock: Clock | None = None
        self.thread, self.sink = self.made()

    def made(self, clock: Clock | None = None) -> tuple[Thread, Spool]:
        """A spool over the files."""
        thread = Thread()
        sink = Spool(self.spool, thread, committed=nothing, has_room=nothing, buffering=clock)
        return thread, sink

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
        """The numbers of the requests in each batch that is on the disk."""
        found = []
        for extent in self.opened().spools():
            for _, row in kept(self.spool, extent):
                form: Any = decode(row.canonical)
                if form["event"] == "request.batch":
                    batch = read_batch(form, row.personal)
                    found.append([one["session_n"] for one in batch.entries])
        return found

    def recorded(self) -> list[int]:
        """The numbers of all of them."""
        return [n for batch in self.batches() for n in batch]


class DurableTests(RequestCase):
    """Each waits for the disk."""

    def test_group(self) -> None:
        """What is asked for during a write is one batch, one signature and one write."""
        first = self.ask()
        rest = [self.ask() for _ in range(50)]
        self.thread.run()
        self.successResultOf(first)
        self.assertNoResult(rest[0])
        self.disk.syncs = 0
        self.thread.run()
        for one in rest:
            self.successResultOf(one)
        self.assertEqual(self.disk.syncs, 1)
        self.assertEqual(self.batches(), [[1], list(range(2, 52))])

    def test_in_turn(self) -> None:
        """All that are asked for in one turn of the reactor are one batch, the first among them."""
        turns: list[Callable[[], object]] = []
        self.sink.in_turn = turns.append
        for _ in range(2):
            asked = [self.ask() for _ in range(5)]
            self.assertEqual((len(turns), self.thread.asked), (1, []))
            turns.pop()()
            late = self.ask()
            self.thread.run()
            for one in asked:
                self.successResultOf(one)
            self.assertNoResult(late)
            turns.pop()()
            self.thread.run()
            self.successResultOf(late)
        self.assertEqual([len(batch) for batch in self.batches()], [5, 1, 5, 1])

    def test_many(self) -> None:
        """A write that is too much for one batch has several."""
        asked = [self.ask() for _ in range(MAX_ENTRIES + 3)]
        for _ in range(2):
            self.thread.run()
        for one in asked:
            self.successResultOf(one)
        self.assertEqual(len(self.batches()), 3)
        self.assertLessEqual(max(map(len, self.batches())), MAX_ENTRIES)
        self.assertEqual(self.recorded(), list(range(1, len(asked) + 1)))

    def test_a_bad_entry(self) -> None:
        """What cannot be recorded is refused alone and takes no number."""
        asked = [self.ask(), self.ask(entities_digest="x"), self.ask()]
        other = evolve(self.request().request, context={"unheard_of": 1})
        asked.append(self.ask(request=other))
        self.thread.run()
        self.thread.run()
        for at in (1, 3):
            self.failureResultOf(asked[at], Unrecordable)
        self.successResultOf(asked[2])
        self.assertEqual(self.recorded(), [1, 2])

    @proves("G-SES-06")
    def test_refused(self) -> None:
        """A disk that refuses refuses each request; their numbers and their room come back."""
        used = self.spool.room.used
        self.disk.errors["sync"] = OSError(errno.EIO, "no")
        asked = self.ask()
        self.thread.run()
        refusal = self.failureResultOf(asked, SvcError).value
        self.assertEqual((refusal.reason, self.numbers.last), ("audit_unavailable", 0))
        self.assertEqual(self.spool.room.used, used)
        again = self.ask()
        self.thread.run()
        self.successResultOf(again)
        self.assertEqual((self.batches()[-1], self.numbers.last), ([1], 1))

    def test_full(self) -> None:
        """A person who has their share is refused, and so is everybody once the queue is full."""
        self.spool = files(self.root.with_name("small"), room=1 << 17)
        self.spool.maker.sealer = Sealer(entropy, FACTS)
        self.assertIsNone(self.spool.open())
        self.thread, self.sink = self.made()
        for _ in range(6):
            self.assertNoResult(self.ask())
        self.assertIsInstance(self.failureResultOf(self.ask()).value, SpoolFull)
        self.assertNoResult(self.ask(holder="e" * 26))
        self.thread, self.sink = self.made()
        waiting: Any = (None, None)
        self.sink._waiting.extend([waiting] * MAX_WAITING)
        self.assertIsInstance(self.failureResultOf(self.ask(holder="f" * 26)).value, SpoolFull)

    def test_room(self) -> None:
        """A request takes of the room what its row needs, in the end."""
        used = self.spool.room.used
        asked = [self.ask() for _ in range(20)]
        self.thread.run()
        self.thread.run()
        self.successResultOf(asked[-1])
        segments = [one for spool in self.spool._stored.values() for one in spool.segments]
        self.assertEqual(self.spool.room.used, sum(one.cost for one in segments))
        self.assertGreater(self.spool.room.used, used)

    @proves("G-OPEN-16")
    def test_killed_anywhere(self) -> None:
        """Killed after any byte of a write, the next life has whole batches, or none of it."""
        first = self.ask()
        self.thread.run()
        self.successResultOf(first)
        requests = [self.spool.take(self.request(), PERSON) for _ in range(3)]
        for cut in (0, 1, 700, 1900):
            spool = self.opened()
            spool.maker.sealer = self.spool.maker.sealer
            self.disk.cut = cut
            self.assertRaises(Killed, spool.commit, requests)
            self.disk.cut = None
            for found in self.batches():
                self.assertIn(len(found), (1, 3))
        self.assertEqual(self.numbers.last, 1)


class BufferedTests(RequestCase):
    """Each passes at once, once there is room for it."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()
        self.thread, self.sink = self.made(self.clock)

    def test_at_once(self) -> None:
        """It passes at once, and what passed is written a moment later, together."""
        for _ in range(5):
            self.successResultOf(self.ask())
        self.assertEqual(self.thread.asked, [])
        assert self.clock is not None
        self.clock.advance(BUFFERED_SECS)
        self.thread.run()
        self.assertEqual(self.batches(), [[1, 2, 3, 4, 5]])
        for number in range(BATCH):
            self.successResultOf(self.ask(holder=str(number % 8)))
        self.assertEqual(len(self.thread.asked), 1)

    def test_during_a_write(self) -> None:
        """What passes during a write waits for others, too, and is written when the spool ends."""
        assert self.clock is not None
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
        assert self.clock is not None
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

    def test_close(self) -> None:
        """What passed is written before the spool ends."""
        self.successResultOf(self.ask())
        closing = Deferred.fromCoroutine(self.sink.close())
        while self.thread.asked:
            self.thread.run()
        self.successResultOf(closing)
        self.assertEqual(self.batches(), [[1]])

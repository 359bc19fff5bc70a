"""The signatures of a backlog: verified in a process of their own, or here where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, evolve, field
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.authority.ingest.drain import BATCH
from svc.authority.ingest.signatures import ENOUGH, IDLE_SECS, SignaturesApart
from svc.errors import SvcError
from svc.model.audit.outbox import QueuedRow
from svc.model.audit.spool import SpoolRow, row_question
from svc.model.sodium import answers
from svc.runtime.apart import MOST_GIVEN, WorkApart
from tests.authority.house import House
from tests.authority.spools import Leader, Origin


@define
class Process:
    """Does the work at once, or not at all."""

    is_well: bool = True
    asked: list[bytes] = field(factory=list)
    rests: int = 0

    async def run(self, work: str, data: bytes, person: str) -> bytes:
        """As the real one."""
        self.asked.append(data)
        if not self.is_well:
            raise SvcError("it ended", reason="apart_failed")
        assert work == "svc.model.sodium:answers" and len(data) <= MOST_GIVEN
        return answers(data)

    def rest(self) -> None:
        """It is to end."""
        self.rests += 1

    async def stop(self) -> None:
        """It is to end for good."""


class BacklogTests(SynchronousTestCase):
    """A leader with such a process, and a Proxy with an audit key."""

    def setUp(self) -> None:
        self.house = House()
        self.leader = Leader(self.house)
        self.origin = Origin(self.house, "edge7")
        self.process = Process()
        drains = self.leader.drains
        drains.signatures = SignaturesApart(self.process, self.house.clock.seconds)

    def rows(self, count: int) -> list[SpoolRow]:
        """The next of the spool."""
        return [self.origin.noted() for _ in range(count)]

    def drain(self, *rows: SpoolRow) -> None:
        """Rows come, and are taken."""
        self.leader.inject(*rows)
        self.leader.drain()

    def questions(self, rows: Sequence[SpoolRow]) -> bytes:
        """What is asked of them."""
        key = self.origin.key.public_key().public_bytes_raw()
        return b"".join(row_question(row, key) for row in rows)

    def test_a_backlog(self) -> None:
        """The first rows are verified here while the process begins, those behind them there."""
        rows = [self.origin.first, *self.rows(2 * BATCH)]
        self.drain(*rows)
        self.assertEqual(self.process.asked, [b"", self.questions(rows[BATCH : 2 * BATCH])])
        self.assertEqual(self.leader.logged(rows), [1] * len(rows))

    def test_a_few(self) -> None:
        """No process is begun for a few rows."""
        self.drain(self.origin.first, *self.rows(ENOUGH - 2))
        self.assertEqual(self.process.asked, [])

    def test_forged(self) -> None:
        """Of a row whose signature is not good only this is said, and it is held; others go on."""
        self.drain(self.origin.first, *self.rows(ENOUGH))
        rows = self.rows(ENOUGH + 2)
        come = [
            evolve(rows[0], signature=bytes(64)),
            evolve(rows[1], signature=b"short"),
            evolve(rows[2], key_id="0" * 64),
            evolve(rows[3], signature=b""),
            *rows[4:],
        ]
        self.drain(*come)
        held = ["forged", "forged", "unknown_key", "unsigned"]
        self.assertEqual(self.process.asked[1:], [self.questions([come[0], *rows[4:]])])
        self.assertEqual(self.leader.holds(), held)
        self.assertEqual(self.leader.logged(rows), [0] * 4 + [1] * (len(rows) - 4))

    def test_it_fails(self) -> None:
        """Then rows are verified here, and for a while no other process is begun."""
        rows = [self.origin.first, *self.rows(ENOUGH)]
        self.drain(*rows)
        self.process.is_well = False
        for _ in range(3):
            more = self.rows(ENOUGH)
            self.drain(*more)
            rows += more
        self.assertEqual(len(self.process.asked), 2)
        self.process.is_well = True
        self.house.clock.advance(IDLE_SECS + 1)
        self.leader.drain()
        for _ in range(2):
            more = self.rows(ENOUGH)
            self.drain(*more)
            rows += more
        self.assertEqual(len(self.process.asked), 4)
        self.assertEqual(self.leader.logged(rows), [1] * len(rows))

    def test_idle(self) -> None:
        """It ends once it had nothing to do for a while, and not before."""
        self.drain(self.origin.first, *self.rows(ENOUGH))
        self.house.clock.advance(IDLE_SECS - 1)
        self.leader.drain()
        self.assertEqual(self.process.rests, 0)
        self.house.clock.advance(2)
        self.leader.drain()
        self.leader.drain()
        self.assertEqual(self.process.rests, 1)

    def test_long_rows(self) -> None:
        """It is given no more than it takes; of the other rows nothing is said."""
        signed = [self.origin.signed(self.origin.first, b"x" * 4000) for _ in range(BATCH)]
        rows = [QueuedRow(at, row, 0.0) for at, row in enumerate(signed)]
        signatures, keys = self.leader.drains.signatures, self.leader.drains.keys.now()
        assert signatures is not None
        self.assertEqual(self.successResultOf(signatures.verified(rows, keys)), frozenset())
        found = self.successResultOf(signatures.verified(rows, keys))
        self.assertEqual(found, frozenset(range(MOST_GIVEN // len(self.questions(signed[:1])))))


class ProcessTests(TestCase):
    """The process itself."""

    async def test_answers(self) -> None:
        """It says of each signature what this one would."""
        host: Any = reactor
        apart = WorkApart(reactor=host, clock=host)
        self.addCleanup(lambda: Deferred.fromCoroutine(apart.stop()))
        house = House()
        origin = Origin(house, "edge7")
        key = origin.key.public_key().public_bytes_raw()
        good, other = origin.noted(), origin.noted()
        asked = [good, evolve(good, signature=other.signature), other]
        data = b"".join(row_question(row, key) for row in asked)
        found = await apart.run("svc.model.sodium:answers", data, "tests")
        self.assertEqual(found, b"\1\0\1")
        self.assertEqual(found, answers(data))
        apart.rest()
        again = await apart.run("svc.model.sodium:answers", data, "tests")
        self.assertEqual(again, found)

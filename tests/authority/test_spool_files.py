"""The files of a Proxy's spools, brought to an Authority that drains them."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.entries import SpoolEntry
from svc.audit.spool.quota import SpoolQuota
from svc.messages.spooled import SpoolState
from svc.model.audit.events import REFUSALS_SUMMARY
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.replay import GAP_SECS
from svc.model.audit.spool import SpoolRow
from svc.model.canonical import Json
from svc.ratelimit.limits import Rate
from tests.audit.spools import FaultyDisk, Killed
from tests.authority.house import House, value_of
from tests.authority.spools import Leader, Origin


class SpoolFilesTests(SynchronousTestCase):
    """Lives of one Proxy, one after the other, on one disk."""

    def setUp(self) -> None:
        self.house = House()
        self.origin, self.leader = Origin(self.house, "proxy-1"), Leader(self.house)
        self.house.rates.rows.buckets.rate = Rate(60_000, 60_000)
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        self.root, self.disk = Path(directory) / "spool", FaultyDisk()
        self.spool = self.life()

    def life(self) -> SpoolFiles:
        """The next process; whatever the one before it was doing."""
        made = SpoolFiles(
            root=self.root, maker=self.origin.maker, room=SpoolQuota(1 << 24), disk=self.disk
        )
        self.assertIsNone(made.open())
        return made

    def write(self, count: int = 1) -> list[str]:
        refused = self.spool.commit([SpoolEntry(self.summary()) for _ in range(count)])
        return [one.reason for one in refused if one is not None]

    def summary(self) -> AuditRecord:
        details: dict[str, Json] = {"count": 1, "proxy_id": self.origin.id}
        actor = Actor("node", self.origin.id)
        return self.origin.record(REFUSALS_SUMMARY, actor, details=details, reason="opens")

    def take(self, spool_id: str, rows: list[SpoolRow]) -> SpoolState:
        proxy = self.house.row(self.origin.holder)
        state: SpoolState = value_of(self.leader.intake.take(proxy, spool_id, rows))
        return state

    def deliver(self) -> None:
        """Everything there is, and then what is covered goes."""
        for one in self.spool.spools():
            at = max(self.take(one.spool_id, []).received + 1, one.first)
            while rows := self.spool.rows(one.spool_id, at):
                self.take(one.spool_id, [row for _, row in rows])
                at = rows[-1][0] + 1
        self.leader.drain()
        self.leader.covers()
        for one in self.spool.spools():
            self.spool.covered(one.spool_id, self.take(one.spool_id, []).covered)

    def gaps(self) -> list[tuple[str | None, int | None]]:
        self.house.clock.advance(GAP_SECS + 1)
        self.leader.drain()
        records = self.house.records("audit.gap")
        return [(one.get("reason"), one["details"].get("first_n")) for one in records]

    def kill(self) -> None:
        """In the middle of a write."""
        self.disk.cut = 100
        self.assertRaises(Killed, self.write)
        self.disk.cut = None

    def test_lives(self) -> None:
        """Whether a life ends in order, by a kill or by a failing disk: nobody misses a row."""
        for round_ in range(3):
            self.assertEqual(self.write(5), [])
            self.deliver()
            self.write(2)
            self.spool.close()
            self.spool = self.life()
            self.write(3)
            if round_:
                self.deliver()
            self.kill()
            self.spool = self.life()
            self.disk.errors["sync"] = OSError(errno.EIO, "no")
            self.assertEqual(self.write(), ["audit_unavailable"])
            self.write()
            self.deliver()
        self.deliver()
        self.assertEqual(len(self.house.records("refusals.summary")), 3 * 11)
        self.assertEqual(len(list(self.root.iterdir())), 1)
        self.assertEqual((self.leader.held, self.gaps()), ([], []))

    def test_deleted(self) -> None:
        """A live spool deleted under the Proxy: what it had not brought is missed, and no more."""
        self.write(3)
        self.deliver()
        shutil.rmtree(self.root)
        self.write(2)
        self.deliver()
        self.assertEqual(self.gaps(), [])
        for _ in range(4):
            self.write(100)
        shutil.rmtree(self.root)
        self.write(1)
        self.deliver()
        self.spool = self.life()
        self.deliver()
        self.assertEqual(self.gaps(), [("missing", 4)])

    def test_yesterday(self) -> None:
        """A disk put back to yesterday: no number is used twice, nothing is missed or doubled."""
        self.write(3)
        self.deliver()
        yesterday = self.root.with_name("yesterday")
        shutil.copytree(self.root, yesterday)
        self.write(4)
        self.deliver()
        shutil.rmtree(self.root)
        yesterday.rename(self.root)
        self.spool = self.life()
        self.write(1)
        self.deliver()
        self.assertEqual(len(self.house.records("refusals.summary")), 8)
        self.assertEqual(len(list(self.root.iterdir())), 1)
        self.assertEqual((self.leader.held, self.gaps()), ([], []))

"""Yesterday's store under a running Authority and under a stopped one, and going on from it."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import init_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.support.proof import proves
from tests.support.standing_still import stand_still

RUN_BY = "make fault"

ROLLED_BACK, AMISS = "audit_rolled_back", "the audit log differs from the known one"


class RolledBackTests(SynchronousTestCase):
    """One Authority, one Proxy and a witness in a file."""

    def setUp(self) -> None:
        numbers = {"audit.head_after_secs": 0.05, "snapshot.reload_secs": 0.2}
        gateway = self.gateway = init_gateway(numbers=numbers | {"snapshot.heartbeat_secs": 0.2})
        self.addCleanup(gateway.end)
        self.witness = gateway.directory / "witness.jsonl"
        table = gateway.files.table(AUTHORITY)
        gateway.files.write(AUTHORITY, table | {"audit.witness": [f"file://{self.witness}"]})
        gateway.make_authority()
        gateway.make_proxy()
        self.anchor = gateway.files.state(AUTHORITY) / "anchor"
        self.at_proxy = gateway.files.state(PROXY) / "snapshot" / "audit-head"
        self.child = gateway.child(AUTHORITY)

    def last(self) -> int:
        """The number of the newest record in the store, by SQL."""
        return last_of(self.gateway.files.store)

    def everywhere(self) -> int:
        """Wait until Proxy and witness have the head over every record; how many there are."""

        def covered() -> int:
            # Asked once: a record that comes right after is under none of these heads.
            last = self.last()
            return last if self.kept() == self.witnessed() == last else 0

        return until("heads are out", covered)

    def kept(self) -> int:
        """What the head covers that the Proxy keeps."""
        return _size(self.at_proxy.read_bytes()) if self.at_proxy.exists() else 0

    def witnessed(self) -> int:
        """What the last head covers that the witness has."""
        data = self.witness.read_bytes() if self.witness.exists() else b""
        # The last line may be half written.
        whole = data[: data.rfind(b"\n") + 1].splitlines()
        return _size(whole[-1]) if whole else 0

    def copy(self, kept: Path) -> None:
        """The store and the anchor as they are now."""
        kept.mkdir()
        with (
            closing(sqlite3.connect(self.gateway.files.store, timeout=10)) as store,
            closing(sqlite3.connect(kept / "store.db")) as copy,
        ):
            store.backup(copy)
        shutil.copytree(self.anchor, kept / "anchor")
        (kept / "store.db").chmod(0o600)

    def put_back(self, kept: Path) -> None:
        """Yesterday's store takes the place of today's, whoever has it open."""
        store = Path(self.gateway.files.store)
        shutil.copy2(kept / "store.db", store.with_name("old"))
        # Whoever opened it amid this would see a third one: today's without its newest records.
        stand_still(self.child)
        for end in ("-wal", "-shm"):
            store.with_name(store.name + end).unlink(missing_ok=True)
        store.with_name("old").replace(store)
        self.child.signal(signal.SIGCONT)

    def refused_start(self, missing: int) -> None:
        """It does not start over this store, names the first record, and appends nothing."""
        before = self.last()
        self.child.kill()
        self.child.start()
        until("it ended", lambda: not self.child.is_alive)
        self.assertEqual(self.child.process.returncode, 6)
        self.assertIn(f"record {missing} is the first that is missing", self.child.text())
        self.assertEqual(self.last(), before)

    @proves("G-RDY-05", "X-62")
    def test_life(self) -> None:
        """Nothing is appended and the first missing record is named; with a reason it goes on."""
        gateway, kept = self.gateway, self.gateway.directory / "yesterday"
        self.put_behind()
        self.everywhere()
        self.copy(kept)
        before = last_of(kept / "store.db")
        gateway.operator("persons", "add", "bob")
        after = self.everywhere()

        self.put_back(kept)
        readiness = until("it is noticed", self.not_ready, alive=[self.child])
        self.assertIn(ROLLED_BACK, readiness)
        refused = gateway.operator("persons", "add", "eve", check=False)
        self.assertIn(f"record {before + 1} is the first that is missing", refused.stderr)
        self.assertEqual(self.last(), before)

        # Where the anchor is of yesterday too the witness knows better, and without it the Proxy.
        shutil.rmtree(self.anchor)
        shutil.copytree(kept / "anchor", self.anchor)
        self.refused_start(before + 1)
        lost = self.witness.read_bytes()
        (self.anchor / "greatest").unlink()
        self.witness.unlink()
        self.child.start()
        until("the Proxy tells", lambda: self.child.events(AMISS), alive=[self.child])

        self.child.kill()
        shown = gateway.operator("audit", "adopt", "--reason", "a disk failed").stdout
        self.assertIn(f"newest signed head: {after} records", shown)
        gateway.start(AUTHORITY)
        before_it = self.at_proxy.with_name("audit-head.lost")
        until("the Proxy goes on", before_it.exists, alive=[self.child])
        self.assertEqual(_size(before_it.read_bytes()), after)
        self.witness.write_bytes(lost + self.witness.read_bytes())
        verified = gateway.operator("audit", "verify", "--anchor", str(self.witness))
        self.assertIn("verified", verified.stdout)

    def put_behind(self) -> None:
        """A record that somebody puts behind the newest one is named, and no head covers it."""
        self.everywhere()
        with closing(sqlite3.connect(self.gateway.files.store, timeout=10)) as store:
            store.execute(
                "INSERT INTO audit_log (seq, prev_hash, hash, canonical)"
                " SELECT seq + 1, hash, prev_hash, canonical FROM audit_log"
                " ORDER BY seq DESC LIMIT 1"
            )
            (before,) = store.execute("SELECT max(seq) - 1 FROM audit_log").fetchone()
            store.commit()
            readiness = until("it is noticed", self.not_ready, alive=[self.child])
            self.assertIn("audit_foreign_record", readiness)
            self.assertIn(f"record {before + 1} was not written by this", self.child.text())
            self.child.kill()
            self.assertEqual(self.last(), before + 1)
            self.assertLessEqual(self.witnessed(), before)
            store.execute("DELETE FROM audit_log WHERE seq > ?", (before,))
            store.commit()
        self.gateway.start(AUTHORITY)

    def not_ready(self) -> str:
        status, body = self.gateway.get(AUTHORITY, "/readyz")
        return body if status == 503 else ""


def last_of(path: Path | str) -> int:
    """The number of the newest record in that store, by SQL."""
    with closing(sqlite3.connect(path, timeout=10)) as store:
        return int(store.execute("SELECT max(seq) FROM audit_log").fetchone()[0])


def _size(line: bytes) -> int:
    return int(json.loads(line)["head"]["tree_size"])

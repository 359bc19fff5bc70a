"""Two Authorities on one store: one backup puts it back, and whose host is lost is made anew."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.processes import until
from tests.cli.backups import RECIPIENT, key_file
from tests.fault.cluster import Cluster
from tests.fault.tally import in_long_form

FIRST, SECOND = "authority", "authority2"


@in_long_form
class SeveralTests(SynchronousTestCase):
    """What docs/how-to/backup.md says of several, done."""

    def setUp(self) -> None:
        self.cluster = Cluster.on_postgres(self, (FIRST, SECOND))
        self.key = key_file(self)

    def state(self, name: str) -> Path:
        return self.cluster.gateway.files.state(name)

    def emptied(self, name: str, *but: str) -> None:
        """The state directory of one, lost but for these."""
        for each in self.state(name).iterdir():
            if each.name not in but:
                shutil.rmtree(each) if each.is_dir() else each.unlink()

    def both(self) -> None:
        """The first leads, the second stands by."""
        self.cluster.start(FIRST)
        self.cluster.start(SECOND)
        self.cluster.standing_by(SECOND)

    def stopped(self) -> None:
        for name in (SECOND, FIRST):
            self.cluster.child(name).stop()

    def test_words(self) -> None:
        """The store is put back with one of them; the other goes on, and its twin is made anew."""
        cluster, out = self.cluster, Path(os.path.abspath(self.mktemp()))
        self.both()
        cluster.command("persons", "add", "ada")
        self.stopped()
        cluster.command("backup", "create", "--out", str(out), "--encrypt-to", RECIPIENT)
        kept = self.state(SECOND) / "anchor" / "heads.jsonl"
        covered = kept.read_bytes()
        self.both()
        cluster.command("persons", "add", "bob")
        until("the other keeps a head that is lost then", lambda: kept.read_bytes() != covered)
        self.stopped()

        cluster.empty()
        self.emptied(FIRST, "anchor")
        back = ("backup", "restore", str(out), "--identity", str(self.key))
        self.assertEqual(cluster.ran(*back).status, 6)
        cluster.command(*back, "--reason", "the database is lost")
        self.both()
        anew = "goes on from an older store"
        until("the other hears", lambda: anew in cluster.child(SECOND).text())
        cluster.child(FIRST).stop()
        until("the other leads", lambda: cluster.ran("persons", "list", name=SECOND).status == 0)
        listed = cluster.command("persons", "list", name=SECOND)
        self.assertIn("ada", listed)
        self.assertNotIn("bob", listed)
        cluster.check(SECOND)

        before = {one.name for one in (self.state(FIRST) / "identity").iterdir()}
        self.emptied(FIRST)
        shutil.copytree(self.state(SECOND) / "keys", self.state(FIRST) / "keys")
        cluster.start(FIRST)
        cluster.standing_by(FIRST)
        made = {one.name for one in (self.state(FIRST) / "identity").iterdir()} - {
            "current",
            "audit.key",
        }
        self.assertEqual(made & before, set())
        cluster.child(SECOND).stop()
        until("it leads", lambda: cluster.ran("persons", "list", name=FIRST).status == 0)
        cluster.check(FIRST)

"""Real Authorities are backed up, lost, and put back to where they were before."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import init_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY
from tests.cli.authority.backups import RECIPIENT, key_file
from tests.fault.cluster import Cluster
from tests.fault.tally import in_long_form
from tests.support.proof import proves

FIRST, SECOND = AUTHORITY, "authority2"


class BackupTests(SynchronousTestCase):
    """One Authority alone."""

    def setUp(self) -> None:
        self.gateway = gateway = init_gateway()
        self.addCleanup(gateway.end)
        self.name("a1")
        gateway.make_authority()
        self.state: Path = gateway.files.state(AUTHORITY)
        self.key = key_file(self)

    def name(self, name: str) -> None:
        """Give the Authority a name among those on its store."""
        files = self.gateway.files
        files.write(AUTHORITY, files.table(AUTHORITY) | {"authority.name": name})

    @proves("U-BAK-07", "U-BAK-06", "U-OPEN-12", "X-55")
    def test_life(self) -> None:
        """Beside a live writer none is made; one put back over newer heads says so in the log."""
        gateway, out = self.gateway, Path(os.path.abspath(self.mktemp()))
        gateway.operator("persons", "add", "ada")
        words = ("backup", "create", "--out", str(out), "--encrypt-to", RECIPIENT)
        refused = gateway.operator(*words, check=False)
        self.assertEqual((refused.status, out.exists()), (1, False))
        self.assertIn("stop every Authority", refused.stderr)
        until("a signed head", (self.state / "anchor" / "latest").exists)
        gateway.operator("recordings", "rotate-key")
        keys = self.recording_keys()
        self.assertEqual(len(keys), 3)  # the one in use, under both of its names, and the first
        gateway.operator(*words, "--window-closed")
        gateway.operator("persons", "add", "bob")
        gateway.child(AUTHORITY).stop()
        lost = self.newest()
        for each in self.state.iterdir():
            if each.name != "anchor":
                shutil.rmtree(each) if each.is_dir() else each.unlink()

        back = ("backup", "restore", str(out), "--identity", str(self.key))
        refused = gateway.operator(*back, check=False)
        self.assertEqual(refused.status, 6)
        self.assertIn(f"behind the signed head over {lost['tree_size']}", refused.stderr)
        self.assertEqual([each.name for each in self.state.iterdir()], ["anchor"])
        self.name("a2")
        refused = gateway.operator(*back, "--reason", "the disk broke", check=False)
        self.assertNotEqual(refused.status, 0)
        self.assertIn("credential of a1, and the configuration is that of a2", refused.stderr)
        self.assertEqual([each.name for each in self.state.iterdir()], ["anchor"])
        self.name("a1")
        gateway.operator(*back, "--reason", "the disk broke")
        kept = self.newest()
        self.assertEqual(self.recording_keys(), keys)
        self.one_half_of_a_pair()
        gateway.start(AUTHORITY)
        people = [one["name"] for one in gateway.operator("persons", "list", "--json").json]
        self.assertEqual(people, ["ada"])
        (record,) = [one for one in self.records() if one["event"] == "store.restored"]
        details = record["details"]
        self.assertEqual(details["head_size"], kept["tree_size"])
        self.assertEqual(details["lost_size"], lost["tree_size"])
        self.assertEqual({len(details[name]) for name in ("head_hash", "lost_hash")}, {64})
        self.assertIn("the disk broke", str(record))
        self.assertEqual(gateway.operator("audit", "verify").status, 0)
        gateway.restart(AUTHORITY)
        told = [one for one in self.records() if one["event"] == "store.restored"]
        self.assertEqual(len(told), 1)

    def one_half_of_a_pair(self) -> None:
        """With the certificate of another pair no Authority starts, and it names the pair."""
        path = self.state / "keys" / "anchor.pem"
        kept = path.read_bytes()
        path.write_bytes((self.state / "keys" / "snapshot.pem").read_bytes())
        child = self.gateway.child(AUTHORITY)
        child.start()
        self.assertEqual(child.wait(), 1)
        self.assertIn("keys/anchor", child.text())
        path.write_bytes(kept)

    def recording_keys(self) -> dict[str, bytes]:
        """The files of the keys of recordings."""
        found = (self.state / "keys").glob("recording*.key")
        return {path.name: path.read_bytes() for path in found}

    def newest(self) -> dict[str, Any]:
        """The newest head in the anchor directory."""
        head: dict[str, Any] = json.loads((self.state / "anchor" / "latest").read_text())["head"]
        return head

    def records(self) -> list[dict[str, Any]]:
        """The log, as it is told."""
        shown: list[dict[str, Any]] = self.gateway.operator(
            "audit", "show", "--last", "100", "--json"
        ).json
        return shown


def size_of(kept: Path) -> int:
    """How many records the newest head covers that an Authority keeps; it may be writing one."""
    *whole, _ = kept.read_bytes().split(b"\n")
    size: int = json.loads(whole[-1])["head"]["tree_size"] if whole else 0
    return size


@in_long_form
class SeveralTests(SynchronousTestCase):
    """What docs/how-to/backup.md says of several on one store, done; with ``SVC_LONG=1`` only."""

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
        """The store is put back with one of them; the other goes on, and its twin is made again."""
        cluster, out = self.cluster, Path(os.path.abspath(self.mktemp()))
        kept = self.state(SECOND) / "anchor" / "heads.jsonl"
        self.both()
        cluster.command("persons", "add", "ada")
        until("the other keeps heads", kept.exists)
        self.stopped()
        cluster.command("backup", "create", "--out", str(out), "--encrypt-to", RECIPIENT)
        self.both()
        cluster.command("persons", "add", "bob")
        [bob] = cluster.ran("audit", "show", "--last", "1", "--json").json
        until("the other keeps a head that is lost then", lambda: size_of(kept) >= bob["seq"])
        self.stopped()

        cluster.empty()
        self.emptied(FIRST, "anchor")
        back = ("backup", "restore", str(out), "--identity", str(self.key))
        self.assertEqual(cluster.ran(*back).status, 6)
        cluster.command(*back, "--reason", "the database is lost")
        self.both()
        again = "continues from an older store"
        until("the other hears", lambda: again in cluster.child(SECOND).text())
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

"""A real Authority is backed up, lost, and put back to where it was before."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway import init_gateway
from svc.testing.processes import until
from svc.testing.settings import AUTHORITY
from tests.cli.backups import RECIPIENT, key_file
from tests.proof import proves


class BackupTests(SynchronousTestCase):
    """One Authority alone."""

    def setUp(self) -> None:
        self.gateway = gateway = init_gateway()
        self.addCleanup(gateway.end)
        gateway.make_authority()
        self.state: Path = gateway.files.state(AUTHORITY)
        self.key = key_file(self)

    @proves("U-BAK-07", "U-BAK-06", "U-OPEN-12")
    def test_life(self) -> None:
        """Beside a live writer none is made; one put back over newer heads says so in the log."""
        gateway, out = self.gateway, Path(os.path.abspath(self.mktemp()))
        gateway.operator("persons", "add", "ada")
        words = ("backup", "create", "--out", str(out), "--encrypt-to", RECIPIENT)
        refused = gateway.operator(*words, check=False)
        self.assertEqual((refused.status, out.exists()), (1, False))
        self.assertIn("stop every Authority", refused.stderr)
        until("a signed head", (self.state / "anchor" / "latest").exists)
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
        gateway.operator(*back, "--reason", "the disk broke")
        kept = self.newest()
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

"""A damaged receiver credential in a backup, which an Authority can do without."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from twisted.trial.unittest import TestCase

from svc.pki.receiver import RECEIVER_FILE, load_receiver
from tests.cli.authority.backups import EmptyPlace, KeptPlace
from tests.cli.terminal import CLUSTER

PATH = f"state/{RECEIVER_FILE}"


class DamagedReceiverTests(TestCase):
    """`backup verify` and `restore`."""

    def damaged(self, path: Path) -> None:
        """Change what its key has signed."""
        data = path.read_bytes()
        path.write_bytes(data.replace(b"Owner: a1\n", b"Owner: a2\n"))
        self.assertNotEqual(path.read_bytes(), data)

    async def test_left_out(self) -> None:
        """It is named and left out, and all the rest is restored; an undamaged one is restored."""
        place = KeptPlace(self)
        await place.written()
        receiver = place.state / RECEIVER_FILE
        load_receiver(place.state, CLUSTER, "a1", time.time())
        whole, kept = place.made(), receiver.read_bytes()
        self.damaged(receiver)
        out = place.made()
        verified = place.verify(out)
        self.assertEqual(verified.status, 0, verified.stderr)
        self.assertIn(f"{PATH}: is damaged", verified.stdout)
        self.assertIn("its owner, its time or its key was changed", verified.stdout)
        self.assertIn("it makes another one at its next start", verified.stderr)
        place.config.write_text(place.config.read_text() + '[authority]\nname = "a1"\n')
        place.lose(anchor=True)
        restored = place.restore(out, place.key, "--json")
        self.assertEqual(restored.status, 0, restored.stderr)
        (left,) = json.loads(restored.stdout)["left_out"]
        self.assertEqual((left["path"], "damaged" in left["message"]), (PATH, True))
        self.assertIn("its owner, its time or its key was changed", left["message"])
        self.assertNotIn(str(place.state), left["message"])
        self.assertIn("receiver_replaced", left["hint"])
        self.assertIn("authority.name is that of the Authority", left["hint"])
        self.assertIn("(svc authority keys sync root readmit NAME --key DIGEST)", left["hint"])
        self.assertFalse(receiver.exists())
        self.assertEqual(place.run("audit", "verify").status, 0)
        place.lose(anchor=True)
        restored = place.restore(whole, place.key, "--json")
        self.assertEqual(json.loads(restored.stdout)["left_out"], [], restored.stderr)
        self.assertEqual(receiver.read_bytes(), kept)

    async def test_of_another(self) -> None:
        """An undamaged one of another Authority still stops the restore, and nothing is left."""
        place = KeptPlace(self)
        await place.written()
        load_receiver(place.state, CLUSTER, "a1", time.time())
        out, target = place.made(), EmptyPlace(self)
        refused = target.restore(out, place.key)
        self.assertEqual(refused.status, 1, refused.stdout)
        self.assertIn("the receiver credential of a1", refused.stderr)
        self.assertEqual(os.listdir(target.state), [])

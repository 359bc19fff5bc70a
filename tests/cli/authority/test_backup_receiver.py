"""A damaged receiver credential in a backup, which an Authority can do without."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from attrs import asdict
from twisted.trial.unittest import TestCase

from svc.ops.backup import archive, create, manifest
from svc.ops.backup.check import read_backup
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
        self.assertIn("the Authority makes another one at its next start", verified.stderr)
        place.config.write_text(place.config.read_text() + '[authority]\nname = "a1"\n')
        place.lose(anchor=True)
        restored = place.restore(out, place.key, "--json")
        self.assertEqual(restored.status, 0, restored.stderr)
        (left,) = json.loads(restored.stdout)["left_out"]
        self.assertEqual((left["path"], "damaged" in left["message"]), (PATH, True))
        self.assertIn("its owner, its time or its key was changed", left["message"])
        self.assertNotIn(str(place.state), left["message"])
        self.assertIn("receiver_replaced", left["hint"])
        self.assertNotIn("cannot be checked", left["hint"])
        self.assertIn("(svc authority keys sync root readmit NAME --key DIGEST)", left["hint"])
        self.assertFalse(receiver.exists())
        self.assertEqual(place.run("audit", "verify").status, 0)
        place.lose(anchor=True)
        restored = place.restore(whole, place.key, "--json")
        self.assertEqual(json.loads(restored.stdout)["left_out"], [], restored.stderr)
        self.assertEqual(receiver.read_bytes(), kept)

    def named(self, place: KeptPlace | EmptyPlace, name: str) -> None:
        """Give the Authority of a configuration a name."""
        text = place.config.read_text().partition("[authority]")[0]
        place.config.write_text(f'{text}[authority]\nname = "{name}"\n')

    async def damaged_backup(self, place: KeptPlace) -> Path:
        """One of the Authority a1, with a damaged credential."""
        await place.written()
        load_receiver(place.state, CLUSTER, "a1", time.time())
        self.damaged(place.state / RECEIVER_FILE)
        self.named(place, "a1")
        return place.made()

    async def test_damaged_of_another(self) -> None:
        """The name in the manifest is compared where the credential is damaged."""
        place = KeptPlace(self)
        out, target = await self.damaged_backup(place), EmptyPlace(self)
        self.assertEqual(read_backup(out).manifest.stamp.authority_name, "a1")
        self.named(target, "a3")
        refused = target.restore(out, place.key)
        self.assertEqual(refused.status, 1, refused.stdout)
        self.assertIn("the receiver credential of a1", refused.stderr)
        self.assertEqual(os.listdir(target.state), [])
        self.named(target, "a1")
        restored = target.restore(out, place.key)
        self.assertEqual(restored.status, 0, restored.stderr)

    async def test_of_an_earlier_svc(self) -> None:
        """A manifest without the name is restored, and says that nothing was compared."""

        def without(value: Any, **more: Any) -> Any:
            form = asdict(value, **more)
            for one in (form, form.get("stamp", {})):
                one.pop("authority_name", None)
            return form

        for module in (manifest, archive, create):
            self.patch(module, "asdict", without)
        place = KeptPlace(self)
        out, target = await self.damaged_backup(place), EmptyPlace(self)
        self.assertNotIn(b"authority_name", (out / manifest.NAME).read_bytes())
        self.named(target, "a3")
        restored = target.restore(out, place.key)
        self.assertEqual(restored.status, 0, restored.stderr)
        self.assertIn("an earlier svc made this backup", restored.stderr)
        self.assertIn("see that authority.name is that of the Authority", restored.stderr)

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

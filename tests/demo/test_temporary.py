"""The demo's directories: a later demo removes those of a dead one, and nothing else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.demo.temporary import DemoDirectory, remove_dead


class TemporaryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir()
        self.patch(tempfile, "tempdir", str(self.base))

    def left(self) -> list[str]:
        return sorted(one.name for one in self.base.iterdir())

    def killed(self) -> Path:
        """The directory of a demo whose process is gone."""
        demo = DemoDirectory.made()
        (demo.path / "state").mkdir()
        (demo.path / "state" / "file").write_text("x")
        os.close(demo.lock)
        return demo.path

    def test_removed_at_its_end(self) -> None:
        """Nothing is left of a demo that ends."""
        demo = DemoDirectory.made("pg-")
        self.assertTrue(demo.path.name.startswith("svc-demo-pg-"))
        self.assertEqual(demo.path.stat().st_mode & 0o777, 0o700)
        demo.remove()
        self.assertEqual(self.left(), [])

    def test_of_the_dead(self) -> None:
        """What a killed demo left is removed; the directory of one that runs stays."""
        running, dead = DemoDirectory.made(), self.killed()
        self.assertEqual(remove_dead(), (dead,))
        self.assertEqual(self.left(), [running.path.name, f"{running.path.name}.lock"])
        running.remove()
        self.assertEqual(remove_dead(), ())

    def test_of_others(self) -> None:
        """Without its lock a directory stays, and so does what a link leads to."""
        (self.base / "svc-demo-abc").mkdir()
        (self.base / "mine").mkdir()
        (self.base / "mine" / "file").write_text("x")
        (self.base / "svc-demo-link").symlink_to(self.base / "mine")
        (self.base / "svc-demo-link.lock").write_text("")
        (self.base / "svc-demo-dir.lock").mkdir()
        (self.base / "svc-demo-lost.lock").symlink_to(self.base / "svc-demo-abc")
        before = self.left()
        self.assertEqual(remove_dead(), ())
        self.assertEqual(self.left(), before)
        self.assertEqual((self.base / "mine" / "file").read_text(), "x")

"""The demo's directories: a later demo removes those of a dead one, and nothing else."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from itertools import count
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

    def test_killed_while_it_is_made(self) -> None:
        """At whatever step a demo is killed, a later one removes its directory."""
        for step in count():
            status = self.killed_at(step)
            remove_dead()
            self.assertEqual([one for one in self.base.iterdir() if one.is_dir()], [], step)
            if status == 0:
                break
        self.assertGreater(step, 3)

    def killed_at(self, step: int) -> int:
        """Make one in a process that kills itself at this step; its status, 0 if it was done."""
        pid = os.fork()
        if pid == 0:
            steps = count()

            def hook(event: str, _: object) -> None:
                if event.startswith(("os.", "open", "fcntl.")) and next(steps) == step:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                sys.addaudithook(hook)
                DemoDirectory.made()
            finally:
                os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

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

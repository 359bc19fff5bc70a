"""``python -m svc``: what lies in the working directory is none of the program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

from svc.__main__ import leave_working_directory
from svc.testing.gateway.processes import environment

SHADOWS = ("click", "twisted", "attrs", "logging", "pydantic")
EARLY = ("functools", "importlib", "contextlib", "warnings", "collections")
"""Some of what Python imports before it runs a module's ``__main__``."""


class WorkingDirectoryTests(SynchronousTestCase):
    """A directory that somebody else may have filled."""

    def setUp(self) -> None:
        self.place = Path(os.path.realpath(tempfile.mkdtemp(prefix="svc-main-")))
        self.addCleanup(rmtree, self.place, True)
        before = Path.cwd()
        self.addCleanup(os.chdir, before)

    def test_modules_are_not_imported(self) -> None:
        """A click.py there is not run; with -P nothing of Python's own library is, either."""
        for name in SHADOWS:
            self.shadow(name)
        self.check("-m")
        for name in EARLY:
            self.shadow(name)
        self.check("-P", "-m")

    def shadow(self, name: str) -> None:
        """Put a module there that says when it is run."""
        text = f"open({str(self.place / 'ran')!r}, 'a').write({name!r})\nraise SystemExit(9)\n"
        (self.place / f"{name}.py").write_text(text)

    def check(self, *how: str) -> None:
        """Run commands there: they end well, and no shadow was run."""
        for words in (["--version"], ["init", "made", "--for", "connector", "--ca-pin", "0" * 64]):
            ran = subprocess.run(
                [sys.executable, *how, "svc", *words],
                cwd=self.place,
                env=environment(self.place),
                capture_output=True,
                timeout=60,
                check=False,
            )
            self.assertFalse((self.place / "ran").exists(), words)
            self.assertEqual(ran.returncode, 0, ran.stderr)
        rmtree(self.place / "made")

    def test_path(self) -> None:
        """What -m put in front is taken off; a checkout that holds the program comes last."""
        os.chdir(self.place)
        here, other = str(self.place), "/usr/lib/python"
        for path, home, left in (
            ([here, other], "/elsewhere", [other]),
            (["", other], "/elsewhere", [other]),
            ([here, other, here], "/elsewhere", [other, here]),
            ([here, other], here, [other, here]),
            ([other, here], "/elsewhere", [other, here]),
            ([], "/elsewhere", []),
        ):
            leave_working_directory(path, home)
            self.assertEqual(path, left)

    def test_directory_that_is_gone(self) -> None:
        """A working directory that was removed stops nothing."""
        gone = self.place / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()
        path = ["/usr/lib/python"]
        leave_working_directory(path, "/elsewhere")
        self.assertEqual(path, ["/usr/lib/python"])

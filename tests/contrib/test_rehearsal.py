"""The rehearsal of an upgrade runs no program of a release that was not verified."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from contrib.rehearsal.__main__ import main
from contrib.release.one_file import TARGET
from svc.model.release import SUMS, parse_tag
from tests.ops.preflight.release import PROGRAM, TAG, SmallRelease


class VerifiedTests(SynchronousTestCase):
    """What is said of a release that is not as it was signed."""

    def setUp(self) -> None:
        self.place = Path(os.path.abspath(self.mktemp()))
        self.place.mkdir()
        self.release = SmallRelease(self.place / "release")
        self.started = self.place / "started"
        self.program = self.place / "old"
        self.program.write_text(f"#!/bin/sh\ntouch {self.started}\nexit 3\n")
        self.program.chmod(0o755)

    def refused(self) -> str:
        """Why the rehearsal ends before it starts any program."""
        words = ["--old", str(self.program), "--release", str(self.release.directory)]
        words += ["--pubkey", str(self.release.public)]
        with redirect_stderr(io.StringIO()) as said, redirect_stdout(io.StringIO()):
            self.assertEqual(main(words), 1)
        self.assertFalse(self.started.exists(), "nothing is started before")
        return said.getvalue()

    def test_another_key(self) -> None:
        """The checksums have to be signed with the key that the operator names."""
        other = SmallRelease(self.place / "other")
        self.release.public.write_bytes(other.public.read_bytes())
        self.assertIn("is no signature of SHA256SUMS by the key", self.refused())

    def test_another_program(self) -> None:
        """Each artifact has to be the one that is listed."""
        (self.release.directory / PROGRAM).write_bytes(b"#!/bin/sh\nexit 0\n")
        self.assertIn("lists", self.refused())

    def test_not_listed(self) -> None:
        """A program that lies beside the artifacts, and is none of them, is not run."""
        name = parse_tag(TAG).program(TARGET)
        (self.release.directory / name).write_bytes(self.program.read_bytes())
        self.assertIn(f"{SUMS}: does not list {name}", self.refused())

"""A whole process's logging: stderr only, one record a line, from whatever source."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.support.proof import proves

PROGRAM = """
import logging, os, sys, warnings
from twisted.internet.defer import fail
from twisted.logger import Logger
from svc.telemetry.filter import parse_filter
from svc.telemetry.logs import begin_logging

lines = begin_logging(os.environ)
Logger(namespace="svc_proxy").info("starting", role="proxy")
warnings.warn("careful\\nnow")
logging.getLogger("library").error("two\\nlines")
lines.settle(parse_filter(os.environ.get("RUST_LOG")), "a b")
fail(ValueError("nobody looked"))
logging.getLogger("library").info("hidden")
Logger(namespace="svc_proxy").error("ending", text="x\\ny")
sys.stdout.write("data")
"""


def run(**environ: str) -> tuple[str, list[str]]:
    """Stdout whole, and stderr by lines, of the program above."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": os.pathsep.join(sys.path), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr.splitlines()


class ProcessTests(SynchronousTestCase):
    """What an operator sees of a process."""

    @proves("G-LOG-02", "G-LOG-03", "G-LOG-06", "X-38")
    def test_json(self) -> None:
        """Stdout holds data only; each stderr line is one JSON object with the profile."""
        out, lines = run(SVC_LOG_FORMAT="json")
        self.assertEqual(out, "data")
        records = [json.loads(line) for line in lines]
        self.assertEqual({record["profile"] for record in records}, {"a b"})
        self.assertEqual(
            [record["target"] for record in records if record["target"][:7] != "twisted"],
            ["svc_proxy", "py.warnings", "library", "svc_proxy"],
        )
        lost = [record for record in records if record.get("error") == "nobody looked"]
        self.assertEqual(len(lost), 1)

    @proves("G-LOG-04", "G-CFG-16")
    def test_human(self) -> None:
        """Lines for people carry the profile as one field, those of libraries as well."""
        out, lines = run(SVC_LOG_FORMAT="JSON")
        self.assertEqual(out, "data")
        self.assertGreaterEqual(len(lines), 5)
        self.assertEqual([line for line in lines if not line.endswith(' profile="a b"')], [])

    @proves("G-CFG-15", "X-06")
    def test_filter(self) -> None:
        """RUST_LOG replaces the default: other targets fall silent."""
        _, lines = run(RUST_LOG="library=debug")
        self.assertEqual(len(lines), 2)
        self.assertIn(" INFO library: hidden", lines[1])

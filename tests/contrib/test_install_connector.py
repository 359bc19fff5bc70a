"""The script that installs a Connector: which state directories it takes, and what it writes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.config import load_settings
from svc.setup.units.planning import state_directory
from tests.support.proof import proves
from tests.support.wheels import ROOT

SCRIPT = ROOT / "contrib" / "install-connector.sh"
NEEDED = ("--cluster", "a.example", "--proxy", "gate.example.org:7400", "--ca-pin", "ab" * 32)
OWN = "/var/lib/svc/connector"


class ScriptTests(SynchronousTestCase):
    """As an operator calls it."""

    def run_it(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """The script in the machine's POSIX shell."""
        return subprocess.run(
            ["sh", str(SCRIPT), *words],
            env={"PATH": os.defpath, **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    @proves("U-NOTE-28")
    def test_accepted(self) -> None:
        """The Connector's own directory and those below; the role reads what is written."""
        for number, state in enumerate((OWN, f"{OWN}/a", f"{OWN}/a/b")):
            done = self.run_it(*NEEDED, "--state-dir", state, "--dry-run")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            path = Path(os.path.abspath(self.mktemp()) + f"{number}.toml")
            path.write_text(done.stdout)
            settings = load_settings(str(path), "connector", {})
            self.assertEqual(settings.state_dir, state)
            self.assertEqual(state_directory("connector", settings.state_dir), state[9:])
            self.assertEqual(settings.join.token_file, f"{state}/join.token")
        self.assertEqual(self.run_it(*NEEDED, "--dry-run").stdout.count(f'"{OWN}"'), 1)

    @proves("U-NOTE-28")
    def test_refused(self) -> None:
        """Any other is refused, by its name, before anything is written."""
        for state in (
            "/srv/a",
            "/var/lib/svc",
            "/var/lib/svc/proxy",
            f"{OWN}-2",
            f"{OWN}/../x",
            f"{OWN}/./a",
            f"{OWN}//a",
            f'{OWN}/a"b',
            "connector",
        ):
            done = self.run_it(*NEEDED, "--state-dir", state, "--config", "/nowhere/c.toml")
            self.assertEqual((done.returncode, done.stdout), (1, ""), state)
            self.assertIn(state, done.stderr)

    def test_usage(self) -> None:
        """What is missing or unknown is named."""
        for words, said in (
            (NEEDED[2:], "are needed"),
            ((*NEEDED, "--state-dir"), "--state-dir: needs a value"),
            ((*NEEDED, "--other", "x"), "--other: is no option"),
        ):
            done = self.run_it(*words)
            self.assertEqual(done.returncode, 64)
            self.assertIn(said, done.stderr)

    def test_plan_first(self) -> None:
        """It writes the configuration and shows the plan; a digest is passed on, and only then."""
        place = Path(os.path.abspath(self.mktemp()))
        place.mkdir()
        program, config = place / "svc", place / "etc" / "connector.toml"
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
        words = (*NEEDED, "--account", "daemon", "--svc", str(program), "--config", str(config))
        plan = f"--config {config} setup apply --role connector --account daemon"
        done = self.run_it(*words)
        self.assertEqual((done.returncode, done.stdout), (0, f"{plan} --dry-run\n"))
        self.assertIn("the unit is not installed yet", done.stderr)
        # Keys that the operator adds below stay, as the command is given again.
        config.write_text(config.read_text() + "connector.proxy_connection_count = 2\n")
        done = self.run_it(*words, "--approve-plan", "sha256:00")
        self.assertEqual((done.returncode, done.stdout), (0, f"{plan} --approve-plan sha256:00\n"))
        other = (*words[:3], "other:1", *words[4:])
        self.assertIn("says something else", self.run_it(*other).stderr)

    def test_configuration(self) -> None:
        """A directory that is there keeps its mode; a write that fails leaves no configuration."""
        place = Path(os.path.abspath(self.mktemp()))
        place.mkdir()
        config = place / "connector.toml"
        place.chmod(0o750)
        words = (*NEEDED, "--account", "daemon", "--svc", "true", "--config", str(config))
        script = f'ulimit -f 0; exec sh {SCRIPT} "$@"'
        done = subprocess.run(["sh", "-c", script, "sh", *words], capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(config.exists(), "half a file would be in the way of the next try")
        self.assertEqual(self.run_it(*words).returncode, 0)
        self.assertEqual(os.listdir(place), ["connector.toml"])
        self.assertEqual(place.stat().st_mode & 0o777, 0o750)

"""``svc contexts`` at a terminal: what somebody is told who has none, or one that is broken."""

from __future__ import annotations

import json
import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.client.contexts import ClientContext, select
from tests.cli.terminal import Outcome, terminal

GOOD = 'cluster = "a.example"\nendpoints.proxy = ["127.0.0.1:1"]\n'


class ListTests(SynchronousTestCase):
    """``svc contexts list``."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.own = self.home / ".svc"
        self.own.mkdir(mode=0o700, parents=True)
        others = {name: text for name, text in os.environ.items() if not name.startswith("SVC_")}
        self.patch(os, "environ", {**others, "HOME": str(self.home)})

    def listed(self, *words: str) -> Outcome:
        """The list of whoever has this home, and no variable of svc."""
        done = terminal("contexts", "list", *words)
        self.assertEqual(done.status, 0, done.stderr)
        return done

    def write(self, name: str, text: str = GOOD) -> Path:
        """A configuration below ``~/.svc``."""
        path = self.own / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def test_none(self) -> None:
        """Where there is none, it says where it looked and how to begin."""
        done = self.listed()
        self.assertEqual(done.stdout, "")
        for word in (f"{self.own}/client.toml", "/etc/svc/client.toml", "svc login", "svc join"):
            self.assertIn(word, done.stderr)
        self.assertEqual(json.loads(self.listed("--json").stdout), [])

    def test_selected_and_gone(self) -> None:
        """A selected file that is not there is marked, and said to be missing."""
        self.write("client.toml")
        gone = self.own / "work.toml"
        select(ClientContext("work", str(gone)), {"HOME": str(self.home)})
        done = self.listed()
        (marked,) = [line for line in done.stdout.splitlines() if line.startswith("*")]
        self.assertTrue(marked.endswith(str(gone)))
        self.assertIn(f"svc: {gone}: {gone}: cannot be read: no such file", done.stderr)

    def test_broken(self) -> None:
        """Each that cannot be used has one line that says why, whatever is wrong with it."""
        self.write("client.toml")
        self.write("bad.toml", "colour = 3\nshape = 4\n")
        bad, default = sorted(self.listed().stderr.splitlines())
        self.assertTrue(bad.startswith("svc: bad: "))
        self.assertIn("colour", bad)
        self.assertIn("shape", bad)
        self.assertTrue(default.startswith("svc: default: there is no identity"))

    def test_none_is_used(self) -> None:
        """Of several without a client.toml none is guessed, and that is said."""
        self.write("a.toml"), self.write("b.toml")
        if not Path("/etc/svc/client.toml").exists():
            self.assertIn("svc contexts use NAME", self.listed().stderr)

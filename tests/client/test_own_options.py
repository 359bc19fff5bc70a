"""The options of a printed command."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from svc.client.own_options import options_elsewhere, own_options
from svc.client.resident.refused import refused_text
from svc.errors import Denied


class OwnOptionsTests(SynchronousTestCase):
    """A command that is pasted acts as whoever was told it."""

    def test_forms(self) -> None:
        """A directory is named as --dir names it, another file by --config; a shell splits none."""
        for config, told in (
            (None, ""),
            ("", ""),
            ("/home/ada/b/client.toml", " --dir /home/ada/b"),
            ("client.toml", " --dir ."),
            ("work.toml", " --config work.toml"),
            ("my own/client.toml", " --dir 'my own'"),
        ):
            self.assertEqual(own_options(config), told)

    def test_elsewhere(self) -> None:
        """A command in any directory is told the whole path, or nothing of the usual one."""
        environ = {"HOME": self.mktemp()}
        config = os.path.join(environ["HOME"], ".svc", "client.toml")
        os.makedirs(os.path.dirname(config))
        path = os.path.abspath(config)
        self.assertEqual(options_elsewhere(config, environ), f" --dir {os.path.dirname(path)}")
        open(path, "x").close()
        home = {"HOME": os.path.abspath(environ["HOME"])}
        self.assertEqual(options_elsewhere(path, home), "")

    def test_refusal(self) -> None:
        """How to ask for what was denied names the identity that it was denied to."""
        error = Denied("no", reason="denied", details={"request": "svc request payroll"})
        for options in ("", " --dir bob"):
            told = refused_text("payroll", error, options)
            self.assertTrue(told.endswith(f"to ask for access: svc request payroll{options}"), told)

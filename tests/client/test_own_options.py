"""The options of a printed command."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from svc.client.own_options import (
    options_elsewhere,
    own_options,
    path_lines,
    with_options,
)
from svc.client.resident.refused import refused_text
from svc.errors import Denied
from tests.cli.tree import every_command


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
        for name in ("two\nlines", os.fsdecode(b"\xff")):
            self.assertEqual(options_elsewhere(f"/{name}/client.toml", home), "")

    def test_in_a_text(self) -> None:
        """Each command that a text tells to type, and nothing else in it."""
        for text, told in (
            ("see: svc resources list", "see: svc resources list --dir b"),
            ("`svc join`, or `svc login`", "`svc join --dir b`, or `svc login --dir b`"),
            ("`svc up` renews it", None),
            (
                "withdraw one: svc requests withdraw ID",
                "withdraw one: svc requests withdraw --dir b ID",
            ),
            ("type: svc request --decision ID", "type: svc request --dir b --decision ID"),
            ("(svc authority agents list)", None),
            ("svc statuses and svc-status", None),
            ("use another identity (--dir), or sign in there: svc login", None),
            ("in another directory; people with `svc join`", None),
        ):
            self.assertEqual(with_options(text, " --dir b"), told or text)
            self.assertEqual(with_options(text, ""), text)

    def test_path(self) -> None:
        """Where a shell does not find svc, one line says how it will; denials name svc alone."""
        (line,) = path_lines("'/my own/bin/svc'")
        self.assertTrue(line.startswith("export PATH='/my own/bin':\"$PATH\" "), line)
        for found in ("svc", "/usr/bin/python3 -P -m svc"):
            self.assertEqual(path_lines(found), [])

    def test_every_command(self) -> None:
        """Each command that uses an identity, whichever of them a text tells to type."""
        for name, command in every_command().items():
            takes_it = any("--dir" in one.opts for one in command.params)
            # Texts speak of `svc up` without telling to type it, proxy-ssh stands in ssh's
            # configuration, the directory of `svc authority` is an operator's, `svc contexts`
            # chooses between identities, and `svc doctor` mostly checks a role.
            others = ("svc up", "svc proxy-ssh", "svc authority", "svc doctor")
            if takes_it and name not in others and not name.startswith("svc contexts "):
                text = f"type: {name}"
                self.assertNotEqual(with_options(text, " --dir b"), text)

    def test_refusal(self) -> None:
        """How to ask for what was denied names the identity that it was denied to."""
        error = Denied("no", reason="denied", details={"request": "svc request payroll"})
        for options in ("", " --dir bob"):
            error.text = "no; see what you may use: svc resources list"
            told = refused_text("payroll", error, options)
            self.assertIn(f"svc resources list{options};", told)
            self.assertTrue(told.endswith(f"to ask for access: svc request payroll{options}"), told)

"""Which way a command takes: the host's control socket, or a Proxy."""

from __future__ import annotations

import os
from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from svc.cli import Globals
from svc.cli.lane import LaneOptions, client_config
from tests.cli.tree import every_command
from tests.system.admin_commands import ANYWHERE, ON_THE_HOST, REMOTE

ROOT = "svc authority"


class TableTests(SynchronousTestCase):
    """The table that the system's test types."""

    def test_whole(self) -> None:
        """Every command is in it, once."""
        names = {
            name.removeprefix(ROOT).strip() for name in every_command() if name.startswith(ROOT)
        }
        known = [*REMOTE, *ON_THE_HOST, *ANYWHERE]
        self.assertEqual(sorted(names), sorted(known))


class WayTests(SynchronousTestCase):
    """A home in which somebody has signed in, and one in which nobody has."""

    def setUp(self) -> None:
        self.home = Path(os.path.abspath(self.mktemp()))
        (self.home / ".svc").mkdir(parents=True)
        self.own = self.home / ".svc" / "client.toml"
        self.own.write_text("")

    def way(
        self,
        config: str | None = None,
        *proxies: str,
        home: Path | None = None,
        directory: str = "",
        **environ: str,
    ) -> str | None:
        """The person's configuration that a command asks by; None: the control socket."""
        given = Globals(config, {"HOME": str(home or self.home), **environ})
        return client_config(given, LaneOptions(proxies, Path(directory) if directory else None))

    def test_host(self) -> None:
        """A configuration of the Authority leads to its socket, also where one signed in."""
        self.assertIsNone(self.way("/etc/svc/authority.toml"))
        self.assertIsNone(self.way(SVC_CONFIG="/etc/svc/all.toml"))
        empty = Path(os.path.abspath(self.mktemp()))
        self.assertIsNone(self.way(home=empty))

    def test_proxy(self) -> None:
        """What says otherwise: options, a person's configuration, nothing where one signed in."""
        own = str(self.own)
        self.assertEqual(self.way(), own)
        self.assertEqual(self.way("/x/client.toml"), "/x/client.toml")
        self.assertEqual(self.way(SVC_CONFIG="/x/client.toml"), "/x/client.toml")
        self.assertEqual(self.way(None, "gate:1"), own)
        self.assertEqual(self.way(None, "gate:1", SVC_CONFIG="/etc/svc/authority.toml"), own)
        self.assertEqual(self.way("/x/mine.toml", "gate:1"), "/x/mine.toml")
        self.assertEqual(self.way(directory="/y"), "/y/client.toml")
        self.assertEqual(self.way(directory="/y", SVC_CONFIG="/x/client.toml"), "/y/client.toml")

    def test_both(self) -> None:
        """Two identities at once are refused."""
        with self.assertRaises(click.UsageError):
            self.way("/x/client.toml", directory="/y")

"""The file in which tools built on libpq find the databases."""

from __future__ import annotations

import configparser
import tempfile
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.published.pg_services import NAME, write_services


class ServicesTests(SynchronousTestCase):
    """``pg_service.conf``."""

    def written(self, *services: tuple[str, str, str]) -> dict[str, dict[str, str]]:
        """What a reader of the file finds."""
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(rmtree, directory)
        write_services(directory, services)
        path = directory / NAME
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        found = configparser.ConfigParser(interpolation=None)
        found.read(path)
        return {name: dict(found[name]) for name in found.sections()}

    def test_written(self) -> None:
        """The port where there is one, or else the socket's directory."""
        found = self.written(
            ("orders", "127.8.9.1:15432", "/run/orders"),
            ("shop", "", "/run/shop"),
            ("gone", "", ""),
        )
        self.assertEqual(
            found,
            {
                "orders": {"host": "127.8.9.1", "port": "15432"},
                "shop": {"host": "/run/shop", "port": "5432"},
            },
        )

    def test_directories_that_no_line_can_hold(self) -> None:
        """A path with a line's end, or one that is too long, is left out."""
        self.assertEqual(self.written(("a", "", "/x\nhost=evil"), ("b", "", "/" + "x" * 200)), {})

    def test_none(self) -> None:
        """Without a database there is a file that says what it is."""
        self.assertEqual(self.written(), {})

"""``endpoints.json`` of every version."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.published.cache import read_endpoints, write_endpoints
from svc.errors import ConfigError
from tests.support.proof import proves

ROW = {"resource": "db1", "kind": "tcp", "address": "127.64.3.7:15432"}


class CacheTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp())
        self.directory.mkdir(mode=0o700)
        self.path = self.directory / "endpoints.json"

    def test_round_trip(self) -> None:
        """What was written is read, and only the owner can read it."""
        write_endpoints(self.directory, "c1", [ROW])
        self.assertEqual(read_endpoints(self.directory), {"db1": "127.64.3.7"})
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(json.loads(self.path.read_text())["version"], 2)

    def test_none(self) -> None:
        """Without a file nothing is known."""
        self.assertEqual(read_endpoints(self.directory), {})

    @proves("G-OPEN-65", "U-REC-03")
    def test_version_1(self) -> None:
        """A file of version 1 is read, and kept beside before version 2 takes its place."""
        old = json.dumps({"version": 1, "endpoints": [ROW]})
        self.path.write_text(old)
        self.assertEqual(read_endpoints(self.directory), {"db1": "127.64.3.7"})
        write_endpoints(self.directory, "c1", [])
        kept = self.directory / "endpoints.v1.json"
        self.assertEqual(kept.read_text(), old)
        self.assertEqual(json.loads(self.path.read_text())["version"], 2)
        # Who goes back to the client of before puts its file back.
        kept.replace(self.path)
        self.assertEqual(read_endpoints(self.directory), {"db1": "127.64.3.7"})

    @proves("G-OPEN-65")
    def test_later_version(self) -> None:
        """A file of a later version is refused with advice, and stays as it is."""
        later = json.dumps({"version": 3, "endpoints": {}})
        self.path.write_text(later)
        refusal = self.assertRaises(ConfigError, read_endpoints, self.directory)
        self.assertIn("version 3", refusal.text)
        self.assertIn("later svc", refusal.text)
        self.assertEqual(self.path.read_text(), later)

    def test_damaged(self) -> None:
        """A damaged file costs nobody a start: it is taken for none."""
        for text in ("", "{", "[]", '{"version": 2}', '{"endpoints": [1, {"resource": 2}]}'):
            self.path.write_text(text)
            self.assertEqual(read_endpoints(self.directory), {}, text)

    def test_foreign_addresses(self) -> None:
        """Addresses that are not ours to give, or given twice, are not taken over."""
        rows = [
            {"resource": "a", "address": "10.0.0.1:5"},
            {"resource": "b", "address": "127.64.3.7:5"},
            {"resource": "c", "address": "127.64.3.7:6"},
        ]
        write_endpoints(self.directory, "c1", rows)
        self.assertEqual(read_endpoints(self.directory), {"b": "127.64.3.7"})

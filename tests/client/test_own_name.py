"""The name of whoever's identity is on this machine."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.client.own_name import OwnName


class OwnNameTests(SynchronousTestCase):
    """What is kept, and read again."""

    def setUp(self) -> None:
        self.own = OwnName(Path(self.mktemp()))
        self.own.path.parent.mkdir(parents=True, mode=0o700)

    def test_kept(self) -> None:
        """It is the name of that id only, and nobody else can read it."""
        self.assertEqual(self.own.read("p1"), "")
        self.own.write("p1", "ada é")
        self.assertEqual((self.own.read("p1"), self.own.read("p2")), ("ada é", ""))
        self.assertEqual(self.own.path.stat().st_mode & 0o077, 0)
        self.own.write("p2", "b" * 999)
        self.assertEqual(self.own.read("p2"), "b" * 253)

    def test_unreadable(self) -> None:
        """A file that says something else, or too much, is as good as none."""
        for text in ("", "[]", '{"id": "p1"}', '{"id": "p1", "name": 3}', "[" * 9999):
            self.own.path.write_text(text)
            self.assertEqual(self.own.read("p1"), "", text[:20])

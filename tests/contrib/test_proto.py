"""The committed protobuf modules are what the proto files give."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from contrib.proto import PROTOS, check, differences

ROOT = Path(__file__).resolve().parents[2]


class ProtoTests(SynchronousTestCase):
    """Comparing generated modules."""

    def _tree(self, **modules: str) -> Path:
        root = Path(self.mktemp())
        (root / PROTOS[0]).mkdir(parents=True)
        for name, text in modules.items():
            (root / PROTOS[0] / f"{name}_pb2.py").write_text(text)
        return root

    def test_committed_modules_are_fresh(self) -> None:
        """Making the modules again gives the committed ones, byte for byte."""
        self.assertEqual(check(ROOT), [])

    def test_differences_are_named(self) -> None:
        """A stale, a missing and a left-over module are each named; an equal one is not."""
        committed = self._tree(same="a", stale="old", leftover="a")
        fresh = self._tree(same="a", stale="new", missing="a")
        self.assertEqual(
            differences(committed, fresh),
            [
                f"{PROTOS[0]}/leftover_pb2.py: left over",
                f"{PROTOS[0]}/missing_pb2.py: missing",
                f"{PROTOS[0]}/stale_pb2.py: stale",
            ],
        )

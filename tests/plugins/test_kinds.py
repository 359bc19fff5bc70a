"""The drop-ins that bring the kinds tcp and ssh."""

from __future__ import annotations

from importlib import import_module

from twisted.trial.unittest import SynchronousTestCase

from svc.interfaces.kinds import IResourceKind


class DropInTests(SynchronousTestCase):
    def test_each_offers_its_kind(self) -> None:
        """The module kind_<word> offers one kind, and its name is that word."""
        for word in ("tcp", "ssh"):
            module = import_module(f"svc.plugins.kind_{word}")
            found = [v for v in vars(module).values() if IResourceKind.providedBy(v)]
            self.assertEqual([kind.name for kind in found], [word])

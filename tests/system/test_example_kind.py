"""A third party's kind: a wheel of its own, installed without a network, named, and used."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.wheels import ROOT, environment_with

EXAMPLE = ROOT / "contrib" / "example-kind"
MODULE = EXAMPLE / "src" / "svc" / "plugins" / "kind_vnc.py"
PAGE = ROOT / "docs" / "how-to" / "resource-kind.md"


class ExampleTests(SynchronousTestCase):
    """An environment that has svc and the example as wheels, and nothing of the checkout."""

    def test_carries_a_session(self) -> None:
        """Its own tests pass there: the contract of kinds, and a session through a gateway."""
        there = environment_with(self, "example-kind")
        code = "import svc, svc.plugins.kind_vnc as k; print(svc.__file__); print(k.__file__)"
        where = there.run("-c", code).splitlines()
        self.assertEqual([line.startswith(str(there.site)) for line in where], [True, True])
        tests = [str(path) for path in sorted((EXAMPLE / "tests").glob("test_*.py"))]
        self.assertEqual(len(tests), 2)
        said = there.run("-m", "twisted.trial", *tests)
        self.assertIn("PASSED", said)
        self.assertNotIn("skips", said)


class PageTests(SynchronousTestCase):
    """The how-to."""

    def test_listing(self) -> None:
        """What the page shows is the file, and the project file beside it."""
        page = PAGE.read_text("utf-8")
        for path in (MODULE, EXAMPLE / "pyproject.toml"):
            self.assertIn(f"\n{path.read_text('utf-8')}```\n", page, path.name)
        self.assertLess(len(MODULE.read_text("utf-8").splitlines()), 60)

"""A third party's drop-ins: wheels of their own, installed without a network, named, and used."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.support.wheels import ROOT, environment_with

RUN_BY = "make fault"

EXAMPLES = ("example-kind", "example-gated-kind", "example-store")
HOW_TO = ROOT / "docs" / "how-to"


def tests_of(name: str) -> list[Path]:
    """The test modules of an example."""
    return sorted((ROOT / "contrib" / name / "tests").glob("test_*.py"))


@cache
def tests_ran() -> str:
    """What trial said of the tests of all examples, run once and in one process."""
    every = [str(path) for name in EXAMPLES for path in tests_of(name)]
    return "\n" + environment_with(*EXAMPLES).run("-m", "twisted.trial", *every)


class Example:
    """One example, in an environment of svc's wheel and the examples', and nothing of the checkout.

    Attributes:
        module: The drop-in, below ``svc.plugins``.
        page: The how-to that shows it, whole.
        most: Fewer lines than this it has.
    """

    name: str
    module: str
    page: Path
    most: int

    def test_its_own_tests(self: Any) -> None:
        """Its own tests pass there: the contract of its seam, and its use in a real process."""
        there = environment_with(*EXAMPLES)
        code = f"import svc, svc.plugins.{self.module} as k; print(svc.__file__); print(k.__file__)"
        where = there.run("-c", code).splitlines()
        self.assertEqual([line.startswith(str(there.site)) for line in where], [True, True])
        tests = tests_of(self.name)
        self.assertEqual(len(tests), 2)
        said = tests_ran()
        for path in tests:
            self.assertIn(f"\n{path.stem}\n", said)
        self.assertIn("PASSED", said)
        self.assertNotIn("skips", said)

    def test_listing(self: Any) -> None:
        """What the how-to shows is the file, and the project file beside it."""
        example, page = ROOT / "contrib" / self.name, self.page.read_text("utf-8")
        module = example / "src" / "svc" / "plugins" / f"{self.module}.py"
        for path in (module, example / "pyproject.toml"):
            self.assertIn(f"\n{path.read_text('utf-8')}```\n", page, path.name)
        self.assertLess(len(module.read_text("utf-8").splitlines()), self.most)


class KindTests(Example, SynchronousTestCase):
    """A kind of resource, and a session through a gateway."""

    name, module, page, most = "example-kind", "kind_vnc", HOW_TO / "resource-kind.md", 60


class GatedKindTests(Example, SynchronousTestCase):
    """A kind whose requests are decided one by one, in a package beside its drop-in."""

    name, module, page, most = "example-gated-kind", "kind_redis", HOW_TO / "gated-kind.md", 20

    def test_the_whole_is_short(self) -> None:
        """All sides of it together are within 190 lines, and the page shows each."""
        sources = sorted((ROOT / "contrib" / self.name / "src").rglob("*.py"))
        lines = [line for path in sources for line in path.read_text("utf-8").splitlines()]
        self.assertLessEqual(len(lines), 190)
        page = self.page.read_text("utf-8")
        for path in sources:
            self.assertIn(f"\n{path.read_text('utf-8')}```\n", page, path.name)


class StoreTests(Example, SynchronousTestCase):
    """A store, and an Authority over it."""

    name, module, page, most = "example-store", "store_ram", HOW_TO / "store-backend.md", 80

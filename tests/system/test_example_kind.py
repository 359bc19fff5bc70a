"""A third party's kind: a wheel of its own, installed without a network, named, and used."""

from __future__ import annotations

import shutil
import sysconfig
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.wheels import ROOT, own_wheel, pip, run_python, wheel_of

EXAMPLE = ROOT / "contrib" / "example-kind"
MODULE = EXAMPLE / "src" / "svc" / "plugins" / "kind_vnc.py"
PAGE = ROOT / "docs" / "how-to" / "resource-kind.md"


class ExampleTests(SynchronousTestCase):
    """An environment that has svc and the example as wheels, and nothing of the checkout."""

    def setUp(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="svc-example-"))
        self.addCleanup(shutil.rmtree, self.place, True)
        home = self.place / "env"
        run_python(["-m", "venv", "--without-pip", str(home)], self.place)
        self.python = str(home / "bin" / "python")
        [site] = home.glob("lib/python*/site-packages")
        # What svc needs is here already.  A line in a .pth file brings the folder, and not what
        # .pth files in it bring: the checkout stays out.
        site.joinpath("others.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n", "utf-8")
        wheels = [str(own_wheel()), str(wheel_of("example-kind"))]
        run_python(pip("--python", self.python, "install", "--no-deps", *wheels), self.place)
        self.site = site

    def test_carries_a_session(self) -> None:
        """Its own tests pass there: the contract of kinds, and a session through a gateway."""
        code = "import svc, svc.plugins.kind_vnc as k; print(svc.__file__); print(k.__file__)"
        where = run_python(["-P", "-c", code], self.place, self.python).splitlines()
        self.assertEqual([line.startswith(str(self.site)) for line in where], [True, True])
        tests = [str(path) for path in sorted((EXAMPLE / "tests").glob("test_*.py"))]
        self.assertEqual(len(tests), 2)
        said = run_python(["-P", "-m", "twisted.trial", *tests], self.place, self.python)
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

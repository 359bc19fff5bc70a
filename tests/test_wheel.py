"""The built wheel, as another machine gets it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

from tests.support.proof import proves
from tests.support.wheels import ROOT, own_copy, own_wheel, run_python
from tests.test_project import ROLES

RUN_BY = "make fault"


class WheelTests(SynchronousTestCase):
    """The built wheel, as another machine gets it."""

    def setUp(self) -> None:
        """Unpack the wheel, built once a process, into a folder of this test's own."""
        self.unpacked = Path(self.mktemp()).absolute()
        with ZipFile(own_wheel()) as wheel:
            self.names = set(wheel.namelist())
            wheel.extractall(self.unpacked)

    @proves("G-OPEN-19")
    def test_every_file_is_in_it(self) -> None:
        """Each module, proto file, stub and type marker of svc is in the wheel."""
        kinds = ("*.py", "*.pyi", "*.proto", "py.typed", "*.cedar", "*.cedarschema", "*.json")
        wanted = {
            path.relative_to(ROOT).as_posix()
            for kind in kinds
            for path in (ROOT / "svc").rglob(kind)
        }
        self.assertEqual(sorted(wanted - self.names), [])

    def test_migrations_are_in_it(self) -> None:
        """Each migration is installed under share/svc/migrations."""
        base = "svc-0.11.0rc7.data/data/share/svc/migrations/"
        wanted = {base + path.name for path in (ROOT / "migrations").glob("m*")}
        self.assertEqual({name for name in self.names if name.startswith(base)}, wanted)
        self.assertIn(base + "m0001_", {name[: len(base) + 6] for name in self.names})

    def test_command_and_licence(self) -> None:
        """The wheel brings the command `svc` and the licence."""
        info = self.unpacked / "svc-0.11.0rc7.dist-info"
        self.assertIn("svc = svc.start:main", (info / "entry_points.txt").read_text())
        self.assertTrue((info / "licenses" / "LICENSE").is_file())

    def test_twistd_lists_the_roles(self) -> None:
        """With the wheel installed, and this checkout out of sight, twistd offers each role."""
        self.assertIn("twisted/plugins/svc_roles.py", self.names)
        shown = self._python(
            "import sys; from twisted.scripts.twistd import run; sys.argv[1:] = ['--help']; run()"
        )
        self.assertEqual(sorted(re.findall(r"^ +(svc-\w+) ", shown, re.MULTILINE)), ROLES)

    def test_editable_install_is_a_plain_path(self) -> None:
        """An editable install is one path entry: with an import hook twistd finds no drop-in."""
        editable = Path(self.mktemp()).absolute()
        editable.mkdir()
        code = f"from setuptools.build_meta import build_editable as b; b({str(editable)!r})"
        run_python(["-c", code], own_copy())
        with ZipFile(next(editable.glob("*.whl"))) as wheel:
            outside = [name for name in wheel.namelist() if ".dist-info/" not in name]
            added = [name for name in outside if not name.startswith("svc-0.11.0rc7.data/")]
            self.assertEqual([Path(name).suffix for name in added], [".pth"])
            self.assertEqual(wheel.read(added[0]).decode().split(), [str(own_copy())])

    def test_others_add_drop_ins(self) -> None:
        """A drop-in that another distribution puts beside ours can be imported."""
        (self.unpacked / "svc" / "plugins" / "acme_vnc.py").write_text("WORD = 'vnc'\n")
        shown = self._python("import svc.plugins.acme_vnc as a, svc; print(a.WORD, svc.__file__)")
        self.assertEqual(shown.split(), ["vnc", str(self.unpacked / "svc" / "__init__.py")])

    def _python(self, code: str) -> str:
        """Run code that sees the unpacked wheel in place of this checkout."""
        others = [path for path in sys.path if path and Path(path) != ROOT]
        swap = f"import sys; sys.path[:] = {[str(self.unpacked), *others]!r}; "
        return run_python(["-P", "-c", swap + code], self.unpacked)

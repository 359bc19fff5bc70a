"""What the project ships: its packages, its version, its locks, its twistd drop-in."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from twisted.trial.unittest import SynchronousTestCase

import svc
from tests.support.sources import nodes
from tests.support.wheels import ROOT, run_python

ROLES = ["svc-all", "svc-authority", "svc-client", "svc-connector", "svc-proxy"]


def _setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def _wanted(*names: str) -> Iterator[Requirement]:
    """Yield the requirements of ``requirements/<name>.in``."""
    for name in names:
        for line in (ROOT / "requirements" / f"{name}.in").read_text().splitlines():
            if line and not line.startswith("#"):
                yield Requirement(line)


def _locked(name: str) -> dict[str, tuple[str, int]]:
    """Return distribution -> (version, number of hashes) of ``requirements/<name>.txt``."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    found: dict[str, tuple[str, int]] = {}
    for block in re.split(r"\n(?=[a-z0-9])", text):
        pin = re.match(r"([a-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", block)
        if pin:
            found[canonicalize_name(pin[1])] = (pin[2], block.count("--hash=sha256:"))
    return found


class PackageListTests(SynchronousTestCase):
    """The hand-written list of packages."""

    def test_equals_the_disk(self) -> None:
        """Every folder of svc that holds Python is listed, and nothing else but the drop-in's."""
        on_disk = {
            ".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "svc").rglob("*.py")
        }
        listed = _setup_cfg()["options"]["packages"].split()
        self.assertEqual(sorted(listed), sorted({*on_disk, "twisted.plugins"}))

    def test_shared_folders_have_no_init(self) -> None:
        """Folders that other distributions add to are no packages of ours alone."""
        for folder in ("twisted", "twisted/plugins", "svc/plugins"):
            self.assertFalse((ROOT / folder / "__init__.py").exists(), folder)


class VersionTests(SynchronousTestCase):
    """One version, two spellings."""

    def test_spellings_agree(self) -> None:
        """What svc shows is what Python packages call 0.11.0rc7, and setup.cfg reads it there."""
        self.assertEqual(svc.__version__, "0.11.0-rc.7")
        self.assertEqual(str(Version(svc.__version__)), "0.11.0rc7")
        self.assertEqual(_setup_cfg()["metadata"]["version"], "attr: svc.__version__")


class LockTests(SynchronousTestCase):
    """The hash-locked requirements."""

    def test_every_requirement_is_locked(self) -> None:
        """Each requirement has a pin that satisfies it in the lock made from it."""
        for lock, names in {
            "runtime": ("runtime", "build"),
            "test": ("runtime", "build", "test"),
            "release": ("release",),
        }.items():
            pins = _locked(lock)
            for requirement in _wanted(*names):
                version, _ = pins[canonicalize_name(requirement.name)]
                self.assertTrue(
                    requirement.specifier.contains(version), f"{lock}: {requirement} {version}"
                )

    def test_every_pin_has_hashes(self) -> None:
        """No pin of any lock is without a hash."""
        for lock in ("runtime", "test", "release"):
            bare = [name for name, (_, hashes) in _locked(lock).items() if not hashes]
            self.assertEqual(bare, [], lock)

    def test_tests_run_what_the_demo_runs(self) -> None:
        """What both locks hold they hold in one version."""
        tested = _locked("test")
        for name, pin in _locked("runtime").items():
            self.assertEqual(tested[name], pin)

    def test_no_host_is_named(self) -> None:
        """A lock says what is installed, never from where."""
        for path in (ROOT / "requirements").iterdir():
            self.assertNotIn("://", path.read_text(), path.name)

    def test_every_import_is_declared(self) -> None:
        """What svc imports of others stands in requirements/runtime.in."""
        declared = {canonicalize_name(requirement.name) for requirement in _wanted("runtime")}
        providers = packages_distributions()
        undeclared = {
            f"{path}: {top}"
            for path, found in nodes().items()
            for top in _imported_tops(found)
            if not declared & {canonicalize_name(one) for one in providers.get(top, [])}
        }
        self.assertEqual(sorted(undeclared), [])


def _imported_tops(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the top-level names of others that a file imports."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    tops = {name.partition(".")[0] for name in names}
    return tops - set(sys.stdlib_module_names) - {"svc"}


class HistoryTests(SynchronousTestCase):
    """The release history that is made of news fragments."""

    def test_headings(self) -> None:
        """An entry has the seven headings in their order, and an empty one says so."""
        entry = run_python(["-m", "towncrier", "build", "--draft", "--version", "1"], ROOT)
        self.assertEqual(
            re.findall(r"^### (.*)$", entry, re.MULTILINE),
            [
                "Added",
                "Changed",
                "Fixed",
                "Compatibility",
                "Migration and recovery",
                "Artifacts and channel",
                "Verification",
            ],
        )
        empty = Path(self.mktemp()).resolve()
        (empty / "newsfragments").mkdir(parents=True)
        (empty / "newsfragments" / "1.added.md").write_text("Something.\n", "utf-8")
        for one in ("pyproject.toml", "newsfragments/_template.md.jinja"):
            shutil.copy(ROOT / one, empty / one)
        entry = run_python(["-m", "towncrier", "build", "--draft", "--version", "1"], empty)
        self.assertIn("### Added\n\n- Something.", entry)
        self.assertIn("### Compatibility\n\nNone.", entry)


class RoleDropInTests(SynchronousTestCase):
    """The twistd drop-in of this checkout."""

    def test_lines(self) -> None:
        """Each role is one line that names an attribute of svc.tap, and imports nothing of svc."""
        tree = ast.parse((ROOT / "twisted/plugins/svc_roles.py").read_text())
        self.assertEqual(
            [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)],
            ["twisted.application.reactors", "twisted.application.service"],
        )
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        words = [[ast.literal_eval(argument) for argument in call.args] for call in calls]
        *lines, reactor = sorted(words, key=len, reverse=True)
        self.assertEqual(reactor[:2], ["svc", "svc.runtime.reactor"])
        self.assertEqual(sorted(line[3] for line in lines), ROLES)
        for _, module, _, role in lines:
            self.assertEqual(module, f"svc.tap.{role.removeprefix('svc-')}")

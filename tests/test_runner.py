"""The runner of the tests: which modules share a process, and what it says of how they ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.runner import TestLoader
from twisted.trial.unittest import SynchronousTestCase, TestSuite

from tests.runner import ROOT, groups, modules, part_of

RUN_BY = "make fault"

GOOD = """\
from twisted.trial.unittest import SynchronousTestCase

class FirstTests(SynchronousTestCase):
    def test_one(self):
        pass

    def test_two(self):
        pass
    test_two.skip = "no ladder"
"""
BAD = GOOD.replace("pass", "self.fail('a broken leg')")
DEAD = GOOD.replace("pass", "import os; print('last words', flush=True); os._exit(0)")
WITHOUT = "import os\n"


def names(suite: object) -> set[str]:
    """The modules of the tests that trial finds itself."""
    if isinstance(suite, TestSuite):
        return {name for each in suite for name in names(each)}
    return {type(suite).__module__}


class GroupTests(SynchronousTestCase):
    """What runs where."""

    def test_every_module_once(self) -> None:
        """Every file of tests below the folder is in one group, in exactly one place of it."""
        there = [path for path in (ROOT / "tests").rglob("*.py") if path.name.startswith("test_")]
        made = [name for group in groups(modules(["tests"])) for name in group]
        expected = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in there]
        self.assertEqual(sorted(made), sorted(expected))

    def test_as_trial_finds_them(self) -> None:
        """What trial would find in a package is what is run."""
        for package in ("tests.model", "tests.wire"):
            found = names(TestLoader().loadByName(package, recurse=True))
            self.assertEqual(set(modules([package])), found)

    def test_sharing(self) -> None:
        """Modules that use one gateway are together; others are alone where they take long."""
        of = {name: group for group in groups(modules(["tests"])) for name in group}
        together = of["tests.system.test_health"]
        self.assertIn("tests.system.test_twistd", together)
        self.assertNotIn("tests.system.test_kills", together)
        self.assertIn("tests.fault.test_f01_kills", of["tests.system.test_kills"])
        self.assertIn("tests.fault.test_f25_policies", together)
        self.assertLess(
            list(of.values()).index(together),
            list(of.values()).index(of["tests.fault.test_f12_chain"]),
            "what takes long begins first, whatever else is in its process",
        )
        self.assertEqual(of["tests.system.test_init"], ("tests.system.test_init",))
        self.assertEqual(set(of["tests.wire.test_any"]), set(modules(["tests.wire"])))

    def test_parts(self) -> None:
        """Faults and stock implementations are apart, and any module that says so; no room is."""
        part = {name: part_of(name) for name in modules(["tests"])}
        apart = {name for name, its in part.items() if its != "test"}
        for name in ("tests.fault.test_f12_chain", "tests.interop.test_go"):
            self.assertIn(name, apart)
        self.assertIn("tests.system.test_kills", apart, "it says so")
        self.assertNotIn("tests.system.test_sessions", apart)
        long = {name for name, its in part.items() if its == "long"}
        self.assertEqual(
            long, {"tests.system.test_postgres_regress"}, "nothing else has no short form"
        )
        outside = {name.split(".")[1] for name in apart}
        self.assertEqual(
            outside, {"contrib", "fault", "interop", "system", "test_runner", "test_wheel"}
        )

    def test_unknown(self) -> None:
        """A name that is nothing is refused, not left out."""
        for name in ("tests.no_such_room", "tests.wire.test_nothing"):
            with self.assertRaises(SystemExit) as caught:
                modules([name])
            self.assertIn(f"{name}: no package and no module", str(caught.exception))


class OutcomeTests(SynchronousTestCase):
    """What it says and ends with."""

    def ran(self, **files: str) -> tuple[int, str]:
        """Status and words of a run over such modules."""
        base = Path(self.mktemp()).absolute()
        (base / "tests").mkdir(0o755, parents=True)
        (base / "tests" / "__init__.py").touch()
        (base / "tests" / "runner.py").write_text((ROOT / "tests" / "runner.py").read_text())
        for name, text in files.items():
            (base / "tests" / f"test_{name}.py").write_text(text)
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(base)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.runner", "-j", "2", "--slowest", "1"],
            cwd=base,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_good(self) -> None:
        """Passed and skipped are counted; why one was skipped is told."""
        status, said = self.ran(a=GOOD, b=GOOD)
        self.assertEqual(status, 0, said)
        self.assertIn("Ran 4 tests in ", said)
        self.assertIn("PASSED (skips=2, successes=2)", said)
        [dearest] = re.findall(r"by CPU time:\n(.*)\nPASSED", said)
        self.assertRegex(dearest, r"^ok +2 tests .* cpu +tests\.test_[ab]$")
        self.assertIn("no ladder", said)

    def test_bad(self) -> None:
        """A failure, an end before the end, and a module without a test each fail the run."""
        status, said = self.ran(good=GOOD, bad=BAD, dead=DEAD, without=WITHOUT, broken="nonsense")
        self.assertEqual(status, 1, said)
        for word in ("a broken leg", "last words", "NameError"):
            self.assertIn(word, said)
        _, _, last = said.partition("FAILED (errors=1, failures=1, skips=2, successes=1)")
        for name in ("bad", "dead", "without", "broken"):
            self.assertIn(f"tests.test_{name}\n", last)
        self.assertNotIn("tests.test_good\n", last)

"""The conformance page says what the tests claim, and notices when it no longer does."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from contrib.conformance import IDS, LONG, PAGE, TITLES, marks, run
from tests.support.proof import proves

ROOT = Path(__file__).resolve().parents[2]

_TEST = """
class Tests:
    @proves("G-GEN-01", "G-GEN-02")
    def test_one(self): ...

@proves("G-GEN-02")
def test_two(): ...
"""


class MarkTests(SynchronousTestCase):
    """Reading the marks off a test file."""

    def test_places(self) -> None:
        """Every id of every mark is found with the place of its test."""
        self.assertEqual(
            list(marks("tests/test_x.py", _TEST)),
            [
                ("G-GEN-01", "tests/test_x.py::Tests::test_one"),
                ("G-GEN-02", "tests/test_x.py::Tests::test_one"),
                ("G-GEN-02", "tests/test_x.py::test_two"),
            ],
        )

    def test_long_form(self) -> None:
        """A test that only the long form has is marked so, and so is what its class holds."""
        text = "@in_long_form\nclass Tests:\n    @proves('G-GEN-01')\n    def test_one(self): ...\n"
        self.assertEqual(list(marks("t.py", text)), [("G-GEN-01", f"t.py::Tests::test_one{LONG}")])

    def test_class_of_long_tests(self) -> None:
        """A class whose every test only the long form has is marked so; with another one not."""
        long = "    @in_long_form\n    def test_one(self): ...\n    def check(self): ...\n"
        short = "    def test_two(self): ...\n"
        for body, shown in ((long, LONG), (long + short, ""), ("    pass\n", "")):
            text = f"@proves('G-GEN-01')\nclass Tests:\n{body}"
            self.assertEqual(list(marks("t.py", text)), [("G-GEN-01", f"t.py::Tests{shown}")])

    def test_only_literal_ids(self) -> None:
        """A mark whose ids cannot be read off the source is an error, not a silent gap."""
        text = "@proves(*ROWS)\ndef test_x(): ...\n"
        error = self.assertRaises(ValueError, list, marks("t.py", text))
        self.assertIn("t.py::test_x", str(error))

    def test_decorator_leaves_the_test_alone(self) -> None:
        """A marked test is the same function, with its ids readable on it."""

        def test() -> None:
            """Stand for a test."""

        self.assertIs(proves("G-GEN-01")(test), test)
        self.assertEqual(vars(test)["proves"], ("G-GEN-01",))


class PageTests(SynchronousTestCase):
    """Writing the page of a small tree, and checking it."""

    def setUp(self) -> None:
        """Make a tree of three rows and one test file."""
        self.root = Path(self.mktemp())
        (self.root / "docs").mkdir(parents=True)
        (self.root / "tests").mkdir()
        (self.root / IDS).write_text("G-GEN-01\nG-GEN-02\nG-GEN-03\n")
        self.test = self.root / "tests" / "test_x.py"
        self.test.write_text(_TEST)

    def test_done_and_open(self) -> None:
        """A row with a proof is done and names it; a row without one is open."""
        self.assertEqual(run(self.root, check=False), [])
        page = (self.root / PAGE).read_text()
        self.assertIn("| G-GEN-01 | done | `tests/test_x.py::Tests::test_one` |", page)
        self.assertIn("| G-GEN-03 | open |  |", page)
        self.assertIn("2 of 3 rows are done", page)

    def test_long_form_only(self) -> None:
        """A row whose every proof needs the long form says so."""
        text = _TEST.replace('@proves("G-GEN-02")', '@in_long_form\n@proves("G-GEN-03")')
        self.test.write_text(text)
        run(self.root, check=False)
        page = (self.root / PAGE).read_text()
        shown = "`tests/test_x.py::test_two` (long form)"
        self.assertIn(f"| G-GEN-03 | done, long form only | {shown} |", page)

    def test_fresh_page_passes(self) -> None:
        """A page that was just written passes the check."""
        run(self.root, check=False)
        self.assertEqual(run(self.root, check=True), [])

    def test_stale_page(self) -> None:
        """The check fails, and writes nothing, once a test no longer claims its row."""
        run(self.root, check=False)
        self.test.write_text("")
        before = (self.root / PAGE).read_text()
        self.assertIn("stale", run(self.root, check=True)[0])
        self.assertEqual((self.root / PAGE).read_text(), before)

    def test_unknown_row(self) -> None:
        """A proof of a row that the checklist does not have is named with its place."""
        self.test.write_text("@proves('G-GEN-99')\ndef test_x(): ...\n")
        self.assertIn("tests/test_x.py::test_x: no row G-GEN-99", run(self.root, check=False))


class ChecklistTests(SynchronousTestCase):
    """The committed list of rows."""

    def test_rows_and_groups(self) -> None:
        """There are 769 rows, none twice, and every group has a title and a row."""
        rows = (ROOT / IDS).read_text().split()
        self.assertEqual((len(rows), len(set(rows))), (769, 769))
        self.assertEqual({row.rpartition("-")[0] for row in rows}, set(TITLES))

"""The list of migrations, and the tool that gives the files its numbers."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from contrib.recut import FOLDER, LIST, listed, main, planned

SIX = (
    "bootstrap_identity",
    "resource_identities",
    "connector_publication",
    "manual_resource_bindings",
    "manual_assignment_revision",
    "manual_inventory_generation",
)


class ListTests(SynchronousTestCase):
    """docs/migrations.md"""

    def test_as_document_2_counts(self) -> None:
        """There are 85, and the last six are those that document 2 names, in its order."""
        names = listed(LIST.read_text("utf-8"))
        self.assertEqual(len(names), 85)
        self.assertEqual(tuple(names[79:]), SIX)

    def test_every_file_has_its_place(self) -> None:
        """Each migration stands under its number in the list, and the 0.10 schema is whole."""
        files = sorted(path.name for path in FOLDER.iterdir())
        plan = planned(listed(LIST.read_text("utf-8")), files)
        self.assertEqual(plan.unlisted, [], "write them into docs/migrations.md")
        self.assertEqual(plan.missing, [])
        self.assertEqual([new for old, new in plan.renames.items() if old != new], [])
        self.assertGreaterEqual(len({name[:5] for name in plan.renames.values()}), 79)

    def test_a_list_with_a_gap(self) -> None:
        """A number that is missing, or a name that comes twice, is refused."""
        for text in ("| `m0001_a` |\n| `m0003_b` |", "| `m0001_a` |\n| `m0002_a` |"):
            self.assertRaises(ValueError, listed, text)


class RecutTests(SynchronousTestCase):
    """Re-cutting a sequence of the test's own."""

    def setUp(self) -> None:
        self.folder, self.list = Path(self.mktemp()), Path(self.mktemp())
        self.folder.mkdir()
        self.write("m0001_one.sql", "CREATE TABLE one (a TEXT);")
        self.write("m0002_two.sqlite.sql", "CREATE TABLE two (b TEXT);")
        self.write("m0002_two.postgresql.sql", "CREATE TABLE two (b TEXT);")
        self.write("m0003_three.py", "def up(db):\n    db.change('INSERT INTO one SELECT 1')\n")
        self.write("README", "no migration")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def recut(self, *names: str) -> tuple[int, list[str]]:
        """By a list of these names; the status and what was said."""
        lines = [f"| `m{n:04d}_{name}` | what | why |" for n, name in enumerate(names, 1)]
        self.list.write_text("\n".join(lines))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            place = ["--list", str(self.list), "--folder", str(self.folder)]
            status = main(["--write", *place])
        return status, said.getvalue().splitlines()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def test_renamed(self) -> None:
        """Each file gets the number of its name, whatever number another has now."""
        status, said = self.recut("two", "one", "three", "four")
        self.assertEqual(status, 0, said)
        self.assertIn("m0001_one.sql -> m0002_one.sql", said)
        self.assertEqual(
            self.files(),
            [
                "README",
                "m0001_two.postgresql.sql",
                "m0001_two.sqlite.sql",
                "m0002_one.sql",
                "m0003_three.py",
            ],
        )

    def test_not_yet(self) -> None:
        """While one is missing before the last, or is not in the list, nothing is renamed."""
        before = self.files()
        self.assertEqual(
            self.recut("two", "new", "one"),
            (
                1,
                [
                    "m0001_one.sql -> m0003_one.sql",
                    "m0002_two.postgresql.sql -> m0001_two.postgresql.sql",
                    "m0002_two.sqlite.sql -> m0001_two.sqlite.sql",
                    "missing: new",
                    "not in the list: three",
                ],
            ),
        )
        self.assertEqual(self.files(), before)

    def test_another_store(self) -> None:
        """An order that makes another store is refused, saying what is other."""
        self.write("m0004_four.sql", "DELETE FROM one;")
        before = self.files()
        status, said = self.recut("one", "two", "four", "three")
        self.assertEqual((status, said[-1]), (1, "~ rows of table one: count 0 -> 1"))
        self.assertEqual(self.files(), before)

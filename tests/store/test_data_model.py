"""The pages on the data model say what a migrated store holds."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.store.factory import SqliteFactory
from svc.store.migrate import migrations_folder
from tests.postgres import connected, migrated_database
from tests.store.places import ROOT, fresh_url, migrate, migrated_url, path_of

PAGE = ROOT / "docs" / "reference" / "data-model.md"
DESIGN = ROOT / "docs" / "data-model.md"
SQL = ROOT / "svc" / "store" / "sql"


class DataModelTests(SynchronousTestCase):
    """docs/reference/data-model.md against a store."""

    def test_tables_and_columns(self) -> None:
        """Every table and column of a store is on the page, and nothing else is."""
        connection = sqlite3.connect(path_of(migrated_url(self)))
        self.addCleanup(connection.close)
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        stored = {
            name: [row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")]
            for (name,) in names
        }
        self.assertEqual(_told(), stored)

    def test_design(self) -> None:
        """The page on the whole names every table once under its subject, and none too early."""
        text = DESIGN.read_text("utf-8")
        now = re.findall(r"`(\w+)`", "".join(re.findall(r"^Now: (.*)$", text, re.MULTILINE)))
        ahead, later = (_listed(text, sort) for sort in ("Made ahead", "Later"))
        self.assertEqual(sorted([*now, *ahead]), sorted(_told()))
        self.assertEqual(set(later) & set(_told()), set())
        self.assertGreater(len(later), 0)
        self.assertEqual(len(later), len(set(later)))

    def test_made_ahead(self) -> None:
        """What is called made ahead is in no statement of this build."""
        ahead = _listed(DESIGN.read_text("utf-8"), "Made ahead")
        word = re.compile(rf"\b({'|'.join(ahead)}|onward_auth)\b")
        statements = "".join(path.read_text("utf-8") for path in SQL.glob("*.py"))
        self.assertEqual(set(word.findall(statements)), set())

    def test_postgresql(self) -> None:
        """A store in PostgreSQL has the same tables and columns, in the same order."""
        with connected(migrated_database(self)) as cursor:
            cursor.execute(
                "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)"
                " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
                " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
                " GROUP BY c.relname"
            )
            self.assertEqual(dict(cursor.fetchall()), _told())


def _listed(text: str, sort: str) -> list[str]:
    """The tables that are designed under this word, in any subject."""
    parts = re.split(r"^(?=Now:|Made ahead:|Later:|##)", text, flags=re.MULTILINE)
    chosen = "".join(part for part in parts if part.startswith(f"{sort}:"))
    return re.findall(r"^- `(\w+)` \(", chosen, re.MULTILINE)


def _told() -> dict[str, list[str]]:
    """The tables of the page, and their columns."""
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]+`) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", columns) for name, columns in rows}


class RowMigrationTests(SynchronousTestCase):
    """Migrations that change rows: old rows in, new rows out."""

    def test_m0003_starts_the_catalog_revision(self) -> None:
        """A store of before gets its counter at 0; what it counted otherwise stays."""
        url, folder = fresh_url(self), Path(self.mktemp())
        folder.mkdir()
        for path in migrations_folder().glob("m000[12]_*"):
            shutil.copy(path, folder)
        migrate(url, SqliteFactory(folder=lambda: folder))
        connection = sqlite3.connect(path_of(url))
        connection.execute("INSERT INTO revisions VALUES ('other', 7)")
        connection.commit()
        connection.close()
        migrate(url)
        connection = sqlite3.connect(path_of(url))
        self.addCleanup(connection.close)
        rows = connection.execute("SELECT name, value FROM revisions ORDER BY name").fetchall()
        self.assertEqual(rows, [("catalog", 0), ("other", 7), ("outbox", 0)])

    def test_m0034_gives_each_person_a_salt(self) -> None:
        """People of before get 16 random bytes each, and nothing else of theirs changes."""
        url, folder = fresh_url(self), Path(self.mktemp())
        folder.mkdir()
        for path in sorted(migrations_folder().iterdir()):
            if path.name < "m0034":
                shutil.copy(path, folder)
        migrate(url, SqliteFactory(folder=lambda: folder))
        connection = sqlite3.connect(path_of(url))
        for name in ("ada", "eve"):
            connection.execute(
                "INSERT INTO persons (id, name, state, added_at) VALUES (?, ?, 'active', 1.0)",
                (name, name),
            )
        connection.commit()
        connection.close()
        migrate(url)
        connection = sqlite3.connect(path_of(url))
        self.addCleanup(connection.close)
        rows = connection.execute(
            "SELECT id, name, state, salt FROM persons ORDER BY id"
        ).fetchall()
        self.assertEqual(
            [row[:3] for row in rows], [("ada", "ada", "active"), ("eve", "eve", "active")]
        )
        self.assertEqual([len(row[3]) for row in rows], [16, 16])
        self.assertNotEqual(rows[0][3], rows[1][3])

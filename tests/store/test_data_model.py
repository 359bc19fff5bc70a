"""The pages on the data model say what a migrated store holds."""

from __future__ import annotations

import re
import sqlite3

from twisted.trial.unittest import SynchronousTestCase

from tests.store.places import ROOT, migrated_url, path_of
from tests.support.postgres import connected, migrated_database

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
        word = re.compile(rf"\b({'|'.join(ahead)})\b")
        statements = "".join(path.read_text("utf-8") for path in SQL.glob("*.py"))
        self.assertEqual(set(word.findall(statements)), set())

    def test_postgresql(self) -> None:
        """A store in PostgreSQL has the same tables and columns, in the same order."""
        with connected(migrated_database(self)) as cursor:
            cursor.execute(
                "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)"
                " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
                " AND NOT a.attisdropped"
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

"""The page on the data model says what a migrated store holds."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.store.factory import SqliteFactory
from svc.store.migrate import migrations_folder
from tests.store.places import ROOT, fresh_url, migrate, migrated_url, path_of

PAGE = ROOT / "docs" / "reference" / "data-model.md"


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
        rows = re.findall(r"^\| `(\w+)` \| (`[^|]+`) \|", PAGE.read_text("utf-8"), re.MULTILINE)
        told = {name: re.findall(r"`(\w+)`", columns) for name, columns in rows}
        self.assertEqual(told, stored)


class RowMigrationTests(SynchronousTestCase):
    """Migrations that change rows: old rows in, new rows out."""

    def test_m0003_starts_the_catalog_revision(self) -> None:
        """A store of before gets its counter at 0; what it counted otherwise stays."""
        url, folder = fresh_url(self), Path(self.mktemp())
        folder.mkdir()
        for path in sorted(migrations_folder().iterdir())[:2]:
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
        self.assertEqual(rows, [("catalog", 0), ("other", 7)])

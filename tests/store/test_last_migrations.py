"""The last six migrations: what a store of before meant is what it means after them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.rows.catalog import resource_entry
from svc.model.cluster.node import Publication
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource
from svc.model.store.migration import StoreStanding
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.store.migrate import migrations_folder
from svc.store.postgres.factory import PostgresFactory
from svc.store.sqlite.factory import SqliteFactory
from svc.testing.contracts.store import plain_chain_hash
from tests.store.places import fresh_url, path_of
from tests.support.postgres import connected, empty_database
from tests.support.proof import proves

LAST = (
    "bootstrap_identity",
    "resource_identities",
    "connector_publication",
    "manual_resource_bindings",
    "manual_assignment_revision",
    "manual_inventory_generation",
)
NODES = (("n1", "connector", "active"), ("n2", "connector", "revoked"), ("e1", "proxy", "active"))
RESOURCES = (
    ("db1", "tcp", "n1", 4),
    ("db2", "tcp", "n2", 6),
    ("host1", "ssh", None, 7),
    ("host2", "ssh", "n1", 8),
)
MODES = {"host2": OnwardAuth.STORED_KEY}
"""How Connectors log in onwards, where somebody chose it."""


def statements_of_before(digest: str, key: str) -> list[str]:
    """Rows as an Authority of before the six left them.

    *digest* is SQL for 32 bytes, *key* for the bytes of a number below 10.
    """
    rows = [
        "INSERT INTO nodes (id, name, role, key_sha256, audit_key, state, generation,"
        " leaf_serial, leaf_key_sha256, leaf_expires, enrolled_at, version, public_names) VALUES"
        f" ('{id}', '{id}', '{role}', {digest}, {key.format(number)}, '{state}', 1, '{id}',"
        f" {digest}, 9.0, 1.0, '', '')"
        for number, (id, role, state) in enumerate(NODES)
    ]
    for id, kind, node, revision in RESOURCES:
        assigned = "NULL" if node is None else f"'{node}'"
        mode = f"'{MODES[id].value}'" if id in MODES else "NULL"
        rows.append(
            "INSERT INTO resources (id, kind, assigned_to, source, revision, added_at, onward_auth)"
            f" VALUES ('{id}', '{kind}', {assigned}, 'manual', {revision}, {revision}.5,"
            f" {mode})"
        )
    return [*rows, "INSERT INTO resource_labels VALUES ('db1', 'env', 'prod')"]


def signed(row: tuple[str, str, str | None, int]) -> bytes:
    """The digest that an Authority of before signed of a resource."""
    id, kind, node, revision = row
    fields = {
        "assigned_to": node,
        "kind": kind,
        "labels": [["env", "prod"]] if id == "db1" else [],
        "revision": str(revision),
        "source": "manual",
        "subject": f"resource:{id}",
        **({"onward_auth": MODES[id].value} if id in MODES else {}),
    }
    form = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return sha256(b"svc-state-row-v1\0" + form.encode()).digest()


class LastMigrations:
    """``self.url`` names a store that lacks the six."""

    def folder(self: Any) -> Path:
        """All migrations but the six."""
        folder = Path(self.mktemp())
        folder.mkdir()
        for path in sorted(migrations_folder().iterdir()):
            if path.name.partition("_")[2].split(".")[0] in LAST:
                continue
            shutil.copy(path, folder)
        return folder

    def migrate(self: Any, factory: Any) -> tuple[str, ...]:
        report = factory.migrate(self.url, "test", lambda: 0.0, lambda: 0.0)
        applied: tuple[str, ...] = report.applied
        return applied

    def look(self: Any, fn: Any) -> Any:
        """What a store that is opened now says."""
        store = self.factory.open_read_only(self.url, plain_chain_hash)
        try:
            return self.successResultOf(ensureDeferred(store.read("look", fn)))
        finally:
            self.successResultOf(Deferred.fromCoroutine(store.close()))

    @proves("U-MIG-02")
    def test_six_are_pending(self: Any) -> None:
        """At the level of 0.10 exactly the six of 0.11 are pending, in their order."""
        status = self.factory.migration_status(self.url)
        self.assertEqual(status.ids, tuple(f"m{n:04d}_{name}" for n, name in enumerate(LAST, 80)))
        self.assertEqual(self.migrate(self.factory), status.ids)
        self.assertIs(self.factory.migration_status(self.url).standing, StoreStanding.CURRENT)

    @proves("U-MIG-15", "U-PHA-21", "U-PHA-22", "X-56", "X-89")
    def test_what_it_meant(self: Any) -> None:
        """Who serves what is as it was, as it was signed; nothing new is switched on."""
        self.migrate(self.factory)
        found = self.look(lambda tx: tx.catalog.all())
        meant = tuple(
            Resource(
                id=id,
                kind=kind,
                labels={"env": "prod"} if id == "db1" else {},
                assigned_to=node,
                revision=revision,
                identity=f"first.{id}",
                assignment_revision=0 if node is None else 1,
                onward_auth=MODES.get(id),
            )
            for id, kind, node, revision in RESOURCES
        )
        self.assertEqual(found, meant)
        self.assertEqual([resource_entry(one).digest for one in found], [*map(signed, RESOURCES)])
        self.assertEqual(
            self.rows("SELECT node_id, mode FROM connector_publication ORDER BY node_id"),
            [("n1", "manual"), ("n2", "manual")],
        )
        for table in ("bootstrap_identities", "epochs", "scopes", "root_epochs"):
            self.assertEqual(self.rows(f"SELECT * FROM {table}"), [], table)

    @proves("X-89")
    def test_decided_by_what_is_stored(self: Any) -> None:
        """How a Connector publishes is its store's, old or new: one build reads both alike."""
        self.migrate(self.factory)
        self.execute("UPDATE connector_publication SET mode = 'automatic' WHERE node_id = 'n2'")
        found = self.look(lambda tx: {one.id: one.publication for one in tx.nodes.all()})
        self.assertEqual(
            found,
            {"n1": Publication.MANUAL, "n2": Publication.AUTOMATIC, "e1": Publication.MANUAL},
        )


class SqliteTests(LastMigrations, SynchronousTestCase):
    """In a file."""

    factory = store_sqlite

    def setUp(self) -> None:
        self.url, before = fresh_url(self), self.folder()
        self.migrate(SqliteFactory(folder=lambda: before))
        with closing(sqlite3.connect(path_of(self.url))) as connection:
            for each in statements_of_before("zeroblob(32)", "x'0{}'"):
                connection.execute(each)
            connection.commit()

    def rows(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(path_of(self.url))) as connection:
            return connection.execute(sql).fetchall()

    def execute(self, sql: str) -> None:
        with closing(sqlite3.connect(path_of(self.url))) as connection, connection:
            connection.execute(sql)


class PostgresTests(LastMigrations, SynchronousTestCase):
    """In PostgreSQL."""

    factory = store_postgresql

    def setUp(self) -> None:
        self.url, before = empty_database(self), self.folder()
        self.migrate(PostgresFactory(time.monotonic, folder=lambda: before))
        with connected(self.url) as cursor:
            for each in statements_of_before(
                "decode(repeat('00', 32), 'hex')", "decode('0{}', 'hex')"
            ):
                cursor.execute(each)

    def rows(self, sql: str) -> list[Any]:
        with connected(self.url) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def execute(self, sql: str) -> None:
        with connected(self.url) as cursor:
            cursor.execute(sql)

"""Stores of the levels that releases had are upgraded: every row stays, and so does all access."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from contrib.level_cluster import Cluster, InForce, finished
from contrib.levels import copy_at, cut, fill, main, migrations, place_of
from svc.model.audit.record import chain_hash
from svc.model.cluster.person import PersonState
from svc.model.store.migration import StoreStanding
from svc.model.store.rehearsal import Objects, schema_changes
from svc.ops.store import StorePlace
from svc.store.migrate import migrations_folder
from svc.store.postgres.connection import PostgresConnection, PostgresStatements
from svc.store.postgres.rehearsal import look as look_at_database
from svc.store.postgres.url import database_place
from svc.store.sqlite.connection import open_reader
from svc.store.sqlite.factory import SqliteFactory
from svc.store.sqlite.rehearsal import look as look_at_file
from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.settings import AUTHORITY
from tests.store.places import fresh_url, migrated_url, path_of
from tests.support.postgres import empty_database, migrated_database
from tests.support.proof import proves

LEVELS = (74, 77, 79)
"""What document 2 says of the releases: before 0.10.0-rc.7, of it, and from 0.10.0-rc.9 on."""

PENDING_AT_74 = [
    "m0075_audit_origins",
    "m0076_origin_signatures",
    "m0077_outbox_discarded",
    "m0078_authority_members",
    "m0079_member_instances",
]
FILLED: dict[str, int] = {
    "connector_publication": 2,
    "manual_bindings": 3,
    "manual_inventory": 2,
    "resource_identities": 4,
}
"""Tables that an upgrade makes and fills by itself; every other new one is empty."""

MOVED: dict[str, tuple[str, ...]] = {"resources": ("assigned_to",)}
"""Columns whose values an upgrade brings elsewhere; what they mean is compared as access."""


@frozen
class Rows:
    """A table as a copy has it."""

    columns: tuple[str, ...]
    rows: list[list[Any]]

    def only(self, columns: tuple[str, ...]) -> list[list[Any]]:
        """The rows without other columns, in an order of their own."""
        places = [self.columns.index(column) for column in columns]
        return sorted(([row[place] for place in places] for row in self.rows), key=repr)


@cache
def gateway() -> Gateway:
    """What ``svc init`` made; one test of this module starts its Authority."""
    return init_gateway()


@cache
def cluster() -> Cluster:
    """Its Authority."""
    return Cluster.opened(gateway().files.config(AUTHORITY))


@cache
def lines_at(level: int) -> list[bytes]:
    """The copy of a store of that level."""
    return copy_at(cluster(), level)


def rows_of(place: StorePlace) -> dict[str, Rows]:
    """Everything in a store."""
    with place.factory.copied(place.url, chain_hash, time.time, False) as copy:
        lines = b"".join(copy.lines({})).splitlines()
    found: dict[str, Rows] = {}
    for line in lines[1:-1]:
        form = json.loads(line)
        if isinstance(form, dict):
            at = found.setdefault(form["table"], Rows(tuple(form["columns"]), []))
        else:
            at.rows.append(form)
    return found


def names_in_force(standing: InForce) -> dict[str, Any]:
    """Who may what, by the names of people and nodes."""
    facts = standing.facts
    nodes = {id: node.name for id, node in facts.nodes.items()}
    people = {person.name: person for person in facts.people.values()}
    active = [name for name, one in people.items() if one.state is PersonState.ACTIVE]
    return {
        "assigned": {id: nodes.get(one.assigned_to or "") for id, one in facts.catalog.items()},
        "groups": {name: one.groups for name, one in people.items()},
        "active": sorted(active),
        "nodes": {
            node.name: node.state.value for node in facts.nodes.values() if node.role != "authority"
        },
        "open": [
            f"{name} {id}"
            for name in sorted(people)
            for id in sorted(facts.catalog)
            if standing.may_open(people[name].id, id)
        ],
    }


ACCESS = {
    "assigned": {"host": "c1", "ledger": "c1", "spare": None, "vault": "c1"},
    "groups": {"ada": ("dev",), "ben": ("dev", "ops"), "eve": (), "mallory": ("dev",)},
    "active": ["ada", "ben", "eve"],
    "nodes": {"c0": "revoked", "c1": "active", "edge1": "active"},
    "open": ["ada ledger", "ada spare", "ben ledger", "ben spare"],
}


def schema_of_file(url: str) -> Objects:
    """What a SQLite store is made of."""
    with closing(open_reader(path_of(url))) as connection:
        return look_at_file(connection).objects


def schema_of_database(url: str) -> Objects:
    """What a PostgreSQL store is made of."""
    connection = PostgresConnection.opened(
        database_place(url), "test", time.monotonic, time.monotonic() + 60
    )
    with closing(connection):
        return look_at_database(PostgresStatements(connection)).objects


class UpgradeCase(SynchronousTestCase):
    """What holds on either database."""

    def check_level(self, place: StorePlace, level: int) -> None:
        """Fill, check, migrate, check; then everything is there, and means what it meant."""
        ids = tuple(each.id for each in migrations())
        fill(place, lines_at(level))
        before = rows_of(place)
        self.assertEqual([name for name, one in before.items() if not one.rows], [])
        status = place.factory.migration_status(place.url)
        self.assertEqual(status.ids, ids[level:])
        self.assertIs(
            status.standing, StoreStanding.PENDING if ids[level:] else StoreStanding.CURRENT
        )
        report = place.factory.migrate(place.url, "test", time.time, time.monotonic)
        self.assertEqual((report.applied, report.level), (ids[level:], ids[-1]))
        self.assertIs(place.factory.migration_status(place.url).standing, StoreStanding.CURRENT)
        self.check_rows(before, rows_of(place))
        standing = finished(cluster().in_force(place.factory.open_read_only(place.url, chain_hash)))
        self.assertEqual(standing.unsigned, ())
        self.assertEqual(names_in_force(standing), ACCESS)
        policy = standing.facts.policy
        self.assertEqual(policy.version if policy else 0, 2)

    def check_rows(self, before: dict[str, Rows], after: dict[str, Rows]) -> None:
        """Rows of before are as they were; a new table is empty but for what it is filled with."""
        for table, old in before.items():
            kept = tuple(each for each in old.columns if each not in MOVED.get(table, ()))
            self.assertEqual(after[table].only(kept), old.only(kept), table)
        new = {table: len(one.rows) for table, one in after.items() if table not in before}
        self.assertEqual({table: count for table, count in new.items() if count}, FILLED)
        self.assertNotIn("ssh_gate", {row[0] for row in after["epochs"].rows})
        states = after["root_epochs"].only(("state",))
        self.assertEqual(states, [["cancelled"]])

    def check_schema(self, fresh: Objects, upgraded: Objects) -> None:
        """An upgraded store is made of what a new one is made of."""
        self.assertEqual(schema_changes(fresh, upgraded), ())


def each_level(case: type[UpgradeCase]) -> type[UpgradeCase]:
    """A test for each level."""

    def made(level: int) -> Callable[[Any], None]:
        def test(self: Any) -> None:
            self.upgrade(level)

        test.__doc__ = f"Level {level} names what is pending, keeps its rows, and opens nothing."
        return test

    for level in LEVELS:
        setattr(case, f"test_{level}", made(level))
    return case


@proves("U-MIG-03", "U-PHA-21", "X-56")
@each_level
class FileTests(UpgradeCase):
    """Stores in files."""

    def upgrade(self, level: int) -> None:
        """One level."""
        url = fresh_url(self)
        self.check_level(place_of(url), level)
        self.check_schema(schema_of_file(migrated_url(self)), schema_of_file(url))


@proves("U-MIG-03", "U-PHA-21", "X-56")
@each_level
class DatabaseTests(UpgradeCase):
    """Stores in PostgreSQL."""

    def upgrade(self, level: int) -> None:
        """One level."""
        url = empty_database(self)
        self.check_level(place_of(url), level)
        self.check_schema(schema_of_database(migrated_database(self)), schema_of_database(url))


class BuildTests(SynchronousTestCase):
    """What builds of these levels know."""

    def build(self, level: int) -> SqliteFactory:
        """The drop-in of a build that has the migrations up to that level."""
        folder = Path(self.mktemp())
        folder.mkdir()
        for path in migrations_folder().glob("m*"):
            if int(path.name[1:5]) <= level:
                shutil.copy(path, folder)
        return SqliteFactory(folder=lambda: folder)

    @proves("U-NOTE-01")
    def test_no_migration_between(self) -> None:
        """A store at 79 is current for a build of 79, and newer than one of 77."""
        url = fresh_url(self)
        fill(place_of(url), lines_at(79))
        self.assertIs(self.build(79).migration_status(url).standing, StoreStanding.CURRENT)
        newer = self.build(77).migration_status(url)
        self.assertIs(newer.standing, StoreStanding.UNKNOWN_APPLIED)
        self.assertEqual(list(newer.ids), PENDING_AT_74[3:])


class CutTests(SynchronousTestCase):
    """What a level has of a copy at the last one."""

    def cut(self, columns: tuple[str, ...]) -> list[Any]:
        """At a level that has one table, of these columns."""
        one = {"table": "one", "columns": ["id", "b", "c"], "kinds": ["int", "text", "text"]}
        two = {"table": "two", "columns": ["a"], "kinds": ["int"]}
        forms = [
            {"ledger": ["m1", "m2"]},
            one,
            [7, "x", "y"],
            [8, "z", None],
            two,
            [1],
            {"end": {"one": 2, "two": 1}},
        ]
        lines = [json.dumps(form).encode() + b"\n" for form in forms]
        former = {("one", "a"): ("text", {7: "was"})}
        return [json.loads(line) for line in cut(lines, 1, {"one": columns}, former)]

    def test_what_a_level_has(self) -> None:
        """Its migrations, tables and columns; one that is gone since has what it had."""
        self.assertEqual(
            self.cut(("id", "a", "c")),
            [
                {"ledger": ["m1"]},
                {"table": "one", "columns": ["id", "a", "c"], "kinds": ["int", "text", "text"]},
                [7, "was", "y"],
                [8, None, None],
                {"end": {"one": 2}},
            ],
        )
        refused = self.assertRaises(ValueError, self.cut, ("id", "lost"))
        self.assertIn("one.lost", str(refused))


class StartTests(SynchronousTestCase):
    """A real Authority over a store of before, which it migrates at its first start."""

    def made(self, words: list[str]) -> tuple[int, list[str], str]:
        """What the script's status was, and what it said."""
        said, refused = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(refused):
            status = main(words)
        return status, said.getvalue().splitlines(), refused.getvalue()

    def root_epochs(self) -> list[Any]:
        """What the store says of the root's rotations."""
        with closing(sqlite3.connect(gateway().files.store)) as store:
            return store.execute("SELECT * FROM root_epochs ORDER BY epoch").fetchall()

    @proves("G-CFG-08", "U-PHA-21", "X-56", "U-MIG-03", "U-NOTE-06", "U-MIG-13", "G-ERR-06")
    def test_an_authority_of_before(self) -> None:
        """Everybody and everything is as it was; an old queued row is held as unsigned."""
        gate = gateway()
        cluster()  # while nobody serves from its directory
        words = ["--config", str(gate.files.config(AUTHORITY)), "--at", "74"]
        self.assertEqual(self.made(words), (0, ["made a store at m0074_outbox_holed"], ""))
        status, _, refused = self.made(words)
        self.assertEqual((status, "already contains a store" in refused), (1, True), refused)
        self.addCleanup(gate.make_child(AUTHORITY).kill)
        check = gate.operator("store", "migrate", "--check", check=False)
        said = check.stdout.splitlines()
        self.assertEqual(check.status, 3)
        self.assertEqual(said[:5], [f"pending: {id}" for id in PENDING_AT_74])
        self.assertEqual(said, [f"pending: {each.id}" for each in migrations()[74:]])
        self.assertNotIn("store_auto_migrate", gate.files.config(AUTHORITY).read_text("utf-8"))
        epochs = self.root_epochs()
        self.assertEqual(len(epochs), 1)
        keys = gate.files.state(AUTHORITY) / "keys"
        root = {path.name: path.read_bytes() for path in keys.glob("root.*")}
        self.assertEqual(sorted(root), ["root.key", "root.pem"])
        gate.start(AUTHORITY)
        self.assertEqual({path.name: path.read_bytes() for path in keys.glob("root.*")}, root)
        self.assertEqual(self.root_epochs(), epochs)
        self.assertEqual(gate.operator("store", "migrate", "--check").stdout, "current\n")
        resources = gate.operator("resources", "list", "--json").json
        self.assertEqual(
            {one["id"]: (one["node_name"], one["state"]) for one in resources},
            {
                "attic": ("c1", "not_in_catalog"),
                "host": ("c1", "unserved"),
                "ledger": ("c1", "departed"),
                "rack7": ("c1", "not_in_catalog"),
                "spare": (None, "unassigned"),
                "vault": ("c1", "departed"),
            },
        )
        people = gate.operator("persons", "list", "--all", "--json").json
        self.assertEqual(
            {one["name"]: one["state"] for one in people},
            {"ada": "active", "ben": "active", "eve": "active", "mallory": "removed"},
        )
        told = gate.status()
        self.assertEqual((told["policy_version"], told["unsigned"]), (2, []))
        gate.await_metric(AUTHORITY, "svc_audit_outbox_held_total", 1, reason="unsigned")
        self.assertIn("verified", gate.verify())

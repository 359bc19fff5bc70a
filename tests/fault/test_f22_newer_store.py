"""F22: a store that is not of this build stops whoever would use it, and stays as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256

from twisted.trial.unittest import SynchronousTestCase

from tests.fault.cluster import Cluster
from tests.fault.tally import Tally, counted
from tests.support.postgres import connected
from tests.support.proof import proves

TALLY = Tally("F22")
NEWER = "INSERT INTO svc_migrations VALUES ('m9999_later', 'sum', 1.0, 'newer')"
_CHECKSUM = "UPDATE svc_migrations SET checksum = 'x' WHERE id LIKE 'm0003%'"
_ALL = {
    NEWER: (4, "m9999_later"),
    _CHECKSUM: (1, "m0003"),
    "DELETE FROM svc_migrations WHERE id LIKE 'm0003%'": (1, "m0003"),
    f"{NEWER}; UPDATE svc_migrations SET checksum = 'x' WHERE id LIKE 'm0001%'": (4, "m9999_later"),
}
"""What was done to a ledger; the status that ends a process, and the id it names."""
HARMS = counted({one: _ALL[one] for one in (NEWER, _CHECKSUM)}, _ALL)


class Untouched(SynchronousTestCase):
    """Every way into a store: starting, checking, migrating."""

    @proves("G-ERR-07", "G-STORE-02", "U-MIG-12", "U-PRE-04")
    def test_a_file(self) -> None:
        """Each stops with its status and names the migration; every byte stays."""
        cluster = Cluster.on_file(self)
        cluster.command("store", "migrate")
        store = cluster.gateway.files.store
        whole = store.read_bytes()

        def harm(statement: str) -> None:
            store.write_bytes(whole)
            with closing(sqlite3.connect(store)) as connection:
                connection.executescript(statement)

        for statement, expected in HARMS.items():
            harm(statement)
            self.check(cluster, expected, self.bytes_of_file)

    @proves("G-ERR-07", "G-STORE-02", "U-MIG-12", "U-PRE-04")
    def test_a_database(self) -> None:
        """Each stops with its status and names the migration; every row stays."""
        cluster = Cluster.on_postgres(self)
        cluster.command("store", "migrate")
        for statement, expected in HARMS.items():
            cluster.empty()
            cluster.command("store", "migrate")
            with connected(cluster.url) as cursor:
                cursor.execute(statement)
            self.check(cluster, expected, self.bytes_of_database)

    def check(self, cluster: Cluster, expected: tuple[int, str], bytes_of: object) -> None:
        """Try all of them."""
        status, named = expected
        before = bytes_of(cluster)  # type: ignore[operator]
        with TALLY.one():
            for words in (("store", "migrate", "--check"), ("store", "migrate")):
                ran = cluster.ran(*words)
                self.assertEqual(ran.status, status, ran.stderr)
                self.assertIn(named, ran.stdout + ran.stderr)
            child = cluster.child()
            cluster.gateway.files.listening("authority").unlink(missing_ok=True)
            child.start()
            with TALLY.timed():
                self.assertEqual(child.wait(), status, child.tail())
            self.assertIn(named, child.text())
            # Nobody could ever have asked it whether it is ready.
            self.assertEqual(cluster.gateway.listening("authority"), {})
            self.assertEqual(bytes_of(cluster), before)  # type: ignore[operator]

    def bytes_of_file(self, cluster: Cluster) -> dict[str, str]:
        """A digest of each of the store's files, its lock apart."""
        store = cluster.gateway.files.store
        files = [one for one in store.parent.glob(f"{store.name}*") if one.suffix != ".lock"]
        return {one.name: sha256(one.read_bytes()).hexdigest() for one in files}

    def bytes_of_database(self, cluster: Cluster) -> dict[str, str]:
        """A digest of each table's rows with their places, and of the schema's own tables."""
        found = {}
        with connected(cluster.url) as cursor:
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            for name in [name for (name,) in cursor.fetchall()] + ["pg_class", "pg_attribute"]:
                more = "" if name.startswith("pg_") else ", xmin::text, ctid::text"
                columns = "relname::text, relkind::text" if name == "pg_class" else "t::text"
                columns = "attrelid::text, attname::text" if name == "pg_attribute" else columns
                cursor.execute(f"SELECT {columns}{more} FROM {name} t")
                found[name] = sha256(repr(sorted(cursor.fetchall())).encode()).hexdigest()
        return found

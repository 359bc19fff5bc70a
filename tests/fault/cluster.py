"""Authorities on one store, without a Proxy: the store reached through a fault proxy each.

Several reach one another through fault proxies too, one for each way a connection is made.

Whatever became of them, :meth:`Cluster.check` holds: everything acknowledged is there, once,
and the log verifies.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import count
from typing import Any
from urllib.parse import unquote

import psycopg2
from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.events import GROUP_ADD
from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, Ran, run, svc_command, until
from tests.fault.appender import Appender
from tests.fault.tally import IS_LONG
from tests.fault.tcp import FaultProxy
from tests.support.postgres import connected, empty_database

LEASE_SECS = 1 if IS_LONG else 5
"""Who starts again waits so long; who gets no CPU for half of it does not lead, and may end."""
_numbers = count(1)


def through(url: str, proxy: FaultProxy) -> str:
    """A database's URL by way of a proxy."""
    scheme, _, rest = url.partition("://")
    user, _, place = rest.partition("@")
    database = place.rpartition("/")[2]
    options = "sslmode=disable&gssencmode=disable"
    return f"{scheme}://{user}@{proxy.address}/{database}?{options}"


def socket_of(url: str) -> str:
    """The Unix socket of the server whose URL this is."""
    return f"{unquote(url.partition('@')[2].rpartition('/')[0])}/.s.PGSQL.5432"


@define(eq=False)
class Cluster:
    """Authorities by name; the first is ``authority``.

    Attributes:
        url: Of the database; empty: one Authority on a SQLite file.
        ways: From each Authority to the database.
        between: From each Authority to the private port of each other one.
    """

    gateway: Gateway
    url: str = ""
    ways: dict[str, FaultProxy] = field(factory=dict)
    between: dict[tuple[str, str], FaultProxy] = field(factory=dict)
    appenders: list[Appender] = field(factory=list)

    @classmethod
    def on_file(cls, case: SynchronousTestCase) -> Cluster:
        """One Authority on a file; not started."""
        made = cls(init_gateway())
        case.addCleanup(made.end)
        made.gateway.make_child("authority")
        return made

    @classmethod
    def on_postgres(
        cls,
        case: SynchronousTestCase,
        names: Iterable[str] = ("authority",),
        url: str = "",
        lease_secs: float = LEASE_SECS,
    ) -> Cluster:
        """Authorities on one database, an empty one of the run's server unless *url* names it."""
        url = url or empty_database(case)
        made = cls(init_gateway(numbers={"store_lease_secs": lease_secs}), url)
        case.addCleanup(made.end)
        made._configure(tuple(names))
        return made

    def _configure(self, names: tuple[str, ...]) -> None:
        files = self.gateway.files
        plugin = {"plugins.stores": ["postgresql"]}
        if len(names) == 1:
            files.write(names[0], files.table(names[0]) | plugin)
        else:
            files.write_authorities({name: name for name in names}, plugin, self._reach)
        for name in names:
            way = self.ways[name] = FaultProxy(socket_of(self.url))
            files.write(name, files.table(name) | {"store_url": through(self.url, way)})
            self.gateway.make_child(name, "authority")

    def _reach(self, one: str, other: str, port: int) -> str:
        if one == other:
            return f"127.0.0.1:{port}"
        way = self.between[one, other] = FaultProxy(("127.0.0.1", port))
        return way.address

    def end(self) -> None:
        """End everything."""
        for appender in self.appenders:
            appender.child.end()
        self.gateway.end()
        for way in (*self.ways.values(), *self.between.values()):
            way.close()

    def child(self, name: str = "authority") -> Child:
        """The process."""
        return self.gateway.roles[name]

    def start(self, name: str = "authority", ready: bool = True) -> None:
        """Start one (again)."""
        self.gateway.start(name, ready)

    def appender(self, name: str = "authority", at_once: int = 2) -> Appender:
        """Begin to append to one of them."""
        directory = self.gateway.files.state(name)
        made = Appender.started(directory, self.gateway.directory, at_once)
        self.appenders.append(made)
        return made

    def standing_by(self, name: str, seconds: float = TIMEOUT_SECS) -> None:
        """Until one has said, in this life, that it stands by."""
        child = self.child(name)
        until(f"{name} stands by", lambda: '"standing by"' in child.text(), seconds, [child])

    def ran(self, *words: str, name: str = "authority") -> Ran:
        """An operator's command with the configuration of one of them."""
        config = str(self.gateway.files.config(name))
        return run(svc_command("--config", config, "authority", *words), self.gateway.directory)

    def command(self, *words: str, name: str = "authority") -> str:
        """What a command says that ends well."""
        return self.ran(*words, name=name).checked().stdout

    def begun(self, *words: str) -> Child:
        """A command that is not waited for."""
        home = self.gateway.directory
        config = str(self.gateway.files.config("authority"))
        command = svc_command("--config", config, "authority", *words)
        child = Child(
            name="command", words=command, home=home, log=home / f"command-{next(_numbers)}.log"
        )
        child.start()
        return child

    def empty(self) -> None:
        """Make the store as if it had never been; nobody uses it."""
        if self.url:
            with connected(self.url) as cursor:
                cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        else:
            store = self.gateway.files.store
            for path in store.parent.glob(f"{store.name}*"):
                path.unlink()

    def select(self, *queries: str) -> list[list[Any]]:
        """Rows of the store at one moment, past every proxy."""
        if self.url:
            with closing(psycopg2.connect(self.url)) as connection:
                connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
                return [_rows(connection.cursor(), query) for query in queries]
        store = self.gateway.files.store
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)) as connection:
            connection.execute("BEGIN")
            return [_rows(connection.cursor(), query) for query in queries]

    def check_rows(self) -> None:
        """What was acknowledged is there once, row and record, and no number is missing."""
        for appender in self.appenders:
            appender.look()
        (seqs,), records, groups = self.select(
            "SELECT min(seq), max(seq), count(*) FROM audit_log",
            f"SELECT canonical FROM audit_log WHERE event = '{GROUP_ADD.name}'",
            "SELECT name FROM person_groups",
        )
        assert seqs[0] == 1 and seqs[1] == seqs[2], f"first, last and count: {seqs}"
        recorded = [json.loads(one)["details"]["group"] for (one,) in records]
        assert len(recorded) == len(set(recorded)), "a record is there twice"
        rows = {name for (name,) in groups}
        assert rows == set(recorded), f"rows and records differ: {rows ^ set(recorded)}"
        for appender in self.appenders:
            lost = appender.acked - rows
            assert not lost, f"acknowledged and lost: {sorted(lost)}"

    def check(self, name: str = "authority") -> None:
        """As :meth:`check_rows`; and the log verifies."""
        self.check_rows()
        said = self.command("audit", "verify", name=name)
        assert "verified" in said, said


def _rows(cursor: Any, query: str) -> list[Any]:
    cursor.execute(query)
    return list(cursor.fetchall())

"""Records that a store alters or drops as they are written: nothing of their transaction stands."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import TestCase

from svc.errors import RecordLost
from svc.interfaces.store import IStore, ITransaction, StoreNeeds
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.spool import SpoolRow
from svc.plugins.store_postgresql import store_postgresql
from svc.store.sqlite.factory import SqliteFactory
from svc.testing.contracts.store import plain_chain_hash
from tests.store.places import migrated_url, path_of
from tests.support.postgres import connected, migrated_database

_FUNCTION = "CREATE FUNCTION altered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$"
_BEFORE = (
    "CREATE TRIGGER altered BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION altered()"
)
_AFTER = "CREATE TRIGGER altered AFTER INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION altered()"
_SQLITE = "CREATE TRIGGER altered AFTER INSERT ON audit_log BEGIN {} END"


class AlteredRows:
    """The tests; a store and its triggers are the mixing class's."""

    store: IStore

    def open(self: Any, opened: IStore) -> None:
        """Use a store, and close it at the end."""
        self.store = opened
        self.addCleanup(lambda: Deferred.fromCoroutine(self.store.close()))

    def needs(self) -> StoreNeeds:
        """What a store is opened with."""
        call = reactor.callFromThread  # type: ignore[attr-defined]
        return StoreNeeds(
            clock=reactor, now=lambda: 0.0, call_from_thread=call, chain_hash=plain_chain_hash
        )

    async def append(self, name: str, *, personal: bool = False) -> int:
        """Append a record, and add a group with it."""

        def both(tx: ITransaction) -> int:
            tx.people.add_group(name, 0.0)
            values = [PersonalValue("actor", bytes(16), name)] if personal else []
            return tx.audit.append(f'{{"event":"{name}"}}'.encode(), values).seq

        return await self.store.run("append", both)

    async def kept(self) -> tuple[int, list[str]]:
        """How long the log is, and which groups there are."""

        def look(tx: ITransaction) -> tuple[int, list[str]]:
            return tx.audit.head().seq, list(tx.people.groups())

        return await self.store.read("look", look)

    async def refused(self: Any, seq: int, count: int = 2, *, personal: bool = False) -> None:
        """So many at once are refused, the first record amiss is named, and nothing is left."""
        before = await self.kept()
        appended = [
            Deferred.fromCoroutine(self.append(f"lost{n}", personal=personal)) for n in range(count)
        ]
        for one in appended:
            refusal = await self.assertFailure(one, RecordLost)
            self.assertEqual(refusal.reason, "audit_record_lost")
            self.assertIn(f"record {seq} ", refusal.text)
        self.assertEqual(await self.kept(), before)

    async def test_a_dropped_row(self: Any) -> None:
        """A row that vanishes as it is inserted."""
        self.assertEqual(await self.append("one"), 1)
        self.drops()
        await self.refused(2)
        await self.refused(2, personal=True)
        self.heals()
        self.assertEqual(await self.append("two"), 2)

    async def test_a_dropped_row_among_others(self: Any) -> None:
        """Of rows that come in together and vanish, the first is named."""
        value = (PersonalValue("actor", bytes(16), "ada"),)
        rows = [SpoolRow(f'{{"event":"{name}"}}'.encode(), value) for name in "abc"]
        self.drops()
        appending = Deferred.fromCoroutine(
            self.store.run("append", lambda tx: tx.origins.append(rows))
        )
        refusal = await self.assertFailure(appending, RecordLost)
        self.assertIn("record 1 ", refusal.text)
        self.assertEqual((await self.kept())[0], 0)
        self.heals()
        found = await self.store.run("append", lambda tx: tx.origins.append(rows))
        self.assertEqual([row.seq for row in found], [1, 2, 3])

    async def test_a_changed_row(self: Any) -> None:
        """A row whose text is another one, its hash as it was."""
        await self.append("one")
        self.changes()
        await self.refused(2)
        self.heals()
        self.assertEqual(await self.append("two"), 2)

    async def test_another_row(self: Any) -> None:
        """A row that comes along."""
        await self.append("one")
        self.adds()
        await self.refused(3, 1)
        self.heals()
        self.assertEqual(await self.append("two"), 2)

    async def test_undone(self: Any) -> None:
        """What one of several undoes is not missed."""

        def undone(tx: ITransaction) -> None:
            tx.audit.append(b'{"event":"undone"}')
            raise LookupError

        jobs = [self.store.run("undone", undone) for _ in range(2)]
        waiting = [Deferred.fromCoroutine(each) for each in jobs]
        good = Deferred.fromCoroutine(self.append("good"))
        for each in waiting:
            await self.assertFailure(each, LookupError)
        [seq] = await gatherResults([good])
        self.assertEqual((seq, await self.kept()), (1, (1, ["good"])))


class SqliteTests(AlteredRows, TestCase):
    """A store in a file."""

    def setUp(self) -> None:
        self.url = migrated_url(self)
        self.open(SqliteFactory().open(self.url, self.needs()))

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(path_of(self.url), isolation_level=None)) as connection:
            for each in statements:
                connection.execute(each)

    def drops(self) -> None:
        self.sql(_SQLITE.format("DELETE FROM audit_log WHERE seq = new.seq;"))

    def changes(self) -> None:
        text = """'{"event":"other"}'"""
        self.sql(_SQLITE.format(f"UPDATE audit_log SET canonical = {text} WHERE seq = new.seq;"))

    async def test_no_text(self) -> None:
        """A row that is made no text as it is inserted, and one that was so already."""
        await self.append("one")
        bad = """CAST(x'7b2261223a22ff227d' AS TEXT)"""
        self.sql(_SQLITE.format(f"UPDATE audit_log SET canonical = {bad} WHERE seq = new.seq;"))
        await self.refused(2)
        self.heals()
        self.sql(f"UPDATE audit_log SET canonical = {bad} WHERE seq = 1")
        self.assertEqual(await self.append("two"), 2)
        rows = await self.store.read("rows", lambda tx: tx.audit.rows(1, 9))
        self.assertEqual([one.canonical for one in rows], [b'{"a":"\xff"}', b'{"event":"two"}'])

    def adds(self) -> None:
        row = "new.seq + 1, new.hash, zeroblob(32), new.canonical"
        only = "WHERE (SELECT max(seq) FROM audit_log) = new.seq"
        into = "INSERT INTO audit_log (seq, prev_hash, hash, canonical)"
        self.sql(_SQLITE.format(f"{into} SELECT {row} {only};"))

    def heals(self) -> None:
        self.sql("DROP TRIGGER altered")


class PostgresTests(AlteredRows, TestCase):
    """A store in PostgreSQL."""

    def setUp(self) -> None:
        self.url = migrated_database(self)
        self.open(store_postgresql.open(self.url, self.needs()))

    def sql(self, *statements: str) -> None:
        with connected(self.url) as cursor:
            for each in statements:
                cursor.execute(each)

    def drops(self) -> None:
        self.sql(_FUNCTION.format("RETURN NULL;"), _BEFORE)

    def changes(self) -> None:
        text = """'{"event":"other"}'"""
        self.sql(_FUNCTION.format(f"NEW.canonical := {text}; RETURN NEW;"), _BEFORE)

    def adds(self) -> None:
        row = "NEW.seq + 1, NEW.hash, decode(repeat('00', 32), 'hex'), NEW.canonical"
        body = (
            "IF pg_trigger_depth() = 1 THEN INSERT INTO audit_log (seq, prev_hash, hash, canonical)"
            f" VALUES ({row}); END IF; RETURN NULL;"
        )
        self.sql(_FUNCTION.format(body), _AFTER)

    def heals(self) -> None:
        self.sql("DROP TRIGGER altered ON audit_log", "DROP FUNCTION altered")

"""A copy of a store holds all of it, whichever database it was read from or filled into."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

from twisted.trial.unittest import SynchronousTestCase, TestCase

from contrib.level_life import put
from contrib.level_rows import Ids, made_ahead
from svc.errors import AlreadyExists, Malformed, StoreUnavailable, SvcError, UnknownApplied
from svc.interfaces.copies import CopyHead
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import GENESIS, EntitySlice, PersonalValue
from svc.model.audit.outbox import AcceptedRow, Hold, Offered
from svc.model.audit.record import chain_hash
from svc.model.audit.replay import Hole, SpoolMemory
from svc.model.audit.spool import SpoolRow
from svc.model.cluster.lease import Member
from svc.model.cluster.node import ExpectedKey, TokenRole
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.store.copy.lines import Table, in_order
from svc.store.copy.log import CopiedLog
from tests.store.places import files_beside, fresh_url, migrated_url, path_of, real_needs
from tests.store.test_hostile_text import HOSTILE, everything, fill
from tests.support.postgres import empty_database, migrated_database
from tests.support.proof import proves

Factory = Any


def fill_more(tx: ITransaction) -> None:
    """What the hostile rows leave out."""
    fill(tx)
    tx.heads.add(3, b"a line", 10)
    key = ExpectedKey(
        id="e" * 26,
        role=TokenRole.CONNECTOR,
        name=HOSTILE[1],
        key_sha256=b"k" * 32,
        issuer="local:0",
        expires_at=9.5,
        names=("h",),
    )
    tx.expected.add(key, 2.5)
    tx.audit.append(b"{}", (), EntitySlice("digest", "{}"))
    first = tx.audit.rows(1, 1)[0]
    tx.state.append(1, first.seq, "key", b"\0signature", b"certificate\xff")
    tx.lease.take("owner", "instance", tx.lease.held())
    tx.lease.appear(Member("owner", "n" * 26, "instance"), None)
    fill_queue(tx)
    one, other = (f"{number}{text}" for number, text in enumerate(HOSTILE[:2]))
    ids = Ids(
        authority=one,
        connector=one,
        person=one,
        approver=other,
        group=one,
        resource=one,
        session=one,
        certificate=bytes(32),
        version=2,
        parent=1,
    )
    db: Any = tx.state
    put(db._db, ((table, row) for table, rows in made_ahead(ids).items() for row in rows))


def fill_queue(tx: ITransaction) -> None:
    """The audit queue, and what left it."""
    tx.outbox.add([ROW] * 3, 5.25)
    first, second, third = tx.outbox.rows(0, 9)
    link = tx.audit.append(b"{}", signature=b"\0signature\xff")
    tx.origins.accepted(
        [
            AcceptedRow(
                row_id=first.id, seq=link.seq, event_id="event", origin="o1", spool_id="s1", n=1
            )
        ]
    )
    tx.origins.discard(second.id, "o1", "s1", 2, b"d" * 32, 6.5)
    tx.outbox.hold(third.id, Hold.FORGED, 7.5)
    hole = Hole(first=1, last=2, before=GENESIS, after=None, since=3.5, is_recorded=True)
    tx.spools.keep("o1", "s1", SpoolMemory(high=3, top=None, holes=(hole,), closed=3, given_up=1))


def copied(factory: Factory, url: str) -> list[bytes]:
    """The lines of a copy."""
    with factory.copied(url, chain_hash, time.time, True) as copy:
        return b"".join(copy.lines({"made": "here"})).splitlines(keepends=True)


def filled(factory: Factory, url: str, lines: list[bytes]) -> CopyHead:
    """Fill a store from such lines."""
    with factory.filled(url, chain_hash, time.time) as filling:
        head: CopyHead = filling.fill(iter(lines))
        filling.commit()
        return head


def seen(factory: Factory, url: str) -> list[Any]:
    """Everything the facets show of a store, and its ledger's times."""
    with factory.copied(url, chain_hash, time.time, False) as copy:
        tx = copy.tx
        ledger = [(each.id, each.applied_at, each.binary_version) for each in tx.schema.applied()]
        state = (tx.state.since(0, 9), tx.heads.after(0, 9), tx.lease.held(), tx.catalog.revision())
        queue = (
            tx.outbox.rows(0, 9),
            tx.origins.reached(range(9)),
            tx.spools.memory("o1", "s1"),
            [row.signature for row in tx.audit.tail(2)],
        )
        return [*everything(tx), ledger, state, queue]


ROW = Offered(
    row=SpoolRow(
        canonical=b"\0\xff record",
        personal=(PersonalValue("p", bytes(16), '"\xe9"'),),
        key_id="key",
        signature=b"\0",
    ),
    origin="o1",
    spool_id="s1",
    n=1,
)


class CopyTests(TestCase):
    """Between both databases, in each direction."""

    async def source(self, factory: Factory, url: str) -> list[bytes]:
        """A store with rows in every table; the lines of its copy."""
        store = factory.open(url, real_needs())
        await store.run("fill", fill_more)
        await store.close()
        return copied(factory, url)

    async def there(self, factory: Factory, url: str) -> None:
        """Whatever is read from this one arrives in both."""
        lines = await self.source(factory, url)
        shown = seen(factory, url)
        for other, place in (
            (store_sqlite, fresh_url(self)),
            (store_postgresql, empty_database(self)),
        ):
            self.assertEqual(filled(other, place, lines).dialect, factory.name)
            self.assertEqual(seen(other, place), shown)
            self.assertEqual(copied(other, place)[1:], lines[1:])
            self.assertEqual(other.migration_status(place).standing.value, "current")
        self.assertNotIn(b":0,", lines[-1], "a table without rows shows nothing")

    async def test_from_sqlite(self) -> None:
        """From a file."""
        await self.there(store_sqlite, migrated_url(self))

    async def test_from_postgresql(self) -> None:
        """From PostgreSQL."""
        await self.there(store_postgresql, migrated_database(self))

    async def test_records_without_values(self) -> None:
        """A log whose records hold nothing personal, as that of a new gateway, arrives too."""
        url = migrated_url(self)
        store = store_sqlite.open(url, real_needs())
        await store.run("a record", lambda tx: tx.audit.append(b"{}"))
        await store.close()
        lines = copied(store_sqlite, url)
        filled(store_sqlite, place := fresh_url(self), lines)
        self.assertEqual(copied(store_sqlite, place)[1:], lines[1:])

    @proves("U-BAK-03", "X-61")
    async def test_journal(self) -> None:
        """The last commit is in the copy of a store whose writer was killed before a checkpoint."""
        url, after = migrated_url(self), fresh_url(self)
        store = store_sqlite.open(url, real_needs())
        self.addCleanup(store.close)
        await store.run("the last commit", lambda tx: tx.schema.settle("last", "commit"))
        for name, data in files_beside(url).items():  # as the disk is at the moment of a kill
            if not name.endswith((".lock", "-shm")):
                with open(path_of(after).replace("store.db", name), "wb") as file:
                    file.write(data)
        with closing(sqlite3.connect(f"file:{path_of(url)}?immutable=1", uri=True)) as alone:
            self.assertEqual(alone.execute("SELECT count(*) FROM store_facts").fetchone(), (0,))
        self.assertIn(b'["last","commit"]\n', copied(store_sqlite, after))


class RefusalTests(SynchronousTestCase):
    """What is no copy, and where no copy may go."""

    def setUp(self) -> None:
        self.url = migrated_url(self)
        self.lines = copied(store_sqlite, self.url)

    def refused(self, error: type[SvcError], text: str, lines: list[bytes]) -> None:
        """A store in a file keeps nothing of such lines."""
        place = fresh_url(self)
        self.assertIn(text, str(self.assertRaises(error, filled, store_sqlite, place, lines)))
        self.assertEqual(list(files_beside(place)), ["store.db.lock"])

    def changed(self, old: bytes, new: bytes) -> list[bytes]:
        """The lines with a change in one of them."""
        made = [line.replace(old, new) for line in self.lines]
        self.assertNotEqual(made, self.lines)
        return made

    def test_not_whole(self) -> None:
        """A copy without its end, of other counts, or with something behind it leaves nothing."""
        self.refused(Malformed, "end is missing", self.lines[:-1])
        self.refused(Malformed, "missing or were added", self.changed(b'"lease":1', b'"lease":2'))
        self.refused(Malformed, "data after its end", [*self.lines, b"[]\n"])
        self.refused(Malformed, "incomplete", [])

    def test_not_of_its_form(self) -> None:
        """A line that is no row of its table leaves nothing."""
        cells = b'["catalog",0]'
        for new in (
            b'["catalog"]',
            b'["catalog","0"]',
            b'["catalog",true]',
            b'["catalog",null]',
            b'["catalog",',
            b'["cat\\u0000",0]',
        ):
            self.refused(Malformed, "store", self.changed(cells, new))
        self.refused(Malformed, "no such table", self.changed(b'"revisions"', b'"sqlite_master"'))
        self.refused(Malformed, "no such table", self.changed(b'"revisions"', b'"svc_migrations"'))
        self.refused(Malformed, "columns", self.changed(b'"epoch"', b'"epoch; --"'))
        last = [b'{"end":{}}\n']
        self.refused(Malformed, "tables are missing", [self.lines[0], *last])

    def test_other_build(self) -> None:
        """A copy of a newer store, or of one whose ledger was edited, is for another build."""
        self.refused(UnknownApplied, "m9999", self.changed(b'"m0030_', b'"m9999_'))

    def test_postgresql_keeps_nothing(self) -> None:
        """Nor does a database of one that is not whole; then it takes a whole one, and only one.

        Each attempt frees the lock itself: the server may be slow to end a session.
        """
        url = empty_database(self)
        self.assertFalse(store_postgresql.is_there(url))
        self.assertRaises(StoreUnavailable, copied, store_postgresql, url)
        damaged = self.changed(b'"catalog"', b'"cat\\u0000"')
        for lines in (self.lines[:-1], damaged):
            self.assertRaises(Malformed, filled, store_postgresql, url, lines)
            self.assertFalse(store_postgresql.is_there(url))
        filled(store_postgresql, url, self.lines)
        refused = self.assertRaises(AlreadyExists, filled, store_postgresql, url, self.lines)
        self.assertIn("not empty", str(refused))
        self.assertEqual(store_postgresql.migration_status(url).standing.value, "current")

    def test_file_is_there(self) -> None:
        """A file that is there is left as it is; where there is none, nothing can be copied."""
        before = files_beside(self.url)
        self.assertRaises(AlreadyExists, filled, store_sqlite, self.url, self.lines)
        self.assertEqual(files_beside(self.url)["store.db"], before["store.db"])
        self.assertRaises(StoreUnavailable, copied, store_sqlite, fresh_url(self))

    def test_circle(self) -> None:
        """Tables that refer to each other in a circle are refused, not forgotten."""
        one = Table(name="one", columns=(), kinds=(), key=(), parents=frozenset({"two"}))
        two = Table(name="two", columns=(), kinds=(), key=(), parents=frozenset({"one"}))
        self.assertRaises(Malformed, in_order, [one, two])

    def test_values_far_from_their_record(self) -> None:
        """A personal value that does not stand beside its record was verified by nobody."""
        values = (
            b'{"table":"personal_values","columns":["seq","path","salt","value"],'
            b'"kinds":["int","text","bytes","text"]}\n[1,"a","00","{}"]\n'
        )
        records = (
            b'{"table":"audit_log","columns":["seq","prev_hash","hash","canonical"],'
            b'"kinds":["int","bytes","bytes","text"]}\n[2,"00","00","{}"]\n'
        )
        lines = [self.lines[0], *(records + values).splitlines(keepends=True)]
        log = CopiedLog(lines)
        log.head()
        self.assertRaises(Malformed, list, log.batches())

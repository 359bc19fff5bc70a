"""F12: the chain altered: in each bit, by taking out, exchanging, doubling, cutting, going back.

In memory, where every bit can be tried, and in the tables of a real store.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from random import Random

import psycopg2
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.head import payload
from svc.audit.log.verify import ChainFault
from svc.config import load_settings
from svc.errors import AuditBroken
from svc.model.audit.record import SignedHead, chain_hash
from svc.ops.verify.log import OutsideLog, outside_log
from svc.testing.gateway.processes import until
from tests.audit.chains import ROWS, SIZES, ChainCase
from tests.audit.logs import MemoryLog, heads_over, short_record
from tests.fault.cluster import Cluster
from tests.fault.tally import IS_LONG, Tally, counted, in_long_form
from tests.support.postgres import connected
from tests.support.proof import proves

TALLY = Tally("F12")
SAMPLED = 1000
WALKS = counted(40, 400)
STORED = counted(0, 60)
"""Changes in the tables of a store, for each column."""

BEHIND = counted(1, 60)
"""Records put behind the newest one while others write."""


def flips(data: bytes) -> Iterable[bytes]:
    """*data* with one bit changed: in each byte in turn, and each of its bits in the long form."""
    for place in range(len(data)):
        for bit in range(8) if IS_LONG else (place % 8,):
            yield data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def changes(data: bytes) -> Iterator[bytes]:
    """As :func:`flips`, and counted: who asks for the next has seen the last one found."""
    for changed in flips(data):
        yield changed
        TALLY.many(1)


class Altered(ChainCase):
    """Exhaustive on a chain of a hundred rows, sampled on one of a thousand.

    Up to the changed row every walk is the same, so what is exhaustive is the step
    from one row to the next; the whole walk is taken over the samples.
    """

    @proves("G-AUD-02")
    def test_every_byte_of_every_record(self) -> None:
        """One bit changed in any byte of any record is found at that record."""
        for row in self.rows:
            for changed in changes(row.canonical):
                self.assertStep("hash", evolve(row, canonical=changed), row.seq)

    @proves("G-AUD-02")
    def test_every_byte_of_every_hash(self) -> None:
        """One bit changed in any byte of a hash or a link is found at that record."""
        for row in self.rows:
            for changed in changes(row.hash):
                self.assertStep("hash", evolve(row, hash=changed), row.seq)
            for changed in changes(row.prev_hash):
                self.assertStep("prev_link", evolve(row, prev_hash=changed), row.seq)

    @proves("G-AUD-02")
    def test_every_bit_of_every_number(self) -> None:
        """A changed sequence number is a gap where it was."""
        for row in self.rows:
            for bit in range(63):
                self.assertStep("gap", evolve(row, seq=row.seq ^ (1 << bit)), row.seq)

    @proves("G-AUD-02")
    def test_sampled_walks(self) -> None:
        """In a thousand rows a bit changed in any column is found at its row."""
        self.memory = MemoryLog()
        self.memory.fill(SAMPLED, short_record)
        self.rows, drawn = self.memory.log, Random(12)
        self.heads = heads_over(self.rows, 1, 500, SAMPLED)
        self.assertEqual(self.check(self.rows).records, SAMPLED)
        for at in drawn.sample(range(SAMPLED), WALKS):
            row, kind = self.rows[at], drawn.choice(("gap", "prev_link", "hash"))
            place = drawn.randrange(32)
            if kind == "gap":
                odd = evolve(row, seq=row.seq ^ 1 << drawn.randrange(63))
            elif kind == "prev_link":
                odd = evolve(row, prev_hash=list(flips(row.prev_hash))[place])
            else:
                odd = evolve(row, canonical=list(flips(row.canonical))[place])
            self.assertFault(at + 1, kind, [*self.rows[:at], odd, *self.rows[at + 1 :]])

    @proves("G-AUD-02")
    def test_deleted_swapped_doubled(self) -> None:
        """A record taken out, exchanged with another, or put in twice is found there."""
        for at in range(ROWS - 1):
            before, row, after = self.rows[:at], self.rows[at], self.rows[at + 1 :]
            self.assertFault(at + 1, "gap", [*before, *after])
            self.assertFault(at + 2, "gap", [*before, row, row, *after])
            self.assertFault(at + 1, "gap", [*before, after[0], row, *after[1:]])
            renumbered = [evolve(after[0], seq=at + 1), evolve(row, seq=at + 2)]
            self.assertFault(at + 1, "prev_link", [*before, *renumbered, *after[1:]])

    @proves("G-OPEN-12", "X-62")
    def test_tail_cut(self) -> None:
        """Newest records taken away are found by the signed head alone."""
        for left in range(ROWS):
            self.assertFault(left + 1, "head_beyond_end", self.rows[:left])

    def test_rewritten_after_a_cut(self) -> None:
        """A log cut and grown again with good links is not the one a head was signed over."""
        for left in (0, 5, 20, 40, ROWS - 1):
            other = MemoryLog(log=list(self.rows[:left]), drawn=10_000)
            other.fill(ROWS - left + 5)
            bound = max(size for size in (0, *SIZES) if size <= left)
            self.assertFault(bound + 1, "head_mismatch", other.log, personal_of=other.personal_of)

    def test_every_byte_of_every_head(self) -> None:
        """One bit changed in what was signed, or in a signature, is never accepted."""
        for at, head in enumerate(self.heads):
            for changed in changes(head.signed.signature):
                odd = evolve(head, signed=evolve(head.signed, signature=changed))
                heads = [*self.heads[:at], odd, *self.heads[at + 1 :]]
                fault = self.assertRaises(ChainFault, self.check, self.rows, heads)
                self.assertIn(fault.kind, ("head_link", "head_signature"))
            for name in ("root", "last_hash", "previous_head_hash"):
                for changed in changes(getattr(head.head, name)):
                    stated = evolve(head.head, **{name: changed})  # type: ignore[arg-type]
                    signed = evolve(head.signed, payload=payload(stated))
                    heads = [*self.heads[:at], SignedHead(stated, signed), *self.heads[at + 1 :]]
                    self.assertRaises(ChainFault, self.check, self.rows, heads)

    def test_every_byte_of_every_personal_value(self) -> None:
        """A personal value, its salt or its place changed by one bit is found."""
        self.memory = MemoryLog()
        self.memory.fill(ROWS)
        self.rows = self.memory.log
        self.heads = heads_over(self.rows, ROWS)
        for seq in (1, ROWS):
            kept = self.memory.personal[seq]
            for at, value in enumerate(kept):
                odd = [evolve(value, salt=salt) for salt in changes(value.salt)]
                odd += [
                    evolve(value, **{name: text.decode("latin-1")})  # type: ignore[arg-type]
                    for name in ("path", "value")
                    for text in changes(getattr(value, name).encode())
                ]
                for changed in odd:
                    own = {**self.memory.personal, seq: (*kept[:at], changed, *kept[at + 1 :])}
                    mixed = MemoryLog(self.rows, own)
                    self.assertFault(seq, "personal", self.rows, personal_of=mixed.personal_of)


class Behind(SynchronousTestCase):
    """A record, rightly chained, that somebody puts behind the newest one by SQL."""

    def setUp(self) -> None:
        """One Authority on a database, with records under a head."""
        self.cluster = Cluster.on_postgres(self)
        files = self.cluster.gateway.files
        quick = {"snapshot.reload_secs": 0.2, "audit.head_after_secs": 0.1}
        files.write("authority", files.table("authority") | quick)
        self.cluster.start()
        self.latest = files.state("authority") / "anchor" / "latest"

    @proves("G-AUD-02")
    def test_a_database(self) -> None:
        """Nothing is appended behind it while many write or nobody does, and no head covers it."""
        appender = self.cluster.appender(at_once=4)
        for _ in range(BEHIND):
            appender.await_acked(10)
            with self.put() as seq:
                self.check_found(seq)
        appender.await_acked(10)
        appender.child.end()
        until("a head covers all", lambda: self.covered() == self.last())
        with self.put() as seq:
            self.check_found(seq)
            self.assertEqual(self.covered(), seq - 1)
        self.cluster.gateway.await_ready("authority")
        self.cluster.check()

    def check_found(self, seq: int) -> None:
        """Readiness says it, and the log names the record; nothing follows, no head covers it."""
        child = self.cluster.child()
        with TALLY.one(), TALLY.timed():
            until("not ready", lambda: "audit_foreign_record" in self.readiness(), alive=[child])
            self.assertIn(f"record {seq} was not written by this Authority", child.text())
            self.assertEqual(self.last(), seq)
            self.assertLess(self.covered(), seq)

    @contextmanager
    def put(self) -> Iterator[int]:
        """One more record, which nobody can tell from one of the Authority's by its form."""
        with connected(self.cluster.url) as cursor:
            while True:
                cursor.execute(
                    "SELECT seq, hash, canonical FROM audit_log ORDER BY seq DESC LIMIT 1"
                )
                last, before, record = cursor.fetchone()
                own = chain_hash(last + 1, bytes(before), record.encode())
                with contextlib.suppress(psycopg2.errors.UniqueViolation):
                    cursor.execute(
                        "INSERT INTO audit_log (seq, prev_hash, hash, canonical)"
                        " VALUES (%s, %s, %s, %s)",
                        (last + 1, before, own, record),
                    )
                    break
            yield last + 1
            cursor.execute("DELETE FROM audit_log WHERE seq = %s", (last + 1,))

    def readiness(self) -> str:
        """What ``/readyz`` says."""
        return self.cluster.gateway.get("authority", "/readyz")[1]

    def last(self) -> int:
        """The number of the last record."""
        [[(found,)]] = self.cluster.select("SELECT max(seq) FROM audit_log")
        return int(found)

    def covered(self) -> int:
        """By the newest head."""
        with contextlib.suppress(FileNotFoundError):
            return int(json.loads(self.latest.read_bytes())["head"]["tree_size"])
        return 0


class Stored(SynchronousTestCase):
    """The same done to a store of a thousand records and more, with the Authority stopped."""

    @in_long_form
    @proves("G-AUD-02")
    def test_a_file(self) -> None:
        """Each change is found at its record by who reads the file."""
        self.check(self.filled(Cluster.on_file(self)))

    @in_long_form
    @proves("G-AUD-02")
    def test_a_database(self) -> None:
        """Each change is found at its record by who reads the tables."""
        self.check(self.filled(Cluster.on_postgres(self)))

    def filled(self, cluster: Cluster) -> Cluster:
        """More than a thousand records, with a head over the last of them."""
        cluster.start()
        appender = cluster.appender(at_once=20)
        appender.await_acked(SAMPLED, 120)
        appender.child.end()
        cluster.child().stop()
        self.keep(cluster)
        self.log = self.outside(cluster)
        began = time.monotonic()
        self.rows = self.log.verified().records
        TALLY.tell(f"verified {self.rows / (time.monotonic() - began):.0f} rows/s")
        return cluster

    def outside(self, cluster: Cluster) -> OutsideLog:
        """The log as ``audit verify`` reads it."""
        files = cluster.gateway.files
        settings = load_settings(str(files.config("authority")), "authority", {})
        return outside_log(settings, files.state("authority"))

    def check(self, cluster: Cluster) -> None:
        """Alter one thing after the other, and put it back."""
        drawn = Random(12)
        for column in ("prev_hash", "hash", "canonical"):
            for _ in range(STORED):
                seq = drawn.randrange(1, self.rows + 1)
                with self.flipped(cluster, column, seq, drawn):
                    self.assertFound(seq)
        for _ in range(STORED // 4):
            seq = drawn.randrange(1, self.rows)
            last = self.rows
            with self.changed(cluster, f"UPDATE audit_log SET seq = {last + 9} WHERE seq = {seq}"):
                self.assertFound(seq)
            with self.changed(cluster, f"DELETE FROM audit_log WHERE seq = {seq}"):
                self.assertFound(seq)
            with self.changed(cluster, f"DELETE FROM audit_log WHERE seq > {seq}"):
                self.assertFound(seq + 1)
            with self.changed(
                cluster,
                f"UPDATE audit_log SET seq = {last + 9} WHERE seq = {seq}",
                f"UPDATE audit_log SET seq = {seq} WHERE seq = {seq + 1}",
                f"UPDATE audit_log SET seq = {seq + 1} WHERE seq = {last + 9}",
            ):
                self.assertFound(seq)
            with self.changed(
                cluster,
                f"INSERT INTO audit_log (seq, prev_hash, hash, canonical) SELECT {last + 1},"
                f" prev_hash, hash, canonical FROM audit_log WHERE seq = {seq}",
            ):
                self.assertFound(last + 1)
        self.log.verified()

    @contextmanager
    def flipped(self, cluster: Cluster, column: str, seq: int, drawn: Random) -> Iterator[None]:
        """One bit of one value changed; another bit where the database takes no such value."""
        one = cluster.select(f"SELECT {column} FROM audit_log WHERE seq = {seq}")[0][0][0]
        data = one.encode() if isinstance(one, str) else bytes(one)
        while True:
            bit = drawn.randrange(8 * len(data))
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            value = f"'\\x{changed.hex()}'::bytea" if cluster.url else f"x'{changed.hex()}'"
            if column == "canonical":
                kind = ("convert_from(", ", 'UTF8')") if cluster.url else ("CAST(", " AS TEXT)")
                value = value.join(kind)
            try:
                self.execute(cluster, f"UPDATE audit_log SET {column} = {value} WHERE seq = {seq}")
                break
            except (psycopg2.DataError, sqlite3.OperationalError):
                pass  # no longer JSON: an index of the store's refuses it
        try:
            yield
        finally:
            self.restore(cluster)

    @contextmanager
    def changed(self, cluster: Cluster, *statements: str) -> Iterator[None]:
        """The tables changed behind everybody's back."""
        self.execute(cluster, *statements)
        try:
            yield
        finally:
            self.restore(cluster)

    def execute(self, cluster: Cluster, *statements: str) -> None:
        """Run statements."""
        if cluster.url:
            with connected(cluster.url) as cursor:
                # Whoever owns the database need not care for its constraints.
                cursor.execute("SET session_replication_role = replica")
                for one in statements:
                    cursor.execute(one)
            return
        with closing(sqlite3.connect(cluster.gateway.files.store)) as store, store:
            for one in statements:
                store.execute(one)

    def keep(self, cluster: Cluster) -> None:
        """Remember the store as it is."""
        if cluster.url:
            self.execute(cluster, "CREATE TABLE kept AS SELECT * FROM audit_log")
        else:
            self.kept = cluster.gateway.files.store.read_bytes()

    def restore(self, cluster: Cluster) -> None:
        """Put everything back."""
        columns = "seq, prev_hash, hash, canonical"
        if cluster.url:
            put = f"INSERT INTO audit_log ({columns}) SELECT {columns} FROM kept ORDER BY seq"
            self.execute(cluster, "DELETE FROM audit_log", put)
        else:
            cluster.gateway.files.store.write_bytes(self.kept)

    def assertFound(self, seq: int) -> None:
        """The log is refused at this record."""
        fault = self.assertRaises(AuditBroken, self.log.verified)
        self.assertEqual(fault.exit_code, 6)
        if isinstance(fault, ChainFault):
            self.assertEqual(fault.seq, seq, str(fault))
        else:
            self.assertIn(f"record {seq}:", fault.text)
        TALLY.many(1)

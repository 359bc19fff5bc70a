"""Rows that are written like others are judged as those were, and as by themselves."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.ingest.noted import KnownRows
from svc.audit.ingest.requests import GatedKind
from svc.audit.ingest.validate import RowChecks, RowVerdict, may_write_with
from svc.audit.log.kind_events import kind_events
from svc.audit.log.record import Sealer
from svc.audit.spool.rows import RowMaker
from svc.interfaces.kinds import KindEvent
from svc.model.audit.ledger import GENESIS, PersonalValue
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.spool import SpoolPlace, SpoolRow
from svc.model.cluster.node import Leaf, Node
from svc.model.ids import event_id
from svc.model.session.session import Session
from tests.support.examples import examples

AT, PROXY, ADA, BOB = 1_790_000_000.0, "p" * 26, "b" * 26, "c" * 26
UID, OTHER, OF_ANOTHER = "1" * 32, "2" * 32, "3" * 32
KINDS = {"tcp": GatedKind("TcpService", {"tcpConnect": "connect"})}
PARTS = (
    '"',
    ",",
    ":",
    "1",
    "0",
    "-",
    "true",
    "{",
    "}",
    "\\u0000",
    "\\",
    "e",
    " ",
    "\xe9",
    "9" * 15,
)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def entropy(count: int) -> bytes:
    """The same each time."""
    return sha256(b"svc").digest()[:count]


EVENT = KindEvent(
    "something odd",
    {
        "size": "number public",
        "words": "text public",
        "is_late": "flag public",
    },
)
EVENTS = kind_events("tcp", {"tcp.odd": EVENT})
MAY_WRITE = may_write_with(EVENTS.values(), KINDS)
MAKER = RowMaker(origin=PROXY, key=KEY, sealer=Sealer(entropy), now=lambda: AT, entropy=entropy)
NODE = Node(
    id=PROXY,
    name="edge1",
    role="proxy",
    key_sha256=bytes(32),
    audit_key=KEY.public_key().public_bytes_raw(),
    leaf=Leaf("01", bytes(32), 9e9),
    enrolled_at=1.0,
)


def session_row(uid: str) -> Session | None:
    """Sessions of ada and bob through this Proxy, and one through another."""
    if uid not in (UID, OTHER, OF_ANOTHER):
        return None
    return Session(
        uid=uid,
        person_id=BOB if uid == OTHER else ADA,
        resource_id="db2" if uid == OTHER else "db1",
        kind="tcp",
        connector_id="d" * 26,
        proxy_id="q" * 26 if uid == OF_ANOTHER else PROXY,
        decision_id="e" * 32,
        started_at=AT,
    )


def noted(n: int = 7, uid: str = UID, **details: Any) -> SpoolRow:
    """What a gate noted."""
    session = session_row(uid)
    assert session is not None
    said = {"size": n, "words": "a.b", "is_late": n % 2 == 0, "proxy_id": PROXY, **details}
    record = AuditRecord(
        event_id=event_id(AT, entropy),
        time=AT,
        event=EVENTS["tcp.odd"],
        actor=Actor("person", session.person_id),
        origin=PROXY,
        resource_id=session.resource_id,
        resource_kind="tcp",
        session_uid=uid,
        details={"source_address": "192.0.2.7", **said},
    )
    return MAKER.row(record, SpoolPlace("4" * 32, n, GENESIS))


def checks(rows: KnownRows, *, knows_bob: bool = True) -> RowChecks:
    """What rows are held against."""
    return RowChecks(
        signer={MAKER.key_id: NODE}.get,
        facts={},
        members=lambda _, id: knows_bob or id != BOB,
        may_write=MAY_WRITE,
        session_row=session_row,
        rows=rows,
    )


def warm() -> KnownRows:
    """It has judged two such rows."""
    rows = KnownRows()
    for n in (2, 3):
        assert checks(rows).verdict(noted(n)).judged is not None
    return rows


def both(row: SpoolRow, rows: KnownRows, **more: Any) -> tuple[RowVerdict, RowVerdict]:
    """As one like others, and by itself; its signature is taken for good."""
    return (
        checks(rows, **more).verdict(row, is_verified=True),
        checks(KnownRows(), **more).verdict(row, is_verified=True),
    )


class NotedTests(SynchronousTestCase):
    """Rows of one form."""

    def test_known(self) -> None:
        """Other persons, sessions, numbers and words are of the same form, and judged alike."""
        rows = warm()
        for row in (
            noted(8),
            noted(2**49, OTHER, size=-5, words="", is_late=True),
            noted(9, words="x" * 256, source_address="2001:db8::1"),
        ):
            self.assertIsNotNone(rows.read(row, NODE))
            known, alone = both(row, rows)
            self.assertIsNotNone(known.judged)
            self.assertEqual(known, alone)

    def test_unknown(self) -> None:
        """Others are judged by themselves: other words, and numbers too long to be compared."""
        rows = warm()
        for row in (noted(8, words="a b"), noted(8, words="x" * 257), noted(8, size=10**15)):
            self.assertIsNone(rows.read(row, NODE))
            known, alone = both(row, rows)
            self.assertIsNotNone(known.judged)
            self.assertEqual(known, alone)

    def test_another_origin(self) -> None:
        """A form is of its origin, key and role."""
        rows = warm()
        self.assertIsNotNone(rows.read(noted(8), NODE))
        self.assertIsNone(rows.read(noted(8), evolve(NODE, id="q" * 26)))
        self.assertIsNone(rows.read(noted(8), evolve(NODE, role="authority")))
        self.assertIsNone(rows.read(evolve(noted(8), key_id="0" * 64), NODE))

    def test_refused(self) -> None:
        """What a form does not say is judged in each row, and named as in any other."""
        row = noted(8, OTHER)
        text, [value] = row.canonical, row.personal
        for bad, why in (
            (evolve(row, canonical=text.replace(b"db2", b"db1")), "its resource is not that of"),
            (evolve(row, canonical=text.replace(BOB.encode(), ADA.encode())), "its actor is not"),
            (evolve(row, canonical=text.replace(b'"n":8', b'"n":1')), "must be the first row"),
            (evolve(row, canonical=text.replace(b"2026-09-", b"2026-13-")), "time is malformed"),
            (evolve(row, canonical=text.replace(b"2" * 32, b"3" * 32)), "was not granted"),
            (evolve(row, canonical=text.replace(b"2" * 32, b"5" * 32)), "was not granted"),
            (evolve(row, personal=()), "are not those that it hides"),
            (evolve(row, personal=(value, value)), "are not those that it hides"),
            (evolve(row, personal=(evolve(value, path="details.x"),)), "are not those"),
            (evolve(row, personal=(evolve(value, value='"192.0.2.8"'),)), "differs from the one"),
            (evolve(row, personal=(evolve(value, salt=b""),)), "differs from the one"),
        ):
            known, alone = both(bad, warm())
            self.assertEqual(known, alone)
            self.assertIn(why, known.why)
        known, alone = both(row, warm(), knows_bob=False)
        self.assertEqual(known, alone)
        self.assertIn("unknown person", known.why)

    @settings(deadline=None, max_examples=examples(2000))
    @given(
        st.integers(0, 900),
        st.integers(0, 40),
        st.one_of(st.sampled_from(PARTS), st.text('0123456789abcdef.-_:{}[]", é\x7f', max_size=3)),
    )
    @example(0, 0, " ")
    def test_altered(self, begin: int, count: int, part: str) -> None:
        """Whatever is put in whose place, a row gets the verdict that it gets by itself."""
        row = noted(8, OTHER)
        text = row.canonical.decode()
        begin = min(begin, len(text))
        changed = (text[:begin] + part + text[begin + count :]).encode()
        known, alone = both(evolve(row, canonical=changed), warm())
        self.assertEqual(known, alone)

    @settings(deadline=None, max_examples=examples(300))
    @given(st.integers(0, 900), st.sampled_from('0123456789abcdef.-_:{}[]", é'))
    def test_a_character(self, at: int, part: str) -> None:
        """The same of one character, which leaves more rows good."""
        row = noted(8, OTHER)
        text = row.canonical.decode()
        at = min(at, len(text) - 1)
        changed = (text[:at] + part + text[at + 1 :]).encode()
        known, alone = both(evolve(row, canonical=changed), warm())
        self.assertEqual(known, alone)

    def test_bounded(self) -> None:
        """Rows that are alike in twos make few forms, and none stays of origins long past."""
        rows = KnownRows()
        for number in range(400):
            row = noted(8, words=f"form {number}")
            for _ in range(2):
                self.assertIsNotNone(checks(rows).verdict(row, is_verified=True).judged)
        self.assertLessEqual(sum(map(len, rows._forms.values())), 4)
        self.assertLessEqual(len(rows._seen), 256)

    def test_a_value_that_is_not_ours(self) -> None:
        """A personal value beside a row is the one that was hashed, whatever it looks like."""
        row = noted(8)
        for value in (PersonalValue("details.source_address", bytes(16), "1"), row.personal[0]):
            known, alone = both(evolve(row, personal=(value,)), warm())
            self.assertEqual(known, alone)

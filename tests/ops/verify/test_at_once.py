"""Rows that are checked at once are good or not as they are one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.merkle import Tree, leaf_hash, leaf_hashes
from svc.audit.log.alike import KnownRecords
from svc.audit.log.record import PERSONAL, personal_hash, seal
from svc.audit.log.verify import VerifiedRange, verified_range
from svc.model.audit import events
from svc.model.audit.ledger import ChainRow, PersonalValue, StoredRow, StoredValue
from svc.model.audit.record import AuditRecord, SealedRecord, chain_hash, chain_hashes
from svc.model.audit.spool import SpoolPlace
from svc.model.canonical import Json, encode
from svc.ops.verify.at_once import verified_at_once
from tests.audit.logs import FACTS, MemoryLog, record, short_record
from tests.support.examples import examples

FIRST, COUNT = 5, 12
ODD = (None, 7, 1.5, "", "é", "\ud800", b"", bytes(16), bytes(32), '"a"', '"a"\n"b"', "[1]", "{}")

TEXTS = st.text(alphabet='"\\\n{}[]:,a1é ', max_size=12) | st.sampled_from(
    [
        '"a"',
        '{"a":"b","c":"d"}',
        '{"a":1}',
        '"a"\n"b"',
        "[]",
        "7",
        '"\\u0000"',
        '{"a":"b"}\n""',
        '""',
    ]
)


def spooled(n: int) -> AuditRecord:
    """A record with a place in a spool."""
    return evolve(short_record(n), spool=SpoolPlace(spool_id="0" * 32, n=n))


def erased(n: int) -> AuditRecord:
    """A record of which more is judged than its form."""
    return evolve(short_record(n), event=events.AUDIT_ERASED, details={"erased": [f"{n}:a"]})


MADE = (record, record, record, short_record, spooled, erased)


def a_log(made: Sequence[Callable[[int], AuditRecord]]) -> MemoryLog:
    """Good records, the last COUNT of which are those that are checked."""
    log = MemoryLog()
    for n in range(FIRST - 1 + COUNT):
        log.append(seal(made[n % len(made)](n), log.entropy, FACTS))
    return log


def by_columns(log: MemoryLog) -> tuple[list[StoredRow], list[StoredValue]]:
    """The rows of a log from FIRST on, and what is beside them, as a store gives them."""
    rows: list[StoredRow] = [
        (row.seq, row.prev_hash, row.hash, row.canonical, row.signature or None)
        for row in log.log[FIRST - 1 :]
    ]
    values = [
        (seq, one.path, one.salt, one.value)
        for seq, found in sorted(log.personal_of(FIRST, FIRST + COUNT).items())
        for one in found
    ]
    return rows, values


def one_by_one(rows: Sequence[StoredRow], values: Sequence[StoredValue]) -> VerifiedRange:
    """As the store and verification do it where rows are not checked at once."""
    beside: dict[int, list[PersonalValue]] = {}
    for seq, path, salt, value in values:
        beside.setdefault(seq, []).append(PersonalValue(path, bytes(salt), value))
    made = []
    for seq, prev, found, text, signature in rows:
        canonical = text.encode() if isinstance(text, str) else bytes(text)
        made.append(
            ChainRow(
                seq=seq,
                prev_hash=bytes(prev),
                hash=bytes(found),
                canonical=canonical,
                signature=bytes(signature or b""),
            )
        )
    return verified_range(FIRST, made, beside)


class AtOnceTests(SynchronousTestCase):
    """Against the same rows one by one."""

    def check(self, rows: list[StoredRow], values: list[StoredValue]) -> VerifiedRange | None:
        """What is found at once; also where the forms are known already."""
        known = KnownRecords()
        found = [verified_at_once(FIRST, rows, values, known) for _ in range(3)]
        self.assertEqual(found[1:], found[:-1])
        try:
            plain = one_by_one(rows, values)
        except (TypeError, AttributeError, ValueError):
            self.assertIsNone(found[0])  # no store of ours keeps such a value
            return None
        if found[0] is not None:
            self.assertEqual(found[0], plain)
        return found[0]

    def test_good(self) -> None:
        """Good rows are good, whether the record is read as bytes or as text."""
        rows, values = by_columns(a_log(MADE))
        self.assertTrue(values)
        found = self.check(rows, values)
        self.assertIsNotNone(found)
        as_text = [(*row[:3], row[3].decode(), row[4]) for row in rows]  # type: ignore[union-attr]
        self.assertEqual(verified_at_once(FIRST, as_text, values, KnownRecords()), found)
        self.assertIsNone(verified_at_once(FIRST, [], [], KnownRecords()))
        self.assertIsNotNone(self.check(rows, []))

    @settings(max_examples=examples(400), deadline=None)
    @given(
        made=st.lists(st.sampled_from(MADE), min_size=1, max_size=3),
        row=st.integers(0, COUNT - 1),
        column=st.integers(0, 4),
        odd=st.sampled_from(ODD),
    )
    def test_changed_row(
        self, made: list[Callable[[int], AuditRecord]], row: int, column: int, odd: object
    ) -> None:
        """Whatever stands in a column of a row, it is judged as it is one by one."""
        rows, values = by_columns(a_log(made))
        changed: list[object] = list(rows[row])
        changed[column] = odd
        rows[row] = tuple(changed)  # type: ignore[assignment]
        self.check(rows, values)

    @settings(max_examples=examples(400), deadline=None)
    @given(
        made=st.lists(st.sampled_from(MADE), min_size=1, max_size=3),
        row=st.integers(0, 100),
        column=st.integers(1, 3),
        odd=st.sampled_from((*ODD, "details.source_address", "details", "event")),
    )
    def test_changed_value(
        self, made: list[Callable[[int], AuditRecord]], row: int, column: int, odd: object
    ) -> None:
        """Whatever stands in a column of a personal value, it is judged as it is one by one."""
        rows, values = by_columns(a_log([record, *made]))
        changed: list[object] = list(values[row % len(values)])
        changed[column] = odd
        values[row % len(values)] = tuple(changed)  # type: ignore[assignment]
        self.check(rows, values)

    @settings(max_examples=examples(200), deadline=None)
    @given(texts=st.lists(TEXTS, min_size=1, max_size=4))
    def test_rightly_hashed(self, texts: list[str]) -> None:
        """Values that the records do hide are good only if each is JSON."""
        log, salt = MemoryLog(), bytes(16)
        for n in range(FIRST - 1 + COUNT):
            text = texts[n % len(texts)]
            value = PersonalValue("details.a", salt, text)
            details = {"a": {PERSONAL: personal_hash(salt, text)}}
            form: Json = {"action": "a", "details": details, "event": "x", "time": f"{n}"}
            log.append(SealedRecord(encode(form), (value,)))
        rows, values = by_columns(log)
        is_good = one_by_one(rows, values).fault is None
        self.assertEqual(self.check(rows, values) is not None, is_good)

    def test_places(self) -> None:
        """A row too few, too many, twice or at another place is found."""
        rows, values = by_columns(a_log(MADE))
        for wrong in (rows[1:], rows[:3] + rows[4:], [*rows[:3], rows[2], *rows[4:]], rows[::-1]):
            self.assertIsNone(self.check(wrong, values[:1]))


class HashesTests(SynchronousTestCase):
    """Many hashes at once."""

    def test_hashes(self) -> None:
        """They are those that are made one by one."""
        texts = [b"", b"{}", b"x" * 5000]
        prevs = [bytes([n]) * 32 for n in range(3)]
        self.assertEqual(
            chain_hashes(7, prevs, texts), [chain_hash(7 + n, prevs[n], texts[n]) for n in range(3)]
        )
        signatures = [None, b"", b"s" * 64]
        self.assertEqual(
            leaf_hashes(texts, signatures),
            [leaf_hash(text, sig or b"") for text, sig in zip(texts, signatures, strict=True)],
        )

    @given(sizes=st.lists(st.integers(0, 70), max_size=4))
    def test_tree(self, sizes: list[int]) -> None:
        """A tree grows by many leaves as it does by one after the other."""
        many, single = Tree(), Tree()
        for size in sizes:
            leaves = [leaf_hash(bytes([n])) for n in range(size)]
            many.extend(b"".join(leaves))
            for leaf in leaves:
                single.append(leaf)
            self.assertEqual(many, single)

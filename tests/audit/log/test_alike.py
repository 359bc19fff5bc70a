"""A record of a known form is judged, and exported, as if it were judged by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.alike import KnownRecords
from svc.audit.log.covered import covered_row
from svc.audit.log.export import json_line
from svc.audit.log.record import PERSONAL, personal_hash, seal
from svc.audit.log.verify import ChainFault, check_record, verified_range
from svc.model.audit import events
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import GENESIS, AuditRecord, SealedRecord, chain_hash
from svc.model.audit.spool import SpoolPlace
from svc.model.canonical import Json, decode, encode
from tests.audit.logs import FACTS, MemoryLog, record, short_record
from tests.support.examples import examples


def spooled(n: int) -> AuditRecord:
    """A record with a place in a spool."""
    return evolve(short_record(n), spool=SpoolPlace(spool_id="0" * 32, n=n))


def flagged(n: int) -> AuditRecord:
    """A record without a personal value."""
    return evolve(
        record(n), event=events.SESSION_REFUSED, request=None, details={}, reason="denied"
    )


MADE = (record, short_record, spooled, flagged)
SNIPPETS = (
    *'"\\{}[],:01',
    *(" ", "\n", "\t", "\0", "\x1f", "\x7f", "é", "\ud7ff", "\U0001f600"),
    *("-", "-0", "00", "1e3", "1.5", "9" * 15, "9" * 16, "9" * 400, "true", "false", "null"),
    *('\\"', "\\u0041", "\\n", '","', '":"', '"a":1,', ',"zz":2', '{"personal":"x"}', "[]", "{}"),
    *("session.start", "audit.erased", "request.batch", "personal", "batch", "spool"),
)
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(SNIPPETS) | st.text(max_size=3)),
    max_size=3,
)
"""Where a text is changed, how many characters are taken out there, and what is put in."""

VALUES = st.recursive(
    st.sampled_from(["", "a", "b c", "é", '"', "\\", "\x7f"])
    | st.integers(-(10**16), 10**16)
    | st.booleans()
    | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c.d", PERSONAL, "é"]), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["a", "batch", "details", "entities_digest", "form", "g", "personal", "s", "spool", "t", "zz"]
)
OTHERS = st.dictionaries(NAMES, VALUES, max_size=6)
EVENTS = st.sampled_from(["session.start", "audit.erased", "request.batch", "x", 'a"b', None, 7])


def altered(text: str, changes: Sequence[tuple[float, int, str]]) -> bytes:
    """The text, changed at some places."""
    for place, out, new in changes:
        at = round(place * len(text))
        text = text[:at] + new + text[at + out :]
    return text.encode("utf-8", "surrogatepass")


def row_of(canonical: bytes, signature: bytes = b"") -> ChainRow:
    """The first record of a log, rightly linked whatever it says."""
    found = chain_hash(1, GENESIS, canonical)
    return ChainRow(seq=1, prev_hash=GENESIS, hash=found, canonical=canonical, signature=signature)


def taught(*texts: bytes) -> KnownRecords:
    """Knows the forms of these records."""
    known = KnownRecords()
    for text in texts:
        for _ in range(2):
            if known.read(text) is None:
                check_record(row_of(text), (), known)
    return known


class AlikeTests(SynchronousTestCase):
    """Against each record by itself."""

    def check(
        self, known: KnownRecords, canonical: bytes, personal: Sequence[PersonalValue]
    ) -> None:
        """One row is judged alike, and its line is the same, both ways."""
        row, beside = row_of(canonical), {1: tuple(personal)}
        for told in (None, beside):
            plain = verified_range(1, [row], told)
            self.assertEqual(verified_range(1, [row], told, known), plain)
        if known.read(canonical) is not None:
            self.assertEqual(encode(decode(canonical)), canonical)
        for signature in (b"", b"\1\2"):
            signed = evolve(row, signature=signature)
            self.assertEqual(line(signed, personal, known), line(signed, personal, None))

    def test_known(self) -> None:
        """The third record of its kind is of a known form, and its values are looked for."""
        for made in MADE:
            one, two, three = sealed(made)
            known = taught(one.canonical, two.canonical)
            self.assertIsNotNone(known.read(three.canonical), made)
            self.check(known, three.canonical, three.personal)
            for value in three.personal:
                for wrong in (
                    evolve(value, path=value.path + "x"),
                    evolve(value, path="details"),
                    evolve(value, salt=bytes(16)),
                    evolve(value, salt=value.salt[:-1]),
                    evolve(value, value=value.value + " "),
                ):
                    self.check(known, three.canonical, [wrong])

    @settings(max_examples=examples(300), deadline=None)
    @given(made=st.sampled_from(MADE), changes=CHANGES)
    def test_changed(
        self, made: Callable[[int], AuditRecord], changes: list[tuple[float, int, str]]
    ) -> None:
        """Whatever is changed in a record, and rightly hashed, is judged as it is by itself."""
        one, two, three = sealed(made)
        text = altered(three.canonical.decode(), changes)
        self.check(taught(one.canonical, two.canonical), text, three.personal)

    @settings(max_examples=examples(300), deadline=None)
    @given(event=EVENTS, others=OTHERS, changes=CHANGES)
    def test_any(
        self, event: object, others: dict[str, object], changes: list[tuple[float, int, str]]
    ) -> None:
        """A record of anything whatever is of no form, or is judged as it is by itself."""
        form = {"action": "a", **others, **({} if event is None else {"event": event}), "time": "t"}
        text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        known = taught(text.encode())
        self.check(known, text.encode(), [])
        self.check(known, altered(text, changes), [])

    def test_each_place(self) -> None:
        """What is put into a small record, or for a character of it, is judged at every place."""
        text = b'{"action":"a","event":"x","flag":true,"list":["b"],"n":12,"none":null,"time":"t"}'
        known = taught(text)
        self.assertIsNotNone(known.read(text))
        for at in range(len(text) + 1):
            for snippet in SNIPPETS:
                for out in (0, 1):
                    new = text[:at] + snippet.encode() + text[at + out :]
                    if known.read(new) is not None:
                        self.check(known, new, [])

    def test_path_of_a_value(self) -> None:
        """A value's hash may stand anywhere, and is found by its whole path."""
        value = PersonalValue("details.a.b", bytes(16), "7")
        marker = {PERSONAL: personal_hash(value.salt, value.value)}
        form: Json = {"action": "a", "details": {"a": {"b": marker}}, "event": "x", "time": "t"}
        text = encode(form)
        known = taught(text)
        self.assertIsNotNone(known.read(text))
        self.check(known, text, [value])
        for path in ("details.a", "details.a.b.personal", "details", "b", ""):
            self.check(known, text, [evolve(value, path=path)])

    def test_what_is_read_whole(self) -> None:
        """Records of which more is judged, and whatever no form tells, are of no form."""
        erased = evolve(short_record(), event=events.AUDIT_ERASED, details={"erased": ["1:a"]})
        for text in (
            sealed(lambda _: erased)[0].canonical,
            b'{"action":"a","event":"request.batch","time":"t"}',
            b'{"action":"a","event":[],"time":"t"}',
            b'{"action":"a","event":"x","hash":"h","time":"t"}',
            b'{"action":"a","event":"x","time":"\\n"}',
            b'{"action":"a","event":"x", "time":"t"}',
            b'{"event":"x","time":"t","action":"a"}',
            b'{"action":"a","event":"x","time":1.5}',
            b'{"action":"a","event":"x"}',
        ):
            self.assertIsNone(taught(text).read(text), text)

    def test_no_event(self) -> None:
        """A record whose event is no text is no reason to stop without a word."""
        for text in (b'{"event":[]}', b'{"entities_digest":"e","event":{}}'):
            self.assertIsNone(verified_range(1, [row_of(text)], {}).fault)

    def test_bounded(self) -> None:
        """Of a log in which no record is like another little is remembered, and little is tried."""
        known = KnownRecords()
        for n in range(3000):
            text = encode({"action": "a", "event": f"x{n // 2}", f"g{n // 2}": n, "time": "t"})
            self.assertIsNone(known.read(text) if n % 2 == 0 else None)
            check_record(row_of(text), (), known)
        remembered = [form for forms in known._forms.values() for form in forms]
        self.assertLess(len(remembered), 60)
        for n in range(100):
            text = encode({"action": "a", "event": "x", f"g{n // 2}": n, "time": "t"})
            check_record(row_of(text), (), known)
        self.assertLessEqual(len(known._forms.get(b"x", ())), 8)

    def test_expensive_forms(self) -> None:
        """Short records do not pay for the patterns of long ones."""
        short = encode({"event": "s", "z": "\n"})
        known = KnownRecords()
        for n in range(12):
            names = {f"g{each:04}": each for each in range(600)}
            long = encode({"action": "a", "event": f"x{n}", **names, "time": "t"})
            for text in (*[short] * 200, long, long):
                check_record(row_of(text), (), known)
        self.assertLessEqual(len(known._forms), 1)

    def test_tried_in_vain(self) -> None:
        """Forms are tried in vain about as often as records are judged, and no oftener."""
        others: list[Json] = ["", 0, True, None, [], {}, {"a": 0}, {"b": 0}]
        form: dict[str, Json] = {"action": "a", "event": "x", "l": ["b"] * 1000, "time": "t"}
        known = KnownRecords()
        for other in others:
            for _ in range(2):
                check_record(row_of(encode({**form, "zz": other})), (), known)
        self.assertEqual(len(known._forms[b"x"]), len(others))
        for _ in range(500):
            self.assertIsNone(known.read(encode({**form, "zz": "\n"})))
        self.assertLess(known._credit, 8)

    def test_long(self) -> None:
        """A record that is longer than any a form is made of is judged by itself."""
        texts = [
            encode({"action": "a", "event": "x", "l": ["b"] * count, "time": "t"})
            for count in (1, 3000)
        ]
        self.assertEqual([taught(texts[0]).read(text) is None for text in texts], [False, True])

    def test_no_canonical_form(self) -> None:
        """A record that cannot be written again is a fault of the log to export, as others are."""
        for text in (b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1e999}', b'{"a":"\\ud800"}'):
            self.assertIn("canonical", line(row_of(text), [], None))


def sealed(made: Callable[[int], AuditRecord]) -> list[SealedRecord]:
    """Three records that differ in what differs in each."""
    memory = MemoryLog()
    return [seal(made(n), memory.entropy, FACTS) for n in (1, 22, 333)]


def line(row: ChainRow, personal: Sequence[PersonalValue], known: KnownRecords | None) -> str:
    """The line of an export, or why there is none."""
    try:
        return json_line(covered_row(row, personal, known))
    except ChainFault as fault:
        return fault.text

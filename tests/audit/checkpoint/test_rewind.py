"""A log that goes on from an older store: who keeps the greater head believes only the record."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.head import from_line, to_line
from svc.audit.checkpoint.rewind import lost_head, restoration, standing
from svc.audit.log.record import seal
from svc.errors import AuditBroken, Malformed, SvcError
from svc.model.audit.record import RestoredProof
from svc.model.canonical import Json, encode
from tests.audit.logs import FACTS, MemoryLog, heads_over, short_record, verify_head


class RestoredTests(SynchronousTestCase):
    """A log of twelve records, of which four are lost."""

    def setUp(self) -> None:
        self.log = MemoryLog()
        self.log.fill(12, short_record)
        self.heads = heads_over(self.log.log, 3, 8, 10, 12, hours=1)
        self.head = self.log.go_on(8, self.heads[-1], hours=100)

    def test_proved(self) -> None:
        """The head's own line proves the record, which number it has, and what it gives up."""
        said = restoration(from_line(to_line(self.head), {}))
        assert said is not None
        lost = self.heads[-1]
        self.assertEqual((said.seq, said.shared_size, said.lost_size), (9, 8, 12))
        self.assertEqual((said.lost_hash, said.lost_time), (lost.hash.hex(), lost.head.time))
        self.assertIsNone(restoration(lost))

    def test_what_is_given_up(self) -> None:
        """The lost line is, the line that goes on and what both share are not."""
        said = restoration(self.head)
        assert said is not None
        self.assertEqual([said.gives_up(head) for head in self.heads], [False, False, True, True])
        self.assertFalse(said.gives_up(self.head))
        self.log.fill(2, short_record)
        (later,) = heads_over(self.log.log, 11, begin=101)
        self.assertFalse(said.gives_up(later))
        greater = evolve(self.heads[-1], head=evolve(self.heads[-1].head, tree_size=13))
        self.assertFalse(said.gives_up(evolve(greater, signed=self.head.signed)))

    def test_other_history(self) -> None:
        """Where the store had grown past the lost head, that head alone and older ones go."""
        log = MemoryLog(drawn=99)
        log.fill(20, short_record)
        said = restoration(log.go_on(20, self.heads[-1], hours=100, shared=0))
        assert said is not None
        self.assertEqual((said.seq, said.shared_size), (21, 0))
        self.assertEqual([said.gives_up(head) for head in self.heads], [True] * 4)

    @given(st.integers(0, 40), st.integers(0, 9))
    @settings(deadline=None, max_examples=30)
    def test_any_size(self, size: int, more: int) -> None:
        """The record's place in the tree is proved for every number of records."""
        log = MemoryLog()
        log.fill(size + more + 1, short_record)
        (lost,) = heads_over(log.log, size + more + 1)
        said = restoration(log.go_on(size, lost, hours=1))
        assert said is not None
        self.assertEqual((said.seq, said.lost_size), (size + 1, size + more + 1))

    def test_not_proved(self) -> None:
        """Another record, another edge, or a record of something else proves nothing."""
        proof = self.head.restored
        assert proof is not None
        for odd in (
            evolve(proof, record=proof.record.replace(b'"lost_size":12', b'"lost_size":99')),
            evolve(proof, before=(bytes(32),)),
            evolve(proof, before=()),
            evolve(proof, before=(*proof.before, bytes(32))),
        ):
            self.assertRaises(AuditBroken, restoration, evolve(self.head, restored=odd))
        log = MemoryLog()
        row = log.append(seal(short_record(1), log.entropy, FACTS))
        (head,) = heads_over(log.log, 1)
        plain = evolve(head, restored=RestoredProof(row.canonical, ()))
        self.assertRaises(AuditBroken, restoration, plain)

    def test_record_of_another_form(self) -> None:
        """What is no such record names no head."""
        for record in (
            b"rubbish",
            b"[]",
            b'{"event":"store.restored"}',
            b'{"event":"store.restored","details":[]}',
        ):
            self.assertIsNone(lost_head(record))

        good: dict[str, Json] = {
            "lost_size": 5,
            "lost_hash": "a",
            "until": "b",
            "shared_size": 0,
        }

        def record_of(changed: dict[str, Json]) -> bytes:
            return encode({"event": "store.restored", "details": good | changed})

        self.assertEqual(lost_head(record_of({})), (5, "a", "b", 0))
        odd: list[dict[str, Json]] = [
            {"lost_size": True},
            {"lost_hash": 1},
            {"until": None},
            {"shared_size": -1},
            {"shared_size": None},
            {"shared_size": "0"},
        ]
        for changed in odd:
            self.assertIsNone(lost_head(record_of(changed)), changed)
        self.assertIsNone(lost_head(record_of({}).replace(b"store.restored", b"role.start")))

    def test_records_before_it_was_noticed(self) -> None:
        """What this line got before its start was noticed is not taken for the lost line's."""
        log = MemoryLog(drawn=99, log=self.log.log[:8], personal=self.log.personal)
        log.fill(3, short_record)
        said = restoration(log.go_on(11, self.heads[-1], hours=100, shared=8))
        assert said is not None
        self.assertEqual([said.gives_up(head) for head in self.heads], [False, False, True, True])

    def test_line_of_another_form(self) -> None:
        """A line that says it otherwise is no head."""
        line = to_line(self.head)
        for odd in (b'"restored":[]', b'"restored":{"record":{}}', b'"restored":{"before":[1]}'):
            at = line.index(b'"restored":')
            end = line.index(b',"signature"')
            self.assertRaises(Malformed, from_line, line[:at] + odd + line[end:], {})

    def test_a_witness_that_saw_both(self) -> None:
        """Of what a witness got, the lost line is left out and one that came twice counts once."""
        self.log.fill(2, short_record)
        (later,) = heads_over(self.log.log, 11, begin=101)
        seen = [*self.heads, self.head, self.head, later]
        left = list(standing(lambda: iter(seen), verify_head))
        self.assertEqual([head.head.tree_size for head in left], [3, 8, 9, 11])
        forged = evolve(self.head, signed=evolve(self.head.signed, signature=b"x" * 64))
        self.assertRaises(
            SvcError, list, standing(lambda: iter([*self.heads, forged]), verify_head)
        )

"""Verifying the log: every change is found and named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.audit.checkpoint.head import AnchorKey, payload, sign_head
from svc.audit.log.record import is_hidden, personal_hash, seal
from svc.audit.log.verify import ChainFault, Verified, verified_ranges, verify
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import GENESIS, SignedHead, chain_hash
from svc.model.canonical import MAX_DEPTH
from svc.model.signing import Purpose, Signed, sign
from tests.audit.chains import ROWS, SIZES, ChainCase
from tests.audit.logs import (
    ANCHOR,
    FACTS,
    KEY,
    MemoryLog,
    heads_over,
    record,
    short_record,
    verify_head,
)
from tests.support.caches import cache_sizes
from tests.support.examples import examples
from tests.support.proof import proves


class VerifyTests(ChainCase):
    """What is intact, and what is missing or not ours; ``tests/fault`` has the changes (F12)."""

    @proves("G-OPEN-79", "G-AUD-02")
    def test_intact(self) -> None:
        """An intact log verifies, and one line says up to where and by which anchor."""
        verified = self.check(self.rows)
        self.assertEqual(
            verified.text,
            f"verified {ROWS} records, head seq {ROWS} hash {self.rows[-1].hash.hex()},"
            f" anchor {ANCHOR.key_id}",
        )

    def test_levels_of_a_value(self) -> None:
        """A personal value has no more levels than a record, wherever it is read."""
        for levels, is_good in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False), (900, False)):
            text = "[" * levels + "]" * levels
            value = PersonalValue("details.address", bytes(16), text)
            there = {"personal": personal_hash(value.salt, text)}
            self.assertIs(is_hidden(there, value), is_good)

    @settings(max_examples=examples(200))
    @given(st.text(max_size=8) | st.text('"\\a\n\x1f\x7f', max_size=6).map('"{}"'.format))
    @example('""')
    def test_json_of_a_value(self, text: str) -> None:
        """A personal value is JSON without anything around it."""
        value = PersonalValue("details.address", bytes(16), text)
        try:
            json.loads(text)
        except ValueError:
            is_good = False
        else:
            is_good = text == text.strip(" \t\r\n")
        there = {"personal": personal_hash(value.salt, text)}
        self.assertIs(is_hidden(there, value), is_good)

    def test_no_value_is_remembered(self) -> None:
        """A value that is checked is in no cache afterwards: it may be erased from the log."""
        before = cache_sizes()
        for text in ('"192.0.2.77"', '["192.0.2.78"]'):
            there = {"personal": personal_hash(bytes(16), text)}
            self.assertTrue(is_hidden(there, PersonalValue("details.a", bytes(16), text)))
        self.assertEqual(cache_sizes(), before)

    def test_rows_after_the_last_head(self) -> None:
        """Rows not yet covered verify by the chain, and the line says how far the anchor goes."""
        self.assertEqual(self.check(self.rows, self.heads[:3]).anchored, 33)
        self.assertTrue(self.check(self.rows, self.heads[:3]).text.endswith(" at 33"))

    def test_witness(self) -> None:
        """A head kept elsewhere names a store behind it, and a log that was signed again."""
        kept = self.heads[2:3]
        self.assertEqual(self.witnessed(self.rows, kept).anchored, ROWS)
        self.assertEqual(self.witnessed(self.rows, kept, []).anchored, 33)
        behind = self.assertRaises(ChainFault, self.witnessed, self.rows[:20], kept, self.heads[:2])
        self.assertEqual((behind.seq, behind.kind), (21, "head_beyond_end"))
        other = MemoryLog(drawn=10_000)
        other.fill(ROWS, short_record)
        signed_anew = heads_over(other.log, *SIZES)
        fault = self.assertRaises(ChainFault, self.witnessed, other.log, kept, signed_anew)
        self.assertEqual((fault.seq, fault.kind), (1, "head_mismatch"))
        forged = evolve(kept[0], signed=evolve(kept[0].signed, signature=bytes(64)))
        fault = self.assertRaises(ChainFault, self.witnessed, self.rows, [forged])
        self.assertEqual((fault.seq, fault.kind), (33, "head_signature"))

    def witnessed(
        self,
        rows: Sequence[ChainRow],
        witnesses: Sequence[SignedHead],
        heads: Sequence[SignedHead] | None = None,
    ) -> Verified:
        """Verify against heads of ours and of somebody else."""
        heads = self.heads if heads is None else heads
        return verify(verified_ranges([rows]), heads, verify_head, witnesses=witnesses)

    @proves("G-AUD-13", "U-BAK-05")
    def test_no_anchor(self) -> None:
        """Without any signed head nothing is verified, and that is a failure."""
        self.assertFault(1, "no_anchor", self.rows, [])

    def test_empty(self) -> None:
        """An empty log without a head is said to be empty."""
        self.assertEqual(
            self.check([], []).text, "verified 0 records, the log is empty and no head is known"
        )
        self.assertFault(1, "head_beyond_end", [], self.heads[:1])

    def test_heads_taken_away(self) -> None:
        """A missing, doubled or exchanged head is found."""
        one, two, three, four = self.heads
        self.assertFault(1, "head_link", self.rows, [two, three, four])
        self.assertFault(2, "head_link", self.rows, [one, three, four])
        self.assertFault(2, "head_link", self.rows, [one, one, two])
        fault = self.assertRaises(
            ChainFault,
            verify,
            verified_ranges([self.rows]),
            self.heads[:3],
            verify_head,
            latest=four,
        )
        self.assertEqual((fault.seq, fault.kind), (34, "head_mismatch"))

    def test_signed_by_another(self) -> None:
        """A head of another key, for another purpose or another cluster is not accepted."""
        head = self.heads[0].head
        stranger = AnchorKey(ANCHOR.sign, (b"another",))
        odd = sign_head(evolve(head, key_id=stranger.key_id), stranger)
        self.assertFault(1, "head_signature", self.rows, [odd])
        data = payload(head)
        other = Signed(data, sign(KEY, Purpose.GRANT, data), ANCHOR.chain)
        self.assertFault(1, "head_signature", self.rows, [SignedHead(head, other)])
        fault = self.assertRaises(
            ChainFault,
            verify,
            verified_ranges([self.rows]),
            self.heads,
            verify_head,
            cluster="else.example",
        )
        self.assertEqual(fault.kind, "head_mismatch")

    def test_well_linked_rubbish(self) -> None:
        """A row with a good hash that holds no record is a failure, not the end."""
        for junk in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
            last = self.rows[-1]
            row = ChainRow(
                seq=ROWS + 1,
                prev_hash=last.hash,
                hash=chain_hash(ROWS + 1, last.hash, junk),
                canonical=junk,
            )
            self.assertFault(ROWS + 1, "record", [*self.rows, row])

    def test_erased(self) -> None:
        """With every personal value erased the log still verifies."""
        self.assertEqual(self.check(self.rows, personal_of=MemoryLog().personal_of).records, ROWS)

    @proves("G-OPEN-12")
    def test_by_the_page_alone(self) -> None:
        """A verifier written from the documented formula agrees on the last hash."""
        last = GENESIS
        for n in range(1, ROWS + 1):
            text = self.rows[n - 1].canonical
            head = b"svc-audit-v1\0" + n.to_bytes(8, "big") + last + len(text).to_bytes(4, "big")
            last = sha256(head + text).digest()
        self.assertEqual(last, self.check(self.rows).last_hash)

    def test_same_record_seals_alike(self) -> None:
        """The bytes depend on the record and the salts only."""
        first = seal(record(), lambda count: bytes(count), FACTS)
        self.assertEqual(first, seal(record(), lambda count: bytes(count), FACTS))

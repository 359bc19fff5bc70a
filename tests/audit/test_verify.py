"""Verifying the log: every change is found and named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from random import Random

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.heads import AnchorKey, payload, sign_head
from svc.audit.record import seal
from svc.audit.verify import ChainFault, PersonalOf, Verified, follow, stretches, verify
from svc.model.audit import GENESIS, SignedHead, chain_hash
from svc.model.ledger import ChainRow
from svc.model.signing import Purpose, Signed, sign
from tests.audit.logs import ANCHOR, FACTS, KEY, MemoryLog, heads_over, judge, record, short_record
from tests.proof import proves

ROWS = 100
SIZES = (1, 20, 33, ROWS)
SAMPLED = 1000


def flips(data: bytes) -> Iterable[bytes]:
    """*data* with one bit changed, in each byte in turn."""
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


class VerifyTests(SynchronousTestCase):
    """F12: exhaustive on a chain of a hundred rows, sampled on one of a thousand.

    Up to the changed row every walk is the same, so what is exhaustive is the step
    from one row to the next; the whole walk is taken over the samples.
    """

    def setUp(self) -> None:
        self.memory = MemoryLog()
        self.memory.fill(ROWS, short_record)
        self.rows = self.memory.log
        self.heads = heads_over(self.rows, *SIZES)

    def check(
        self,
        rows: Sequence[ChainRow],
        heads: Iterable[SignedHead] | None = None,
        personal_of: PersonalOf | None = None,
    ) -> Verified:
        """Verify in batches of seven."""
        return verify(
            stretches(
                (rows[at : at + 7] for at in range(0, len(rows), 7)),
                personal_of or self.memory.personal_of,
            ),
            self.heads if heads is None else heads,
            judge,
        )

    def assertFault(self, seq: int, kind: str, *args: object, **kwargs: object) -> None:
        """These rows and heads are refused at this record for this reason."""
        fault = self.assertRaises(ChainFault, self.check, *args, **kwargs)
        self.assertEqual((fault.seq, fault.kind), (seq, kind), str(fault))
        self.assertEqual(fault.exit_code, 6)

    @proves("G-OPEN-79", "G-AUD-02")
    def test_intact(self) -> None:
        """An intact log verifies, and one line says up to where and by which anchor."""
        verified = self.check(self.rows)
        self.assertEqual(
            verified.text,
            f"verified {ROWS} records, head seq {ROWS} hash {self.rows[-1].hash.hex()},"
            f" anchor {ANCHOR.key_id}",
        )

    def test_rows_after_the_last_head(self) -> None:
        """Rows not yet covered verify by the chain, and the line says how far the anchor goes."""
        self.assertEqual(self.check(self.rows, self.heads[:3]).anchored, 33)
        self.assertTrue(self.check(self.rows, self.heads[:3]).text.endswith(" at 33"))

    def assertStep(self, kind: str, row: ChainRow, seq: int) -> None:
        """*row* is refused as the record *seq*."""
        last = self.rows[seq - 2].hash if seq > 1 else GENESIS
        fault = self.assertRaises(ChainFault, follow, row, seq, last)
        self.assertEqual((fault.seq, fault.kind), (seq, kind))

    @proves("G-AUD-02")
    def test_every_byte_of_every_record(self) -> None:
        """One bit changed in any byte of any record is found at that record."""
        for row in self.rows:
            for changed in flips(row.canonical):
                self.assertStep("hash", evolve(row, canonical=changed), row.seq)

    @proves("G-AUD-02")
    def test_every_byte_of_every_hash(self) -> None:
        """One bit changed in any byte of a hash or a link is found at that record."""
        for row in self.rows:
            for changed in flips(row.hash):
                self.assertStep("hash", evolve(row, hash=changed), row.seq)
            for changed in flips(row.prev_hash):
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
        for at in drawn.sample(range(SAMPLED), 40):
            row, kind = self.rows[at], drawn.choice(("gap", "prev_link", "hash"))
            place = drawn.randrange(32)
            if kind == "gap":
                odd = evolve(row, seq=row.seq ^ 1 << drawn.randrange(63))
            elif kind == "prev_link":
                odd = evolve(row, prev_hash=list(flips(row.prev_hash))[place])
            else:
                odd = evolve(row, canonical=list(flips(row.canonical))[place])
            self.assertFault(at + 1, kind, [*self.rows[:at], odd, *self.rows[at + 1 :]])

    def test_witness(self) -> None:
        """A head kept elsewhere names a store behind it, and a log that was signed anew."""
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
        return verify(stretches([rows]), heads, judge, witnesses=witnesses)

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

    def test_every_byte_of_every_head(self) -> None:
        """One bit changed in what was signed, or in a signature, is never accepted."""
        for at, head in enumerate(self.heads):
            for changed in flips(head.signed.signature):
                odd = evolve(head, signed=evolve(head.signed, signature=changed))
                heads = [*self.heads[:at], odd, *self.heads[at + 1 :]]
                fault = self.assertRaises(ChainFault, self.check, self.rows, heads)
                self.assertIn(fault.kind, ("head_link", "head_signature"))
            for name in ("root", "last_hash", "previous_head_hash"):
                for changed in flips(getattr(head.head, name)):
                    stated = evolve(head.head, **{name: changed})  # type: ignore[arg-type]
                    signed = evolve(head.signed, payload=payload(stated))
                    heads = [*self.heads[:at], SignedHead(stated, signed), *self.heads[at + 1 :]]
                    self.assertRaises(ChainFault, self.check, self.rows, heads)

    def test_heads_taken_away(self) -> None:
        """A missing, doubled or exchanged head is found."""
        one, two, three, four = self.heads
        self.assertFault(1, "head_link", self.rows, [two, three, four])
        self.assertFault(2, "head_link", self.rows, [one, three, four])
        self.assertFault(2, "head_link", self.rows, [one, one, two])
        fault = self.assertRaises(
            ChainFault, verify, stretches([self.rows]), self.heads[:3], judge, latest=four
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
            ChainFault, verify, stretches([self.rows]), self.heads, judge, cluster="else.example"
        )
        self.assertEqual(fault.kind, "head_mismatch")

    def test_well_linked_rubbish(self) -> None:
        """A row with a good hash that holds no record is a failure, not the end."""
        for junk in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
            last = self.rows[-1]
            row = ChainRow(ROWS + 1, last.hash, chain_hash(ROWS + 1, last.hash, junk), junk)
            self.assertFault(ROWS + 1, "record", [*self.rows, row])

    def test_every_byte_of_every_personal_value(self) -> None:
        """A personal value, its salt or its place changed by one bit is found."""
        self.memory = MemoryLog()
        self.memory.fill(ROWS)
        self.rows = self.memory.log
        self.heads = heads_over(self.rows, ROWS)
        for seq in (1, ROWS):
            kept = self.memory.personal[seq]
            for at, value in enumerate(kept):
                odd = [evolve(value, salt=salt) for salt in flips(value.salt)]
                odd += [
                    evolve(value, **{name: text.decode("latin-1")})  # type: ignore[arg-type]
                    for name in ("path", "value")
                    for text in flips(getattr(value, name).encode())
                ]
                for changed in odd:
                    own = {**self.memory.personal, seq: (*kept[:at], changed, *kept[at + 1 :])}
                    mixed = MemoryLog(self.rows, own)
                    self.assertFault(seq, "personal", self.rows, personal_of=mixed.personal_of)

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

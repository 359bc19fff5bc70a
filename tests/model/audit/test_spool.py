"""Rows of spools: where they stand, who signed them, how they travel."""

from __future__ import annotations

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import seal
from svc.errors import Malformed
from svc.messages.spooled import (
    MAX_BATCH_BYTES,
    MAX_RECORD_BYTES,
    MAX_ROWS,
    SpoolState,
    batch,
    check_row,
    read_spooled,
    read_state,
    spooled_message,
    state_message,
)
from svc.model.audit.events import SPOOL_OPEN
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.spool import (
    SpoolPlace,
    SpoolRow,
    audit_key_id,
    read_place,
    row_hash,
    row_signer,
    verify_row,
)
from svc.model.canonical import Json, decode, encode
from svc.model.signing import BadSignature
from svc.proto.gate.v1 import control_pb2 as pb

ORIGIN = "p" * 26
SPOOL = "0f" * 16
KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
RAW = KEY.public_key().public_bytes_raw()
spool_ids = st.binary(min_size=16, max_size=16).map(bytes.hex)
places = st.builds(
    SpoolPlace, spool_ids, st.integers(1, 2**53 - 1), st.binary(min_size=32, max_size=32)
)


def sealed(place: SpoolPlace | None) -> bytes:
    record = AuditRecord(
        event_id="e",
        time=1.0,
        event=SPOOL_OPEN,
        actor=Actor("node", ORIGIN),
        origin=ORIGIN,
        key_id=audit_key_id(RAW),
        spool=place,
    )
    return seal(record, bytes).canonical


def signed(place: SpoolPlace) -> SpoolRow:
    canonical = sealed(place)
    return SpoolRow(
        canonical=canonical,
        personal=(),
        key_id=audit_key_id(RAW),
        signature=row_signer(KEY)(canonical),
    )


class RowTests(SynchronousTestCase):
    """A row by itself."""

    @given(place=places)
    def test_place(self, place: SpoolPlace) -> None:
        """A sealed record says where it stands, and is read as it was written."""
        self.assertEqual(read_place(sealed(place)), (ORIGIN, place))

    def test_no_place(self) -> None:
        """A record without a place, or with one of another form, is none of a spool's."""
        good = decode(sealed(SpoolPlace(SPOOL, 1)))
        assert isinstance(good, dict)
        bad: list[Json] = [
            {},
            {"id": SPOOL, "n": 1},
            {"id": SPOOL, "n": 0, "prev": "00" * 32},
            {"id": SPOOL, "n": True, "prev": "00" * 32},
            {"id": SPOOL, "n": "1", "prev": "00" * 32},
            {"id": SPOOL.upper(), "n": 1, "prev": "00" * 32},
            {"id": SPOOL, "n": 1, "prev": "AA" * 32},
            {"id": SPOOL, "n": 1, "prev": "00" * 31},
            {"id": SPOOL, "n": 1, "prev": "00" * 32, "more": 1},
            None,
        ]
        forms = [encode({**good, "spool": each}) for each in bad]
        forms += [sealed(None), encode({**good, "origin": "x"}), encode([]), b"{", b""]
        for each in forms:
            self.assertRaises(Malformed, read_place, each)

    @given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
    def test_signature(self, at: int, bit: int) -> None:
        """The registered key accepts the row, and no row with any bit changed."""
        row = signed(SpoolPlace(SPOOL, 7, row_hash(b"6")))
        verify_row(row, RAW)
        changed = bytearray(row.canonical + row.signature)
        changed[at % len(changed)] ^= 1 << bit
        other = evolve(
            row,
            canonical=bytes(changed[: len(row.canonical)]),
            signature=bytes(changed[len(row.canonical) :]),
        )
        self.assertRaises(BadSignature, verify_row, other, RAW)

    def test_other_keys(self) -> None:
        """Another key, and what is no key, accept nothing."""
        row = signed(SpoolPlace(SPOOL, 1))
        other = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        for key in (other, b"", RAW[:31]):
            self.assertRaises(BadSignature, verify_row, row, key)
        self.assertTrue(row.is_signed)
        self.assertFalse(evolve(row, signature=b"").is_signed)
        self.assertFalse(evolve(row, key_id="").is_signed)
        self.assertNotIn(row.signature.hex(), repr(row))


class MessageTests(SynchronousTestCase):
    """Rows on their way."""

    def test_travel(self) -> None:
        """A batch arrives as it was sent; one without rows asks only."""
        row = evolve(
            signed(SpoolPlace(SPOOL, 1)), personal=(PersonalValue("a.b", bytes(16), '"x"'),)
        )
        for rows in ((), (row,), (row, signed(SpoolPlace(SPOOL, 2)))):
            message = pb.SpooledRequest.FromString(spooled_message(SPOOL, rows).SerializeToString())
            self.assertEqual(read_spooled(message), (SPOOL, rows))

    def test_bounds(self) -> None:
        """Too many rows, and rows too large or of no form, are refused."""
        row = signed(SpoolPlace(SPOOL, 1))
        value = PersonalValue("a", bytes(16), "x")
        bad = [
            evolve(row, canonical=b""),
            evolve(row, canonical=b"x" * (MAX_RECORD_BYTES + 1)),
            evolve(row, signature=bytes(73)),
            evolve(row, key_id="k" * 65),
            evolve(row, personal=(value,) * 65),
            evolve(row, personal=(evolve(value, salt=b""),)),
            evolve(row, personal=(evolve(value, path="p" * 257),)),
            evolve(row, personal=(evolve(value, value="v" * (MAX_RECORD_BYTES + 1)),)),
            evolve(row, personal=(evolve(value, value="v" * MAX_RECORD_BYTES),) * 9),
            evolve(row, personal=(evolve(value, value="é" * MAX_RECORD_BYTES),) * 3),
        ]
        for each in bad:
            self.assertRaises(Malformed, check_row, each)
            self.assertRaises(Malformed, read_spooled, spooled_message(SPOOL, [each]))
        many = spooled_message(SPOOL, [row] * (MAX_ROWS + 1))
        self.assertRaises(Malformed, read_spooled, many)
        self.assertRaises(Malformed, read_spooled, pb.SpooledRequest(spool_id=b"short"))

    def test_batches(self) -> None:
        """A batch ends before its limits, and is never empty while a row waits."""
        row = signed(SpoolPlace(SPOOL, 1))
        large = evolve(row, canonical=b"x" * MAX_RECORD_BYTES)
        self.assertEqual(batch([]), ())
        self.assertEqual(len(batch([row] * 1000)), MAX_ROWS)
        taken = batch([large] * 100)
        self.assertLess(sum(len(one.canonical) for one in taken), MAX_BATCH_BYTES)
        self.assertEqual(len(taken), 7)
        self.assertEqual(batch([large]), (large,))

    def test_answer(self) -> None:
        """What Authority has is told; more covered than received is no answer."""
        self.assertEqual(read_state(state_message(SpoolState(9, 7))), SpoolState(9, 7))
        self.assertRaises(Malformed, read_state, pb.SpooledResponse(received=1, covered=2))

"""What proposers sign: one form of bytes, read back as it was written."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.canonical import decode, encode
from svc.model.policy.claim import MAX_CLAIM_BYTES, ProposalClaim, decode_claim, encode_claim

CLAIM = ProposalClaim(
    cluster="c1.example.test",
    proposer="p" * 26,
    certificate_sha256=b"c" * 32,
    policy_sha256=b"p" * 32,
    replay_sha256=b"r" * 32,
    findings_sha256=b"f" * 32,
    note="orders: no DDL",
    made_at=1_900_000_000,
)


class ClaimTests(SynchronousTestCase):
    """`encode_claim` and `decode_claim`."""

    @given(
        note=st.text(st.characters(exclude_categories=["Cs"]), max_size=100),
        made_at=st.integers(0, 2**53 - 1),
        digest=st.binary(min_size=32, max_size=32),
    )
    def test_round_trip(self, note: str, made_at: int, digest: bytes) -> None:
        """Whatever is proposed is read back as it was signed."""
        claim = evolve(CLAIM, note=note, made_at=made_at, policy_sha256=digest)
        self.assertEqual(decode_claim(encode_claim(claim)), claim)

    def test_malformed(self) -> None:
        """Other forms, fields too many or too few, and values that are none are refused."""
        form = decode(encode_claim(CLAIM), max_bytes=MAX_CLAIM_BYTES)
        assert isinstance(form, dict)
        for changes in (
            {"form": "svc-policy-propose-v2"},
            {"more": 1},
            {"made_at": -1},
            {"made_at": True},
            {"made_at": "1"},
            {"note": 1},
            {"proposer": ""},
            {"proposer": "two words"},
            {"policy_sha256": "AB" * 32},
            {"findings_sha256": None},
        ):
            with self.assertRaises(Malformed, msg=str(changes)):
                decode_claim(encode({**form, **changes}))
        for data in (b"", b"[]", b"{}", encode_claim(CLAIM) + b" ", b" " * (MAX_CLAIM_BYTES + 1)):
            with self.assertRaises(Malformed):
                decode_claim(data)

"""An approval has one form, and binds exactly what was shown."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model import canonical
from svc.model.canonical import Json
from svc.model.policy.approval import (
    MAX_VALID_SECS,
    Approval,
    ApprovalDecision,
    ApprovalKind,
    decode_approval,
    document_digest,
    encode_approval,
)

APPROVAL = Approval(
    cluster="c.example.test",
    kind=ApprovalKind.POLICY,
    subject="aaaaaaaaaaaaaaaa",
    document_sha256=b"\x01" * 32,
    decision=ApprovalDecision.APPROVE,
    approver="bbbbbbbbbbbbbbbb",
    certificate_sha256=b"\x02" * 32,
    made_at=1_700_000_000,
    expires_at=1_700_000_000 + MAX_VALID_SECS,
)
TEXT = st.from_regex(r"[\x21-\x7e]{1,253}\Z", fullmatch=True)
DIGEST = st.binary(min_size=32, max_size=32)
APPROVALS = st.builds(
    lambda made_at, valid, **rest: Approval(made_at=made_at, expires_at=made_at + valid, **rest),
    made_at=st.integers(0, 2**40),
    valid=st.integers(1, MAX_VALID_SECS),
    cluster=TEXT,
    kind=st.sampled_from(ApprovalKind),
    subject=TEXT,
    document_sha256=DIGEST,
    decision=st.sampled_from(ApprovalDecision),
    approver=TEXT,
    certificate_sha256=DIGEST,
)

#: A field, a value that no approval has, and a word of the refusal.
BAD: tuple[tuple[str, Any, str], ...] = (
    ("cluster", "", "cluster"),
    ("cluster", "a b", "cluster"),
    ("cluster", "x" * 254, "cluster"),
    ("subject", None, "subject"),
    ("subject", "a\n", "subject"),
    ("approver", 7, "approver"),
    ("approver", "\u00e4", "approver"),
    ("document_sha256", "01" * 31, "document_sha256"),
    ("document_sha256", "AB" * 32, "document_sha256"),
    ("certificate_sha256", None, "certificate_sha256"),
    ("decision", "maybe", "decision"),
    ("decision", True, "decision"),
    ("kind", "role", "kind"),
    ("kind", None, "kind"),
    ("made_at", True, "made_at"),
    ("made_at", -1, "made_at"),
    ("made_at", "1700000000", "made_at"),
    ("expires_at", 1_700_000_000, "no time"),
    ("expires_at", 1_700_000_001 + MAX_VALID_SECS, "more than a day"),
    ("format", 2, "format"),
    ("format", "1", "format"),
)


class ApprovalTests(SynchronousTestCase):
    @given(APPROVALS)
    def test_one_form(self, approval: Approval) -> None:
        """What is written is read back, and written the same again."""
        data = encode_approval(approval)
        self.assertEqual(decode_approval(data), approval)
        self.assertEqual(encode_approval(decode_approval(data)), data)

    def test_bad_fields(self) -> None:
        """Each field is checked, and the refusal names it."""
        for name, value, word in BAD:
            fields = json.loads(encode_approval(APPROVAL))
            fields[name] = value
            error = self.assertRaises(Malformed, decode_approval, canonical.encode(fields))
            self.assertIn(word, str(error), name)

    def test_other_fields(self) -> None:
        """A field too many or too few is no approval: it might have limited it."""
        for change in ({"only_if": "x"}, {"subject": ...}):
            fields = json.loads(encode_approval(APPROVAL)) | change
            kept = {name: value for name, value in fields.items() if value is not ...}
            self.assertRaises(Malformed, decode_approval, canonical.encode(kept))

    def test_other_forms(self) -> None:
        """Spaces, a list, and more than 2 KiB are refused."""
        spaced = json.dumps(json.loads(encode_approval(APPROVAL))).encode()
        for data in (spaced, b"[]", b"", b"{}", encode_approval(APPROVAL) + b" " * 2048):
            self.assertRaises(Malformed, decode_approval, data)

    def test_a_document(self) -> None:
        """The order of fields does not change a document's digest; any other change does."""
        document: dict[str, Json] = {"text": "permit(principal, action, resource);", "parent": 3}
        same = dict(reversed(document.items()))
        self.assertEqual(document_digest(document), document_digest(same))
        others: tuple[dict[str, Json], ...] = (
            {**document, "parent": 4},
            {**document, "text": "permit (principal);"},
            {},
        )
        for other in others:
            self.assertNotEqual(document_digest(document), document_digest(other))

    def test_every_field_is_signed(self) -> None:
        """No two approvals that differ anywhere have the same bytes."""
        other = Approval(
            cluster="d",
            kind=ApprovalKind.ACCESS,
            subject="x",
            document_sha256=b"\x03" * 32,
            decision=ApprovalDecision.DENY,
            approver="y",
            certificate_sha256=b"\x04" * 32,
            made_at=1_699_999_999,
            expires_at=1_700_000_001,
        )
        for name in Approval.__annotations__:
            changed = evolve(APPROVAL, **{name: getattr(other, name)})
            self.assertNotEqual(encode_approval(changed), encode_approval(APPROVAL), name)

"""A policy that is set is bound to a replay of it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from svc.authority.policy.binding import FORM, read_binding
from svc.errors import Malformed
from svc.model.canonical import encode
from svc.ops.replay import run
from svc.policy.replay.outcome import UNDECIDABLE
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import POLICY, WORDS, refusal_of, value_of
from tests.authority.policy.test_admin import ACTOR, MORE, Desk


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class BindingTests(Desk):
    """`SetPolicy` with a statement."""

    def statement(self, **other: Any) -> bytes:
        """What a replay of ``MORE`` over the log as it is would state."""
        rows = self.house.run(lambda tx: tx.audit.tail(1))
        form = {
            "form": FORM,
            "policy_digest": digest(MORE),
            "parent_digest": digest(POLICY),
            "schema_digest": WORDS.digest,
            "since": "2026-01-01T00:00:00.000000Z",
            "until": None,
            "first_n": 1,
            "last_n": rows[0].seq,
            "last_hash": rows[0].hash.hex(),
            "requests": 0,
            "decided": 0,
            "changed": 0,
            "undecidable": dict.fromkeys(UNDECIDABLE, 0),
            "changes_digest": "0" * 64,
        }
        return encode({**form, **other})

    def bound(self, statement: bytes) -> Any:
        return self.admin.set(pb.SetPolicyRequest(text=MORE, replay=statement), ACTOR)

    def test_on_record(self) -> None:
        """The activation's record names the replay's digest and range."""
        statement = self.statement()
        self.assertEqual(value_of(self.bound(statement)).version, 2)
        details = self.house.records("policy.activate")[-1]["details"]
        self.assertEqual(details["replay_digest"], sha256(statement).hexdigest())
        self.assertEqual((details["replay_first"], details["replay_last"] > 0), (1, True))

    def test_of_something_else(self) -> None:
        """A statement of another text, policy, vocabulary or log activates nothing."""
        for name, value, told in (
            ("policy_digest", digest("x"), "another text"),
            ("parent_digest", digest("x"), "another policy"),
            ("schema_digest", digest("x"), "other kinds"),
            ("last_hash", "0" * 64, "does not have its last record"),
            ("last_n", 99_999, "does not have its last record"),
        ):
            refusal = refusal_of(self.bound(self.statement(**{name: value})))
            self.assertEqual(refusal.reason, "replay_outdated", name)
            self.assertIn(told, refusal.text)
        self.assertEqual(self.version, 1)

    def test_form(self) -> None:
        """It is the form in which replays state what they found."""
        self.assertEqual(FORM, run.FORM)
        self.assertEqual(refusal_of(self.bound(b"{}")).reason, "malformed")

    @given(st.binary(max_size=60))
    def test_garbage(self, data: bytes) -> None:
        """Nothing else is taken for a statement."""
        self.assertRaises(Malformed, read_binding, data)

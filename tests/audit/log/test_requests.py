"""Requests, read back from the records that hold them."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import seal
from svc.audit.log.requests import recorded_requests
from svc.audit.log.verify import ChainFault
from svc.model.audit.events import (
    ENROLL_REFUSED,
    REQUEST_DECISION,
    SESSION_REFUSED,
    SESSION_START,
)
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import GENESIS, Actor, AuditRecord, Event
from svc.model.policy.access import AccessRequest, EntityUid, request_form
from svc.policy.vocabulary import vocabulary

FACTS = {fact.name: fact for fact in vocabulary().terms.facts}
CONTEXT = {
    "hour": 9,
    "objects": ("b", "a"),
    "db_name": "orders",
    "path": "/x",
    "proxy_reported": {"source_address": "10.0.0.7"},
}


def salts() -> Any:
    drawn = count()
    return lambda size: next(drawn).to_bytes(size, "big")


def request(context: Any) -> AccessRequest:
    return AccessRequest(
        request_kind="db_query",
        principal=EntityUid("User", "u1"),
        action="dbQuery",
        resource=EntityUid("Database", "d1"),
        context=context,
    )


class RecordedRequestTests(SynchronousTestCase):
    """`recorded_requests`."""

    def read(
        self, event: Event, *, erase: frozenset[str] = frozenset(), **fields: Any
    ) -> list[Any]:
        """What is read of one record of that event."""
        record = AuditRecord(
            event_id="e",
            time=1_900_000_000.0,
            event=event,
            actor=Actor("person", "u1"),
            origin="a" * 26,
            **fields,
        )
        sealed = seal(record, salts(), FACTS)
        row = ChainRow(seq=7, prev_hash=GENESIS, hash=GENESIS, canonical=sealed.canonical)
        left = tuple(one for one in sealed.personal if one.path not in erase)
        return list(recorded_requests([[row], []], lambda first, last: {7: left}))

    @given(st.sets(st.sampled_from(sorted(CONTEXT))))
    def test_read_back(self, names: set[str]) -> None:
        """A request is read back whole, its personal facts included."""
        asked = request({name: CONTEXT[name] for name in names})
        (found,) = self.read(
            SESSION_START,
            request=asked,
            decision="allow",
            policies=("p",),
            policy_version=4,
            entities_digest="f" * 64,
            session_uid="s",
        )
        self.assertEqual(found.form, request_form(asked))
        self.assertEqual((found.erased, found.decision, found.policies), ((), "allow", ("p",)))
        self.assertEqual((found.policy_version, found.session_uid), (4, "s"))
        self.assertEqual(found.told_by, "authority")

    def test_erased(self) -> None:
        """A fact that was erased, or of which a part was, is named and not there."""
        (found,) = self.read(
            REQUEST_DECISION,
            request=request(CONTEXT),
            decision="deny",
            erase=frozenset({"request.context.proxy_reported"}),
        )
        self.assertEqual(found.erased, ("proxy_reported",))
        self.assertEqual(set(found.form["context"]), set(CONTEXT) - {"proxy_reported"})

    def test_whose_word(self) -> None:
        """A refusal for another reason than the policy's is an allowed request of the policy."""
        for event, reason, decision, wanted, told_by in (
            (SESSION_REFUSED, "denied", "deny", "deny", "authority"),
            (SESSION_REFUSED, "denied", "error", "error", "authority"),
            (SESSION_REFUSED, "departed", "not_served", "allow", "authority"),
            (SESSION_REFUSED, "proxy_denied", "deny", "allow", "authority"),
            (REQUEST_DECISION, "denied", "deny", "deny", "proxy"),
        ):
            (found,) = self.read(event, request=request({}), decision=decision, reason=reason)
            self.assertEqual((found.decision, found.told_by), (wanted, told_by))

    def test_others(self) -> None:
        """What is no request, or the Proxy's side of an opening, is passed over."""
        self.assertEqual(self.read(ENROLL_REFUSED), [])
        self.assertEqual(self.read(REQUEST_DECISION, decision="allow"), [])

    def test_damaged(self) -> None:
        """A row of such an event that is no record is a fault of the log."""
        for canonical in (b'{"event":"session.start"', b'{"event":"session.start","request":[]}'):
            row = ChainRow(seq=7, prev_hash=GENESIS, hash=GENESIS, canonical=canonical)
            reading = recorded_requests([[row]], lambda first, last: {})
            self.assertRaises(ChainFault, list, reading)

"""The person's side of requests for access: what is signed, and how often Authority is asked."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.client.access import AccessClient, WaitingRequests
from svc.errors import Malformed, SvcError, Unavailable
from svc.interfaces.rpc import Peer
from svc.messages.access import (
    SESSION_DENIED_METHOD,
    AccessDecide,
    AccessEntry,
    AccessList,
    DeniedRequest,
    decode_access_call,
    denied_message,
    entries_message,
    read_access,
)
from svc.model.canonical import encode
from svc.model.policy.approval import ApprovalDecision, decode_approval
from svc.model.policy.requested import AccessAsk
from svc.model.signing import Purpose, verify
from tests.connector.pieces import Cluster

DOCUMENT = encode({"id": "r1", "secs": 60, "resource": "db1"})
ENTRY = AccessEntry(document=DOCUMENT, state="open", ends_at=9)


class Channel:
    """A Proxy that answers what a test says."""

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        self.answer: tuple[AccessEntry, ...] | SvcError = (ENTRY,)
        self.denied: DeniedRequest | None = None
        self.calls: list[Any] = []

    async def unary(self, method: str, message: Any, kind: Any, timeout: float) -> Any:
        if method == SESSION_DENIED_METHOD and self.denied is not None:
            return denied_message(self.denied)
        if isinstance(self.answer, SvcError):
            raise self.answer
        self.calls.append(read_access(message))
        return entries_message(self.answer)


def result(coro: Coroutine[Any, Any, Any]) -> Any:
    got: list[Any] = []
    Deferred.fromCoroutine(coro).addBoth(got.append)
    if hasattr(got[0], "raiseException"):
        got[0].raiseException()
    return got[0]


class AccessClientTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = cluster = Cluster()
        chain = cluster.proxy.chain
        self.channel = Channel(Peer("proxy", 443, tls=True, chain=chain))
        channel: Any = self.channel
        self.client = AccessClient(
            channel=lambda: channel,
            identity=cluster.person,
            verifier=cluster.world.verifier,
            now=cluster.world.now,
            entropy=cluster.world.entropy,
        )

    def test_a_call_is_signed_for_this_proxy(self) -> None:
        """Each call names cluster, Proxy, certificate and time, and is signed by the person."""
        entry = result(self.client.ask(AccessAsk(resource="db1", secs=60)))
        self.assertEqual(entry, ENTRY)
        (signed,) = self.channel.calls
        facts = self.cluster.person.facts
        verify(facts.public_key, Purpose.ACCESS_CALL, signed.call, signed.signature)
        call = decode_access_call(signed.call)
        self.assertEqual(call.call, AccessAsk(resource="db1", secs=60))
        self.assertEqual(call.certificate_sha256, facts.sha256)
        self.assertEqual((signed.chain, signed.source_address), ((), ""))

    def test_a_decision_is_about_what_was_shown(self) -> None:
        """What is signed is the digest of the very document; an approval is as long as asked."""
        for decision, secs in ((ApprovalDecision.APPROVE, 60), (ApprovalDecision.DENY, 3600)):
            result(self.client.decide(ENTRY, decision))
            call = decode_access_call(self.channel.calls[-1].call).call
            assert isinstance(call, AccessDecide)
            approval = decode_approval(call.approval)
            self.assertEqual(approval.document_sha256, ENTRY.document_sha256)
            self.assertEqual((approval.decision, approval.subject), (decision, "r1"))
            self.assertEqual(approval.expires_at - approval.made_at, secs)
            key = self.cluster.person.facts.public_key
            verify(key, Purpose.APPROVAL, call.approval, call.signature)

    def test_a_document_that_is_none(self) -> None:
        """Nothing is signed for what has no id, no length of time, or no canonical form."""
        for document in (b"{}", b'{"id": "r1", "secs": 60}', encode({"id": "r1", "secs": 0})):
            entry = AccessEntry(document=document, state="open", ends_at=9)
            with self.assertRaises(Malformed):
                result(self.client.decide(entry, ApprovalDecision.APPROVE))
        self.assertEqual(self.channel.calls, [])

    def test_several_where_one_was_asked_for(self) -> None:
        """An answer of two requests to a question about one is refused."""
        self.channel.answer = (ENTRY, ENTRY)
        with self.assertRaises(Malformed):
            result(self.client.show("r1"))

    def test_a_denial_without_a_text(self) -> None:
        """What a Proxy has no text of cannot be asked for; without its answer it may be."""
        for answer, lacks in (
            (SvcError("no text", reason="unknown_decision"), True),
            (Unavailable("away", reason="authority_unreachable"), False),
        ):
            self.channel.answer = answer
            self.assertEqual(result(self.client.lacks_denied_text("d0" * 16)), lacks)
        self.channel.denied = DeniedRequest(
            resource="db1", action="dbQuery", parameters={}, text=b"SELECT 1"
        )
        self.assertFalse(result(self.client.lacks_denied_text("d0" * 16)))

    def test_how_many_wait(self) -> None:
        """The number is asked for once in half a minute; without an answer it is not known."""
        clock = self.cluster.world.clock
        waiting = WaitingRequests(access=self.client, clock=clock)
        self.assertEqual([result(waiting.count()) for _ in range(3)], [1, 1, 1])
        self.assertEqual(len(self.channel.calls), 1)
        call = decode_access_call(self.channel.calls[0].call).call
        self.assertEqual(call, AccessList(to_decide=True))
        self.channel.answer = Unavailable("away", reason="authority_unreachable")
        clock.advance(31)
        self.assertIsNone(result(waiting.count()))

"""Asks for access, lists requests, and signs decisions about other people's.

What an approver signs is the digest of the document that was shown: a Proxy that shows another one
gets a signature that Authority refuses.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.errors import Malformed, SvcError
from svc.interfaces.identity import IChainVerifier, IIdentity
from svc.interfaces.rpc import IRpcChannel
from svc.messages.access import (
    NO_DENIED_TEXT,
    NONCE_BYTES,
    SESSION_ACCESS_METHOD,
    SESSION_DENIED_METHOD,
    AccessCall,
    AccessDecide,
    AccessEntry,
    AccessList,
    AccessShow,
    AccessWithdraw,
    AnyAccessCall,
    DeniedRequest,
    SignedAccessCall,
    access_message,
    denied_request,
    encode_access_call,
    read_denied,
    read_entries,
)
from svc.model.ids import Entropy
from svc.model.policy.approval import Approval, ApprovalDecision, ApprovalKind, encode_approval
from svc.model.policy.requested import AccessAsk
from svc.model.principal import Role
from svc.model.signing import Purpose
from svc.proto.gate.v1 import session_pb2 as pb
from svc.runtime.services import bounded

_SECS = 15.0
_COUNT_SECS = 3.0
_KEEP_SECS = 30.0
_DENIAL_SECS = 3600
"""How long a signed denial says that it is valid; it is acted on at once."""


@define(kw_only=True)
class AccessClient:
    """Makes signed calls to Authority through a Proxy.

    Attributes:
        channel: The channel to a Proxy now; raises ``Unavailable`` where there is none.
    """

    channel: Callable[[], IRpcChannel]
    identity: IIdentity
    verifier: IChainVerifier
    now: Callable[[], float]
    entropy: Entropy

    async def ask(self, ask: AccessAsk) -> AccessEntry:
        """File a request.  Raises SvcError."""
        return await self._one(ask)

    async def denied(self, decision_id: str) -> DeniedRequest:
        """A request of one's own that this Proxy has just denied.  Raises SvcError."""
        answer = await self.channel().unary(
            SESSION_DENIED_METHOD,
            denied_request(decision_id),
            pb.SessionDeniedResponse,
            timeout=_SECS,
        )
        return read_denied(answer)

    async def lacks_denied_text(self, decision_id: str) -> bool:
        """Whether this Proxy says that it has no text of that request; false where it is silent."""
        try:
            await self.denied(decision_id)
        except SvcError as refusal:
            return refusal.reason == NO_DENIED_TEXT
        return False

    async def list(self, to_decide: bool) -> tuple[AccessEntry, ...]:
        """One's own requests, or those that one may decide about."""
        return await self._call(AccessList(to_decide))

    async def show(self, request_id: str) -> AccessEntry:
        """One request."""
        return await self._one(AccessShow(request_id))

    async def withdraw(self, request_id: str) -> AccessEntry:
        """Take one's own request back."""
        return await self._one(AccessWithdraw(request_id))

    async def decide(self, entry: AccessEntry, decision: ApprovalDecision) -> AccessEntry:
        """Sign a decision about exactly what *entry* shows, and send it.

        Raises:
            Malformed: an exact text is to be approved, and what came is not that text.
            SvcError: it was refused.
        """
        terms = entry.terms
        if decision is ApprovalDecision.APPROVE:
            entry.exact_text  # noqa: B018  # raises: nobody could have read it
        request_id, secs = terms.get("id"), terms.get("secs")
        if not isinstance(request_id, str) or not isinstance(secs, int) or secs < 1:
            raise Malformed("request for access: the document has no id or no length of time")
        made_at = int(self.now())
        is_approval = decision is ApprovalDecision.APPROVE
        facts = self.identity.facts
        approval = Approval(
            cluster=self.verifier.cluster,
            kind=ApprovalKind.ACCESS,
            subject=request_id,
            document_sha256=entry.document_sha256,
            decision=decision,
            approver=facts.principal.id,
            certificate_sha256=facts.sha256,
            made_at=made_at,
            expires_at=made_at + (secs if is_approval else _DENIAL_SECS),
        )
        data = encode_approval(approval)
        signed = self.identity.sign(Purpose.APPROVAL, data)
        return await self._one(AccessDecide(request_id, data, signed.signature))

    async def _one(self, call: AnyAccessCall) -> AccessEntry:
        entries = await self._call(call)
        if len(entries) != 1:
            raise Malformed("requests for access: the answer is not one request")
        return entries[0]

    async def _call(self, call: AnyAccessCall) -> tuple[AccessEntry, ...]:
        channel = self.channel()
        proxy = self.verifier.verify(channel.peer.chain, frozenset({Role.PROXY}))
        data = encode_access_call(
            AccessCall(
                cluster=self.verifier.cluster,
                proxy_id=proxy.principal.id,
                issued_at_ms=int(self.now() * 1000),
                certificate_sha256=self.identity.facts.sha256,
                nonce=self.entropy(NONCE_BYTES),
                call=call,
            )
        )
        signed = self.identity.sign(Purpose.ACCESS_CALL, data)
        answer = await channel.unary(
            SESSION_ACCESS_METHOD,
            access_message(SignedAccessCall(call=data, signature=signed.signature)),
            pb.SessionAccessResponse,
            timeout=_SECS,
        )
        return read_entries(answer)


@define(kw_only=True)
class WaitingRequests:
    """How many requests wait for this person's decision; asked now and then only."""

    access: AccessClient
    clock: IReactorTime
    _count: int | None = field(default=None, init=False)
    _ask_after: float = field(default=0.0, init=False)

    async def count(self) -> int | None:
        """The number, at most half a minute old; None where it is not known."""
        if self.clock.seconds() >= self._ask_after:
            self._ask_after = self.clock.seconds() + _KEEP_SECS
            try:
                asking = self.access.list(to_decide=True)
                self._count = len(await bounded(self.clock, _COUNT_SECS, asking, "requests"))
            except SvcError:
                self._count = None
        return self._count

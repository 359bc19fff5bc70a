"""A session between the Proxy's decision and its lane: pending, then with the Authority's grant."""

from __future__ import annotations

from math import inf

from attrs import frozen
from twisted.logger import Logger

from svc.errors import Denied, Fault, SvcError, Unavailable
from svc.interfaces.kinds import ServedKind
from svc.interfaces.rpc import IRpcCall
from svc.interfaces.tracing import Span
from svc.interfaces.transport import OpenOrder
from svc.messages.control import AuthorizeAnswer, ProxyDecision
from svc.messages.session import decode_grant
from svc.model.certificate import CertificateFacts
from svc.model.principal import Principal
from svc.model.session.grant import Grant
from svc.model.session.request import SessionRequest
from svc.model.signing import Signed
from svc.pki.issue import der
from svc.proxy.sessions.asker import SessionAsker

_log = Logger(namespace="svc_proxy")

AUTHORITY_LACKS = frozenset(
    {"store_unavailable", "store_full", "policy_unavailable", "audit_head_unsigned"}
)
"""What an Authority that is there lacks."""

MISSES = {"departed": Fault.UNAVAILABLE, "unknown": Fault.NOT_FOUND}
"""Why nothing serves a resource that policy allows."""

_OURS = frozenset({"unknown_node", "revoked_node"})


@frozen
class PendingSession:
    """One session on its way; its span ends when it is open, or refused.

    Attributes:
        certificate: The person's.
    """

    person: Principal
    chain: tuple[bytes, ...]
    data: bytes
    signature: bytes
    request: SessionRequest
    kind: ServedKind
    decision: ProxyDecision
    span: Span
    certificate: CertificateFacts

    @property
    def asker(self) -> SessionAsker:
        """Whom the policy is asked about."""
        return SessionAsker.of(self.certificate)

    def order(self, grant: Signed, first_flight: bytes) -> OpenOrder:
        """What its Connector is told."""
        return OpenOrder(
            session_uid=self.request.session_uid,
            grant=grant,
            request=self.data,
            signature=self.signature,
            person_chain=self.chain,
            traceparent=self.span.traceparent,
            first_flight=first_flight,
        )


@frozen
class Granted:
    """One session that Authority granted: the grant as signed, and what it says."""

    signed: Signed
    grant: Grant
    answer: AuthorizeAnswer

    @property
    def approval_end(self) -> float:
        """When the approval ends that the session stands on; never without one."""
        return inf if self.answer.approved is None else self.answer.approved.ends_at


def read_granted(answer: AuthorizeAnswer, request: SessionRequest) -> Granted | None:
    """The grant of an answer, decoded once; None if there is none.

    Raises:
        Malformed: it is no grant, or one of another session.
    """
    if answer.grant is None:
        return None
    grant = decode_grant(answer.grant.payload, relayed=True)
    if grant.session_uid != request.session_uid:
        raise SvcError("Authority's grant is for a different session", reason="grant_session")
    return Granted(answer.grant, grant, answer)


def refusal_in(answer: AuthorizeAnswer) -> SvcError:
    """The refusal that an answer without a grant is, as the person is told it."""
    details = {"decision_id": answer.decision_id}
    if answer.reason in MISSES:
        fault = MISSES[answer.reason]
        return SvcError(answer.text, reason=answer.reason, fault=fault, details=details)
    if answer.policies:
        details["policies"] = ",".join(answer.policies)
    if answer.request_hint:
        details["request"] = answer.request_hint
    return Denied(answer.text, reason=answer.reason or "denied", details=details)


def as_told(refusal: SvcError, decision: ProxyDecision) -> SvcError:
    """A refusal of the request itself: Authority recorded it under the id of our decision."""
    if refusal.reason in _OURS:
        # It was this Proxy that Authority did not admit; that is not the person's concern.
        _log.error("Authority refuses this Proxy", reason=refusal.reason, text=refusal.text)
        return Unavailable(
            "Authority cannot be reached from this Proxy; try again",
            reason="authority_unreachable",
        )
    return refusal.with_(decision_id=decision.decision_id)


def peer_chain(call: IRpcCall) -> tuple[bytes, ...]:
    """What the TLS peer showed, leaf and issuer, in DER."""
    return tuple(der(one) for one in call.peer.chain[:2])

"""A session between the Proxy's decision and its lane: pending, then with the Authority's grant."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from attrs import field, frozen
from twisted.logger import Logger

from svc.errors import Denied, Fault, SvcError, Unavailable
from svc.interfaces.kinds import ServedKind
from svc.interfaces.rpc import IRpcCall
from svc.interfaces.tracing import Span
from svc.interfaces.transport import OpenOrder
from svc.messages.control import AuthorizeAnswer, ProxyDecision
from svc.messages.session import decode_grant
from svc.model.certificate import CertificateFacts
from svc.model.cluster.resource import Assigned
from svc.model.principal import Principal
from svc.model.session.ending import ASSIGNMENT_CHANGED, ENDINGS
from svc.model.session.grant import Grant
from svc.model.session.request import SessionRequest
from svc.model.session.tunnels import Miss
from svc.model.signing import Signed
from svc.proxy.sessions.gate import DecidedOpen
from svc.proxy.sessions.route import OtherProxies, SessionRoute
from svc.tunnel.routes import RouteTable

_log = Logger(namespace="svc_proxy")

REFUSED = frozenset({Fault.INVALID, Fault.UNAUTHENTICATED, Fault.DENIED})
"""How Authority refuses a request; then it wrote no session down."""

_AWAY = frozenset({Fault.DEADLINE, Fault.CANCELLED, Fault.UNAVAILABLE, Fault.UNKNOWN})
"""How a call fails whose answer nobody knows."""

_AUTHORITY_LACKS = frozenset(
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
    decided: DecidedOpen
    span: Span
    certificate: CertificateFacts
    kind: ServedKind = field(init=False)
    decision: ProxyDecision = field(init=False)

    @kind.default
    def _decided_of(self) -> ServedKind:
        return self.decided.kind

    @decision.default
    def _decided_as(self) -> ProxyDecision:
        return self.decided.decision

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
    """One session that Authority granted: the grant as signed, and what it says.

    Attributes:
        assigned: What it is for, as its Connector is meant to serve it.
        approval_end: When the approval ends that the session stands on; never without one.
    """

    signed: Signed
    grant: Grant
    answer: AuthorizeAnswer
    assigned: Assigned = field(init=False)
    approval_end: float = field(init=False)

    @assigned.default
    def _meant(self) -> Assigned:
        return self.grant.assigned

    @approval_end.default
    def _approved_until(self) -> float:
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


def as_unanswered(failure: SvcError) -> SvcError:
    """A failure after which nobody knows whether Authority wrote the session down."""
    if failure.fault in _AWAY and failure.reason not in _AUTHORITY_LACKS:
        return Unavailable("Authority did not answer; try again", reason="authority_unreachable")
    return failure


def peer_chain(call: IRpcCall) -> tuple[bytes, ...]:
    """What the TLS peer showed, leaf and issuer, in DER."""
    return call.peer.chain[:2]


def route_of(
    opening: PendingSession,
    granted: Granted,
    *,
    routes: RouteTable,
    others: OtherProxies,
    missed: Callable[[str, str], object],
    check: Callable[[], object],
) -> SessionRoute:
    """The way that a session's grant names.

    Args:
        routes: The tunnels here.
        missed: Told stage and reason where there is no tunnel.
        check: Raises Denied where the newest snapshot ends the session, or its person.

    Raises:
        SvcError: there is none any more.
    """
    grant = granted.grant
    if grant.is_relayed:
        address, source = granted.answer.peer_address, opening.decision.source_address
        return others.route(grant.egress_proxy_id, address, source, check)
    tunnel = routes.find(opening.request.resource)
    if isinstance(tunnel, Miss):
        missed("open", tunnel.value)
        raise SvcError(
            "no Connector serves this resource through this Proxy",
            reason=tunnel.value,
            fault=MISSES[tunnel.value],
        )
    if not tunnel.inventory.holds(granted.assigned):
        raise Denied(ENDINGS[ASSIGNMENT_CHANGED], reason=ASSIGNMENT_CHANGED)
    return tunnel

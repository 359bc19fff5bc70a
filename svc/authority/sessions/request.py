"""A session request during issuance: what the person asked for, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from svc.authority.registry.routes import Registered
from svc.authority.state.recorder import MAX_POLICIES, Recorder, person
from svc.authority.state.tables import SignedRows
from svc.errors import Denied
from svc.interfaces.kinds import ServedKind
from svc.messages.control import ProxyDecision
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.ledger import EntitySlice
from svc.model.audit.record import SealedRecord
from svc.model.canonical import Json
from svc.model.certificate import CertificateFacts
from svc.model.cluster.agent import Agent
from svc.model.cluster.person import Person
from svc.model.cluster.resource import Resource
from svc.model.policy.access import AccessRequest, Decision, EntityUid
from svc.model.policy.requested import ApprovedAccess
from svc.model.policy.requests import may_open_at
from svc.model.session.onward import OnwardCertificate
from svc.model.session.parameters import AskedParameters
from svc.model.session.reasons import DecidedReason
from svc.model.session.request import SessionRequest
from svc.model.session.session import Session


@frozen
class VerifiedRequest:
    """A session request that the person has signed, with what is known about it.

    ``resource`` is None too where the catalog's resource is of another kind: for
    this kind there is no resource of that name.
    """

    request: SessionRequest
    digest: bytes
    person: Person | Agent
    certificate: CertificateFacts
    kind: ServedKind
    asked: AskedParameters
    resource: Resource | None
    ends: bool = False
    """Whether the session's protocol ends at its Connector, which holds it to rights."""
    trace_id: str = ""
    """Of the call that brought it; empty where it is not traced."""

    @property
    def target(self) -> EntityUid:
        """What Cedar is asked about."""
        return EntityUid(self.kind.terms.entity_type, self.request.resource)

    def question(
        self,
        now: float,
        source_address: str,
        approved: ApprovedAccess | None,
        action: str = "",
    ) -> AccessRequest:
        """What the policy is asked, with the approved request that is to turn a denial, if any.

        Args:
            action: Another than the one that opens the session.
        """
        action = action or self.request.action
        return may_open_at(
            now,
            request_kind=self.kind.terms.actions[action],
            action=action,
            person_id=self.person.id,
            target=self.target,
            source_address=source_address,
            asked=self.asked.facts,
            factor_at=self.certificate.factor_at,
            approved=approved,
        )

    @property
    def record_fields(self) -> Mapping[str, Any]:
        """What each record about it says, be it the Proxy's decision or ours."""
        return {
            "resource_id": self.request.resource,
            "resource_kind": self.kind.name,
            "session_uid": self.request.session_uid,
            "action": self.kind.request_kind,
            "cedar_action": self.request.action,
            "trace_id": self.trace_id or None,
        }


def has_own_record(claimed: ProxyDecision, *, granted: bool) -> bool:
    """Whether what the Proxy decided is a record beside Authority's.

    Only where it came to hold.  A denial that an approval turned would be found as a denial of what
    was let in, and a refusal would be found twice (ADR 55).
    """
    return granted and claimed.decision == "allow"


def claimed_record(
    recorder: Recorder, verified: VerifiedRequest, claimed: ProxyDecision, proxy_id: str
) -> SealedRecord:
    """The record of what the Proxy decided, which comes right before Authority's."""
    return recorder.sealed(
        REQUEST_DECISION,
        person(verified.person.id),
        node_id=proxy_id,
        **verified.record_fields,
        decision=claimed.decision,
        decision_id=claimed.decision_id,
        policies=claimed.policies,
        policy_version=claimed.policy_version,
        reason=claimed.reason or None,
        entities_digest=claimed.entities_digest or None,
        details={"proxy_id": proxy_id, "source_address": claimed.source_address or None},
    )


def claimed_details(claimed: ProxyDecision) -> Mapping[str, Json]:
    """What the Proxy decided, as Authority's record says it where it is the only one."""
    return {
        "proxy_decision": claimed.decision,
        "proxy_policies": claimed.policies[:MAX_POLICIES] or None,
        "proxy_policy_version": claimed.policy_version or None,
        "proxy_entities_digest": claimed.entities_digest or None,
        "source_address": claimed.source_address or None,
    }


@frozen
class DecidedRights:
    """What a session may do at its Connector, and by which policies it may not do the rest.

    Attributes:
        allowed: Names of the kind's rights.
        denied: The policies that forbid each of the others; none where nothing permits it.
    """

    allowed: frozenset[str]
    denied: Mapping[str, tuple[str, ...]]

    @property
    def details(self) -> Mapping[str, Json]:
        """As a record says it."""
        told = [
            f"{name}: {', '.join(policies[:MAX_POLICIES])}" if policies else name
            for name, policies in sorted(self.denied.items())
        ]
        return {"rights": sorted(self.allowed), "rights_denied": told or None}


@frozen
class IssuanceResult:
    """The decision about a request.

    Attributes:
        word: The metric's: ``allow``, ``deny`` or ``not_served``.
        reason: The record's, and with ``not_served`` the caller's.
        entities: What the decision looked at, where the log may not hold it yet.
        request_hint: Of a denial that an approved request would turn: how to ask for one.
        request_reason: What the policy says of that; may be empty.
        approved: The approval that an allowed decision stands on.
        rights: Of a session that ends at its Connector.
        onward: The certificate by which its Connector logs in at its target, if it does so.
        wants_factor: Whether a denial is for want of a second factor, or of a younger one.
    """

    decision: Decision
    decision_id: str
    may_view: bool
    entities: EntitySlice | None
    word: str = "allow"
    reason: DecidedReason | Literal[""] = ""
    connector: Registered | None = None
    request_hint: str = ""
    request_reason: str = ""
    approved: ApprovedAccess | None = None
    wants_factor: bool = False
    rights: DecidedRights | None = None
    onward: OnwardCertificate | None = None

    @property
    def recorded(self) -> str:
        """The decision as the record states it: the final result, never ``allow`` for a refusal."""
        if self.word != "deny":
            return self.word
        return "deny" if self.decision.allowed else self.decision.decision

    @property
    def policies(self) -> tuple[str, ...]:
        """What determined a refusal or a grant; nothing of ours did where the Proxy refused."""
        return () if self.reason == "proxy_denied" else self.decision.policies[:MAX_POLICIES]

    @property
    def connector_id(self) -> str:
        """The Connector's; empty where there is none."""
        return "" if self.connector is None else self.connector.node_id

    def egress_proxy_id(self, proxy_id: str) -> str:
        """The Proxy that a session which enters this one is relayed to; empty: it is not."""
        if self.connector is None or self.connector.proxy_id == proxy_id:
            return ""
        return self.connector.proxy_id

    def details(self, proxy_id: str) -> Mapping[str, Json]:
        """What the record of a session that enters this Proxy says of it."""
        egress = self.egress_proxy_id(proxy_id)
        return {
            "connector_id": self.connector_id or None,
            **({"egress_proxy_id": egress} if egress else {}),
            **({} if self.rights is None else self.rights.details),
        }


def session_row(
    verified: VerifiedRequest, outcome: IssuanceResult, proxy_id: str, now: float
) -> Session:
    """The row of a session that is granted; the Proxy that it entered reports its end."""
    assert outcome.connector is not None  # or it were not granted
    return Session(
        uid=verified.request.session_uid,
        person_id=verified.person.id,
        resource_id=verified.request.resource,
        kind=verified.kind.name,
        connector_id=outcome.connector.node_id,
        proxy_id=proxy_id,
        decision_id=outcome.decision_id,
        started_at=now,
    )


def require_assigned(rows: SignedRows, verified: VerifiedRequest) -> None:
    """Refuse a resource that was changed, assigned again or removed since the facts were read."""
    if verified.resource is None or not rows.is_newest_resource(verified.resource):
        raise Denied(
            "the resource was changed during the decision; try again",
            reason="resource_changed",
        )

"""How a session ended: one stable word for each cause, and its text for the person.

The words stand in ``session.end`` and ``session.abandoned`` records, travel with the end of a
session, and are what ``svc proxy-ssh``, ``svc up``, ``svc status --explain`` and ``svc why`` show.
A peer's word is shown only if it is one of these: nobody can write text of their own to a
person's terminal.
"""

from __future__ import annotations

from types import MappingProxyType

from attrs import frozen

from svc.model.cluster.agent import DISABLED_OWNER
from svc.model.cluster.person import DISABLED_PERSON
from svc.model.ids import is_random_id

CLOSED = "closed"
TARGET_CLOSED = "target_closed"
CANCELLED = "cancelled"
BROKEN = "broken"
GRANT_ENDED = "grant_ended"
CERTIFICATE_ENDED = "certificate_ended"
DRAINING = "draining"
CONNECTOR_STOPPING = "connector_stopping"
PROXY_REVOKED = "proxy_revoked"
PROXY_GONE = "proxy_gone"
NOT_CLAIMED = "not_claimed"
NOT_OPENED = "not_opened"
NOT_TOLD = "not_told"
ENDED_BY_OPERATOR = "ended_by_operator"
ENDED_BY_PERSON = "ended_by_person"
REVOKED_CERTIFICATE = "revoked_certificate"
APPROVER_GONE = "approver_gone"
ASSIGNMENT_CHANGED = "assignment_changed"
PEER_PROXY_REVOKED = "peer_proxy_revoked"
PEER_PROXY_LOST = "peer_proxy_lost"
PEER_PROXY_UNREACHABLE = "peer_proxy_unreachable"
PEER_PROXY_REFUSED = "peer_proxy_refused"

FRAME_UNTAGGED = "frame_untagged"
FRAME_ALTERED = "frame_altered"
FRAME_ORDER = "frame_order"
EDIT_REFUSED = "edit_refused"
DECISION_REFUSED = "decision_refused"
DECISION_MISSING = "decision_missing"
PEER_SILENT = "peer_silent"
CUT_SHORT = "cut_short"
NOT_PROLONGED = "grant_not_prolonged"
SESSION_MISMATCH = "session_mismatch"
NOT_RECORDED = "not_recorded"
RECORDING_FAILED = "recording_failed"
READING_CHANGED = "reading_changed"

GATED_FAULTS = frozenset(
    {
        FRAME_UNTAGGED,
        FRAME_ALTERED,
        FRAME_ORDER,
        EDIT_REFUSED,
        DECISION_REFUSED,
        DECISION_MISSING,
        PEER_SILENT,
        CUT_SHORT,
        NOT_PROLONGED,
        SESSION_MISMATCH,
    }
)
"""What ends a gated session at whichever end finds it; see ADR 35."""

ENDINGS = MappingProxyType(
    {
        CLOSED: "it was closed in order",
        TARGET_CLOSED: "the target closed it",
        CANCELLED: "the person's tool or machine left without closing it",
        BROKEN: "its connection broke",
        "carry_ended": "the Connector broke it off",
        "policy_changed": "the policy no longer allows it",
        "revoked": "the person was revoked",
        ENDED_BY_OPERATOR: "an operator ended it",
        ENDED_BY_PERSON: "its person ended it on the browser page",
        APPROVER_GONE: "who approved it was let go, or may approve it no more",
        REVOKED_CERTIFICATE: "an operator revoked the person's certificates",
        DISABLED_PERSON: "the person was disabled by an operator",
        DISABLED_OWNER: "the owner of the agent was disabled by an operator",
        ASSIGNMENT_CHANGED: "the assignment of the resource changed",
        GRANT_ENDED: "the time that was granted is over",
        CERTIFICATE_ENDED: "the person's certificate has expired",
        DRAINING: "the Proxy was stopped",
        CONNECTOR_STOPPING: "the Connector was stopped",
        PROXY_REVOKED: "the Proxy was revoked",
        FRAME_UNTAGGED: "the Proxy passed on bytes without a tag of the other end's",
        FRAME_ALTERED: "bytes were altered on the way, or came from neither end",
        FRAME_ORDER: "bytes were missing on the way, repeated or out of order",
        EDIT_REFUSED: "the Proxy requested a change that its kind does not know",
        DECISION_REFUSED: "the Proxy passed on what it had not decided, or had denied",
        DECISION_MISSING: "the Proxy passed on a request without a decision",
        PEER_SILENT: "the other end was not heard of for 90 seconds",
        CUT_SHORT: "it was cut before the other end had closed it",
        NOT_PROLONGED: "Authority did not prolong it in time",
        RECORDING_FAILED: "it has to be recorded, and could not be any more",
        NOT_RECORDED: "the Proxy could not record a request of it, and so did not pass it on",
        READING_CHANGED: "a setting that decides how the target reads requests was changed",
        SESSION_MISMATCH: "its Proxy's records are not what its Connector passed on",
        "tunnel_closed": "the Connector closed its tunnel",
        "tunnel_transport_error": "the connection to the Connector was lost",
        "tunnel_keepalive_failed": "the Connector stopped answering",
        "tunnel_evicted": "the Connector was revoked",
        "tunnel_superseded": "another process of the Connector took its place",
        "tunnel_lease_expired": "the Connector did not renew its registration",
        PROXY_GONE: "the Proxy was lost",
        PEER_PROXY_REVOKED: "the other Proxy that carried it was revoked",
        PEER_PROXY_LOST: "the connection to the other Proxy that carried it was lost",
        PEER_PROXY_UNREACHABLE: "the Proxy with the tunnel to its Connector could not be reached",
        PEER_PROXY_REFUSED: "the Proxy with the tunnel to its Connector refused to carry it",
        NOT_CLAIMED: "the Proxy came back without it",
        NOT_OPENED: "it was granted and never opened",
        "failed": "the Proxy failed while it was open",
        "departed": "its Connector had left before it was opened",
        "unknown": "no Connector had served the resource through this Proxy",
        "policy_stale": "the Proxy had no fresh policy when it was to be opened",
        "open_deadline": "the Connector did not open it in time",
        "target_unreachable": "the Connector could not reach the target",
        "target_deadline": "the target did not answer in time",
        "target_refused": "the target refused the session",
        "recording_unavailable": "the session has to be recorded, and cannot be now",
        "target_login_refused": "the target did not accept the Connector's credential",
        "target_no_database": "the target has no such database",
        "target_busy": "the target takes no more sessions now",
        "target_untrusted": "the target did not prove that it is the one configured",
        "no_credential": "the Connector has no credential for the role that was asked for",
        "address_out_of_reach": "the Connector may not reach the address of the resource",
        "resource_not_here": "the Connector does not serve the resource",
        "kind_mismatch": "the Connector serves the resource as another kind",
        "ceiling_unenforced": "the Connector cannot enforce what was granted",
        "too_many_sessions": "the Connector had as many sessions as it may have",
        "connector_failed": "the Connector failed while opening it",
        "session_replayed": "the Connector had opened it before",
        "person_refused": "the Connector refused the person's certificate",
        "person_mismatch": "the Connector found another person's certificate than the grant names",
        "request_refused": "the Connector refused the person's signature",
        "request_mismatch": "the Connector found another request than the grant names",
        **dict.fromkeys(
            (
                "grant_refused",
                "grant_malformed",
                "grant_cluster",
                "grant_session",
                "grant_not_for_us",
                "grant_other_proxy",
                "grant_too_old",
                "grant_before_start",
                "grant_times",
            ),
            "the Connector refused the grant",
        ),
        NOT_TOLD: "the reason is not known",
    }
)
"""Every word, and its sentence for a person."""

TRANSIENT = frozenset(
    {
        BROKEN,
        CUT_SHORT,
        CONNECTOR_STOPPING,
        DRAINING,
        NOT_PROLONGED,
        NOT_RECORDED,
        PEER_PROXY_LOST,
        PEER_PROXY_UNREACHABLE,
        PEER_SILENT,
        PROXY_GONE,
        "carry_ended",
        "tunnel_closed",
        "tunnel_keepalive_failed",
        "tunnel_lease_expired",
        "tunnel_superseded",
        "tunnel_transport_error",
    }
)
"""Words for what nobody has decided against: who tries again soon is served again."""


@frozen
class SessionOver:
    """The end of a session, as the person sees it.

    Attributes:
        reason: One of :data:`ENDINGS`.
        decision_id: Of the decision that had let it open; empty where there is none.
        command_options: What a command about it ends with, to use this identity.
    """

    reason: str
    decision_id: str = ""
    command_options: str = ""

    @property
    def text(self) -> str:
        """The sentence of the reason."""
        return ENDINGS[self.reason]

    @property
    def is_transient(self) -> bool:
        """Whether trying again soon may help."""
        return self.reason in TRANSIENT


def grant_ending(end_before_ms: int, certificate_end: float) -> str:
    """What ends a grant: no grant outlasts the certificate of its person."""
    is_certificate = end_before_ms >= int(certificate_end * 1000)
    return CERTIFICATE_ENDED if is_certificate else GRANT_ENDED


def known_ending(word: str) -> str:
    """*word* if it is one of ours; otherwise the word for "not told"."""
    return word if word in ENDINGS else NOT_TOLD


def known_ask(word: str) -> str:
    """Why Authority ends a session: *word* if it is one of ours."""
    return word if word in ENDINGS else ENDED_BY_OPERATOR


def known_decision(decision_id: str) -> str:
    """*decision_id* if it has the form of one; else nothing."""
    return decision_id if is_random_id(decision_id) else ""

"""Every series, in one table.

Name, type, labels with their allowed values, help, the roles that show it.
The collector, ``docs/reference/metrics.md`` and the tests are made from it.
The names are those of the documents, their irregular ones as well, and a few of
our own for what the documents leave open.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from attrs import field, frozen

from svc.model.policy.access import SESSION_REQUESTS
from svc.ratelimit.limits import BUDGETS

DECISION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
TUNNEL_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 604800)
OTHER = "other"
"""The value that unknown ones fold into, where a label allows it."""

_PROTOCOLS = ("ssh", "postgres", "mysql", "kube", "web", "tcp", OTHER)
_ACTIONS = ("connect", "db_connect", "kube", "web", "ssh", "admin")
_REQUESTS = tuple(sorted(SESSION_REQUESTS))
_ENDINGS = (
    "closed",
    "transport_error",
    "keepalive_failed",
    "evicted",
    "superseded",
    "lease_expired",
)
_RELAYED = ("open", "refused", "dial_failed", "unconfigured")
_LANES = ("renewal", "admin")
_ROLES = ("authority", "proxy", "connector")
_RPCS = (
    "Health/Check",
    "Health/Watch",
    "Relay/Open",
    "Session/Open",
    "Session/List",
    "Session/Why",
    "Session/Access",
    "Session/Denied",
    "Session/Lane",
    "Tunnel/Register",
    "Tunnel/Carry",
    "Tunnel/Checkpoint",
    OTHER,
)
_A, _P, _C = ("authority",), ("proxy",), ("connector",)


class SeriesKind(Enum):
    """What a series measures with."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@frozen
class MetricSeries:
    """One series.

    Attributes:
        name: As exposed (a histogram's gets its suffixes).
        kind: Counter, gauge or histogram.
        help: One sentence.
        roles: Who shows it.
        labels: Each label's allowed values; an empty tuple where they are
            fixed elsewhere at build time (doctor's checks).
        buckets: A histogram's upper bounds, without infinity.
        absent: Not shown before its first use, because 0 would say something false.
        later: Declared by the documents; nothing in this build moves it.
    """

    name: str
    kind: SeriesKind
    help: str
    roles: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]] = field(default=MappingProxyType({}))
    buckets: tuple[float, ...] = ()
    absent: bool = False
    later: bool = False


def _counter(name: str, roles: tuple[str, ...], text: str, **more: object) -> MetricSeries:
    later = bool(more.pop("later", False))
    return MetricSeries(
        name=name,
        kind=SeriesKind.COUNTER,
        help=text,
        roles=roles,
        labels=_labels(more),
        absent=later,
        later=later,
    )


def _gauge(name: str, roles: tuple[str, ...], text: str, **more: object) -> MetricSeries:
    later = bool(more.pop("later", False))
    absent = bool(more.pop("absent", False)) or later
    return MetricSeries(
        name=name,
        kind=SeriesKind.GAUGE,
        help=text,
        roles=roles,
        labels=_labels(more),
        absent=absent,
        later=later,
    )


def _labels(more: dict[str, object]) -> dict[str, tuple[str, ...]]:
    return {name: values for name, values in more.items() if isinstance(values, tuple)}


def _decisions() -> tuple[MetricSeries, ...]:
    return (
        _counter(
            "svc_authorize_total",
            _A,
            "Issuance authorization decisions.",
            action=_ACTIONS,
            decision=("allow", "deny", "not_served"),
        ),
        MetricSeries(
            name="svc_authorize_duration_seconds",
            kind=SeriesKind.HISTOGRAM,
            help="Latency of issuance authorization decisions.",
            roles=_A,
            labels={"action": _ACTIONS},
            buckets=DECISION_BUCKETS,
        ),
        _counter(
            "svc_request_authorize_total",
            _P,
            "Per-request decisions.",
            kind=_REQUESTS,
            decision=("allow", "deny", "error"),
        ),
        _counter(
            "svc_access_requests_total",
            _A,
            "Requests for access that were asked for, decided, withdrawn, or used by a session.",
            event=("asked", "approved", "denied", "withdrawn", "used"),
        ),
        _gauge(
            "svc_access_requests_open",
            _A,
            "Requests for access that wait for a decision, as the last reload pass found them.",
        ),
        _gauge(
            "svc_policy_version_applied",
            _A,
            "Policy version this instance decides by.",
            absent=True,
        ),
        _gauge(
            "svc_policy_version_stored",
            _A,
            "Active policy version in the store at the last reload pass.",
            absent=True,
        ),
        _gauge(
            "svc_state_unsigned",
            _A,
            "Stored rows that no signed record covers; they are not applied.",
        ),
        _counter(
            "svc_public_anonymous_refused_total",
            _P,
            "Public unauthenticated calls refused by the per-address budget.",
            rpc=_RPCS,
        ),
        _counter(
            "svc_budget_refused_total",
            (*_A, *_P),
            "Calls of authenticated callers refused by a budget, undecided.",
            budget=(*BUDGETS, OTHER),
        ),
        _counter(
            "svc_route_misses_total",
            _P,
            "Requests for a resource that no connected Connector serves.",
            stage=("issue", "open", "request", "peer"),
            reason=("departed", "unknown"),
        ),
        _counter(
            "svc_audit_spool_denied_total",
            _P,
            "Sessions refused because their end could not be recorded.",
            reason=("audit_spool_full", "audit_unavailable"),
        ),
    )


def _sessions() -> tuple[MetricSeries, ...]:
    return (
        _counter("svc_sessions_total", _P, "Data-plane sessions opened.", protocol=_PROTOCOLS),
        _gauge("svc_active_sessions", _P, "Sessions open now on this Proxy.", protocol=_PROTOCOLS),
        _counter(
            "svc_direct_lanes_total",
            _P,
            "Direct lanes: both halves joined, one half missing, or a half refused for its token.",
            outcome=("joined", "missed", "refused"),
        ),
        _gauge("svc_active_connector_tunnels", _P, "Reverse tunnels registered now."),
        _counter(
            "svc_connector_tunnels_total",
            _P,
            "Tunnels by outcome of their registration.",
            outcome=("registered", "refused"),
        ),
        _counter(
            "svc_connector_tunnel_disconnects_total",
            _P,
            "Ended registered tunnels.",
            reason=_ENDINGS,
        ),
        MetricSeries(
            name="svc_connector_tunnel_duration_seconds",
            kind=SeriesKind.HISTOGRAM,
            help="How long a registered tunnel stayed open.",
            roles=_P,
            labels={},
            buckets=TUNNEL_BUCKETS,
        ),
        _counter(
            "svc_abandoned_session_notices_total",
            _P,
            "Tunnels that ended with open sessions.",
            reason=_ENDINGS,
        ),
        _counter(
            "svc_abandoned_sessions_total",
            _P,
            "Session ids reported as unaccounted for, by Authority's answer.",
            outcome=("closed", "recorded", "unknown", "deferred"),
        ),
        _counter(
            "svc_abandoned_session_notices_dropped_total",
            _P,
            "Departure notices dropped because the queue was full.",
        ),
        _counter(
            "svc_connector_reconnects_total", _C, "Tunnel connection cycles that ended or failed."
        ),
        _counter(
            "svc_connector_registrations_refused_total",
            _C,
            "Tunnels closed quickly before their registration was acknowledged.",
        ),
        _counter(
            "svc_proxy_peer_opens_total",
            _P,
            "Sessions relayed from the Proxy that they entered (`ingress`) to the one with the "
            "Connector's tunnel (`egress`), by how their opening went there.",
            side=("ingress", "egress"),
            outcome=("accepted", "rejected"),
        ),
    )


def _relays() -> tuple[MetricSeries, ...]:
    return (
        _counter(
            "svc_authority_pool_moves_total",
            _P,
            "Times this Proxy moved its calls to another Authority instance.",
        ),
        _counter(
            "svc_authority_relay_streams_total",
            _P,
            "Control streams relayed to Authority for tunnels.",
            outcome=_RELAYED,
        ),
        _gauge("svc_active_auth_relay_streams", _P, "Control streams to Authority open now."),
        _counter(
            "svc_authority_relay_connections_total",
            _P,
            "Connections relayed from the public listener to Authority.",
            lane=_LANES,
            outcome=_RELAYED,
        ),
        _gauge(
            "svc_active_auth_relay_connections",
            _P,
            "Connections relayed to Authority open now.",
            lane=_LANES,
        ),
        _gauge(
            "svc_transport_identity_expires_in_seconds",
            _ROLES,
            "Seconds until the node's own transport certificate expires; negative after that.",
            role=_ROLES,
            absent=True,
        ),
        _counter(
            "svc_transport_identity_renewals_total",
            _ROLES,
            "Renewals of the node's own transport certificate.",
            role=_ROLES,
            outcome=("ok", "failed"),
        ),
        _gauge(
            "svc_ca_bundle_stale",
            _A,
            "1 while the active CA of this kind cannot be loaded.",
            kind=("user_ssh", "onward_ssh", "host_tls", "spiffe", "jwt_signing"),
        ),
        _gauge(
            "svc_authority_key_expires_in_seconds",
            _A,
            "Seconds until each key that the cluster's root has signed expires; negative after "
            "that. Renew it in time with `svc authority keys renew`.",
            key=(
                "transport",
                "spiffe",
                "anchor",
                "audit-origin",
                "grant",
                "snapshot",
                "jwt",
                "onward-ssh",
            ),
            absent=True,
        ),
        _gauge(
            "svc_sign_in_page_certificate_expires_in_seconds",
            _A,
            "Seconds until the certificate of the sign-in page (accounts.passkeys.cert) expires; "
            "negative after that.",
            absent=True,
        ),
        _gauge(
            "svc_license_expires_unix",
            _A,
            "Unix time the running license expires, or has expired; absent without one that is "
            "signed for this build.",
            absent=True,
        ),
        _counter(
            "svc_authority_forward_requests_total",
            _A,
            "Calls that a standby Authority forwarded to the leader.",
        ),
        _counter(
            "svc_authority_forward_transport_failures_total",
            _A,
            "Forwarded calls that failed between standby and leader.",
        ),
    )


def _audit() -> tuple[MetricSeries, ...]:
    return (
        _counter(
            "svc_audit_outbox_held_total",
            _A,
            "Queued audit rows that were held back.",
            reason=("unsigned", "unknown_key", "forged", "replayed"),
        ),
        _gauge("svc_audit_outbox_held", _A, "Held rows at the last watch pass."),
        _counter(
            "svc_audit_outbox_missing_total",
            _A,
            "Queued rows that left the queue without reaching the chain.",
        ),
        _gauge("svc_audit_outbox_depth", _A, "Rows waiting in the audit queue."),
        _gauge("svc_audit_outbox_oldest_age_secs", _A, "Age of the oldest queued row."),
    )


def _process() -> tuple[MetricSeries, ...]:
    return (
        MetricSeries(
            name="svc_reactor_lag_seconds",
            kind=SeriesKind.HISTOGRAM,
            help="How late a timer of a tenth of a second fires: how long any event waits for the "
            "reactor of this process.",
            roles=_ROLES,
            labels={},
            buckets=LAG_BUCKETS,
        ),
    )


def _doctor() -> tuple[MetricSeries, ...]:
    """Absent unless ``doctor.check_interval_secs`` is set: 0 would say that all is well."""
    return (
        _gauge(
            "svc_doctor_check_status",
            _ROLES,
            "Latest periodic severity: 0 ok, 1 info, 2 warn, 3 fail.",
            id=(),
            category=(),
        ),
        _gauge("svc_doctor_failed", _ROLES, "Failing checks at the last run.", absent=True),
        _gauge("svc_doctor_warnings", _ROLES, "Warning checks at the last run.", absent=True),
        _gauge(
            "svc_doctor_last_run_timestamp_seconds",
            _ROLES,
            "Unix time of the last periodic run.",
            absent=True,
        ),
    )


def _discovery() -> tuple[MetricSeries, ...]:
    return (
        _counter(
            "svc_connector_duplicate_proxy_connections_total",
            _C,
            "Dials that reached a Proxy already connected, and were dropped.",
        ),
        _gauge(
            "svc_proxy_lacking",
            _P,
            "1 while a condition for opening sessions does not hold: `control_pool`, Authority "
            "cannot be reached; `policy`, the policy is stale; `audit_spool`, no record can be "
            "written because the spool or the disk is full, or writing fails, or the last request "
            "inside a session could not be recorded.",
            condition=("control_pool", "policy", "audit_spool"),
        ),
        _gauge(
            "svc_connector_proxy_connections_connected", _C, "Distinct Proxies registered with now."
        ),
        _gauge(
            "svc_connector_proxy_connections_degraded",
            _C,
            "How many Proxy connections are missing.",
        ),
        _gauge(
            "svc_connector_proxy_connections_desired",
            _C,
            "Proxy connections the configuration asks for.",
        ),
        _counter("svc_scope_leases_expired_total", _A, "Discovery leases that expired."),
        _gauge("svc_scope_live_rows", _A, "Discovered rows with a live lease."),
        _counter("svc_scope_publishes_total", _A, "Accepted discovery publications."),
    )


def _recordings() -> tuple[MetricSeries, ...]:
    states = ("receiving", "complete", "cut_short", "damaged", "lost")
    return (
        _gauge(
            "svc_connector_recordings_waiting",
            _C,
            "Recordings on the Connector's disk that Authority has not confirmed.",
        ),
        _gauge("svc_connector_recordings_waiting_bytes", _C, "What they take of the disk."),
        _gauge("svc_recordings", _A, "Recordings that are kept, at the last look.", state=states),
        _counter(
            "svc_recordings_ended_total",
            _A,
            "Recordings that have arrived, by the state they ended in.",
            state=states[1:],
        ),
    )


SERIES: tuple[MetricSeries, ...] = (
    *_decisions(),
    *_sessions(),
    *_relays(),
    *_audit(),
    *_doctor(),
    *_discovery(),
    *_recordings(),
    *_process(),
)
"""Every series, in the order they are exposed."""

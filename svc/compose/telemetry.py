"""The telemetry listener of a process, and the series its rooms move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from attrs import define
from twisted.application.service import Service
from twisted.logger import Logger

from svc.authority.ha.forward import ForwardMeters
from svc.compose.degraded import DegradedConditions
from svc.compose.listeners.addresses import server_endpoint
from svc.config import RoleSettings
from svc.model.host import is_public
from svc.model.session.tunnels import (
    EndReason,
    SessionsLeft,
    TunnelEnded,
    TunnelEvent,
    TunnelRefused,
    TunnelRegistered,
)
from svc.proxy.relay import LaneMeters
from svc.proxy.sessions.open import SessionMeters
from svc.proxy.tunnels.refusals import RelayStreams
from svc.runtime.services import AllReady, BoundPort
from svc.telemetry.lag import ReactorLag
from svc.telemetry.listener import Documents, telemetry_site
from svc.telemetry.metrics import Counter, Gauge, Histogram, Metrics

_log = Logger(namespace="svc")


def telemetry_listener(
    reactor: Any,
    settings: RoleSettings,
    metrics: Metrics,
    readiness: AllReady,
    lacking: DegradedConditions,
    documents: Documents,
    follows: Callable[[], bool],
) -> BoundPort | None:
    """The listener, where the configuration asks for one.

    Args:
        documents: What the roles of this process publish there.
        lacking: Of the Proxy that runs here; of none: it lacks nothing.
        follows: Whether what the Proxy lacks makes it unready, too.
    """
    address = settings.telemetry.metrics_listen
    if address is None:
        return None

    def missing() -> Sequence[str]:
        return readiness.missing or (lacking.names if follows() else ())

    site = telemetry_site(reactor, missing, metrics.text, lambda: lacking.lines, documents)
    endpoint = server_endpoint(reactor, address)
    return BoundPort(
        key="telemetry.metrics_listen", address=str(address), endpoint=endpoint, factory=site
    )


@define(slots=False, eq=False)
class ExposureWarning(Service):
    """Warns at start if strangers can reach the telemetry listener, which authenticates nobody."""

    listener: BoundPort

    def startService(self) -> None:
        """Look at what was really bound; called after the listener has."""
        Service.startService(self)
        bound = self.listener.bound
        host = getattr(bound, "host", "")
        if is_public(host):
            _log.warn(
                "telemetry.metrics_listen is bound to a public address, where anyone can read "
                "every series without a credential; bind it to loopback or a private address",
                host=host,
                port=getattr(bound, "port", 0),
            )


def reactor_lag(reactor: Any, metrics: Metrics) -> ReactorLag:
    """Measures how late this process's reactor is, for as long as it serves."""
    return ReactorLag(reactor, metrics.histogram("svc_reactor_lag_seconds").observe)


def decisions_meter(metrics: Metrics) -> Callable[[str, str, float], None]:
    """Moves the issuance series: action, decision word, seconds."""

    @cache
    def moved(action: str, word: str) -> tuple[Counter, Histogram]:  # both are of closed lists
        counter = metrics.counter("svc_authorize_total", action=action, decision=word)
        return counter, metrics.histogram("svc_authorize_duration_seconds", action=action)

    def count(action: str, word: str, seconds: float) -> None:
        counter, histogram = moved(action, word)
        counter.inc()
        histogram.observe(seconds)

    return count


def gate_meter(metrics: Metrics) -> Callable[[str, str], None]:
    """Moves the per-request series: kind, decision word."""

    @cache
    def counter(kind: str, word: str) -> Counter:  # both are of closed lists
        return metrics.counter("svc_request_authorize_total", kind=kind, decision=word)

    def count(kind: str, word: str) -> None:
        counter(kind, word).inc()

    return count


def session_meters(metrics: Metrics) -> SessionMeters:
    """Moves the session series."""

    @cache
    def counter(protocol: str) -> Counter:  # of a closed list
        return metrics.counter("svc_sessions_total", protocol=protocol)

    @cache
    def gauge(protocol: str) -> Gauge:
        return metrics.gauge("svc_active_sessions", protocol=protocol)

    return SessionMeters(
        opened=lambda protocol: counter(protocol).inc(),
        active=lambda protocol, by: gauge(protocol).inc(by),
        missed=lambda stage, reason: metrics.counter(
            "svc_route_misses_total", stage=stage, reason=reason
        ).inc(),
    )


def peer_meter(metrics: Metrics) -> Callable[[str, str], object]:
    """Counts sessions between Proxies: side, outcome."""
    return lambda side, outcome: metrics.counter(
        "svc_proxy_peer_opens_total", side=side, outcome=outcome
    ).inc()


def unrecorded_meter(metrics: Metrics) -> Callable[[str], object]:
    """Counts sessions that could not begin, since there is no room for the record of their end."""
    return lambda reason: metrics.counter("svc_audit_spool_denied_total", reason=reason).inc()


def forward_meters(metrics: Metrics) -> ForwardMeters:
    """Moves the series of calls that an Authority forwards to the leader."""
    return ForwardMeters(
        metrics.counter("svc_authority_forward_requests_total").inc,
        metrics.counter("svc_authority_forward_transport_failures_total").inc,
    )


def lane_meter(metrics: Metrics) -> Callable[[str], None]:
    """Moves the series of direct lanes."""
    return lambda outcome: metrics.counter("svc_direct_lanes_total", outcome=outcome).inc()


def relay_streams(metrics: Metrics) -> RelayStreams:
    """Moves the series of tunnels' control-plane streams."""
    return RelayStreams(
        outcome=lambda word: metrics.counter(
            "svc_authority_relay_streams_total", outcome=word
        ).inc(),
        active=lambda by: metrics.gauge("svc_active_auth_relay_streams").inc(by),
    )


def lane_meters(metrics: Metrics) -> LaneMeters:
    """Moves the series of relayed connections."""
    return LaneMeters(
        outcome=lambda lane, word: metrics.counter(
            "svc_authority_relay_connections_total", lane=lane, outcome=word
        ).inc(),
        active=lambda lane, by: metrics.gauge("svc_active_auth_relay_connections", lane=lane).inc(
            by
        ),
    )


def anonymous_meter(metrics: Metrics) -> Callable[[str], None]:
    """Counts the calls that the budget of an address refused."""
    return lambda rpc: metrics.counter("svc_public_anonymous_refused_total", rpc=rpc).inc()


def budget_meter(metrics: Metrics) -> Callable[[str], None]:
    """Counts what the budgets of authenticated callers refused."""
    return lambda budget: metrics.counter("svc_budget_refused_total", budget=budget).inc()


def tunnel_meter(metrics: Metrics) -> Callable[[TunnelEvent], None]:
    """Moves the tunnel series of a Proxy."""

    def count(event: TunnelEvent) -> None:
        match event:
            case TunnelRegistered():
                metrics.counter("svc_connector_tunnels_total", outcome="registered").inc()
                metrics.gauge("svc_active_connector_tunnels").inc()
            case TunnelRefused():
                metrics.counter("svc_connector_tunnels_total", outcome="refused").inc()
            case TunnelEnded():
                _tunnel_ended(metrics, event)
            case SessionsLeft():
                _notice(metrics, event.reason)

    return count


def _tunnel_ended(metrics: Metrics, event: TunnelEnded) -> None:
    reason = event.reason.value
    metrics.gauge("svc_active_connector_tunnels").dec()
    metrics.counter("svc_connector_tunnel_disconnects_total", reason=reason).inc()
    metrics.histogram("svc_connector_tunnel_duration_seconds").observe(event.seconds)
    if event.session_uids:
        _notice(metrics, event.reason)


def _notice(metrics: Metrics, reason: EndReason) -> None:
    metrics.counter("svc_abandoned_session_notices_total", reason=reason.value).inc()


STALE_KINDS = {
    "transport": "host_tls",
    "spiffe": "spiffe",
    "jwt": "jwt_signing",
    "onward-ssh": "onward_ssh",
}
"""How the kinds of issuing CAs, and the keys of tokens and of SSH certificates, are called in
``svc_ca_bundle_stale``."""

_NO_KEYS = "user_ssh"
"""A kind without keys in this build (ADR 76: people reach SSH by their own certificates), of which
therefore nothing can be stale."""


class StaleKinds:
    """Says of each kind of CA whether another one is in force than this Authority signs with.

    Several find that out, each by its own look; a kind is stale while one of them says so.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._gauges = {
            kind: metrics.gauge("svc_ca_bundle_stale", kind=word)
            for kind, word in STALE_KINDS.items()
        }
        self._stale: dict[str, set[str]] = {kind: set() for kind in self._gauges}
        for gauge in (*self._gauges.values(), metrics.gauge("svc_ca_bundle_stale", kind=_NO_KEYS)):
            gauge.set(0)

    def told_by(self, who: str) -> Callable[[str, bool], None]:
        """Tells a kind and whether it is stale; of other keys than those of CAs, nothing."""

        def tell(kind: str, is_stale: bool) -> None:
            if kind in self._gauges:
                (self._stale[kind].add if is_stale else self._stale[kind].discard)(who)
                self._gauges[kind].set(int(bool(self._stale[kind])))

        return tell


def key_meter(metrics: Metrics) -> Callable[[str, float], None]:
    """Shows what each key of the cluster has left."""

    def count(key: str, seconds: float) -> None:
        metrics.gauge("svc_authority_key_expires_in_seconds", key=key).set(seconds)

    return count


def identity_meters(
    metrics: Metrics, role: str, seconds_left: Callable[[], float]
) -> Callable[[str], None]:
    """Shows the leaf's remaining seconds, and moves the renewal outcomes."""
    metrics.gauge("svc_transport_identity_expires_in_seconds", role=role).read(seconds_left)

    def count(outcome: str) -> None:
        metrics.counter("svc_transport_identity_renewals_total", role=role, outcome=outcome).inc()

    return count

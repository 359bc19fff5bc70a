"""Series: the names of the documents, their types and labels, and nothing else."""

from __future__ import annotations

import re
import subprocess

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.metrics import markdown
from svc.telemetry.metrics import Metrics
from svc.telemetry.series import LAG_BUCKETS, SERIES, SeriesKind
from tests.support.proof import proves
from tests.support.tools import stock_tool

ALL = ("authority", "proxy", "connector")
DECISION_SECS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
TUNNEL_SECS = (1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 604800)
NAMES = [
    "svc_authorize_total",
    "svc_authorize_duration_seconds",
    "svc_sessions_total",
    "svc_active_sessions",
    "svc_connector_reconnects_total",
    "svc_connector_registrations_refused_total",
    "svc_active_connector_tunnels",
    "svc_connector_tunnels_total",
    "svc_connector_tunnel_disconnects_total",
    "svc_connector_tunnel_duration_seconds",
    "svc_abandoned_session_notices_total",
    "svc_abandoned_sessions_total",
    "svc_abandoned_session_notices_dropped_total",
    "svc_public_anonymous_refused_total",
    "svc_route_misses_total",
    "svc_authority_pool_moves_total",
    "svc_authority_relay_streams_total",
    "svc_active_auth_relay_streams",
    "svc_authority_relay_connections_total",
    "svc_active_auth_relay_connections",
    "svc_request_authorize_total",
    "svc_transport_identity_expires_in_seconds",
    "svc_transport_identity_renewals_total",
    "svc_doctor_check_status",
    "svc_doctor_failed",
    "svc_doctor_warnings",
    "svc_doctor_last_run_timestamp_seconds",
    "svc_license_expires_unix",
    "svc_audit_outbox_held_total",
    "svc_audit_outbox_held",
    "svc_audit_outbox_missing_total",
    "svc_audit_outbox_depth",
    "svc_audit_outbox_oldest_age_secs",
    "svc_policy_version_applied",
    "svc_policy_version_stored",
    "svc_ca_bundle_stale",
    "svc_proxy_peer_opens_total",
    "svc_authority_forward_requests_total",
    "svc_authority_forward_transport_failures_total",
    "svc_connector_duplicate_proxy_connections_total",
    "svc_connector_proxy_connections_connected",
    "svc_connector_proxy_connections_degraded",
    "svc_connector_proxy_connections_desired",
    "svc_scope_leases_expired_total",
    "svc_scope_live_rows",
    "svc_scope_publishes_total",
]


def samples(metrics: Metrics) -> dict[str, float]:
    """Each sample line's series and value."""
    lines = metrics.text().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def moved(deployment: str | None = None) -> Metrics:
    """A process in which every series was used once."""
    metrics = Metrics(ALL, deployment, strict=True)
    metrics.allow("svc_doctor_check_status", id=("store.migrations",), category=("store",))
    doctor = {"id": "store.migrations", "category": "store"}
    for series in SERIES:
        labels = {
            name: values[0] if values else doctor[name] for name, values in series.labels.items()
        }
        if series.kind is SeriesKind.COUNTER:
            metrics.counter(series.name, **labels).inc()
        elif series.kind is SeriesKind.GAUGE:
            metrics.gauge(series.name, **labels).set(1)
        else:
            metrics.histogram(series.name, **labels).observe(1)
    return metrics


OURS = (
    "svc_access_requests_open",
    "svc_access_requests_total",
    "svc_audit_spool_denied_total",
    "svc_budget_refused_total",
    "svc_direct_lanes_total",
    "svc_connector_recordings_waiting",
    "svc_connector_recordings_waiting_bytes",
    "svc_reactor_lag_seconds",
    "svc_recordings",
    "svc_recordings_ended_total",
    "svc_state_unsigned",
    "svc_authority_key_expires_in_seconds",
    "svc_proxy_lacking",
    "svc_sign_in_page_certificate_expires_in_seconds",
)
"""What the documents have no name for."""


HISTOGRAMS = (
    "svc_authorize_duration_seconds",
    "svc_connector_tunnel_duration_seconds",
    "svc_reactor_lag_seconds",
)


def kind_of(name: str) -> str:
    """The type that the documents give a series: what counts is called a total."""
    if name in HISTOGRAMS:
        return "histogram"
    return "counter" if name.endswith("_total") else "gauge"


class TableTests(SynchronousTestCase):
    """The table of series is that of the documents."""

    @proves("X-12", "G-MET-01")
    def test_names(self) -> None:
        """The 46 names are spelled as the documents spell them; beside them stand our own."""
        self.assertEqual(len(NAMES), 46)
        self.assertEqual(sorted(each.name for each in SERIES), sorted((*NAMES, *OURS)))

    @proves("G-OPEN-31")
    def test_buckets(self) -> None:
        """Decisions and tunnels have the buckets that were settled."""
        buckets = {each.name: each.buckets for each in SERIES if each.kind is SeriesKind.HISTOGRAM}
        self.assertEqual(
            buckets,
            {
                "svc_authorize_duration_seconds": DECISION_SECS,
                "svc_connector_tunnel_duration_seconds": TUNNEL_SECS,
                "svc_reactor_lag_seconds": LAG_BUCKETS,
            },
        )

    @proves("G-OPEN-32", "G-OPEN-34", "G-OPEN-35", "G-OPEN-36")
    def test_label_values(self) -> None:
        """Each label's values are a closed set."""
        labels = {each.name: each.labels for each in SERIES}
        misses = labels["svc_route_misses_total"]
        self.assertEqual(misses["stage"], ("issue", "open", "request", "peer"))
        self.assertEqual(
            labels["svc_sessions_total"]["protocol"][:-1],
            ("ssh", "postgres", "mysql", "kube", "web", "tcp"),
        )
        issuance = labels["svc_authorize_total"]
        self.assertEqual(
            issuance["action"], ("connect", "db_connect", "kube", "web", "ssh", "admin")
        )
        requests = labels["svc_request_authorize_total"]
        self.assertEqual(requests["decision"], ("allow", "deny", "error"))
        lanes = labels["svc_active_auth_relay_connections"]["lane"]
        self.assertEqual(lanes, ("renewal", "admin"))
        roles = labels["svc_transport_identity_expires_in_seconds"]["role"]
        self.assertEqual(roles, ALL)

    def test_page(self) -> None:
        """The page of the reference has a line for each series."""
        page = markdown()
        for name in NAMES:
            self.assertIn(f"| `{name}` |", page)


class ExpositionTests(SynchronousTestCase):
    """What a scrape shows."""

    @proves("G-MET-01", "G-TEL-05")
    def test_promtool(self) -> None:
        """promtool finds nothing to say about the exposition, with an awkward profile as well."""
        tool = stock_tool("promtool")
        for metrics in (Metrics(ALL), moved(), moved('a "b" \\c\nd')):
            run = subprocess.run(
                [tool, "check", "metrics"], input=metrics.text(), capture_output=True, check=False
            )
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, b"", b""))

    @proves("G-MET-01")
    def test_every_line_is_ours(self) -> None:
        """Every sample begins with svc_; no library adds its own."""
        names = samples(moved())
        self.assertTrue(names)
        self.assertEqual([name for name in names if not name.startswith("svc_")], [])

    @proves("G-MET-05", "X-01", "X-87", "G-CFG-05")
    def test_deployment(self) -> None:
        """With a profile every sample carries deployment, buckets too; without it none."""
        for name in samples(moved('a "b"')):
            self.assertIn('deployment="a \\"b\\""', name)
            self.assertNotIn("profile=", name)
        self.assertNotIn(b"deployment", moved().text())

    @proves("G-MET-03", "X-09")
    def test_fresh_start(self) -> None:
        """At the start unlabelled series are 0; what 0 would misstate is absent."""
        fresh = samples(Metrics(ALL))
        self.assertEqual(fresh["svc_connector_reconnects_total"], 0)
        for name in ("svc_doctor_failed", "svc_license_expires_unix", "svc_policy_version_applied"):
            self.assertNotIn(name, fresh)
        self.assertFalse([name for name in fresh if name.startswith("svc_doctor")])

    @proves("G-OPEN-84")
    def test_each_role_shows_its_own(self) -> None:
        """A role shows no series of another, not even at 0, and may be asked to move one."""
        connector = Metrics(["connector"])
        connector.counter("svc_sessions_total", protocol="ssh").inc()
        own = ("svc_connector_re", "svc_connector_proxy", "svc_connector_dup", "svc_reactor_lag")
        for name in samples(connector):
            self.assertTrue(name.startswith(own), name)
        self.assertNotIn("svc_connector_reconnects_total", samples(Metrics(["proxy"])))

    @proves("G-MET-04", "G-LIM-05")
    def test_unknown_values(self) -> None:
        """A value from outside the table is folded or dropped, and never becomes a label."""
        metrics = Metrics(ALL)
        metrics.counter("svc_public_anonymous_refused_total", rpc="Evil/canary").inc()
        metrics.counter("svc_connector_tunnels_total", outcome="canary").inc()
        self.assertEqual(samples(metrics)['svc_public_anonymous_refused_total{rpc="other"}'], 1)
        self.assertNotIn(b"canary", metrics.text())
        strict = Metrics(ALL, strict=True)
        with self.assertRaises(ValueError):
            strict.counter("svc_connector_tunnels_total", outcome="canary")

    def test_mistaken_names(self) -> None:
        """A series that does not exist, or has other labels, is a mistake of ours and raises."""
        metrics = Metrics(ALL)
        with self.assertRaises(ValueError):
            metrics.counter("svc_nothing_total")
        with self.assertRaises(ValueError):
            metrics.counter("svc_sessions_total")
        with self.assertRaises(ValueError):
            metrics.gauge("svc_sessions_total", protocol="ssh")

    @proves("G-MET-07")
    def test_types(self) -> None:
        """Types are as documented: counters only grow, histograms have their three parts."""
        metrics = moved()
        declared = dict(re.findall(r"# TYPE (\S+) (\S+)", metrics.text().decode()))
        self.assertEqual(declared, {name: kind_of(name) for name in (*NAMES, *OURS)})
        with self.assertRaises(ValueError):
            metrics.counter("svc_connector_reconnects_total").inc(-1)

    @proves("G-MET-07")
    def test_histogram(self) -> None:
        """Buckets are cumulative, a bound belongs to its bucket, infinity holds all."""
        metrics = Metrics(["proxy"])
        histogram = metrics.histogram("svc_connector_tunnel_duration_seconds")
        for value in (0.5, 1, 4, 1e9):
            histogram.observe(value)
        found = samples(metrics)
        prefix = "svc_connector_tunnel_duration_seconds"
        self.assertEqual(found[f'{prefix}_bucket{{le="1.0"}}'], 2)
        self.assertEqual(found[f'{prefix}_bucket{{le="5.0"}}'], 3)
        self.assertEqual(found[f'{prefix}_bucket{{le="+Inf"}}'], 4)
        self.assertEqual((found[f"{prefix}_count"], found[f"{prefix}_sum"]), (4, 1e9 + 5.5))

    def test_gauge_is_read_at_the_scrape(self) -> None:
        """A gauge may be a callable; None means no sample, a failure hides no other series."""
        metrics = Metrics(["proxy"])
        now = [5.0]
        gauge = metrics.gauge("svc_transport_identity_expires_in_seconds", role="proxy")
        gauge.read(lambda: now[0])
        name = 'svc_transport_identity_expires_in_seconds{role="proxy"}'
        self.assertEqual(samples(metrics)[name], 5)
        now[0] = -1
        self.assertEqual(samples(metrics)[name], -1)
        gauge.read(lambda: None)
        self.assertNotIn(name, samples(metrics))
        gauge.read(lambda: 1 / 0)
        self.assertNotIn(name, samples(metrics))
        self.assertIn("svc_active_connector_tunnels", samples(metrics))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_gauge_up_and_down(self) -> None:
        """A gauge that went up and down again is 0, not absent."""
        metrics = Metrics(["proxy"])
        gauge = metrics.gauge("svc_active_sessions", protocol="tcp")
        gauge.inc()
        gauge.dec()
        self.assertEqual(samples(metrics)['svc_active_sessions{protocol="tcp"}'], 0)

"""Series whose values are read from the rooms at each scrape."""

from __future__ import annotations

from typing import cast

from twisted.internet.endpoints import TCP6ServerEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.telemetry import ExposureWarning, identity_meters, tunnel_meter
from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.model.session.tunnels import EndReason, TunnelEnded, TunnelRefused, TunnelRegistered
from svc.model.signing import Purpose
from svc.pki.identity import check_material
from svc.pki.root import new_key
from svc.runtime.services import BoundPort
from svc.telemetry.metrics import Metrics
from tests.pki.support import World
from tests.support.proof import proves

EXPIRES = 'svc_transport_identity_expires_in_seconds{role="proxy"} '


class TunnelTests(SynchronousTestCase):
    """What is told of a Proxy's tunnels."""

    @proves("G-MET-18")
    def test_each_reason(self) -> None:
        """Each way a tunnel ends is a series; together they are those registered and not active."""
        metrics = Metrics(["proxy"])
        told = tunnel_meter(metrics)
        reasons = ["closed", "transport_error", "keepalive_failed"]
        reasons += ["evicted", "superseded", "lease_expired"]
        for _ in range(len(reasons) + 2):
            told(TunnelRegistered("n" * 26, ("db1",)))
        for reason in reasons:
            told(TunnelEnded("n" * 26, EndReason(reason), 1.5))
        values = dict(
            line.rsplit(" ", 1)
            for line in metrics.text().decode().splitlines()
            if line.startswith("svc_")
        )
        name = "svc_connector_tunnel_disconnects_total"
        ended = {series: float(value) for series, value in values.items() if name in series}
        self.assertEqual(ended, {f'{name}{{reason="{reason}"}}': 1.0 for reason in reasons})
        registered = values['svc_connector_tunnels_total{outcome="registered"}']
        active = values["svc_active_connector_tunnels"]
        self.assertEqual(sum(ended.values()), float(registered) - float(active))

    @proves("G-MET-19")
    def test_duration(self) -> None:
        """A tunnel's time since its registration is observed at its end; a refused one has none."""
        metrics = Metrics(["proxy"])
        told = tunnel_meter(metrics)
        told(TunnelRegistered("n" * 26, ("db1",)))
        told(TunnelRefused("n" * 26, "revoked_node"))
        text = metrics.text().decode()
        self.assertIn("\nsvc_connector_tunnel_duration_seconds_count 0.0\n", text)
        told(TunnelEnded("n" * 26, EndReason.CLOSED, 5.0))
        text = metrics.text().decode()
        self.assertIn("\nsvc_connector_tunnel_duration_seconds_count 1.0\n", text)
        self.assertIn("\nsvc_connector_tunnel_duration_seconds_sum 5.0\n", text)


class IdentityTests(SynchronousTestCase):
    """What is told of a node's own certificate."""

    @proves("G-MET-31", "X-48")
    def test_seconds_left(self) -> None:
        """They fall by one a second, jump up on renewal, and go below zero after the end."""
        world, metrics = World(), Metrics(["proxy"])
        identity = world.identity(Role.PROXY, 3600.0)
        told = identity_meters(metrics, "proxy", identity.seconds_left)

        def left() -> float:
            [line] = [
                one
                for one in metrics.text().decode().splitlines()
                if one[0] != "#" and one.startswith(EXPIRES)
            ]
            return float(line.removeprefix(EXPIRES))

        first = left()
        self.assertTrue(3590 <= first <= 3600, first)
        world.clock.advance(1)
        self.assertAlmostEqual(left(), first - 1)
        world.clock.advance(1799)
        self.assertAlmostEqual(left(), first - 1800)
        key = new_key()
        chain = world.issued(Role.PROXY, key, 3600.0, 2, identity.principal.id).chain
        identity.replace(check_material(key, chain, world.verifier))
        told("ok")
        self.assertAlmostEqual(left(), first)
        world.clock.advance(3600 + 900)
        self.assertAlmostEqual(left(), first - 4500)
        self.assertLess(left(), -800)
        self.assertRaises(CertificateRefused, identity.sign, Purpose.REGISTRATION, b"bytes")


class ExposureTests(SynchronousTestCase):
    """A telemetry listener that strangers could reach."""

    def warnings(self, interface: str) -> list[LogEvent]:
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        reactor = MemoryReactorClock()
        endpoint = TCP6ServerEndpoint(reactor, 9100, interface=interface)
        listener = BoundPort(
            key="telemetry.metrics_listen", address="", endpoint=endpoint, factory=Factory()
        )
        listener.startService()
        ExposureWarning(listener).startService()
        return [one for one in events if one["log_level"] is LogLevel.warn]

    def test_public(self) -> None:
        """Bound to every address it warns at start, naming key and address."""
        [told] = self.warnings("::")
        self.assertIn("telemetry.metrics_listen", formatEvent(told))
        self.assertEqual((told["host"], told["port"]), ("::", 9100))

    def test_private(self) -> None:
        """On loopback or a private network it says nothing."""
        for interface in ("::1", "fd00::1"):
            self.assertEqual(self.warnings(interface), [])

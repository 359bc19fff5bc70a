"""When a verified certificate is good, and for whom."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.model.certificate import CertificateRefused
from svc.model.clocks import utc
from svc.model.principal import Role
from svc.pki.verify import require_valid
from tests.pki.support import BEGIN, World

CONNECTORS = frozenset({Role.CONNECTOR})


class CertificateTimeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.facts = World().identity(Role.CONNECTOR).facts

    def refusal(self, now: float) -> CertificateRefused:
        with self.assertRaises(CertificateRefused) as refused:
            require_valid(self.facts, now, CONNECTORS)
        found: CertificateRefused = refused.exception
        return found

    def test_before(self) -> None:
        """A certificate that is not valid yet shows how far the clock is behind, at least."""
        refusal = self.refusal(BEGIN - 90)
        self.assertEqual(refusal.reason, "certificate_not_yet_valid")
        self.assertIn("at least 90 s behind", refusal.text)
        self.assertIn(utc(BEGIN - 60), refusal.text)

    def test_after(self) -> None:
        """One that has ended is refused with the time of its end."""
        refusal = self.refusal(self.facts.not_after + 120)
        self.assertEqual(refusal.reason, "certificate_expired")
        self.assertIn(f"expired at {utc(self.facts.not_after)}, 120 s ago", refusal.text)

    def test_role_first(self) -> None:
        """A certificate for another role is refused for that, whatever the time is."""
        with self.assertRaises(CertificateRefused) as refused:
            require_valid(self.facts, BEGIN - 90, frozenset({Role.AUTHORITY}))
        self.assertEqual(refused.exception.reason, "certificate_role")

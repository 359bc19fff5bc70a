"""Clocks that do not agree, told with their difference."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Fault
from svc.model.certificate import CertificateRefused
from svc.model.clocks import MAX_APART_SECS, ClockWrong, check_clock, since, utc
from svc.model.principal import Role
from tests.pki.support import BEGIN, World

CONNECTORS = frozenset({Role.CONNECTOR})


class ClockTests(SynchronousTestCase):
    def test_within(self) -> None:
        """Clocks that differ by no more than a signed request may be old are let pass."""
        for theirs in (BEGIN, BEGIN - MAX_APART_SECS, BEGIN + MAX_APART_SECS):
            check_clock(theirs, BEGIN, "")

    def test_apart(self) -> None:
        """The refusal says by how much, in which direction, both times, and what to do."""
        for offset, said in (
            (-90, "90 s behind"),
            (31, "31 s ahead"),
            (-3600, "1 h 0 min"),
        ):
            refusal = self.assertRaises(ClockWrong, check_clock, BEGIN + offset, BEGIN, "set it")
            self.assertEqual((refusal.reason, refusal.fault), ("clock_wrong", Fault.PRECONDITION))
            for part in (said, utc(BEGIN), utc(BEGIN + offset), "; set it"):
                self.assertIn(part, refusal.text)

    def test_no_calendar(self) -> None:
        """A time that no calendar knows is refused like any other."""
        for theirs in (-(2.0**63), 2.0**63):
            self.assertRaises(ClockWrong, check_clock, theirs, BEGIN, "")

    def test_lengths(self) -> None:
        """A length of time is told in seconds, and a long one in larger units."""
        told = [since(seconds) for seconds in (0.4, 599, 1500, 7260, 200_000)]
        self.assertEqual(told, ["0 s", "599 s", "25 min", "2 h 1 min", "2 days"])


class CertificateTimeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.facts = World().identity(Role.CONNECTOR).facts

    def refusal(self, now: float) -> CertificateRefused:
        with self.assertRaises(CertificateRefused) as refused:
            self.facts.check(now, CONNECTORS)
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
            self.facts.check(BEGIN - 90, frozenset({Role.AUTHORITY}))
        self.assertEqual(refused.exception.reason, "certificate_role")

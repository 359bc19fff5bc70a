"""A person's certificate: warned of before its end, and refused in words of its own after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.cli.person_texts import facts
from svc.client.own_certificate import EndWarnings, check_own, dial_refusal, identity_status
from svc.errors import Unavailable
from svc.model.certificate import CertificateRefused
from svc.model.clocks import ClockWrong, utc
from svc.model.principal import Role
from tests.pki.renewing import renew
from tests.pki.support import World
from tests.support.logged import logged


class OwnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.identity = self.world.identity(Role.USER, lifetime=7200)

    def test_good(self) -> None:
        """A certificate that is good has no problem and does not end soon."""
        check_own(self.identity)
        certificate = identity_status(self.identity)["certificate"]
        self.assertEqual((certificate["problem"], certificate["ends_soon"]), ("", False))

    def test_other_cluster(self) -> None:
        """A Proxy whose chain ends in another root is of another cluster, and that is said."""
        place = Path("/home/ada/.svc")
        unverified = Unavailable("no HTTP/2 (handshake_failed: certificate verify failed)")
        told = dial_refusal(unverified, [], place)
        self.assertIsInstance(told, CertificateRefused)
        self.assertIn(
            "not of the cluster that the identity in /home/ada/.svc has joined", told.text
        )
        ours = CertificateRefused("its name is not expected")
        self.assertIs(dial_refusal(unverified, [ours], place), ours)
        lost = Unavailable("nobody listens there")
        self.assertIs(dial_refusal(lost, [], place), lost)

    def test_agent(self) -> None:
        """An agent is told as one, and no end of its renewal, which ends with the agent."""
        agent = World().identity(Role.AGENT)
        told = identity_status(agent, agent.facts.not_after)
        self.assertEqual((told["person"], told["agent"]), ("", agent.principal.id))
        certificate = told["certificate"]
        self.assertEqual((certificate["is_renewed"], certificate["renew_until"]), (True, ""))
        shown = dict(facts({**told, "running": False}))
        self.assertEqual(shown["agent"], agent.principal.id)
        self.assertNotIn("person", shown)
        self.assertTrue(str(shown["certificate"]).endswith("; `svc up` renews it"))

    def test_ended(self) -> None:
        """After the end the text says when that was and how to go on."""
        self.world.clock.advance(7200 + 90)
        refusal = self.assertRaises(CertificateRefused, check_own, self.identity)
        self.assertEqual(refusal.reason, "certificate_expired")
        for part in (utc(self.identity.facts.not_after), "90 s ago", "svc join", "new token"):
            self.assertIn(part, refusal.text)
        certificate = identity_status(self.identity)["certificate"]
        self.assertEqual(certificate["problem"], refusal.text)
        self.assertEqual(certificate["ends_soon"], False)

    def test_slow_clock(self) -> None:
        """With a clock that went back nobody is told to join again: the certificate is good."""
        now = self.identity.facts.not_before - 30
        self.identity._now = lambda: now
        refusal = self.assertRaises(ClockWrong, check_own, self.identity)
        self.assertIn("at least 90 s behind", refusal.text)
        self.assertNotIn("join", refusal.text)
        self.assertEqual(identity_status(self.identity)["certificate"]["reason"], "clock_wrong")


class WarningTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def warned(self, lifetime: float, step: float = 1.0) -> list[int]:
        """Seconds left at each line about the certificate of a life, its end included."""
        identity = self.world.identity(Role.USER, lifetime=lifetime)
        found = self.watched(identity)
        while identity.seconds_left() > -300:
            self.world.clock.advance(step)
        return [each["seconds_left"] for each in found]

    def watched(self, identity: Any) -> list[dict[str, Any]]:
        warnings = EndWarnings(identity, self.world.clock)
        found = logged(self)
        warnings.startService()
        self.addCleanup(warnings.stopService)
        return found

    def test_an_hour_and_ten_minutes(self) -> None:
        """Two warnings, an hour and ten minutes before the end, and a line at the end."""
        self.assertEqual(self.warned(43200.0), [3600, 600, 0])

    def test_short_lives(self) -> None:
        """A certificate of less than two hours: at the half of its life and at its last twelfth."""
        self.assertEqual(self.warned(3600.0), [1800, 300, 0])
        self.assertEqual(self.warned(120.0), [60, 10, 0])

    def test_late_start(self) -> None:
        """A resident that begins in the last minutes warns once, not twice."""
        identity = self.world.identity(Role.USER, lifetime=43200)
        self.world.clock.advance(43200 - 300)
        found = self.watched(identity)
        self.assertEqual([each["seconds_left"] for each in found], [300])
        self.assertEqual(found[0]["reason"], "certificate_ends_soon")

    def test_new_identity(self) -> None:
        """Who has joined again is warned of the new end only."""
        identity = self.world.identity(Role.USER, lifetime=43200)
        found = self.watched(identity)
        self.world.clock.pump([60.0] * 670)
        self.assertEqual(len(found), 1)
        renew(self.world, identity, 43200)
        self.world.clock.pump([60.0] * 100)
        self.assertEqual(len(found), 1)
        self.world.clock.pump([60.0] * 615)
        self.assertEqual([each["seconds_left"] for each in found[1:]], [3600, 600])

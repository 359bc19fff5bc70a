"""How long whoever failed waits."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.accounts.lockout import FREE_TRIES, MOST_SECS, Lockouts


class LockoutTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.at = 0.0
        self.lockouts = Lockouts(lambda: self.at)

    def wait(self) -> float:
        """For how long no try is judged."""
        began = self.at
        while not self.lockouts.begin("ada", "192.0.2.1"):
            self.at += 1
        return self.at - began

    def test_doubles_to_the_longest(self) -> None:
        """After the free tries the wait doubles from 2 s on, up to a quarter of an hour."""
        waits = [self.wait() for _ in range(FREE_TRIES + 11)]
        doubled = [2.0**number for number in range(1, 10)]
        self.assertEqual(waits, [0.0] * FREE_TRIES + doubled + [MOST_SECS] * 2)

    def test_never_ends(self) -> None:
        """Who goes on for weeks waits the longest each time, and is judged after it."""
        for _ in range(1100):
            self.assertTrue(self.lockouts.begin("ada", "192.0.2.1"))
            self.at += MOST_SECS
        self.lockouts.begin("ada", "192.0.2.1")
        self.at += MOST_SECS - 1
        self.assertFalse(self.lockouts.begin("ada", "192.0.2.1"))

    def test_taken_back(self) -> None:
        """A try that was not judged in the end neither counts nor makes anybody wait."""
        for _ in range(FREE_TRIES - 1):
            self.lockouts.begin("ada", "192.0.2.1")
        for _ in range(3):
            self.assertTrue(self.lockouts.begin("ada", "192.0.2.1"))
            self.lockouts.take_back("ada", "192.0.2.1")
        self.assertTrue(self.lockouts.begin("ada", "192.0.2.1"))
        self.assertFalse(self.lockouts.begin("ada", "192.0.2.1"))

"""How accounts are wired."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.authority.accounts import hash_threads


class HashThreadTests(SynchronousTestCase):
    """How many hashes are made at once."""

    def test_one_core_is_left(self) -> None:
        """As many as asked for, but one core is the reactor's; one hash is always made."""
        cases = {(2, 1): 1, (2, 2): 1, (2, 3): 2, (2, 64): 2, (16, 4): 3, (1, 8): 1}
        for (asked, cores), made in cases.items():
            self.assertEqual(hash_threads(asked, cores), made, (asked, cores))

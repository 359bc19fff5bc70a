"""What the resident remembers of refusals."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.refused import RecentRefusals
from svc.errors import Denied, Unavailable
from svc.model.cluster.person import DISABLED_PERSON


class StandingTests(SynchronousTestCase):
    """The refusal that keeps every session back."""

    def setUp(self) -> None:
        self.refusals = RecentRefusals(lambda: 5.0)

    def standing(self) -> str:
        """Its reason."""
        return "" if self.refusals.standing is None else self.refusals.standing.reason

    def test_a_list_that_came(self) -> None:
        """What a list would have told of is over when one comes; what it cannot tell of is not."""
        self.refusals.note("db1", Denied("disabled", reason=DISABLED_PERSON))
        self.assertEqual(self.standing(), DISABLED_PERSON)
        self.refusals.listed()
        self.assertEqual(self.standing(), "")
        self.assertEqual(len(self.refusals.kept), 1)
        self.refusals.note("db1", Unavailable("no store", reason="store_unavailable"))
        self.refusals.listed()
        self.assertEqual(self.standing(), "store_unavailable")
        self.refusals.opened()
        self.assertEqual(self.standing(), "")

    def test_of_one_resource(self) -> None:
        """A denial of one resource keeps no other back."""
        self.refusals.note("db1", Denied("no", reason="denied"))
        self.assertEqual(self.standing(), "")

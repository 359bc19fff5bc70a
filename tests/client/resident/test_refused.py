"""What the resident remembers of refusals."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.refused import RecentRefusals
from svc.errors import Denied, Unavailable
from svc.model.cluster.person import DISABLED_PERSON
from tests.support.logged import logged


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

    def test_what_to_type(self) -> None:
        """The log line names both commands, with the directory; none that a Proxy made up."""
        lines = logged(self)
        refusals = RecentRefusals(lambda: 5.0, " --dir '/my dir'")
        decision = "d0" * 16
        details = {"decision_id": decision, "request": "svc request vault"}
        kept = refusals.note("vault", Denied("no", reason="denied", details=details))
        self.assertEqual(kept.request_hint, "svc request vault")
        self.assertEqual(lines[-1]["to_see_why"], f"svc why {decision} --dir '/my dir'")
        self.assertEqual(lines[-1]["to_ask"], "svc request vault --dir '/my dir'")
        false = {"decision_id": "1; true", "request": "svc request vault; true"}
        for details in (false, {}):
            kept = refusals.note("db1", Denied("no", reason=f"r{len(details)}", details=details))
            self.assertEqual(kept.request_hint, "")
            self.assertFalse({"to_see_why", "to_ask"} & set(lines[-1]))

    def test_of_one_resource(self) -> None:
        """A denial of one resource keeps no other back."""
        self.refusals.note("db1", Denied("no", reason="denied"))
        self.assertEqual(self.standing(), "")

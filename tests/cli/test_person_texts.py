"""What `svc status --explain` says of refusals and ends."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.cli.person_texts import NOT_SERVED, reasons, with_problem, with_unserved

DECISION = "d0" * 16
AT = "2030-01-01T00:00:00Z"


def status(**changes: Any) -> dict[str, Any]:
    """Of a resident that runs well."""
    told: dict[str, Any] = {
        "certificate": {"problem": ""},
        "running": True,
        "proxy": {"connected": True, "problem": ""},
        "endpoints": [],
        "ended": [],
        "refused": [],
    }
    return {**told, **changes}


class ReasonsTests(SynchronousTestCase):
    def refused(self, **changes: Any) -> str:
        """The line of one refusal."""
        one = {
            "at": AT,
            "resource": "db1",
            "reason": "departed",
            "text": "db1: no Connector serves it",
            "decision_id": DECISION,
            "policies": [],
            "first_at": AT,
            "count": 1,
            "request_hint": "",
        }
        (line,) = reasons(status(refused=[{**one, **changes}]))
        return line

    def test_the_name_stands_once(self) -> None:
        """Whether or not a text begins with the resource's name, the line has it once."""
        for text in ("db1: no Connector serves it", "no Connector serves it"):
            self.assertEqual(
                self.refused(text=text),
                f"{AT} db1: no Connector serves it (departed); to see why: svc why {DECISION}",
            )

    def test_what_to_type(self) -> None:
        """Each line ends with the command that explains it, where there is a decision."""
        asked = self.refused(request_hint="svc request db1")
        self.assertTrue(asked.endswith(f"svc request db1; to see why: svc why {DECISION}"), asked)
        for none in ("", "1; true"):
            self.assertNotIn("svc why", self.refused(decision_id=none))
        ended = {
            "at": AT,
            "resource": "db1",
            "text": "the policy no longer allows it",
            "reason": "policy_changed",
            "decision_id": DECISION,
        }
        (line,) = reasons(status(ended=[ended]))
        self.assertEqual(
            line,
            f"{AT} db1: session ended: the policy no longer allows it (policy_changed); to see "
            f"why: svc why {DECISION}",
        )

    def test_in_the_list(self) -> None:
        """A resource that nobody serves has a problem, unless it has another one already."""
        one = {"resource": "db1", "served": False, "problem": ""}
        served = {**one, "served": True}
        told = [each["problem"] for each in with_unserved([one, served, {**one, "problem": "x"}])]
        self.assertEqual(told, [NOT_SERVED, "", "x"])
        (away,) = with_unserved(with_problem([one], ["no Proxy"]))
        self.assertEqual(away["problem"], "no Proxy")

    def test_not_served(self) -> None:
        """A resource that nobody serves is a problem, with what to do."""
        one = {"resource": "db1", "served": False, "problem": ""}
        self.assertEqual(reasons(status(endpoints=[one])), [f"db1: {NOT_SERVED}"])

"""A policy that wants a second factor of not long ago, for sessions."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.sessions.refused import REFUSAL_TEXT
from svc.messages.control import AuthorizeAnswer
from tests.authority.house import ADA, House, value_of

SSH = {"kind": "ssh", "action": "sshConnect"}
POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("dev-sees-hosts")
permit (principal in Group::"dev", action == Action::"view", resource is Server)
unless { resource == Server::"hidden1" };
@id("recent-factor-for-ssh")
permit (principal in Group::"dev", action == Action::"sshConnect", resource is Server)
when { context has mfa_age_seconds && context.mfa_age_seconds < 900 };
"""


class SessionFactorTests(SynchronousTestCase):
    """Ada, who presented one just now, and without one."""

    def setUp(self) -> None:
        self.house = House(POLICY)
        self.issuance, self.proxy = self.house.issuance(), self.house.row(self.house.proxy)
        self.house.serve("host1")
        self.recent = self.house.person(ADA, factor_at=int(self.house.now()))

    def authorize(self, asker: Any, resource: str = "host1", said: str = "allow") -> Any:
        """Ask for a session with a host."""
        ask = self.house.ask(asker, resource, said, **SSH)
        answer = value_of(self.issuance.authorize(ask, self.proxy))
        assert isinstance(answer, AuthorizeAnswer)
        return answer

    def ages(self) -> list[int | None]:
        """What the decisions on record had of it."""
        records = [one for one in self.house.records() if one["event"].startswith("session.")]
        return [one["request"]["context"].get("mfa_age_seconds") for one in records]

    def test_recent(self) -> None:
        """It opens a session until it is too old; then the person is told to sign in again."""
        self.assertIsNotNone(self.authorize(self.recent).grant)
        self.house.clock.advance(899)
        self.assertIsNotNone(self.authorize(self.recent).grant)
        self.house.clock.advance(1)
        refused = self.authorize(self.recent, said="deny")
        self.assertIsNone(refused.grant)
        self.assertEqual(refused.reason, "denied")
        self.assertIn("sign in again", refused.text)
        self.assertEqual(self.ages(), [0, 899, 900])

    def test_none(self) -> None:
        """Who joined by a token, or whose provider says nothing of it, has none."""
        refused = self.authorize(self.house.ada)
        self.assertNotIn("sign in again", refused.text)
        self.assertIn("your sign-in told of none", refused.text)
        self.assertEqual(self.ages(), [None])

    def test_others(self) -> None:
        """Nobody is told so of what they may not see, or could not open with one either."""
        for asker, resource in ((self.recent, "hidden1"), (self.house.eve, "host1")):
            self.house.clock.advance(900)
            self.assertEqual(self.authorize(asker, resource, "deny").text, REFUSAL_TEXT)

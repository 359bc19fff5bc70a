"""Requests that are to be made as another person, as the Proxy decides them."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.model.policy.requests import NAMED_PERSON
from svc.policy.entities import (
    AgentFacts,
    Facts,
    GroupFacts,
    PersonFacts,
)
from svc.proxy.sessions.gated import GatedOpen, GatedRequest
from tests.proxy.sessions.board import BOARD, REQUEST, WEB, board_gate, board_policy
from tests.support.proof import proves

ADA, BOB, CARL, EVE, TWIN, OTHER = (letter * 26 for letter in "abcdef")
ROBOT = f"agent-{ADA}"
FACTS: tuple[Facts, ...] = (
    GroupFacts("ops"),
    PersonFacts(ADA, "ada", ("ops",)),
    PersonFacts(BOB, "bob", ("ops",)),
    PersonFacts(CARL, "carl", ("ops",)),
    PersonFacts(EVE, "eve"),
    PersonFacts(TWIN, "twin", ("ops",)),
    PersonFacts(OTHER, "twin", ("ops",)),
    AgentFacts(
        id=ROBOT,
        name="robot",
        owner=ADA,
        acts_for=(f"{BOB} webConnect 9", f"{CARL} webConnect 9", "odd"),
    ),
    BOARD,
)
POLICY = """
@id("use") permit (principal in Group::"ops", action == Action::"webAccess", resource);
@id("act") permit (principal in Group::"ops", action == Action::"actAs", resource)
unless { resource.name == "carl" };
@id("robot") permit (principal is Agent, action, resource)
unless { resource is User && resource.name == "carl" };
@id("closed") forbid (principal, action == Action::"webAccess", resource)
when { principal.name == "bob" && context has path && context.path == "/closed" };
@id("as-eve") forbid (principal, action == Action::"webAccess", resource)
when { context has named_person && context.named_person == "%s" };
"""


class NamedTests(SynchronousTestCase):
    """Requests of ada's to the board."""

    def setUp(self) -> None:
        self.engine: Any = board_policy(POLICY.replace("%s", TWIN), FACTS)
        self.now = 1.0
        self.gate = board_gate(lambda: self.engine, lambda: self.now)
        self.opened = GatedOpen(REQUEST, WEB, person_id=ADA, source_address="192.0.2.1")

    def decided(self, named: str | None, path: str = "/") -> GatedRequest:
        facts: dict[str, Any] = {"method": "GET", "path": path, "upgrade": False}
        if named is not None:
            facts[NAMED_PERSON] = named
        allows = self.gate.still_allows_request(self.opened, "webAccess", facts)
        decided = self.gate.decide_request(self.opened, "webAccess", facts)
        assert isinstance(decided, GatedRequest)
        self.assertEqual(allows, decided.decision == "allow")
        return decided

    def test_who(self) -> None:
        """Both must be allowed, and the one must be allowed to name the other."""
        for named, path, reason in (
            (None, "/closed", ""),
            ("ada", "/closed", ""),
            ("bob", "/", ""),
            ("bob", "/closed", "identity_denied"),
            ("carl", "/", "identity_denied"),
            ("eve", "/", "identity_denied"),
            ("twin", "/", "identity_denied"),
            ("robot", "/", "identity_denied"),
            ("nobody", "/", "identity_denied"),
            ("", "/", "identity_denied"),
        ):
            decided = self.decided(named, path)
            word = "deny" if reason else "allow"
            self.assertEqual((decided.decision, decided.reason), (word, reason), named)
            self.assertEqual(decided.policies, () if reason else ("use",))
            # The record is of the person's own request.
            self.assertEqual(decided.request.principal.id, ADA)

    def test_on_record(self) -> None:
        """A record has the id of who was named, and nothing of a name that nobody has."""
        self.assertEqual(self.decided("bob").request.context[NAMED_PERSON], BOB)
        self.assertEqual(self.decided("eve").request.context[NAMED_PERSON], EVE)
        for named in ("nobody", "", None):
            self.assertNotIn(NAMED_PERSON, self.decided(named).request.context)

    def test_own_denial_first(self) -> None:
        """Who may not make the request is told that, whoever it names."""
        self.opened = GatedOpen(self.opened.request, WEB, person_id=EVE, source_address="")
        self.assertEqual(self.decided("bob").reason, "denied")

    def test_only_the_kinds_facts(self) -> None:
        """A fact that the kind does not have decides nothing."""
        with self.assertRaises(SvcError):
            self.gate.decide_request(self.opened, "webAccess", {"colour": "red"})
        with self.assertRaises(SvcError):
            self.gate.still_allows_request(self.opened, "webOther", {})

    @proves("X-54")
    def test_agent(self) -> None:
        """An agent needs a delegation that lasts, besides what policy permits to both."""
        self.opened = GatedOpen(self.opened.request, WEB, person_id=ROBOT, source_address="")
        for named, path, reason in (
            (None, "/", ""),
            ("bob", "/", ""),
            ("bob", "/closed", "identity_denied"),  # what bob may not do
            ("carl", "/", "identity_denied"),  # whom policy lets nobody name
            ("ada", "/", "identity_denied"),  # who owns it, and delegated nothing
        ):
            self.assertEqual(self.decided(named, path).reason, reason, named)
        self.now = 9.0
        self.assertEqual(self.decided("bob").reason, "identity_denied")
        self.assertEqual(self.decided(None).reason, "")
        other = evolve(self.opened.request, action="webOther")
        self.now = 1.0
        self.opened = GatedOpen(other, WEB, person_id=ROBOT, source_address="")
        self.assertEqual(self.decided("bob").reason, "identity_denied")

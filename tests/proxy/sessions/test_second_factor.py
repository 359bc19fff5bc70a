"""A policy that wants a second factor of not long ago, as the Proxy decides by it."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.policy.entities import Facts, GroupFacts, PersonFacts
from svc.proxy.sessions.gated import GatedOpen, GatedRequest
from tests.proxy.sessions.board import BOARD, REQUEST, WEB, board_gate, board_policy

ADA = "a" * 26
FACTS: tuple[Facts, ...] = (
    GroupFacts("ops"),
    PersonFacts(ADA, "ada", ("ops",)),
    BOARD,
)
POLICY = """
@id("recent") permit (principal in Group::"ops", action in Action::"use", resource is WebApp)
when { context has mfa_age_seconds && context.mfa_age_seconds < 900 };
"""
FACTS_OF_REQUEST: dict[str, Any] = {"method": "GET", "path": "/", "upgrade": False}


class GateFactorTests(SynchronousTestCase):
    """Ada presented one at 1000."""

    def setUp(self) -> None:
        engine = board_policy(POLICY, FACTS)
        self.now = 1000.0
        self.gate = board_gate(lambda: engine, lambda: self.now)
        self.opened = GatedOpen(REQUEST, WEB, ADA, source_address="", factor_at=1000)

    def outcomes(self, opened: GatedOpen) -> list[bool]:
        """Whether a session may be opened, may go on, and a request in it may pass."""
        asked = self.gate.decide_open(
            opened.request, person_id=ADA, factor_at=opened.factor_at, source=""
        )
        may_open = asked.decision.decision == "allow"
        goes_on = self.gate.still_allows(asked)
        decided = self.gate.decide_request(opened, "webAccess", FACTS_OF_REQUEST)
        assert isinstance(decided, GatedRequest)
        self.assertEqual(
            decided.request.context.get("mfa_age_seconds"),
            None if opened.factor_at is None else int(self.now - opened.factor_at),
        )
        return [may_open, goes_on, decided.decision == "allow"]

    def test_recent(self) -> None:
        """Sessions and requests are allowed until it is too old."""
        for now, is_allowed in ((1000.0, True), (1899.9, True), (1900.0, False)):
            self.now = now
            self.assertEqual(self.outcomes(self.opened), [is_allowed] * 3, now)

    def test_none(self) -> None:
        """Nothing is concluded where nobody says that there was one."""
        self.assertEqual(self.outcomes(evolve(self.opened, factor_at=None)), [False] * 3)

"""A policy that wants a second factor of not long ago, as the Proxy decides by it."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.drop_ins import KindSide, load_kinds
from svc.errors import SvcError
from svc.model.audit.decision_ids import DecisionIds
from svc.model.session.request import SessionRequest
from svc.policy.compile import compile_policy
from svc.policy.entities import Facts, GroupFacts, PersonFacts, ResourceFacts, entities_of
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.proxy.sessions.asker import SessionAsker
from svc.proxy.sessions.gate import Gate
from svc.proxy.sessions.gated import GatedOpen

WEB = load_kinds(["web"], KindSide.GATE).by_name["web"]
ADA = "a" * 26
FACTS: tuple[Facts, ...] = (
    GroupFacts("ops"),
    PersonFacts(ADA, "ada", ("ops",)),
    ResourceFacts("board", "WebApp", "web"),
)
POLICY = """
@id("recent") permit (principal in Group::"ops", action in Action::"use", resource is WebApp)
when { context has mfa_age_seconds && context.mfa_age_seconds < 900 };
"""
FACTS_OF_REQUEST: dict[str, Any] = {"method": "GET", "path": "/", "upgrade": False}


class GateFactorTests(SynchronousTestCase):
    """Ada presented one at 1000."""

    async def _apart(self, work: str, data: bytes, person: str) -> bytes:
        raise SvcError("no kind here has such work", reason="apart_failed")

    def setUp(self) -> None:
        words = vocabulary(kind_terms(WEB.terms))
        engine = compile_policy(POLICY, words, entities_of(FACTS, "gate.example"), 1, 1)
        self.now = 1000.0
        self.gate = Gate(
            engine=lambda: engine,
            kinds={"web": WEB},
            now=lambda: self.now,
            entropy=bytes,
            on_decision=lambda kind, word: None,
            request_ids=DecisionIds("p" * 26, lambda: self.now, bytes),
            apart=self._apart,
        )
        request = SessionRequest(
            cluster="gate.example",
            session_uid="1" * 32,
            resource="board",
            kind="web",
            action="webConnect",
            proxy_id="p" * 26,
            issued_at_ms=1000,
            certificate_sha256=bytes(32),
            half=bytes(32),
        )
        self.opened = GatedOpen(request, WEB, ADA, source_address="", factor_at=1000)

    def outcomes(self, opened: GatedOpen) -> list[bool]:
        """Whether a session may be opened, may go on, and a request in it may pass."""
        asker = SessionAsker(ADA, opened.factor_at)
        may_open = self.gate.decide_open(opened.request, WEB, asker, "").decision == "allow"
        goes_on = self.gate.still_allows(opened.request, WEB, asker, "")
        decided = self.gate.decide_request(opened, "webAccess", FACTS_OF_REQUEST)
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

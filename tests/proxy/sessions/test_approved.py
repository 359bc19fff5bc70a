"""Requests inside a session that an approval allows, as the Proxy decides them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError, Unavailable
from svc.messages.access import (
    ApprovalForRequests,
    read_use_approval,
    use_approval_response,
)
from svc.model.policy.requested import ApprovedAccess, known_command, request_command
from svc.model.policy.requests import NAMED_PERSON
from svc.model.signing import Signed
from svc.policy.compile import compile_policy
from svc.policy.entities import Facts, GroupFacts, PersonFacts, entities_of
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.proxy.sessions.gate import CONFIRMED_SECS
from svc.proxy.sessions.gated import GatedOpen, GatedRequest
from svc.proxy.uplink.approvals import SessionApprovals
from tests.proxy.sessions.board import BOARD, REQUEST, WEB, board_gate, board_policy

ADA, BOB = "a" * 26, "b" * 26
FACTS: tuple[Facts, ...] = (
    GroupFacts("ops"),
    PersonFacts(ADA, "ada", ("ops",)),
    PersonFacts(BOB, "bob"),
    BOARD,
)
POLICY = """
@id("see") permit (principal in Group::"ops", action == Action::"view", resource is WebApp);
@id("use") @requestable permit (principal, action == Action::"webAccess", resource)
when { context has approved_request };
@id("act") permit (principal, action == Action::"actAs", resource);
@id("never") forbid (principal, action == Action::"webAccess", resource)
when { context has path && context.path == "/never" };
"""
APPROVED = ApprovedAccess(request_id="r1", approver=BOB, ends_at=100)
GRANT = Signed(b"a grant", b"a signature", (b"a certificate",))
HINT = "svc request board --action webAccess"


class Channel:
    """Authority's answers; a test says which."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bool]] = []
        self.answer: ApprovalForRequests | SvcError = ApprovalForRequests(None)

    async def unary(self, method: str, message: Any, kind: Any, timeout: float) -> Any:
        ask = read_use_approval(message)
        assert ask.grant == GRANT
        self.asked.append((ask.action, ask.text_sha256, ask.only_exact))
        if isinstance(self.answer, SvcError):
            raise self.answer
        return use_approval_response(self.answer)


class ApprovedTests(SynchronousTestCase):
    """Requests of ada's to the board."""

    def setUp(self) -> None:
        engine = board_policy(POLICY, FACTS)
        self.now = 1.0
        self.counted: list[tuple[str, str]] = []
        self.gate = board_gate(
            lambda: engine, lambda: self.now, lambda kind, word: self.counted.append((kind, word))
        )
        self.opened = self.open()
        self.clock, self.channel = Clock(), Channel()
        channel: Any = self.channel
        self.approvals = SessionApprovals(GRANT, lambda: channel, self.clock)

    def open(self, person: str = ADA, approved: ApprovedAccess | None = None) -> GatedOpen:
        return GatedOpen(
            REQUEST, WEB, person_id=person, source_address="192.0.2.1", approved=approved
        )

    def decided(
        self,
        path: str = "/",
        approved: ApprovedAccess | None = None,
        text: bytes = b"",
        **facts: Any,
    ) -> GatedRequest:
        given = {"method": "GET", "path": path, "upgrade": False, **facts}
        found = None if approved is None else ApprovalForRequests(approved)
        decided = self.gate.decide_request(self.opened, "webAccess", given, found, text)
        assert isinstance(decided, GatedRequest)
        return decided

    def used(self, text: bytes = b"", method: str = "GET") -> GatedRequest:
        """A request as the session decides it, with Authority at hand."""

        async def write(decided: Any, uid: str) -> None:
            """It is durable."""

        session = self.gate.session(self.opened, {}, write, self.approvals.use)
        facts: dict[str, Any] = {"method": method, "path": "/", "upgrade": False}
        denied = self.gate.decide_request(self.opened, "webAccess", facts, None, text)
        assert isinstance(denied, GatedRequest)
        found: list[Any] = []
        decided = session._approved(denied, "webAccess", facts, text)
        Deferred.fromCoroutine(decided).addBoth(found.append)
        request: GatedRequest = found[0]
        return request

    def still_allows(self, facts: dict[str, Any], stood: GatedRequest | None = None) -> bool:
        """Whether a running request may go on."""
        approved = None if stood is None else stood.approved
        return self.gate.still_allows_request(self.opened, "webAccess", facts, approved)

    def test_a_denial_says_how_to_ask(self) -> None:
        """Only where an approval would turn it, and to who may view the resource."""
        self.assertEqual((self.decided().decision, self.decided().request_hint), ("deny", HINT))
        self.assertEqual(self.decided("/never").request_hint, "")
        self.opened = self.open(BOB)
        self.assertEqual((self.decided().decision, self.decided().request_hint), ("deny", ""))

    def test_an_approval_for_one_request(self) -> None:
        """What Authority counted for a request is for that one, and is its fact on record."""
        decided = self.decided(approved=APPROVED)
        self.assertEqual((decided.decision, decided.request_hint), ("allow", ""))
        self.assertEqual(decided.request.context["approved_request"], APPROVED.fact)
        self.assertEqual(self.decided().decision, "deny")
        self.assertEqual(self.decided("/never", APPROVED).decision, "deny")

    def test_an_approved_session(self) -> None:
        """The approval that a session stands on covers its requests, until it ends."""
        self.opened = self.open(approved=APPROVED)
        self.assertEqual(self.decided().decision, "allow")
        self.now = 100.0
        self.assertEqual(self.decided().decision, "deny")

    def test_nobody_approved_anything_for_the_one_who_is_named(self) -> None:
        """A request that is made as another person is allowed to that one without it."""
        named: dict[str, Any] = {NAMED_PERSON: "bob"}
        self.assertEqual(self.decided(approved=APPROVED, **named).decision, "deny")

    def test_uses(self) -> None:
        """Authority is asked each time for a limited approval, and once for an unlimited one."""
        facts: dict[str, Any] = {"method": "GET", "path": "/", "upgrade": False}
        self.channel.answer = ApprovalForRequests(APPROVED, lasting=False)
        used = self.used()
        self.assertEqual((used.decision, self.opened.lasting), ("allow", {}))
        self.assertEqual(self.channel.asked, [("webAccess", "", False)])
        self.assertTrue(self.still_allows(facts, used))
        self.assertFalse(self.still_allows(facts))
        self.assertEqual(self.decided().decision, "deny")
        self.channel.answer = ApprovalForRequests(APPROVED, lasting=True)
        self.used()
        self.assertEqual(self.decided().decision, "allow")
        self.now = 1.0 + CONFIRMED_SECS
        self.assertEqual(self.decided().decision, "allow")
        self.now = 1.5 + CONFIRMED_SECS
        self.assertEqual(self.decided().decision, "deny", "Authority is to be asked again")
        self.now = 100.0
        self.assertFalse(self.still_allows(facts, used))

    def test_another_use_keeps_no_lasting_approval(self) -> None:
        """One for a single request does not stand in for a lasting one that was taken back."""
        self.channel.answer = ApprovalForRequests(APPROVED, lasting=True)
        self.assertEqual(self.used().decision, "allow")
        self.now = 1.5 + CONFIRMED_SECS
        single = evolve(APPROVED, request_id="r2")
        for path, word in (("/never", "deny"), ("/", "allow")):
            self.assertEqual(self.decided(path, single).decision, word)
            self.assertEqual(self.decided().decision, "deny")

    def test_a_running_request_goes_on_by_what_it_stood_on(self) -> None:
        """The exact approval of another text does not keep it once the policy wants one of it."""
        words = vocabulary(kind_terms(WEB.terms))
        plain = '@id("all") permit (principal, action == Action::"webAccess", resource);'
        exact = """@id("writes") forbid (principal, action == Action::"webAccess", resource)
            unless { context has approved_request && context.approved_request has exact };"""
        lax, strict = (
            compile_policy(POLICY + more, words, entities_of(FACTS, "gate.example"), version, 1)
            for version, more in enumerate((plain, exact), 1)
        )
        self.gate.engine = lambda: strict
        self.channel.answer = ApprovalForRequests(evolve(APPROVED, exact=True))
        delete: dict[str, Any] = {"method": "DELETE", "path": "/", "upgrade": False}
        deleting = self.used(b"DELETE /", "DELETE")
        self.gate.engine = lambda: lax
        watching = self.decided("/watch")
        self.assertEqual((deleting.decision, watching.decision), ("allow", "allow"))
        self.gate.engine = lambda: strict
        watch: dict[str, Any] = {"method": "GET", "path": "/watch", "upgrade": False}
        self.assertFalse(self.still_allows(watch, watching))
        self.assertTrue(self.still_allows(delete, deleting))

    def test_counted_once(self) -> None:
        """A request counts as what came of it, also where an approval has turned its denial."""

        async def write(decided: Any, uid: str) -> None:
            """It is durable."""

        facts: dict[str, Any] = {"method": "GET", "path": "/", "upgrade": False}
        for answer, word in ((None, "deny"), (APPROVED, "allow")):
            self.clock.advance(3)
            self.counted.clear()
            self.channel.answer = ApprovalForRequests(answer)
            session = self.gate.session(self.open(), {}, write, self.approvals.use)
            session.requests.dataReceived(b"GET / HTTP/1.1")
            found: list[Any] = []
            deciding = session.decide("webAccess", facts, 14)
            Deferred.fromCoroutine(deciding).addBoth(found.append)
            self.assertEqual((found[0].allowed, self.counted), (word == "allow", [("web", word)]))

    def test_an_exact_text(self) -> None:
        """Where the policy wants one, the denial names itself, and only that fact turns it."""
        words = vocabulary(kind_terms(WEB.terms))
        text = POLICY.replace(
            "{ context has approved_request }",
            "{ context has approved_request && context.approved_request has exact }",
        )
        engine = compile_policy(text, words, entities_of(FACTS, "gate.example"), 1, 1)
        self.gate.engine = lambda: engine
        without = self.decided()
        self.assertEqual((without.request_hint, without.lacks_text), ("", True))
        denied = self.decided(text=b"GET /")
        self.assertFalse(denied.lacks_text)
        self.assertEqual(denied.request_hint, f"svc request --decision {denied.decision_id}")
        self.assertEqual(known_command(denied.request_hint), denied.request_hint)
        self.assertEqual(self.decided(text=b"GET /" + b"x" * 8192).request_hint, "")
        self.assertEqual(self.decided(text=b"GET /\xff").request_hint, "")
        self.assertFalse(self.decided("/never").lacks_text)
        self.assertEqual(self.decided(approved=APPROVED, text=b"GET /").decision, "deny")
        exact = evolve(APPROVED, exact=True)
        self.channel.answer = ApprovalForRequests(exact)
        used = self.used(b"GET /")
        self.assertEqual(used.decision, "allow")
        self.assertIs(exact.fact["exact"], True)
        self.assertEqual(used.request.context["approved_request"], exact.fact)
        digest = sha256(b"GET /").hexdigest()
        self.assertEqual(self.channel.asked, [("webAccess", digest, True)])

    def test_reads_by_any_approval_and_writes_by_an_exact_one(self) -> None:
        """A write asks for an exact approval alone, and neither sort stands in for the other."""
        words = vocabulary(kind_terms(WEB.terms))
        text = f"""{POLICY}
            @id("writes") forbid (principal, action == Action::"webAccess", resource)
            when {{ context has method && context.method == "DELETE" }}
            unless {{ context has approved_request && context.approved_request has exact }};
        """
        engine = compile_policy(text, words, entities_of(FACTS, "gate.example"), 1, 1)
        self.gate.engine = lambda: engine
        exact = evolve(APPROVED, request_id="r2", exact=True)
        delete: dict[str, Any] = {"method": "DELETE", "path": "/", "upgrade": False}
        self.assertEqual(self.used(b"DELETE /", "DELETE").decision, "deny")
        self.assertEqual([one[2] for one in self.channel.asked], [True])
        # That there was none of the text says nothing about the action.
        self.channel.answer = ApprovalForRequests(APPROVED)
        self.assertEqual(self.used(b"GET /").decision, "allow")
        self.assertEqual([one[2] for one in self.channel.asked], [True, False])
        self.clock.advance(3)
        self.channel.answer = ApprovalForRequests(exact)
        deleting = self.used(b"DELETE /", "DELETE")
        self.assertEqual(deleting.decision, "allow")
        # Another approval, whether it turns its request or not, does not cut the running one.
        self.channel.answer = ApprovalForRequests(APPROVED, lasting=True)
        self.assertEqual(self.used(b"DELETE /2", "DELETE").decision, "deny")
        self.assertEqual(self.opened.lasting, {})
        self.assertEqual(self.used(b"GET /").decision, "allow")
        self.assertTrue(self.still_allows(delete, deleting))
        self.now = 100.0
        self.assertFalse(self.still_allows(delete, deleting))

    def test_another_exact_text(self) -> None:
        """Where Authority says that another text is approved, the next one is asked for at once."""
        self.channel.answer = ApprovalForRequests(None, exact=True)
        self.assertEqual((self.used(b"1").decision, self.used(b"2").decision), ("deny", "deny"))
        self.assertEqual(len(self.channel.asked), 2)
        self.channel.answer = ApprovalForRequests(None)
        self.assertEqual((self.used(b"1").decision, self.used(b"2").decision), ("deny", "deny"))
        self.assertEqual(len(self.channel.asked), 3)

    def test_no_approval(self) -> None:
        """A refusal, silence and "none" deny alike, and are not asked for at every request."""
        for answer in (
            ApprovalForRequests(None),
            Unavailable("away", reason="authority_unreachable"),
        ):
            self.channel.answer = answer
            self.channel.asked.clear()
            self.assertEqual({self.used().decision, self.used().decision}, {"deny"})
            self.assertEqual(len(self.channel.asked), 1)
            self.clock.advance(3)


class CommandTests(SynchronousTestCase):
    def test_what_a_person_may_be_told_to_type(self) -> None:
        """What is made is known again; nothing that a shell would read anything into is."""
        made = (
            request_command("board"),
            request_command("db1", "dbQuery"),
            request_command("host1", parameters={"login_user": "deploy", "port": "22"}),
        )
        for text in made:
            self.assertEqual(known_command(text), text)
        for text in (
            "",
            "svc request",
            "svc request board; rm -rf /",
            "svc request $(id)",
            "svc request board\nrm",
            "svc request -board",
            "curl example",
            request_command("host1", parameters={"login_user": "a b"}),
        ):
            self.assertEqual(known_command(text), "", text)

"""Requests for access to one exact text: asked for, shown, approved, used once (rule R30)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import evolve

from svc.authority.access.approved import UsedApproval
from svc.errors import Malformed
from svc.messages.access import AccessEntry, ApprovalAsk
from svc.model.cluster.person import Person
from svc.model.cluster.resource import Resource
from svc.model.policy.approval import ApprovalDecision
from svc.model.policy.requested import AccessAsk
from svc.model.signing import Signed
from tests.authority.access.test_requests import ZED
from tests.authority.access.test_requests import Case as RequestCase
from tests.authority.house import ADA, EVE, Holder, House, refusal_of, value_of

POLICY = """
@id("sees") permit (principal, action in [Action::"view", Action::"dbConnect"],
resource is Database);
@id("by-text") @requestable permit (principal, action == Action::"dbQuery", resource is Database)
when { context has approved_request && context.approved_request has exact &&
       context has effects && !context.effects.contains("ddl") };
@id("reads-on-request") @requestable
permit (principal, action == Action::"dbQuery", resource is Database)
when { context has approved_request }
unless { context has effects && context.effects.contains("write") };
@id("dev-approves")
permit (principal in Group::"dev", action == Action::"approveAccess", resource);
"""
SEES = POLICY.partition('@id("by-text")')[0]
EXACT_ONLY = f"""{SEES}
@id("by-text") @requestable permit (principal, action == Action::"dbQuery", resource is Database)
when {{ context has approved_request && context.approved_request has exact &&
       context has effects && !context.effects.contains("ddl") }};
"""
BY_EFFECTS = f"""{SEES}
@id("by-effects") @requestable permit (principal, action == Action::"dbQuery", resource is Database)
when {{ context has effects && context.effects.contains("write") && context has approved_request }};
"""
TEXT = b"DELETE FROM orders WHERE id = 7"
DIGEST = sha256(TEXT).hexdigest()
OTHER = sha256(TEXT + b" ").hexdigest()
SESSION = {"database": "shop", "db_role": "app"}


class ExactTests(RequestCase):
    """Ada of the group dev approves; Eve may open sessions on orders, and query nothing."""

    def setUp(self) -> None:
        self.begin(POLICY)

    def begin(self, policy: str) -> None:
        self.house = house = House(policy)

        def add(tx: Any) -> None:
            resource = Resource(
                id="orders", kind="postgres", labels={}, assigned_to=house.connector.id
            )
            tx.catalog.add(resource, 1.0)

        house.run(add)
        house.refresh()
        house.serve("orders")
        self.requests, self.issuance = house.requests(), house.issuance()
        self.uses = house.request_approvals()
        self.proxy = house.row(house.proxy)

    def ask(self, who: str = EVE, resource: str = "orders", **more: Any) -> AccessEntry:
        fields = {"action": "dbQuery", "parameters": SESSION, "text": TEXT, "uses": 1}
        return super().ask(who, resource, **{**fields, **more})

    def session(self, who: Holder | None = None, **parameters: str) -> Signed:
        """The grant of one that is open."""
        ask = self.house.ask(
            who or self.house.eve,
            "orders",
            kind="postgres",
            action="dbConnect",
            parameters={**SESSION, **parameters},
            half=b"h" * 32,
        )
        answer = value_of(self.issuance.authorize(ask, self.proxy))
        assert answer.grant is not None, answer.reason
        grant: Signed = answer.grant
        return grant

    def used(
        self,
        session: Signed,
        digest: str = DIGEST,
        only_exact: bool = False,
        action: str = "dbQuery",
    ) -> Any:
        ask = ApprovalAsk(grant=session, action=action, text_sha256=digest, only_exact=only_exact)
        return value_of(self.uses.use(ask, self.proxy))

    def shown(self, entry: AccessEntry, who: str = ADA) -> AccessEntry:
        found = value_of(self.requests.show(self.asker(who), str(entry.terms["id"])))
        assert isinstance(found, AccessEntry)
        return found

    def test_this_text_once(self) -> None:
        """An approval of a text covers its bytes, in such a session of that person, once."""
        entry = self.ask()
        self.assertEqual((entry.exact_text, entry.terms["text_sha256"]), (TEXT, DIGEST))
        self.assertEqual(self.shown(entry).exact_text, TEXT)
        (listed,) = value_of(self.requests.to_decide(self.asker(ADA)))
        self.assertEqual((listed.text, listed.document), (b"", entry.document))
        session = self.session()
        found = self.used(session)
        self.assertEqual((found.approved, found.exact), (None, False), "asking gives nothing")
        self.decide(entry, self.house.ada)
        for digest in (OTHER, ""):
            found = self.used(session, digest)
            self.assertEqual((found.approved, found.exact), (None, digest == OTHER))
        for other in (self.session(self.house.ada), self.session(database="other")):
            self.assertIsNone(self.used(other).approved)
        self.assertIsNone(self.used(session, action="dbQueryOpaque").approved)
        found = self.used(session)
        self.assertEqual((found.approved.approver, found.lasting), (ADA, False))
        self.assertIs(found.approved.fact["exact"], True)
        again = self.used(session)
        self.assertEqual((again.approved, again.exact), (None, False))
        facts = value_of(self.house.approvals().facts_of(self.uid_of(session), "dbQuery"))
        self.assertEqual(facts, [UsedApproval(found.approved.fact, 1)])
        self.assertEqual(self.shown(entry).state, "used")

    def test_the_actions_approval_is_not_used_for_nothing(self) -> None:
        """Where only an approval of the text would do, one of the action keeps its uses."""
        self.decide(self.ask(text=b"", parameters={}, uses=2), self.house.ada)
        session = self.session()
        for _ in range(2):
            found = self.used(session, only_exact=True)
            self.assertEqual((found.approved, found.exact), (None, False))
        self.assertEqual(self.house.records("access.use"), [])
        self.assertIs(self.used(session).approved.exact, False)
        self.decide(self.ask(), self.house.ada)
        self.assertIs(self.used(session, only_exact=True).approved.exact, True)

    def test_its_records(self) -> None:
        """Each of them has the digest as a personal value; none has the text."""
        self.decide(self.ask(), self.house.ada)
        self.used(self.session())
        for event in ("access.request", "access.approve", "access.use"):
            (record,) = self.house.records(event)
            self.assertEqual(list(record["details"]["text_sha256"]), ["personal"], event)
        self.assertNotIn("DELETE", str(self.house.records()))

    def test_the_text_is_kept_no_longer_than_it_is_of_use(self) -> None:
        """Once it was used, denied, withdrawn or has ended, the store has it no more."""

        def kept() -> set[str]:
            def look(tx: Any) -> set[str]:
                return {one.id for one in tx.access.unexpired(0.0) if one.sealed_text}

            found: set[str] = self.house.run(look)
            return found

        used, denied, withdrawn, ended = (self.ask(reason=str(n)) for n in range(4))
        self.assertEqual(len(kept()), 4)
        self.decide(used, self.house.ada)
        self.used(self.session())
        self.decide(denied, self.house.ada, decision=ApprovalDecision.DENY)
        value_of(self.requests.withdraw(self.asker(EVE), str(withdrawn.terms["id"])))
        self.assertEqual(kept(), {ended.terms["id"]})
        self.assertEqual(self.shown(denied).text, b"")
        self.assertRaises(Malformed, lambda: self.shown(denied).exact_text)
        self.house.clock.advance(24 * 3600 + 1)
        last = self.ask()
        self.assertEqual(kept(), {last.terms["id"]})
        self.assertEqual(value_of(self.requests.sweep()), 1)
        self.house.clock.advance(24 * 3600 + 1)
        self.assertEqual((value_of(self.requests.sweep()), kept()), (0, set()))

        def rows(tx: Any) -> int:
            return len(tx.access.unexpired(0.0))

        self.assertEqual(self.house.run(rows), 5)
        self.house.clock.advance(30 * 24 * 3600)
        value_of(self.requests.sweep())
        self.assertEqual(self.house.run(rows), 0)

    def test_changed_by_sql(self) -> None:
        """Another digest is not in force; another text, or one moved here, is not shown."""
        one, two = self.ask(), self.ask(text=b"DROP TABLE orders")
        self.decide(one, self.house.ada)
        session = self.session()
        ids = [str(entry.terms["id"]) for entry in (one, two)]
        put = "UPDATE access_requests SET text_sha256 = '{}' WHERE id = '{}'"
        self.house.by_sql(put.format(OTHER, ids[0]))
        for digest in (DIGEST, OTHER):
            self.assertIsNone(self.used(session, digest).approved)
        self.house.by_sql(put.format("", ids[0]))
        self.assertIsNone(self.used(session, "").approved)
        self.house.by_sql(put.format(DIGEST, ids[0]))
        self.assertEqual(self.shown(two).exact_text, b"DROP TABLE orders")
        self.house.by_sql(
            "UPDATE access_requests SET sealed_text = (SELECT sealed_text FROM access_requests "
            f"WHERE id = '{ids[0]}') WHERE id = '{ids[1]}'"
        )
        self.assertEqual(self.shown(two).text, b"")
        self.house.by_sql(f"UPDATE access_requests SET sealed_text = x'01' WHERE id = '{ids[1]}'")
        self.assertEqual(self.shown(two).text, b"")
        self.assertIsNotNone(self.used(session).approved)

    def test_another_persons_approval_by_sql(self) -> None:
        """A row that says whose session it is, and of which resource, is not believed (rule R8)."""
        self.house.run(lambda tx: tx.people.add(Person(ZED, "zed", groups=("dev",)), 1.0))
        zed = self.house.person(ZED)
        self.house.refresh()
        self.decide(self.ask(ADA, text=b"", parameters={}, uses=None), zed)
        self.decide(self.ask(ADA), zed)
        session = self.session()
        for digest in ("", DIGEST):
            self.assertIsNone(self.used(session, digest).approved, "before")
        for change in (
            f"UPDATE sessions SET person_id = '{ADA}'",
            "UPDATE sessions SET resource_id = 'db1'",
            f"UPDATE sessions SET connector_id = '{'o' * 26}'",
            f"UPDATE sessions SET proxy_id = '{'o' * 26}'",
        ):
            self.house.by_sql(change)
            for digest in ("", DIGEST):
                self.assertIsNone(self.used(session, digest).approved, change)
        self.assertEqual(self.house.records("access.use"), [])
        self.decide(self.ask(), self.house.ada)
        self.used(session)
        (record,) = self.house.records("access.use")
        self.assertEqual((record["actor"]["id"], record["resource_id"]), (EVE, "orders"))
        self.assertEqual(record["node_id"], self.proxy.id)

    def test_another_sessions_parameters_by_sql(self) -> None:
        """An approval for one database and role passes in no session of another (rule R30)."""
        self.decide(self.ask(), self.house.ada)
        right, wrong = self.session(), self.session(database="other", db_role="admin")
        found = self.used(wrong)
        self.assertEqual((found.approved, found.exact), (None, True))
        self.house.by_sql(
            "UPDATE sessions SET decision_id = (SELECT decision_id FROM sessions WHERE uid = "
            f"'{self.uid_of(right)}') WHERE uid = '{self.uid_of(wrong)}'"
        )
        ask = ApprovalAsk(grant=wrong, action="dbQuery", text_sha256=DIGEST)
        refusal = refusal_of(self.uses.use(ask, self.proxy))
        self.assertEqual(refusal.reason, "unknown_session")
        self.assertEqual(self.house.records("access.use"), [])
        self.assertIsNotNone(self.used(right).approved)

    def test_an_altered_record_of_the_opening(self) -> None:
        """Parameters that somebody wrote into the record of a session are not believed."""
        self.decide(self.ask(), self.house.ada)
        session = self.session(db_role="admin")
        self.house.by_sql(
            "UPDATE audit_log SET canonical = replace(canonical, '\"admin\"', '\"app\"') "
            "WHERE event = 'session.start'"
        )
        ask = ApprovalAsk(grant=session, action="dbQuery", text_sha256=DIGEST)
        refusal = refusal_of(self.uses.use(ask, self.proxy))
        self.assertEqual(refusal.reason, "unknown_session")

    def test_another_text_is_shown(self) -> None:
        """A Proxy that shows an approver another text is found out before anything is signed."""
        entry = evolve(self.ask(), text=b"SELECT 1")
        with self.assertRaises(Malformed):
            entry.exact_text  # noqa: B018

    def test_refused(self) -> None:
        """What nobody could read or use is not filed."""
        changes: tuple[dict[str, Any], ...] = (
            {"uses": None},
            {"text": b"\xff"},
            {"text": b"x" * 8193},
            {"parameters": {}},
            {"parameters": {"database": "shop"}},
            {"action": "dbConnect"},
            {"action": ""},
        )
        for more in changes:
            with self.subTest(more):
                fields = {"action": "dbQuery", "parameters": SESSION, "text": TEXT, "uses": 1}
                refusal = self.not_asked(resource="orders", **{**fields, **more})
                self.assertEqual(refusal.reason, "bad_request")
        ask = AccessAsk(
            resource="orders",
            action="dbQueryOpaque",
            parameters=SESSION,
            text=TEXT,
            uses=1,
            secs=60,
        )
        refusal = refusal_of(self.requests.ask(self.asker(EVE), ask, request_id="1" * 32))
        self.assertEqual(refusal.reason, "not_requestable")

    def test_the_other_way_is_named(self) -> None:
        """Who asks for an action that is approved text by text is told how to ask for the text."""
        self.begin(EXACT_ONLY)
        refusal = self.not_asked(resource="orders", action="dbQuery")
        self.assertEqual(refusal.reason, "not_requestable")
        self.assertIn("svc request --decision ID", refusal.text)
        self.assertEqual(self.ask().state, "open")
        refusal = self.not_asked(resource="orders", action="dbQueryOpaque")
        self.assertEqual(
            (refusal.reason, refusal.text),
            ("not_requestable", "orders: no policy lets anybody approve this"),
        )

    def test_what_a_statement_does_is_not_known_yet(self) -> None:
        """An action can be asked for whose permit looks at the statement, as the denial says."""
        self.begin(BY_EFFECTS)
        entry = self.ask(text=b"", parameters={})
        self.assertEqual(entry.state, "open")
        # Not where only what needs no request looks at the statement.
        plain = BY_EFFECTS.replace("&& context has approved_request", "")
        self.begin(f"{plain.replace(' @requestable', '')}{EXACT_ONLY[len(SEES) :]}")
        refusal = self.not_asked(resource="orders", action="dbQuery")
        self.assertIn("only one exact request of dbQuery", refusal.text)


del RequestCase

"""Requests for access: asked for by one person, decided by another, used by sessions."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.access.records import Asker
from svc.authority.access.uses import RequestApprovals
from svc.authority.state.recorder import person
from svc.errors import SvcError
from svc.messages.access import AccessEntry, ApprovalAsk
from svc.messages.control import AuthorizeAnswer, answer_message
from svc.messages.session import decode_grant, encode_grant
from svc.model.audit.events import SESSION_START
from svc.model.audit.ledger import ChainRow
from svc.model.cluster.node import Node
from svc.model.cluster.person import Person
from svc.model.cluster.resource import Resource
from svc.model.ids import random_id
from svc.model.policy.access import EntityUid
from svc.model.policy.approval import Approval, ApprovalDecision, ApprovalKind, encode_approval
from svc.model.policy.requested import MAX_OPEN, AccessAsk
from svc.model.policy.requests import context_at, may_open
from svc.model.session.grant import Grant
from svc.model.session.session import Session
from svc.model.signing import Purpose, Signed, sign
from tests.authority.house import ADA, EVE, POLICY, Holder, House, outcome, refusal_of, value_of
from tests.pki.support import CLUSTER

ZED = "z" * 26
SECRET = {"zone": "secret"}
POLICY = f"""{POLICY}
@id("everybody-sees-prod1")
permit (principal, action == Action::"view", resource == TcpService::"prod2");
@id("prod2-on-request") @requestable @reason("ask the on-call lead")
permit (principal, action == Action::"tcpConnect", resource == TcpService::"prod2")
when {{ context has approved_request }};
@id("ops-approve")
permit (principal in Group::"dev", action == Action::"approveAccess", resource);
@id("never-at-night")
forbid (principal, action == Action::"tcpConnect", resource == TcpService::"prod2")
when {{ context has proxy_reported && context.proxy_reported has source_address &&
        context.proxy_reported.source_address == ip("198.51.100.1") }};
@id("vault-on-request") @requestable
permit (principal, action == Action::"tcpConnect", resource == TcpService::"vault1")
when {{ context has approved_request }};
"""


class SlowOffers:
    """Holds back what was found until it is told to go on."""

    def __init__(self, offers: Any) -> None:
        self._offers = offers
        self._waiting: list[Deferred[None]] | None = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._offers, name)

    async def approved(self, *what: Any) -> Any:
        found = await self._offers.approved(*what)
        if self._waiting is not None:
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting
        return found

    def let_on(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for one in waiting:
            one.callback(None)


class Case(SynchronousTestCase):
    """Ada of the group dev approves; Eve asks for prod2."""

    def setUp(self) -> None:
        self.house = house = House(POLICY)

        def add(tx: Any) -> None:
            tx.people.add(Person(ZED, "zed", groups=("dev",)), 1.0)
            tx.catalog.add(
                Resource(id="prod2", kind="tcp", labels=SECRET, assigned_to=house.connector.id), 1.0
            )

        house.run(add)
        self.zed = house.person(ZED)
        house.refresh()
        house.serve("db1", "prod1", "prod2", "vault1")
        self.requests, self.issuance = house.requests(), house.issuance()
        self.proxy = house.row(house.proxy)

    opened_by_hand = 0

    def asker(self, id: str) -> Asker:
        return Asker(self.house.state_cache.state.people[id], self.proxy.id)

    def ask(self, who: str = EVE, resource: str = "prod2", **more: Any) -> AccessEntry:
        ask = AccessAsk(resource=resource, **{"secs": 3600, **more})
        entry = value_of(
            self.requests.ask(self.asker(who), ask, request_id=random_id(self.requests.entropy))
        )
        assert isinstance(entry, AccessEntry)
        return entry

    def not_asked(self, who: str = EVE, resource: str = "prod2", **more: Any) -> SvcError:
        ask = AccessAsk(resource=resource, **{"secs": 3600, **more})
        return refusal_of(
            self.requests.ask(self.asker(who), ask, request_id=random_id(self.requests.entropy))
        )

    def signed(
        self,
        entry: AccessEntry,
        holder: Holder,
        decision: ApprovalDecision = ApprovalDecision.APPROVE,
        **changes: Any,
    ) -> Signed:
        made_at = int(self.house.now())
        approval = Approval(
            cluster=CLUSTER,
            kind=ApprovalKind.ACCESS,
            subject=str(entry.terms["id"]),
            document_sha256=entry.document_sha256,
            decision=decision,
            approver=holder.id,
            certificate_sha256=holder.sha256,
            made_at=made_at,
            expires_at=made_at + int(str(entry.terms["secs"])),
        )
        data = encode_approval(evolve(approval, **changes))
        return Signed(data, sign(holder.key, Purpose.APPROVAL, data), holder.chain)

    def decide(self, entry: AccessEntry, holder: Holder, **more: Any) -> AccessEntry:
        signed = self.signed(entry, holder, **more)
        decided = self.requests.decide(self.asker(holder.id), str(entry.terms["id"]), signed)
        result = value_of(decided)
        assert isinstance(result, AccessEntry)
        return result

    def not_decided(self, entry: AccessEntry, holder: Holder, **more: Any) -> str:
        signed = self.signed(entry, holder, **more)
        decided = self.requests.decide(self.asker(holder.id), str(entry.terms["id"]), signed)
        return refusal_of(decided).reason

    def open(
        self, who: Holder | None = None, resource: str = "prod2", said: str = "deny", **more: Any
    ) -> AuthorizeAnswer:
        ask = self.house.ask(who or self.house.eve, resource, said, **more)
        answer = value_of(self.issuance.authorize(ask, self.proxy))
        assert isinstance(answer, AuthorizeAnswer)
        return answer

    def open_session(self) -> Signed:
        """The grant of a session of eve's on prod2, which stands on no approval."""
        self.opened_by_hand += 1
        uid = decision_id = f"{self.opened_by_hand:032x}"
        target = EntityUid("TcpService", "prod2")
        asked = may_open("connect", "tcpConnect", EVE, target, context_at(self.house.now()))
        session = Session(
            uid=uid,
            person_id=EVE,
            resource_id="prod2",
            kind="tcp",
            connector_id=self.house.connector.id,
            proxy_id=self.proxy.id,
            decision_id=decision_id,
            started_at=self.house.now(),
        )

        def insert(tx: Any) -> ChainRow:
            tx.sessions.insert(session)
            return self.house.recorder.append(
                tx,
                SESSION_START,
                person(EVE),
                session_uid=uid,
                resource_id="prod2",
                decision="allow",
                decision_id=decision_id,
                request=asked,
            )

        row = self.house.run(insert)
        now_ms = int(self.house.now() * 1000)
        resource = self.house.state_cache.state.catalog["prod2"]
        grant = Grant(
            cluster=CLUSTER,
            session_uid=uid,
            request_sha256=bytes(32),
            person_id=EVE,
            person_certificate_sha256=self.house.eve.sha256,
            resource="prod2",
            resource_revision=resource.revision,
            resource_identity=resource.identity,
            kind="tcp",
            connector_id=self.house.connector.id,
            proxy_id=self.proxy.id,
            policy_version=1,
            audit_hash=row.hash,
            issued_at_ms=now_ms,
            open_before_ms=now_ms + 30_000,
            end_before_ms=now_ms + 3_600_000,
        )
        return self.house.world.keys.signer(Purpose.GRANT)(encode_grant(grant))

    def uid_of(self, grant: Signed) -> str:
        return decode_grant(grant.payload).session_uid

    def used_by(self, uses: RequestApprovals, grant: Signed, action: str = "tcpConnect") -> Any:
        """What a Proxy hears that asks for a request of a session."""
        return value_of(uses.use(ApprovalAsk(grant=grant, action=action), self.proxy))

    def not_used_by(self, uses: RequestApprovals, grant: Signed, proxy: Node | None = None) -> str:
        """Why it hears of none."""
        ask = ApprovalAsk(grant=grant, action="tcpConnect")
        return refusal_of(uses.use(ask, proxy or self.proxy)).reason


class RequestTests(Case):
    def test_asked_approved_and_used_once(self) -> None:
        """A denial says how to ask; once another approves, one session opens, and no more."""
        denied = self.open()
        self.assertEqual((denied.reason, denied.request_hint), ("denied", "svc request prod2"))
        self.assertEqual(
            denied.text,
            "access denied, unless another person approves a request for it (ask the on-call lead)",
        )
        entry = self.ask(uses=1, reason="incident 7")
        self.assertEqual((entry.state, entry.terms["person_name"]), ("open", "eve"))
        self.assertEqual(self.open().reason, "denied")
        approved = self.decide(entry, self.house.ada)
        self.assertEqual((approved.state, approved.decided_by), ("approved", "ada"))
        answer = self.open()
        assert answer.grant is not None
        assert answer.approved is not None
        self.assertEqual(answer.approved.approver, ADA)
        grant = decode_grant(answer.grant.payload)
        self.assertEqual(grant.end_before_ms, int(self.house.now() + 3600) * 1000)
        again = self.open()
        self.assertEqual((again.reason, again.request_hint), ("denied", "svc request prod2"))
        shown = value_of(self.requests.show(self.asker(EVE), str(entry.terms["id"])))
        self.assertEqual((shown.state, shown.used), ("used", 1))
        events = [one["event"] for one in self.house.records()]
        self.assertEqual(events.count("access.request"), 1)
        self.assertEqual(events.count("access.approve"), 1)
        (start,) = self.house.records("session.start")
        fact = start["request"]["context"]["approved_request"]
        self.assertEqual((fact["id"], fact["approver"]), (entry.terms["id"], ADA))
        self.assertEqual(self.house.access_told, ["asked", "approved", "used"])

    def test_a_session_that_an_approval_let_in_is_no_denial(self) -> None:
        """Its one record is its start, which says that the Proxy denied it by the policy alone."""
        self.decide(self.ask(uses=1), self.house.ada)
        before = len(self.house.records())
        answer = self.open()
        assert answer.grant is not None
        (start,) = self.house.records()[before:]
        self.assertEqual((start["event"], start["decision"]), ("session.start", "allow"))
        self.assertEqual(start["decision_id"], answer.decision_id)
        self.assertEqual(start["details"]["proxy_decision"], "deny")

    def test_of_two_sessions_at_once_one_has_the_last_use(self) -> None:
        """Two Proxies bring sessions at once for an approval of one use: one is granted."""
        self.decide(self.ask(uses=1), self.house.ada)
        first = self.house.ask(self.house.eve, "prod2", "deny")
        second = self.house.ask(self.house.eve, "prod2", "deny")
        # Both find it before either has used it.
        slow: Any = SlowOffers(self.issuance.offers)
        self.issuance.offers = slow
        answers = [outcome(self.issuance.authorize(one, self.proxy)) for one in (first, second)]
        self.assertEqual(answers, [[], []])
        slow.let_on()
        granted = [one[0].grant is not None for one in answers]
        self.assertEqual(sorted(granted), [False, True])
        (denied,) = (one[0] for one in answers if one[0].grant is None)
        self.assertEqual((denied.reason, denied.request_hint), ("denied", "svc request prod2"))

    def test_ids_are_shortened(self) -> None:
        """The beginning of an id is enough, if no other request that one may see begins so."""
        self.requests.entropy = lambda size: b"\xab" * size
        first = self.ask()

        def shown(who: str, word: str) -> Any:
            return self.requests.show(self.asker(who), word)

        for who in (EVE, ADA):
            self.assertEqual(value_of(shown(who, "abab")).terms["id"], "ab" * 16)
        for word in ("aba", "abac", "ab" * 15 + "ac"):
            self.assertEqual(refusal_of(shown(EVE, word)).reason, "unknown_request")
        self.requests.entropy = lambda size: b"\xab\xab".ljust(size, b"\xcd")
        second = self.ask(ADA)
        # Ada sees both; Eve, who may not decide about Ada's, only her own.
        self.assertEqual(value_of(shown(EVE, "abab")).terms, first.terms)
        refusal = refusal_of(shown(ADA, "abab"))
        self.assertEqual(refusal.reason, "ambiguous_id")
        self.assertIn(f"{'ab' * 16}, {second.terms['id']}", refusal.text)
        withdrawn = value_of(self.requests.withdraw(self.asker(EVE), "abab"))
        self.assertEqual((withdrawn.terms["id"], withdrawn.state), ("ab" * 16, "withdrawn"))
        self.house.clock.advance(2)
        gone = refusal_of(self.requests.withdraw(self.asker(EVE), "abab")).reason
        self.assertEqual(gone, "unknown_request")

    def test_expires(self) -> None:
        """What was approved for an hour opens nothing once the hour is over."""
        entry = self.ask()
        self.decide(entry, self.house.ada)
        self.assertIsNotNone(self.open().grant)
        self.house.clock.advance(3601)
        self.assertIsNone(self.open().grant)
        reason = refusal_of(self.requests.show(self.asker(EVE), str(entry.terms["id"]))).reason
        self.assertEqual(reason, "unknown_request")

    def test_own_approval(self) -> None:
        """Nobody approves their own request, by whatever right."""
        entry = self.ask(ADA)
        self.assertEqual(self.not_decided(entry, self.house.ada), "own_approval")
        self.assertIsNone(self.open(self.house.ada).grant)

    def test_no_right_to_approve(self) -> None:
        """Who may not decide about a request is told what an unknown id would be."""
        entry = self.ask(ADA)
        self.assertEqual(self.not_decided(entry, self.house.eve), "unknown_request")
        shown = refusal_of(self.requests.show(self.asker(EVE), str(entry.terms["id"])))
        unknown = refusal_of(self.requests.show(self.asker(EVE), "0" * 32))
        self.assertEqual((shown.text, shown.reason), (unknown.text, unknown.reason))
        self.assertEqual(value_of(self.requests.to_decide(self.asker(EVE))), [])

    def test_approvers_with_a_recent_second_factor(self) -> None:
        """A policy may want one of who decides, at that time; who lacks only that is told so."""
        wants = "when { context has mfa_age_seconds && context.mfa_age_seconds < 900 };"
        ops = """permit (principal in Group::"dev", action == Action::"approveAccess", resource)"""
        text = POLICY.replace(f"{ops};", f"{ops}\n{wants}")
        self.house.run(
            lambda tx: tx.policies.activate(tx.policies.add(text, "x", 1.0).version, 1.0)
        )
        self.house.refresh()
        entry, now = self.ask(), self.house.now()
        id = str(entry.terms["id"])
        for factor_at, word in ((None, "told of none"), (now - 900, "; sign in again")):
            ada = evolve(self.asker(ADA), factor_at=factor_at)
            self.assertEqual(value_of(self.requests.to_decide(ada)), [])
            for asked in (id, id[:12]):
                refusal = refusal_of(self.requests.show(ada, asked))
                self.assertEqual(refusal.reason, "denied")
                self.assertIn(word, refusal.text)
            signed = self.signed(entry, self.house.ada)
            self.assertEqual(refusal_of(self.requests.decide(ada, id, signed)).reason, "denied")
        ada = evolve(self.asker(ADA), factor_at=now - 60)
        self.assertEqual(len(value_of(self.requests.to_decide(ada))), 1)
        value_of(self.requests.show(ada, id[:12]))
        signed = self.signed(entry, self.house.ada)
        self.assertEqual(value_of(self.requests.decide(ada, id, signed)).state, "approved")
        self.house.clock.advance(1800)
        self.assertIsNotNone(self.open().grant, "what counts is the age when it was approved")
        eve = evolve(self.asker(EVE), factor_at=now)
        other = str(self.ask(ADA).terms["id"])
        self.assertEqual(refusal_of(self.requests.show(eve, other)).reason, "unknown_request")

    def test_denied(self) -> None:
        """A denial is signed and final; another person's approval comes too late."""
        entry = self.ask()
        denied = self.decide(entry, self.house.ada, decision=ApprovalDecision.DENY)
        self.assertEqual(denied.state, "denied")
        self.assertEqual(self.not_decided(entry, self.zed), "request_decided")
        self.assertIsNone(self.open().grant)

    def test_forbid_wins(self) -> None:
        """An approval turns no forbid: it is neither offered nor used."""
        self.decide(self.ask(uses=1), self.house.ada)
        ask = self.house.ask(self.house.eve, "prod2", "deny")
        ask = evolve(ask, proxy_decision=evolve(ask.proxy_decision, source_address="198.51.100.1"))
        answer = value_of(self.issuance.authorize(ask, self.proxy))
        self.assertEqual((answer.grant, answer.request_hint), (None, ""))
        self.assertIsNotNone(self.open().grant)

    def test_hidden_and_unknown_are_alike(self) -> None:
        """What may not be viewed and what is not there get the same bytes, requestable or not."""
        answers = {
            answer_message(
                evolve(self.open(self.house.eve, name), decision_id="-")
            ).SerializeToString()
            for name in ("vault1", "nowhere")
        }
        self.assertEqual(len(answers), 1)
        asked = {(one.text, one.reason) for one in map(self.not_asked_of, ("vault1", "nowhere"))}
        self.assertEqual(len(asked), 1)

    def not_asked_of(self, name: str) -> SvcError:
        return self.not_asked(EVE, name)

    def test_what_cannot_be_asked(self) -> None:
        """Too long a reason or time, an unknown action, what is allowed or never would be."""
        cases: list[tuple[str, dict[str, Any]]] = [
            ("bad_request", {"reason": "x" * 257}),
            ("bad_request", {"reason": "two\nlines"}),
            ("bad_request", {"secs": 28801}),
            ("bad_request", {"secs": 0}),
            ("bad_request", {"uses": 1001}),
            ("unknown_action", {"action": "sshConnect"}),
            ("unknown_parameter", {"parameters": {"login_user": "root"}}),
        ]
        for reason, changes in cases:
            self.assertEqual(self.not_asked(**changes).reason, reason, changes)
        for secs, limit in ((172800, "at most 8h"), (0, "at least 1s")):
            told = f"access is given for {limit} (access.max_secs)"
            self.assertEqual(self.not_asked(secs=secs).text, told)
        self.assertEqual(self.not_asked(ADA, "db1").reason, "already_allowed")
        self.assertEqual(self.not_asked(ADA, "prod1").reason, "not_requestable")
        self.assertEqual(self.house.records("access.request"), [])

    def test_open_requests_are_limited(self) -> None:
        """The same request is given again; a person has only so many that wait."""
        first = self.ask()
        self.assertEqual(self.ask().terms["id"], first.terms["id"])
        for count in range(1, MAX_OPEN):
            self.ask(uses=count)
        self.assertEqual(self.not_asked(uses=MAX_OPEN).reason, "too_many_requests")
        own = value_of(self.requests.own(self.asker(EVE)))
        self.assertEqual(len(own), MAX_OPEN)
        value_of(self.requests.withdraw(self.asker(EVE), str(first.terms["id"])))
        self.ask(uses=MAX_OPEN)

    def test_withdrawn_ones_end(self) -> None:
        """What was withdrawn, open or approved, ends at once, and is deleted in its time."""
        house = self.house
        for is_approved in (False, True):
            entry = self.ask()
            if is_approved:
                self.decide(entry, house.ada)
            house.clock.advance(2.5)
            id = str(entry.terms["id"])
            gone = value_of(self.requests.withdraw(self.asker(EVE), id))
            self.assertEqual((gone.state, gone.ends_at), ("withdrawn", int(house.now())))
            self.assertEqual(value_of(self.requests.own(self.asker(EVE))), [])
            shown = refusal_of(self.requests.show(self.asker(EVE), id))
            self.assertEqual(shown.reason, "unknown_request")
            self.assertIsNone(self.open().grant)
        # One that is withdrawn in the second in which it was asked for ends with the next.
        entry = self.ask()
        gone = value_of(self.requests.withdraw(self.asker(EVE), str(entry.terms["id"])))
        self.assertGreater(gone.ends_at, int(house.now()) - 1)
        house.clock.advance(1)
        self.assertEqual(self.kept(), [])
        house.refresh()

    def kept(self) -> list[Any]:
        """The requests that lists and reload passes look at."""
        now = self.house.now()
        return list(value_of(self.house.store.read("test", lambda tx: tx.access.unexpired(now))))

    def test_an_approval_of_something_else(self) -> None:
        """An approval of another document, of too long, too old or of another's key is refused."""
        entry, ada = self.ask(), self.house.ada
        now = int(self.house.now())
        cases: list[tuple[str, dict[str, Any]]] = [
            ("approval_mismatch", {"document_sha256": b"x" * 32}),
            ("approval_mismatch", {"subject": "0" * 32}),
            ("approval_mismatch", {"kind": ApprovalKind.POLICY}),
            ("approval_mismatch", {"cluster": "c2.test"}),
            ("approval_mismatch", {"approver": ZED}),
            ("approval_mismatch", {"expires_at": now + 3601}),
            ("approval_stale", {"made_at": now - 31}),
        ]
        for reason, changes in cases:
            self.assertEqual(self.not_decided(entry, ada, **changes), reason, changes)
        borrowed = self.signed(entry, self.zed)
        decided = self.requests.decide(self.asker(ADA), str(entry.terms["id"]), borrowed)
        self.assertEqual(refusal_of(decided).reason, "approval_mismatch")
        self.assertEqual(self.house.records("access.approve"), [])

    def test_approver_disabled_or_revoked_since(self) -> None:
        """An approval dies with its approver, and with the certificate that signed it."""
        changes = (
            lambda tx: tx.people_changes.disable(ADA),
            lambda tx: tx.certificates.revoke(self.house.ada.sha256, 9.0),
        )
        for change in changes:
            self.setUp()
            self.decide(self.ask(), self.house.ada)
            self.assertIsNotNone(self.open().grant)
            self.house.run(change)
            self.house.refresh()
            self.assertIsNone(self.open().grant)

    def test_revoked_certificate_made_to_expire(self) -> None:
        """A revoked certificate that SQL makes unrevoked and expired revives no approval."""
        self.decide(self.ask(), self.house.ada)
        self.assertIsNotNone(self.open().grant)
        self.house.run(lambda tx: tx.certificates.revoke(self.house.ada.sha256, 9.0))
        self.house.refresh()
        for change in (
            "UPDATE person_certificates SET expires = 1, revoked_at = NULL",
            "UPDATE person_certificates SET expires = 1",
        ):
            self.house.by_sql(f"{change} WHERE sha256 = x'{self.house.ada.sha256.hex()}'")
            self.assertIsNone(self.open().grant, change)

    def test_approver_certificate_ends_in_order(self) -> None:
        """An approval outlives the short-lived certificate that signed it, but no revocation."""
        ada, end = self.house.ada.sha256, self.house.now() + 600

        def shorten(tx: Any) -> None:
            sql = "UPDATE person_certificates SET expires = ? WHERE sha256 = ?"
            tx.state._db.change(sql, end, ada)

        self.house.run(shorten)
        self.house.refresh()
        self.decide(self.ask(), self.house.ada)
        self.house.clock.advance(3000)
        self.house.refresh()
        self.assertIsNotNone(self.open().grant)
        self.house.run(lambda tx: tx.certificates.revoke(ada, self.house.now()))
        self.assertIsNone(self.open().grant)

    def test_by_sql(self) -> None:
        """An approval added, altered or revived by SQL opens nothing (rules R8, R31)."""
        entry = self.ask(uses=1)
        id = str(entry.terms["id"])
        self.house.by_sql(f"UPDATE access_requests SET state = 'approved' WHERE id = '{id}'")
        self.assertIsNone(self.open().grant)
        self.house.by_sql(f"UPDATE access_requests SET state = 'open' WHERE id = '{id}'")
        self.decide(entry, self.house.ada)
        self.assertIsNotNone(self.open().grant)
        for change in ("used = 0", "uses = NULL", "uses = 9", "ends_at = 9e9"):
            self.house.by_sql(f"UPDATE access_requests SET {change}")
            self.assertIsNone(self.open().grant, change)

    def test_a_decision_by_sql(self) -> None:
        """A decision that was added, altered or removed by SQL is none; put back, it is one."""
        entry = self.ask()
        id = str(entry.terms["id"])
        self.house.by_sql(
            "INSERT INTO access_approvals (request_id, approver, certificate_sha256, payload,"
            " signature, certificate, decided_at, ends_at)"
            f" VALUES ('{id}', '{ADA}', x'{self.house.ada.sha256.hex()}', x'00', x'00', x'00', 1,"
            " 9e9)",
            f"UPDATE access_requests SET state = 'approved' WHERE id = '{id}'",
        )
        self.assertIsNone(self.open().grant)
        self.house.by_sql(
            "DELETE FROM access_approvals",
            f"UPDATE access_requests SET state = 'open' WHERE id = '{id}'",
        )
        self.decide(entry, self.house.ada)
        self.assertIsNotNone(self.open().grant)
        kept = "CREATE TABLE kept AS SELECT * FROM access_approvals"
        changes = (
            f"UPDATE access_approvals SET approver = '{ZED}'",
            "UPDATE access_approvals SET payload = x'00'",
            "UPDATE access_approvals SET signature = x'00'",
            "UPDATE access_approvals SET ends_at = 9e9",
            "DELETE FROM access_approvals",
        )
        for change in changes:
            self.house.by_sql(kept, change)
            self.assertIsNone(self.open().grant, change)
            self.house.by_sql(
                "DELETE FROM access_approvals",
                "INSERT INTO access_approvals SELECT * FROM kept",
                "DROP TABLE kept",
            )
            self.assertIsNotNone(self.open().grant, change)

    def test_a_prolonged_session_keeps_its_approval(self) -> None:
        """The approval of an open session is found by its decision, until it ends."""
        self.decide(self.ask(uses=1), self.house.ada)
        answer = self.open()
        assert answer.grant is not None
        approvals, grant = self.house.approvals(), decode_grant(answer.grant.payload)
        self.assertEqual(value_of(approvals.of_grant(grant)), answer.approved)
        self.assertIsNone(value_of(approvals.of_grant(evolve(grant, audit_hash=bytes(32)))))
        for other in (evolve(grant, person_id=ADA), evolve(grant, resource_identity="another")):
            self.assertIsNone(value_of(approvals.of_grant(other)))
        self.house.clock.advance(3601)
        self.assertIsNone(value_of(approvals.of_grant(grant)))

    def test_a_session_outlives_a_withdrawal(self) -> None:
        """Once the request is given up its session is prolonged as before, and none opens."""
        entry = self.ask()
        self.decide(entry, self.house.ada)
        answer = self.open()
        assert answer.grant is not None
        approvals, grant = self.house.approvals(), decode_grant(answer.grant.payload)
        self.house.clock.advance(5)
        value_of(self.requests.withdraw(self.asker(EVE), str(entry.terms["id"])))
        self.house.clock.advance(5)
        self.assertEqual(value_of(approvals.of_grant(grant)), answer.approved)
        self.assertIsNone(self.open().grant)
        self.house.run(lambda tx: tx.people_changes.disable(ADA))
        self.house.refresh()
        self.assertIsNone(value_of(approvals.of_grant(grant)))

"""A policy is in force once enough other people signed for exactly it, and not otherwise."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.proposed.decisions import PolicyDecisions
from svc.authority.policy.proposed.proposals import MOST_OPEN
from svc.authority.policy.proposed.review import PolicyReview
from svc.authority.state.recorder import operator, person
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.cluster.account import LOCAL_ISSUER
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.policy.approval import (
    Approval,
    ApprovalDecision,
    ApprovalKind,
    document_digest,
    encode_approval,
)
from svc.model.policy.claim import ProposalClaim, encode_claim
from svc.model.policy.proposal import VALID_SECS
from svc.model.policy.rules import PolicyRules
from svc.model.principal import Role
from svc.model.signing import Purpose, sign
from svc.proto.gate.v1 import admin_pb2
from svc.proto.gate.v1 import policy_change_pb2 as pb
from tests.authority.changing import policies, proposals
from tests.authority.house import ADA, EVE, POLICY, Holder, House, refusal_of, value_of
from tests.pki.support import CLUSTER
from tests.support.proof import proves

FAY = "f" * 26
ROOT = operator(7)
BASE = f"""{POLICY}
@id("people-approve") permit (principal, action == Action::"approvePolicy", resource)
unless {{ principal == User::"{"z" * 26}" }};
"""
MORE = f"""{BASE}
@id("one-views")
permit (principal == User::"{EVE}", action == Action::"view", resource == TcpService::"db1");
"""
LESS = BASE.replace("forbid", "permit")


class Proposing(SynchronousTestCase):
    """Three people: ada proposes, eve and fay may approve."""

    rules = PolicyRules(approvals=1)

    def setUp(self) -> None:
        self.house = house = House(BASE)
        house.run(lambda tx: tx.people.add(Person(FAY, "fay"), 1.0))
        self.fay = house.person(FAY)
        house.refresh()
        self.proposals = proposals(house, self.rules)
        self.reviews = PolicyReview(self.proposals)
        self.decisions = PolicyDecisions(self.proposals, house.world.verifier, house.refusals)
        self.admin = policies(house, self.rules)

    def proposing(
        self, text: str = MORE, by: Holder | None = None, actor: Actor = ROOT, **changes: Any
    ) -> Any:
        """Propose *text*; signed by somebody, or by nobody."""
        request = pb.ProposePolicyRequest(text=text, note="why")
        if by is not None:
            claim = ProposalClaim(
                cluster=CLUSTER,
                proposer=by.id,
                certificate_sha256=by.sha256,
                policy_sha256=sha256(text.encode()).digest(),
                replay_sha256=sha256(b"").digest(),
                findings_sha256=sha256(b"").digest(),
                note="why",
                made_at=int(self.house.now()),
            )
            request.claim = encode_claim(evolve(claim, **changes))
            request.signature = sign(by.key, Purpose.POLICY_PROPOSAL, request.claim)
            request.chain.extend(by.chain)
        return self.proposals.propose(request, actor)

    def proposed(self, text: str = MORE, by: Holder | None = None) -> str:
        """A proposal of ada's, or of another's."""
        return str(value_of(self.proposing(text, by or self.house.ada)).id)

    def document(self, id: str) -> bytes:
        """What an approval of a proposal signs."""
        stored = value_of(self.house.store.read("test", lambda tx: tx.proposals.get(id)))
        return document_digest(stored.document(CLUSTER))

    def deciding(
        self,
        id: str,
        by: Holder,
        decision: ApprovalDecision = ApprovalDecision.APPROVE,
        purpose: Purpose = Purpose.APPROVAL,
        **changes: Any,
    ) -> Any:
        """Somebody's signed decision."""
        now = int(self.house.now())
        approval = Approval(
            cluster=CLUSTER,
            kind=ApprovalKind.POLICY,
            subject=id,
            document_sha256=self.document(id),
            decision=decision,
            approver=by.id,
            certificate_sha256=by.sha256,
            made_at=now,
            expires_at=now + VALID_SECS,
        )
        payload = encode_approval(evolve(approval, **changes))
        request = pb.DecideProposalRequest(
            id=id, approval=payload, signature=sign(by.key, purpose, payload), chain=by.chain
        )
        return self.decisions.decide(request, ROOT)

    def approved(self, id: str, by: Holder) -> int:
        """How many approvals count after this one."""
        return int(value_of(self.deciding(id, by)).proposal.approvals)

    def activating(self, id: str) -> Any:
        return self.proposals.activate(pb.ActivateProposalRequest(id=id), ROOT)

    def reason(self, doing: Any) -> str:
        return str(refusal_of(doing).reason)

    def review(self, id: str) -> pb.ReviewPolicyResponse:
        shown: pb.ReviewPolicyResponse = value_of(
            self.reviews.review(pb.ReviewPolicyRequest(id=id), ROOT)
        )
        return shown

    @property
    def version(self) -> int:
        assert self.house.policy.engine is not None
        return self.house.policy.engine.version


class ApprovalTests(Proposing):
    """Who may approve what."""

    @proves("G-OPEN-58", "U-CLS-09")
    def test_by_another(self) -> None:
        """One other person is enough for a plain change; the record names both."""
        id = self.proposed()
        self.assertEqual(self.reason(self.activating(id)), "not_approved")
        self.assertEqual(self.reason(self.deciding(id, self.house.ada)), "own_approval")
        self.assertEqual(self.approved(id, self.house.eve), 1)
        done = value_of(self.activating(id))
        self.assertEqual((done.version, self.version, list(done.approvers)), (2, 2, [EVE]))
        details = self.house.records("policy.activate")[0]["details"]
        self.assertEqual((details["proposer"], details["approvers"]), (ADA, [EVE]))
        self.assertEqual(self.house.records("policy.refused")[0]["reason"], "own_approval")
        self.assertEqual(self.reason(self.activating(id)), "proposal_closed")

    def test_refusals_have_a_budget(self) -> None:
        """Past their caller's share, refused approvals are counted and not recorded (rule R12)."""
        house, id = self.house, self.proposed()
        for _ in range(64):
            self.assertEqual(self.reason(self.deciding(id, house.ada)), "own_approval")
        self.assertEqual(len(house.records("policy.refused")), 60)
        value_of(house.refusals.summarise())
        (summary,) = house.records("refusals.summary")
        self.assertEqual((summary["actor"]["id"], summary["details"]["count"]), (ROOT.id, 4))

    def test_set_alone(self) -> None:
        """Nobody sets a policy alone any more, but one who may break the glass."""
        request = admin_pb2.SetPolicyRequest(text=MORE)
        self.assertEqual(self.reason(self.admin.set(request, ROOT)), "policy_needs_approval")
        request.break_glass = True
        self.assertEqual(self.reason(self.admin.set(request, ROOT)), "not_break_glass")

    def test_counts_once_a_person(self) -> None:
        """A second approval of one person stands in the place of the first."""
        id = self.proposed(LESS)
        self.assertEqual(
            (self.approved(id, self.house.eve), self.approved(id, self.house.eve)), (1, 1)
        )
        again = self.house.person(EVE)
        self.assertEqual(self.approved(id, again), 1)
        self.assertEqual(self.reason(self.activating(id)), "not_approved")
        self.assertEqual(self.approved(id, self.fay), 2)
        self.assertEqual(value_of(self.activating(id)).version, 2)

    def test_sensitive_needs_two(self) -> None:
        """A change that takes a forbid away needs two approvals, and the page says why."""
        shown = self.review(self.proposed(LESS))
        self.assertEqual((shown.proposal.needed, shown.proposal.approvals), (2, 0))
        words = {one.policy: list(one.sensitive) for one in shown.changes}
        self.assertEqual(words["nobody-production"], ["forbid_changed", "any_principal"])

    def test_local_operator(self) -> None:
        """A proposal that no person signed needs an approval more; an operator cannot approve."""
        answer = value_of(self.proposing())
        self.assertEqual(answer.needed, 2)
        request = pb.DecideProposalRequest(id=answer.id, approval=b"{}", signature=b"x")
        self.assertEqual(self.reason(self.decisions.decide(request, ROOT)), "certificate_chain")

    def test_may_not_approve(self) -> None:
        """The policy says who may approve, when it is signed and when it is counted."""
        id = self.proposed()
        text = BASE.replace("z" * 26, EVE)
        self.house.run(
            lambda tx: tx.policies.activate(tx.policies.add(text, "x", 1.0).version, 1.0)
        )
        self.house.refresh()
        self.assertEqual(self.reason(self.deciding(id, self.house.eve)), "denied")
        record = self.house.records("policy.refused")[-1]
        self.assertEqual((record["cedar_action"], record["decision"]), ("approvePolicy", "deny"))

    def test_second_factor(self) -> None:
        """A policy may want a second factor, which counts as of when the approval was signed."""
        wants = "when { context has mfa_age_seconds && context.mfa_age_seconds < 900 }"
        text = f"{wants}\nunless".join(BASE.rsplit("unless", 1))
        self.house.run(lambda tx: self.put_in_force(tx, text))
        self.house.refresh()
        id = self.proposed(text + MORE.removeprefix(BASE))
        refusal = refusal_of(self.deciding(id, self.house.eve))
        self.assertEqual(refusal.reason, "denied")
        self.assertIn("your sign-in told of none", refusal.text)
        # As of who signs in at a provider: it stands in the certificate alone.
        now = int(self.house.now())
        old = self.house.person(EVE, factor_at=now - 900)
        self.assertIn("sign in again", refusal_of(self.deciding(id, old)).text)
        self.assertEqual(self.approved(id, self.house.person(EVE, factor_at=now - 60)), 1)
        self.assertEqual(self.approved(id, self.signed_in(EVE)), 1)
        self.house.clock.advance(3600)
        self.assertEqual(self.review(id).proposal.approvals, 1)
        self.assertEqual(value_of(self.activating(id)).version, 3)

    @staticmethod
    def put_in_force(tx: ITransaction, text: str) -> None:
        tx.policies.activate(tx.policies.add(text, "x", 1.0).version, 1.0)

    def signed_in(self, person_id: str) -> Holder:
        """A certificate that came by a sign-in with a second factor, a moment ago."""
        now, holder = self.house.now(), self.house.holder(Role.USER, person_id)
        link = IdentityLink(
            id="l1", issuer=LOCAL_ISSUER, subject=person_id, person_id=person_id, salt=b"salt"
        )
        sign_in = SignIn(
            id="s1",
            identity_id="l1",
            person_id=person_id,
            auth_time=now - 60,
            began_at=now - 60,
            ends_at=now + 90_000,
            certificate_sha256=holder.sha256,
            key_sha256=b"k" * 32,
            generation=1,
        )
        issued = IssuedCertificate(
            sha256=holder.sha256,
            serial=holder.sha256.hex(),
            person_id=person_id,
            issued_at=now,
            expires=9e9,
            sign_in_id="s1",
        )

        def write(tx: ITransaction) -> None:
            tx.sign_ins.link(link)
            tx.sign_ins.put(sign_in)
            tx.certificates.issued(issued)

        self.house.run(write)
        return holder

    def test_altered(self) -> None:
        """A signature for anything else approves nothing."""
        id, other, now = self.proposed(), self.proposed(LESS), int(self.house.now())
        for changes, reason in (
            ({"document_sha256": self.document(other)}, "approval_mismatch"),
            ({"subject": other}, "approval_mismatch"),
            ({"kind": ApprovalKind.ACCESS}, "approval_mismatch"),
            ({"cluster": "other.example"}, "approval_mismatch"),
            ({"approver": FAY}, "approval_mismatch"),
            ({"certificate_sha256": self.fay.sha256}, "approval_mismatch"),
            ({"made_at": now - 40, "expires_at": now + 40}, "approval_stale"),
            ({"purpose": Purpose.WHY_REQUEST}, "bad_signature"),
        ):
            refused = self.deciding(id, self.house.eve, **changes)
            self.assertEqual(self.reason(refused), reason, changes)
        self.assertEqual(self.review(id).proposal.approvals, 0)

    def test_rejected_and_withdrawn(self) -> None:
        """Another's denial closes a proposal, and so does its proposer's."""
        for by, state in ((self.house.eve, "rejected"), (self.house.ada, "withdrawn")):
            id = self.proposed()
            self.approved(id, self.fay)
            row = value_of(self.deciding(id, by, ApprovalDecision.DENY)).proposal
            self.assertEqual(row.state, state)
            self.assertEqual(self.reason(self.activating(id)), "proposal_closed")
            self.assertEqual(self.reason(self.deciding(id, self.fay)), "proposal_closed")
        self.assertEqual(len(self.house.records("policy.reject")), 2)


class ProposerTests(Proposing):
    """Who proposed."""

    def test_another_signed_something_else(self) -> None:
        """A proposal is only its signer's if it is what was signed, just now."""
        ada = self.house.ada
        for changes, reason in (
            ({"policy_sha256": b"p" * 32}, "proposal_mismatch"),
            ({"proposer": EVE}, "proposal_mismatch"),
            ({"note": "another"}, "proposal_mismatch"),
            ({"cluster": "other.example"}, "proposal_mismatch"),
            ({"findings_sha256": b"p" * 32}, "proposal_mismatch"),
            ({"made_at": 1}, "proposal_stale"),
        ):
            self.assertEqual(self.reason(self.proposing(by=ada, **changes)), reason, changes)
        other = self.proposing(by=ada, actor=person(EVE))
        self.assertEqual(self.reason(other), "proposal_mismatch")

    def test_refused_texts(self) -> None:
        """A text that could not be activated is not proposed; nor is the one in force."""
        for text, reason in (
            ("permit (", "policy_invalid"),
            (BASE, "policy_unchanged"),
            ('@id("x") permit (principal is User, action, resource);', "policy_locks_out"),
        ):
            self.assertEqual(self.reason(self.proposing(text)), reason)
        self.assertEqual(self.house.records("policy.propose"), [])

    def test_so_many_wait(self) -> None:
        """Proposals that wait are bounded."""
        for number in range(MOST_OPEN):
            value_of(self.proposing(f"{MORE}// {number}\n"))
        self.assertEqual(self.reason(self.proposing(LESS)), "too_many_proposals")

    def test_replay_and_findings(self) -> None:
        """What a replay found comes with its statement, as canonical JSON."""
        for replay, findings in ((b"{}", b""), (b"", b"{}"), (b"{}", b"{ }"), (b"{}", b"[]")):
            request = pb.ProposePolicyRequest(text=MORE, replay=replay, findings=findings)
            self.assertEqual(self.reason(self.proposals.propose(request, ROOT)), "malformed")


class EndTests(Proposing):
    """What ends an approval."""

    def setUp(self) -> None:
        super().setUp()
        self.one = self.proposed()
        self.approved(self.one, self.house.eve)

    def counted(self) -> int:
        return int(self.review(self.one).proposal.approvals)

    def test_its_day(self) -> None:
        """A proposal and its approvals are worth nothing after a day."""
        self.house.clock.advance(VALID_SECS + 1)
        self.assertEqual(self.reason(self.activating(self.one)), "proposal_expired")
        self.assertEqual(self.review(self.one).proposal.state, "expired")

    def test_long_ago(self) -> None:
        """What ended so long ago that only the log says what it was is not shown as altered."""
        self.house.clock.advance(2 * VALID_SECS + 1)
        value_of(self.house.state_cache.reload())
        self.assertEqual(self.reason(self.activating(self.one)), "proposal_expired")
        every = value_of(self.reviews.list_proposals(pb.ListProposalsRequest(all=True), ROOT))
        self.assertEqual([one.state for one in every.proposals], ["expired"])

    def test_deleted_in_the_end(self) -> None:
        """Thirty days after its day it is deleted with its approvals; only the log has it then."""
        requests = self.house.requests()
        for secs, left in ((30 * 86400, 1), (86401, 0)):
            self.house.clock.advance(secs)
            value_of(requests.sweep())
            listing = self.reviews.list_proposals(pb.ListProposalsRequest(all=True), ROOT)
            self.assertEqual(len(value_of(listing).proposals), left)
        self.assertTrue(self.house.records("policy.propose"))

    def test_certificate_that_ended(self) -> None:
        """A certificate that ended in order leaves its approvals alone, and makes no new one."""
        short = self.house.person(FAY, lifetime=600.0)
        self.assertEqual(self.approved(self.one, short), 2)
        self.house.clock.advance(3600)
        self.assertEqual(self.reason(self.deciding(self.one, short)), "certificate_expired")
        self.assertEqual(self.counted(), 2)

    def test_another_policy(self) -> None:
        """An approval is of the policy that it replaces."""
        other = self.proposed(f"{BASE}// other\n")
        self.approved(other, self.house.eve)
        value_of(self.activating(other))
        self.assertEqual(self.reason(self.activating(self.one)), "policy_changed")
        self.assertIn("another policy", self.review(self.one).problem)
        self.assertIn("svc authority policy propose", self.review(self.one).problem)
        self.assertEqual(self.reason(self.deciding(self.one, self.fay)), "policy_changed")

    def test_outdated(self) -> None:
        """A proposal for a policy that is not in force any more is listed as outdated, not open."""
        other = self.proposed(f"{BASE}// other\n")
        self.assertEqual(set(self.listed().values()), {"open"})
        self.approved(other, self.house.eve)
        value_of(self.activating(other))
        self.assertEqual(self.listed(), {self.one: "outdated"})
        self.assertEqual(self.review(self.one).proposal.state, "outdated")
        value_of(self.deciding(self.one, self.house.ada, ApprovalDecision.DENY))
        self.assertEqual(self.listed(), {})

    def listed(self) -> dict[str, str]:
        """The state of each proposal that is listed."""
        answer = value_of(self.reviews.list_proposals(pb.ListProposalsRequest(), ROOT))
        return {one.id: one.state for one in answer.proposals}

    def test_ids_are_shortened(self) -> None:
        """The beginning of an id is enough, if it is that of one proposal alone."""
        self.assertEqual(self.review(self.one[:4]).proposal.id, self.one)
        short = self.reviews.review(pb.ReviewPolicyRequest(id=self.one[:3]), ROOT)
        self.assertEqual(self.reason(short), "unknown_proposal")
        self.proposals.entropy = lambda size: bytes.fromhex(self.one)[:2].ljust(size, b"\0")
        other = self.proposed(f"{BASE}// other\n")
        refusal = refusal_of(self.reviews.review(pb.ReviewPolicyRequest(id=self.one[:4]), ROOT))
        self.assertEqual(refusal.reason, "ambiguous_id")
        self.assertIn(f"{min(self.one, other)}, {max(self.one, other)}", refusal.text)

    def test_revoked_certificate(self) -> None:
        """A revoked certificate takes its approvals along."""
        sha256 = self.house.eve.sha256
        self.house.run(lambda tx: tx.certificates.revoke(sha256, 2.0))
        self.house.refresh()
        self.assertEqual(self.counted(), 0)
        self.assertEqual(self.review(self.one).decisions[0].problem, "revoked_certificate")
        self.assertEqual(self.reason(self.activating(self.one)), "not_approved")
        self.assertEqual(
            self.reason(self.deciding(self.one, self.house.eve)), "revoked_certificate"
        )

    def test_disabled_person(self) -> None:
        """A disabled person's approval does not count until they are enabled again."""
        self.house.run(lambda tx: tx.people_changes.disable(EVE))
        self.house.refresh()
        self.assertEqual(self.counted(), 0)
        self.assertEqual(self.reason(self.activating(self.one)), "not_approved")
        self.house.run(lambda tx: tx.people_changes.enable(EVE))
        self.house.refresh()
        self.assertEqual(self.counted(), 1)


class AlteredRowTests(Proposing):
    """Whoever writes to the tables gets nothing into force (R8)."""

    def setUp(self) -> None:
        super().setUp()
        self.one = self.proposed()

    def test_approval_added(self) -> None:
        """Another's approval under a further name, or a copied one, does not count."""
        self.approved(self.one, self.house.eve)
        second = self.proposed(LESS)
        copied = "approver, decision, payload, signature, certificate, decided_at, expires_at"
        self.house.by_sql(
            f"INSERT INTO policy_approvals SELECT '{second}', {copied} FROM policy_approvals"
        )
        self.house.by_sql(
            "INSERT INTO policy_approvals SELECT proposal_id, "
            + copied.replace("approver", f"'{FAY}'")
            + f" FROM policy_approvals WHERE proposal_id = '{self.one}'"
        )
        self.assertEqual(self.review(second).proposal.approvals, 0)
        self.assertEqual(self.review(self.one).proposal.approvals, 1)
        self.assertEqual(self.reason(self.activating(second)), "not_approved")

    def test_approval_altered_and_put_back(self) -> None:
        """A denial is no approval by SQL, and a row that is put back counts again."""
        self.approved(self.one, self.house.eve)
        self.house.by_sql("UPDATE policy_approvals SET expires_at = expires_at + 1")
        self.assertEqual(self.review(self.one).proposal.approvals, 0)
        self.assertEqual(self.reason(self.activating(self.one)), "not_approved")
        self.house.by_sql("UPDATE policy_approvals SET expires_at = expires_at - 1")
        self.assertEqual(self.review(self.one).proposal.approvals, 1)

    def test_approval_deleted(self) -> None:
        """A deleted approval is missing, and named."""
        self.approved(self.one, self.house.eve)
        self.house.by_sql("DELETE FROM policy_approvals")
        self.assertEqual(self.reason(self.activating(self.one)), "not_approved")
        unsigned = value_of(self.house.state_cache.reload()).unsigned
        self.assertIn(f"policyapproval:{self.one}:{EVE}", {one.subject for one in unsigned})

    def test_proposal_altered(self) -> None:
        """A proposal whose text, proposer or end is another one is none."""
        self.approved(self.one, self.house.eve)
        for change, back in (
            ("text = text || '//'", "text = substr(text, 1, length(text) - 2)"),
            (f"proposer = '{EVE}'", f"proposer = '{ADA}'"),
            ("expires_at = expires_at + 60", "expires_at = expires_at - 60"),
        ):
            self.house.by_sql(f"UPDATE policy_proposals SET {change}")
            self.assertEqual(self.reason(self.activating(self.one)), "state_unsigned", change)
            listed = value_of(self.reviews.list_proposals(pb.ListProposalsRequest(), ROOT))
            self.assertEqual([one.state for one in listed.proposals], ["state_unsigned"])
            self.house.by_sql(f"UPDATE policy_proposals SET {back}")
        self.assertEqual(value_of(self.activating(self.one)).version, 2)

    def test_reopened(self) -> None:
        """A rejected proposal stays closed."""
        value_of(self.deciding(self.one, self.house.eve, ApprovalDecision.DENY))
        self.house.by_sql("UPDATE policy_proposals SET state = 'open'")
        self.assertEqual(self.reason(self.activating(self.one)), "state_unsigned")

    def test_proposal_added(self) -> None:
        """A proposal that nobody made is not found in force."""
        self.house.by_sql(
            "INSERT INTO policy_proposals SELECT 'aa' || substr(id, 3), text, policy_sha256,"
            " parent, parent_sha256, schema_sha256, entity_revision, replay, findings, 'operator',"
            " proposer, note, proposed_at, expires_at, state, version FROM policy_proposals"
        )
        id = "aa" + self.one[2:]
        self.assertEqual(self.reason(self.activating(id)), "state_unsigned")


class BreakGlassTests(Proposing):
    """Who is named in the configuration sets a policy without approvals."""

    rules = PolicyRules(approvals=2, break_glass=frozenset({"local:7", FAY}))

    def test_set_with_record(self) -> None:
        """It is a record of its own, and happens only where it is asked for."""
        request = admin_pb2.SetPolicyRequest(text=MORE)
        self.assertEqual(self.reason(self.admin.set(request, ROOT)), "policy_needs_approval")
        request.break_glass = True
        self.assertEqual(value_of(self.admin.set(request, ROOT)).version, 2)
        (record,) = self.house.records("operator.break_glass")
        self.assertEqual((record["reason"], record["actor"]["id"]), ("no_approvals", "local:7"))
        request.text = BASE
        self.assertEqual(value_of(self.admin.set(request, person(FAY))).version, 3)
        self.assertEqual(self.reason(self.admin.set(request, person(ADA))), "not_break_glass")
        self.assertEqual(self.reason(self.admin.set(request, operator(0))), "not_break_glass")

    def test_never_locked_out(self) -> None:
        """A policy has to keep one of them, whoever of them that is."""
        for_fay = f'@id("x") permit (principal == User::"{FAY}", action, resource);'
        request = admin_pb2.SetPolicyRequest(text=for_fay, break_glass=True)
        value_of(self.admin.set(request, ROOT))
        for_ada = for_fay.replace(FAY, ADA)
        request = admin_pb2.SetPolicyRequest(text=for_ada, break_glass=True)
        self.assertEqual(self.reason(self.admin.set(request, ROOT)), "policy_locks_out")

    def test_naming_them_is_sensitive(self) -> None:
        """A policy that names one of them is a security-sensitive change."""
        text = f'{BASE}@id("x") permit (principal == User::"{FAY}", action == Action::"view",'
        answer = value_of(self.proposing(f'{text} resource == TcpService::"db1");'))
        self.assertEqual(list(answer.changes[0].sensitive), ["break_glass"])

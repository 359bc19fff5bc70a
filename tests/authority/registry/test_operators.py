"""People who administer over the admin listener: who gets in, and what is decided and recorded."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.ha.forward import ForwardedCalls, ForwardedMethod
from svc.authority.registry.operators import EDIT_POLICY
from svc.authority.state.recorder import operator, person
from svc.errors import Denied, LeaseLost, SvcError, Unauthenticated
from svc.interfaces.rpc import IRpcCall, Peer
from svc.interfaces.store import ITransaction
from svc.messages.forward import Forwarded, forward_message
from svc.model.certificate import CertificateRefused
from svc.model.cluster.account import LOCAL_ISSUER
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.principal import Role
from svc.proto.gate.v1 import membership_pb2 as pb
from tests.authority.house import ADA, EVE, Call, House, refusal_of, value_of
from tests.support.nothing import nothing

POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("dev-administers")
permit (principal in Group::"dev", action in [Action::"manageNodes", Action::"viewStatus"],
        resource is Cluster);
"""

RECENT = """\
@id("lately")
permit (principal, action == Action::"manageResources", resource is Cluster)
when { context has mfa_age_seconds && context.mfa_age_seconds < 900 };
"""


@define
class Follower:
    """The store of an Authority that does not lead."""

    async def run(self, desc: str, fn: object) -> object:
        """Refuse whatever would be written."""
        raise LeaseLost("another")


class PeopleTests(SynchronousTestCase):
    """Ada is in a group that may administer nodes, Eve is in none."""

    def setUp(self) -> None:
        self.begin(POLICY)

    def begin(self, policy: str) -> None:
        """A house under this policy."""
        self.house = house = House(policy=policy)
        self.operators = house.operators()

    def authorize(self, peer: Peer, action: str) -> Any:
        """One call on the admin listener."""
        return self.operators.authorize(Call(peer), action)

    def refused(self, peer: Peer) -> str:
        """The reason why the listener does not serve this caller."""
        with self.assertRaises(SvcError) as raised:
            self.operators.admit_person("/gate.v1.Admin/Status", peer)
        return str(raised.exception.reason)

    def test_the_policy_decides(self) -> None:
        """A person does what the policy lets their group do, and is the actor of the record."""
        ada = self.house.peer(self.house.ada)
        self.operators.admit_person("/gate.v1.Admin/AddNode", ada)
        self.assertEqual(value_of(self.authorize(ada, "manageNodes")), person(ADA))
        refusal = refusal_of(self.authorize(ada, EDIT_POLICY))
        self.assertIsInstance(refusal, Denied)
        self.assertIn("does not let you editPolicy", refusal.text)
        (record,) = self.house.records("operator.refused")
        self.assertEqual(record["actor"], {"kind": "person", "id": ADA})
        self.assertEqual(record["decision_id"], refusal.details["decision_id"])
        self.assertEqual(record["request"]["principal"], {"type": "User", "id": ADA})
        self.assertNotIn("local_uid", record.get("details", {}))

    def test_refusals_have_a_budget(self) -> None:
        """Past their share, a person's refusals are counted and not recorded (rule R12)."""
        eve, ada = self.house.peer(self.house.eve), self.house.peer(self.house.ada)
        for _ in range(64):
            refusal = refusal_of(self.authorize(eve, EDIT_POLICY))
            self.assertEqual((refusal.reason, len(refusal.details["decision_id"])), ("denied", 32))
        self.assertEqual(len(self.house.records("operator.refused")), 60)
        self.assertEqual(refusal_of(self.authorize(ada, EDIT_POLICY)).reason, "denied")
        self.assertEqual(len(self.house.records("operator.refused")), 61)
        value_of(self.house.refusals.summarise())
        (summary,) = self.house.records("refusals.summary")
        self.assertEqual(summary["actor"], {"kind": "person", "id": EVE})
        self.assertEqual((summary["reason"], summary["details"]["count"]), ("records", 4))

    def test_refused_while_standing_by(self) -> None:
        """Who does not lead writes no record: the caller hears why, and it is counted.

        That is so of what a standby answers, and not where the lead was lost meanwhile.
        """
        house = self.house
        refusals: Any = house.refusals
        leading, refusals.store = refusals.store, Follower()
        eve = house.peer(house.eve)
        self.assertEqual(refusal_of(self.authorize(eve, EDIT_POLICY)).reason, "not_leader")
        call, local = Call(eve), Peer("", 0, uid=0)
        call.caller = self.operators.admit_standing_by("/gate.v1.Admin/RootStatus", local)
        refusal = refusal_of(self.operators.authorize(call, EDIT_POLICY))
        self.assertEqual(refusal.reason, "denied")
        self.assertIn("does not let you editPolicy", refusal.text)
        refusals.store = leading
        self.assertEqual(house.records("operator.refused"), [])
        value_of(house.refusals.summarise())
        (summary,) = house.records("refusals.summary")
        self.assertEqual(summary["actor"], {"kind": "person", "id": EVE})
        self.assertEqual((summary["reason"], summary["details"]["count"]), ("standing_by", 1))

    def test_without_a_group(self) -> None:
        """A good certificate alone is no right to anything."""
        eve = self.house.peer(self.house.eve)
        for action in ("viewStatus", "manageNodes", EDIT_POLICY):
            self.assertEqual(refusal_of(self.authorize(eve, action)).reason, "denied")
        actors = {one["actor"]["id"] for one in self.house.records("operator.refused")}
        self.assertEqual(actors, {EVE})

    def test_second_factor(self) -> None:
        """How long ago a second factor was presented is known of who signed in with an account."""
        self.begin(POLICY + RECENT)
        eve, house = self.house.peer(self.house.eve), self.house
        self.assertEqual(refusal_of(self.authorize(eve, "manageResources")).reason, "denied")
        for issuer in ("https://id.example", LOCAL_ISSUER):
            self.signed_in(issuer)
            is_known = issuer == LOCAL_ISSUER
            answer = self.authorize(eve, "manageResources")
            if is_known:
                self.assertEqual(value_of(answer), person(EVE))
            else:
                self.assertEqual(refusal_of(answer).reason, "denied")
        house.clock.advance(900)
        self.assertEqual(refusal_of(self.authorize(eve, "manageResources")).reason, "denied")
        record = house.records("operator.refused")[-1]
        self.assertEqual(record["request"]["context"]["mfa_age_seconds"], 900)

    def test_told_to_sign_in_again(self) -> None:
        """A refusal that a recent second factor would turn says how to get one; no other does."""
        self.begin(POLICY + RECENT)
        eve = self.house.peer(self.house.eve)
        old = self.house.person(EVE, factor_at=int(self.house.now()) - 900)
        told = refusal_of(self.authorize(self.house.peer(old), "manageResources"))
        self.assertIn("without a recent second factor; sign in again", told.text)
        self.assertTrue(told.text.endswith(": svc login"))
        self.assertEqual(told.reason, "denied")
        # A provider that tells of none tells of none at the next sign-in either.
        told = refusal_of(self.authorize(eve, "manageResources"))
        self.assertIn("your sign-in told of none", told.text)
        self.assertIn("ask your operator", told.text)
        other = refusal_of(self.authorize(eve, "rotateCA"))
        self.assertNotIn("svc login", other.text)

    def signed_in(self, issuer: str) -> None:
        """Let Eve's certificate have come by a sign-in with an account of this issuer."""
        house, sha256 = self.house, self.house.eve.sha256
        link = IdentityLink(
            id=f"link-{issuer}", issuer=issuer, subject="eve", person_id=EVE, salt=bytes(16)
        )
        row = SignIn(
            id=f"sign-in-{issuer}",
            identity_id=link.id,
            person_id=EVE,
            auth_time=house.now(),
            began_at=house.now(),
            ends_at=9e9,
            certificate_sha256=sha256 if issuer == LOCAL_ISSUER else bytes(32),
            key_sha256=bytes(32),
            generation=1,
        )

        def change(tx: ITransaction) -> None:
            tx.sign_ins.link(link)
            tx.sign_ins.put(row)

        house.run(change)
        house.by_sql(
            f"UPDATE person_certificates SET sign_in_id = '{row.id}' "
            f"WHERE sha256 = x'{sha256.hex()}'"
        )
        house.run(lambda tx: None)

    def test_groups_of_the_moment(self) -> None:
        """Who leaves the group may do nothing at the next call on the same connection."""
        ada = self.house.peer(self.house.ada)
        value_of(self.authorize(ada, "manageNodes"))
        self.house.run(lambda tx: tx.people.set_groups(ADA, ()))
        self.house.refresh()
        self.assertEqual(refusal_of(self.authorize(ada, "manageNodes")).reason, "denied")

    def test_disabled(self) -> None:
        """A person who was disabled is refused at the next call."""
        ada = self.house.peer(self.house.ada)
        self.house.run(lambda tx: tx.people_changes.disable(ADA))
        self.house.refresh()
        self.assertEqual(self.refused(ada), "disabled_person")
        self.assertEqual(refusal_of(self.authorize(ada, "manageNodes")).reason, "disabled_person")

    def test_revoked_certificate(self) -> None:
        """A revoked certificate is refused, also before what is cached has seen it."""
        ada, sha256 = self.house.peer(self.house.ada), self.house.ada.sha256
        self.house.run(lambda tx: tx.certificates.revoke(sha256, 2.0))
        refusal = refusal_of(self.authorize(ada, "manageNodes"))
        self.assertEqual(refusal.reason, "revoked_certificate")
        self.house.refresh()
        self.assertEqual(self.refused(ada), "revoked_certificate")

    def test_not_in_the_registry(self) -> None:
        """A certificate under our own CA that Authority never issued does nothing."""
        forged = self.house.holder(Role.USER, ADA)
        refusal = refusal_of(self.authorize(self.house.peer(forged), "manageNodes"))
        self.assertEqual(refusal.reason, "revoked_certificate")

    def test_expired(self) -> None:
        """The certificate's time counts at each call."""
        ada = self.house.peer(self.house.ada)
        self.house.clock.advance(86400.0 + 1)
        self.assertEqual(self.refused(ada), "certificate_expired")
        self.assertIsInstance(refusal_of(self.authorize(ada, "manageNodes")), CertificateRefused)

    def test_nodes_and_nobody(self) -> None:
        """Nodes have no way in, nor has a caller without a certificate."""
        for holder in (self.house.proxy, self.house.connector):
            self.assertEqual(self.refused(self.house.peer(holder)), "certificate_role")
        nobody = Peer("127.0.0.1", 1, tls=True)
        self.assertEqual(self.refused(nobody), "unauthenticated")
        self.assertIsInstance(refusal_of(self.authorize(nobody, "viewStatus")), Unauthenticated)

    def test_forwarded(self) -> None:
        """A command that a standby forwards is decided here, for the person of the certificate."""
        house, operators = self.house, self.operators

        async def served(call: IRpcCall) -> None:
            assert await call.receive() == b"asked"
            actor = await operators.authorize(call, "manageNodes")
            await call.send(actor.id.encode())

        method = "/gate.v1.Admin/AddNode"
        forwarded = ForwardedCalls(
            house.world.verifier,
            nothing,
            methods={method: ForwardedMethod(operators.admit_person, served)},
        )
        standby = house.peer(house.holder(Role.AUTHORITY))

        def ask(chain: tuple[bytes, ...]) -> Any:
            call = Call(standby)
            message = forward_message(Forwarded(method=method, request=b"asked", chain=chain))
            call.give(message.SerializeToString(), None)
            serving: Any = forwarded.service().methods["Call"](call)
            asking: Deferred[None] = Deferred.fromCoroutine(serving)
            return call, asking

        call, asking = ask(house.ada.chain)
        self.successResultOf(asking)
        self.assertEqual(pb.ForwardResponse.FromString(call.sent[0]).response, ADA.encode())
        for chain in ((), house.proxy.chain, house.eve.chain):
            _, asking = ask(chain)
            self.failureResultOf(asking, SvcError)

    def test_no_rescue(self) -> None:
        """While no policy is in force only the host's own user may set one."""
        self.begin("")
        ada = self.house.peer(self.house.ada)
        self.assertEqual(refusal_of(self.authorize(ada, EDIT_POLICY)).reason, "denied")
        local = evolve(Peer("", 0), uid=7)
        self.assertEqual(value_of(self.authorize(local, EDIT_POLICY)), operator(7))
        (record,) = self.house.records("operator.refused")
        self.assertEqual(record["reason"], "no_policy")

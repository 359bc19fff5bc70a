"""Who manages people takes over no account with rights that they do not have."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.signin.links import IdentityLinks
from svc.authority.state.recorder import person
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.cluster.person import Person
from svc.model.policy.rules import PolicyRules
from svc.proto.gate.v1 import account_pb2 as pb
from svc.proto.gate.v1 import sign_in_pb2
from tests.authority.accounts.memory import ROOT, AccountHouse
from tests.authority.house import ADA, refusal_of, value_of
from tests.authority.registry.test_rights import POLICY

DESK = "d" * 26


class AccountRightsTests(SynchronousTestCase):
    """Dora is at the service desk; Ada is an administrator with an account."""

    def setUp(self) -> None:
        self.at = AccountHouse()
        self.house = house = self.at.house
        self.at.enrolled("ada")

        def begin(tx: ITransaction) -> None:
            for group in ("admins", "desk"):
                tx.people.add_group(group, 1.0)
            tx.people.set_groups(ADA, ("admins",))
            tx.people.add(Person(DESK, "dora", groups=("desk",)), 1.0)
            tx.policies.activate(tx.policies.add(POLICY, "test", 1.0).version, 1.0)

        house.run(begin)
        house.refresh()

    def code(self, name: str, by: Actor, *, rules: PolicyRules | None = None, **more: Any) -> Any:
        """A code, as somebody asks for it."""
        admin = evolve(self.at.admin, people=self.house.registry(rules).people)
        return admin.add(pb.AddAccountRequest(person=name, **more), by)

    def test_reset(self) -> None:
        """The desk resets no administrator's account, whose sign-ins and codes stay."""
        secrets = self.house.run(lambda tx: tx.secrets.of(ADA))
        refusal = refusal_of(self.code("ada", person(DESK), reset=True))
        self.assertEqual(refusal.reason, "lifts_rights")
        self.assertEqual(self.house.run(lambda tx: tx.secrets.of(ADA)), secrets)
        value_of(self.code("ada", ROOT, reset=True))

    def test_new(self) -> None:
        """The desk gives codes to others, and makes no administrator."""
        refusal = refusal_of(self.code("fay", person(DESK), groups=["admins"]))
        self.assertEqual(refusal.reason, "lifts_rights")
        value_of(self.code("fay", person(DESK)))
        value_of(self.code("fay", person(DESK), reset=True))
        value_of(self.code("eve", person(DESK)))

    def test_approver(self) -> None:
        """Where policies need approvals, only the host resets the account of an approver."""
        rules = PolicyRules(approvals=1)
        refusal = refusal_of(self.code("ada", person(ADA), rules=rules, reset=True))
        self.assertEqual(refusal.reason, "approver_protected")
        refusal = refusal_of(self.code("fay", person(ADA), rules=rules, groups=["admins"]))
        self.assertEqual(refusal.reason, "approver_protected")
        value_of(self.code("ada", ROOT, rules=rules, reset=True))

    def test_link(self) -> None:
        """The desk makes no account at the provider an administrator's."""
        house = self.house
        links = IdentityLinks(house.writer(), "https://id.example", house.rights())
        request = sign_in_pb2.LinkIdentityRequest(person="ada", subject="00u1")
        self.assertEqual(refusal_of(links.link(request, person(DESK))).reason, "lifts_rights")
        request = sign_in_pb2.LinkIdentityRequest(person="eve", subject="00u1")
        value_of(links.link(request, person(DESK)))

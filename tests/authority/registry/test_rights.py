"""Who manages people gets no right by it that they do not have, and makes no approvers."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.registry.admin import RegistryAdmin
from svc.authority.registry.rights import RightsRefused
from svc.authority.state.recorder import operator, person
from svc.model.cluster.person import Person
from svc.model.policy.rules import PolicyRules
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import ADA, EVE, House, refusal_of, value_of
from tests.support.proof import proves

ROOT = operator(7)
DESK, BOB = "d" * 26, "e" * 26
OPERATORS = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("desk")
permit (
  principal in Group::"desk",
  action in [Action::"viewStatus", Action::"managePersons"],
  resource is Cluster
);
"""
POLICY = (
    OPERATORS
    + """\
@id("admins")
permit (principal in Group::"admins", action in Action::"administer", resource is Cluster);
"""
)
WITH_A_FACTOR = POLICY.replace(
    'Group::"admins", action in Action::"administer", resource is Cluster)',
    'Group::"admins", action in Action::"administer", resource is Cluster)\n'
    "when { context has mfa_age_seconds && context.mfa_age_seconds < 3600 }",
)


class RightsTests(SynchronousTestCase):
    """Dora is at the service desk, Ada is an administrator, Bob and Eve are neither."""

    def begin(self, policy: str = POLICY, rules: PolicyRules | None = None) -> RegistryAdmin:
        self.house = house = House(policy)
        for group in ("admins", "desk"):
            house.add_group(group)
        house.run(lambda tx: tx.people.add(Person(DESK, "dora", groups=("desk",)), 1.0))
        house.run(lambda tx: tx.people.add(Person(BOB, "bob"), 1.0))
        house.run(lambda tx: tx.people.set_groups(ADA, ("admins",)))
        house.refresh()
        self.registry = house.registry(rules)
        return self.registry

    def join(self, name: str, group: str = "admins", by: str = DESK) -> Any:
        request = pb.ChangeMembersRequest(group=group, add=[name])
        return self.registry.groups.change_members(request, person(by))

    def token(self, name: str, *groups: str, by: str = DESK) -> Any:
        request = pb.AddPersonRequest(name=name, groups=groups, join_groups=True)
        return self.registry.people.add_person(request, person(by))

    def refused(self, doing: Any, reason: str = "lifts_rights") -> Any:
        before = len(self.house.records())
        refusal = refusal_of(doing)
        self.assertEqual(refusal.reason, reason)
        self.assertIsInstance(refusal, RightsRefused)
        self.assertEqual(len(self.house.records()), before)
        return refusal

    @proves("U-CLS-09")
    def test_membership(self) -> None:
        """The desk adds neither itself nor another to the administrators; other groups it may."""
        self.begin()
        text = self.refused(self.join("dora")).text
        self.assertIn("may approvePolicy after this change, and you may not", text)
        self.refused(self.join("bob"))
        value_of(self.join("bob", "dev"))
        value_of(self.join("eve", "desk"))

    def test_token(self) -> None:
        """The desk gets no token for an administrator, nor for somebody it makes one."""
        self.begin()
        self.refused(self.token("ada"))
        self.refused(self.token("bob", "admins"))
        self.refused(self.token("fay", "admins"))
        self.assertIsNone(self.house.run(lambda tx: tx.people.named("fay")))
        value_of(self.token("bob", "dev"))
        value_of(self.token("fay", "dev"))

    def test_leaving(self) -> None:
        """Nobody leaves a group by the desk whose members are forbidden something."""
        registry = self.begin(
            POLICY.replace('Group::"admins", action', 'Group::"dev", action')
            + '@id("no") forbid (principal in Group::"admins", action == Action::"editPolicy", '
            "resource is Cluster);\n"
        )
        joining = pb.ChangeMembersRequest(group="dev", add=["ada"])
        value_of(registry.groups.change_members(joining, ROOT))

        def leave(group: str) -> Any:
            request = pb.ChangeMembersRequest(group=group, remove=["ada"])
            return registry.groups.change_members(request, person(DESK))

        def remove() -> Any:
            request = pb.RemoveGroupRequest(group="admins", with_members=True)
            return registry.groups.remove_group(request, person(DESK))

        self.assertIn("editPolicy", self.refused(leave("admins")).text)
        self.refused(remove())
        value_of(leave("dev"))
        value_of(remove())

    def test_record(self) -> None:
        """The refusal is on record: who wanted it, by which action, and why not."""
        self.begin()
        house = self.house
        operators = house.operators()
        doing = operators.within_rights(person(DESK), "managePersons", self.join("dora"))
        self.assertEqual(refusal_of(doing).reason, "lifts_rights")
        (record,) = house.records("operator.refused")
        self.assertEqual(record["actor"], {"kind": "person", "id": DESK})
        self.assertEqual((record["cedar_action"], record["decision"]), ("managePersons", "deny"))
        self.assertEqual(record["reason"], "lifts_rights")
        self.assertFalse(house.run(lambda tx: tx.people.get(DESK)).groups == ("admins", "desk"))

    def test_disabled(self) -> None:
        """Somebody who is disabled meanwhile counts as active: the desk could enable them."""
        registry = self.begin()
        bob = pb.ChangePersonRequest(person="bob")
        value_of(registry.people.disable(bob, person(DESK)))
        self.refused(self.join("bob"))

    def test_agent(self) -> None:
        """The desk adds no agent that acts for an administrator."""
        registry = self.begin()
        for owner, others in (("ada", ()), ("bob", ("ada",))):
            request = pb.AddAgentRequest(name="robot", owner=owner, persons=others)
            self.refused(registry.agents.add_agent(request, person(DESK)))
        request = pb.AddAgentRequest(name="robot", owner="bob", persons=["bob"])
        value_of(registry.agents.add_agent(request, person(DESK)))

    def test_with_a_condition(self) -> None:
        """A right that needs a second factor is a right."""
        self.begin(WITH_A_FACTOR)
        self.refused(self.join("bob"))
        self.refused(self.token("ada"))
        value_of(self.join("bob", by=ADA))

    def test_equals(self) -> None:
        """Administrators give others what they have, and so does the host's operator."""
        registry = self.begin()
        value_of(self.join("bob", by=ADA))
        value_of(self.token("bob", by=ADA))
        request = pb.ChangeMembersRequest(group="admins", add=["eve"])
        value_of(registry.groups.change_members(request, ROOT))

    def test_approvers(self) -> None:
        """Where policies need approvals, no administrator makes an approver or signs in as one."""
        registry = self.begin(rules=PolicyRules(approvals=1))
        self.refused(self.join("bob", by=ADA), "approver_protected")
        self.refused(self.token("ada", by=ADA), "approver_protected")
        self.refused(self.token("fay", "admins", by=ADA), "approver_protected")
        value_of(self.token("fay", "dev", by=ADA))
        request = pb.ChangeMembersRequest(group="admins", add=["bob"])
        value_of(registry.groups.change_members(request, ROOT))

    def test_break_glass(self) -> None:
        """Whoever may break the glass has more than the desk, whatever the policy says."""
        self.begin(rules=PolicyRules(break_glass=frozenset({EVE})))
        self.assertIn("editPolicy", self.refused(self.token("eve")).text)
        self.begin(rules=PolicyRules(approvals=1, break_glass=frozenset({EVE})))
        self.refused(self.token("eve", by=ADA), "approver_protected")

"""No change of people or groups takes the right to change the policy from all who must keep it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.state.recorder import operator
from svc.errors import Denied
from svc.model.cluster.person import Person
from svc.model.policy.rules import PolicyRules
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import ADA, EVE, POLICY, House, refusal_of, value_of
from tests.support.proof import proves

ROOT = operator(7)
BY_GROUP = """\
@id("admins") permit (principal in Group::"admins", action in Action::"administer", resource);
@id("dev-views") permit (principal in Group::"dev", action == Action::"view", resource);
"""
BY_LITERAL = """\
@id("operators-if-ada") permit (principal is Operator, action in Action::"administer", resource)
when { User::"%s" in Group::"admins" };
""".replace("%s", ADA)


class LockOutTests(SynchronousTestCase):
    """Eve may break the glass; who administers depends on the group ``admins``."""

    def begin(self, policy: str, *names: str) -> None:
        self.house = house = House(policy)
        rules = PolicyRules(break_glass=frozenset(names))
        self.check = house.lock_out(rules)
        house.recorder.on_people_changed(self.check.require_after)
        house.run(lambda tx: tx.people.add_group("admins", 1.0))
        house.run(lambda tx: tx.people.set_groups(EVE, ("admins",)))
        house.run(lambda tx: tx.people.set_groups(ADA, ("admins", "dev")))
        house.refresh()
        self.people, self.groups = house.people(), house.groups()

    def leave(self, name: str) -> Any:
        request = pb.ChangeMembersRequest(group="admins", remove=[name])
        return self.groups.change_members(request, ROOT)

    def refused(self, doing: Any) -> None:
        before = len(self.house.records())
        self.assertEqual(refusal_of(doing).reason, "policy_locks_out")
        self.assertEqual(len(self.house.records()), before)

    @proves("U-CLS-09", "G-OPEN-57")
    def test_the_last_one(self) -> None:
        """Who alone keeps it is not disabled, removed or taken out; the group stays as well."""
        self.begin(BY_GROUP, EVE)
        eve = pb.ChangePersonRequest(person="eve")
        self.refused(self.people.disable(eve, ROOT))
        self.refused(self.people.remove(eve, ROOT))
        self.refused(self.leave("eve"))
        self.refused(
            self.groups.remove_group(pb.RemoveGroupRequest(group="admins", with_members=True), ROOT)
        )
        self.assertEqual(len(value_of(self.leave("ada")).removed), 1)

    def test_one_of_two(self) -> None:
        """Of two, either may go, and then the other one must stay."""
        self.begin(BY_GROUP, EVE, ADA)
        value_of(self.people.disable(pb.ChangePersonRequest(person="eve"), ROOT))
        self.refused(self.people.disable(pb.ChangePersonRequest(person="ada"), ROOT))
        value_of(self.people.enable(pb.ChangePersonRequest(person="eve"), ROOT))
        value_of(self.people.disable(pb.ChangePersonRequest(person="ada"), ROOT))

    def test_policy_about_operators(self) -> None:
        """Where the policy looks at nobody, nothing of people matters, and nothing is computed."""
        self.begin(POLICY)
        for name in ("ada", "eve"):
            value_of(self.people.remove(pb.ChangePersonRequest(person=name), ROOT))

    def test_person_named_in_a_condition(self) -> None:
        """An operator's right that depends on somebody's group is seen to go."""
        self.begin(BY_LITERAL)
        self.refused(self.leave("ada"))
        value_of(self.leave("eve"))

    def test_unsigned_person(self) -> None:
        """A break-glass principal who was put into the group by SQL keeps nothing."""
        self.begin(BY_GROUP, EVE, ADA)
        value_of(self.leave("ada"))
        self.house.by_sql(f"INSERT INTO memberships VALUES ('{ADA}', 'admins')")
        self.refused(self.leave("eve"))

    def test_person_who_is_not_there(self) -> None:
        """A name of nobody keeps nothing, and a policy that would only keep it is refused."""
        self.begin(BY_GROUP, EVE, "g" * 26)
        engine = self.house.policy.engine
        assert engine is not None
        self.check.require(engine)
        self.house.run(lambda tx: tx.people_changes.disable(EVE))
        self.house.refresh()
        assert self.house.policy.engine is not None
        with self.assertRaises(Denied):
            self.check.require(self.house.policy.engine)

    def test_what_to_change(self) -> None:
        """A policy that forbids it is named, since no permit that is added prevails over it."""
        forbid = '@id("%s") forbid (principal, action == Action::"editPolicy", resource);\n'
        many = "".join(forbid % f"no-{number}" for number in range(7))
        for text, told in (
            (BY_GROUP, '; add: @id("operators-administer") permit (principal is Operator, '),
            (POLICY + forbid % "nobody-edits", "; forbidden by: nobody-edits"),
            (POLICY + many, "; forbidden by: no-0, no-1, no-2, no-3, no-4 and 2 more"),
        ):
            house = House(text)
            engine = house.policy.engine
            assert engine is not None
            refusal = self.assertRaises(Denied, house.lock_out().require, engine)
            self.assertIn(told, refusal.text)

    def test_without_a_policy(self) -> None:
        """While no policy is in force there is nothing to keep."""
        house = House(policy="")
        house.recorder.on_people_changed(house.lock_out().require_after)
        house.run(lambda tx: tx.people.add(Person("f" * 26, "fay"), 1.0))
        value_of(house.people().remove(pb.ChangePersonRequest(person="eve"), ROOT))

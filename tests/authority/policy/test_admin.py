"""Policies come into force, or leave the one before in its place; operators are decided by them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.admin import FIRST_POLICY
from svc.authority.registry.operators import EDIT_POLICY, VIEW_POLICY
from svc.authority.state.recorder import operator, person
from svc.errors import Denied, SvcError, Unauthenticated
from svc.interfaces.rpc import Peer
from svc.messages.snapshot import decode_snapshot
from svc.model.policy.rules import PolicyRules
from svc.policy.bundle import apply, decode_bundle, decode_delta, encode_bundle
from svc.policy.refusals import GUARD_TIMEOUT, INVALID, refused
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.changing import policies
from tests.authority.house import ADA, EVE, POLICY, Call, House, outcome, refusal_of, value_of
from tests.support.logged import logged
from tests.support.proof import proves

ACTOR = operator(7)
CLAIMS = """\
@id("deploy-only") permit (principal, action == Action::"dbConnect", resource)
when { context has db_name && context.db_name == "deploy" };
@id("not-root") forbid (principal, action == Action::"dbConnect", resource)
when { context has db_name && context.db_name == "root" };
"""
MORE = POLICY + '@id("eve-views") permit (principal, action == Action::"view", resource);\n'


class Desk(SynchronousTestCase):
    def setUp(self) -> None:
        self.begin(House())

    def begin(self, house: House) -> None:
        self.house = house
        self.operators = house.operators()
        self.admin = policies(house)

    def setting(self, text: str) -> Any:
        return self.admin.set(pb.SetPolicyRequest(text=text), ACTOR)

    @property
    def version(self) -> int:
        assert self.house.policy.engine is not None
        return self.house.policy.engine.version


class SettingTests(Desk):
    def test_set_show_history(self) -> None:
        """A text is kept as the next version, recorded, in force, and can be read again."""
        done = value_of(self.setting(MORE))
        self.assertEqual((done.version, self.version, self.house.applied), (2, 2, [1, 2]))
        record = self.house.records("policy.activate")[0]
        self.assertEqual(record["details"]["policy_digest"], done.sha256)
        shown = value_of(self.admin.show(pb.ShowPolicyRequest(), ACTOR))
        self.assertEqual(shown.text, MORE)
        history = value_of(self.admin.history(pb.PolicyHistoryRequest(), ACTOR))
        self.assertEqual([one.version for one in history.versions], [2, 1])
        unknown = self.admin.show(pb.ShowPolicyRequest(version=9), ACTOR)
        self.assertEqual(refusal_of(unknown).reason, "unknown_version")

    def test_who_set_it(self) -> None:
        """A person who set a policy is told by id and by name; somebody of the host has no name."""
        value_of(self.setting(MORE))
        value_of(self.admin.set(pb.SetPolicyRequest(text=f"{MORE}// again"), person(ADA)))
        history = value_of(self.admin.history(pb.PolicyHistoryRequest(), ACTOR))
        told = [(one.author, one.author_name) for one in history.versions]
        self.assertEqual(told[:2], [(ADA, "ada"), (ACTOR.id, "")])
        shown = value_of(self.admin.show(pb.ShowPolicyRequest(), ACTOR))
        self.assertEqual((shown.author, shown.author_name), (ADA, "ada"))

    def test_refused_texts_change_nothing(self) -> None:
        """A text that is wrong, or would lock its operators out, is refused and recorded."""
        for text, reason in (
            ("permit (", "policy_invalid"),
            ('@id("x") permit (principal is User, action, resource);', "policy_locks_out"),
        ):
            self.assertEqual(refusal_of(self.setting(text)).reason, reason)
            self.assertEqual(self.house.records("policy.refused")[-1]["reason"], reason)
        self.assertEqual((self.version, self.house.applied), (1, [1]))

    def test_claims_of_the_client(self) -> None:
        """A text that reads what nothing enforces is refused under a reason of its own."""
        refusal = refusal_of(self.setting(POLICY + CLAIMS))
        self.assertEqual(refusal.reason, "policy_unenforced_fact")
        self.assertIn("policies deploy-only, not-root: ", refusal.text)
        record = self.house.records("policy.refused")[-1]
        self.assertEqual(record["reason"], "policy_unenforced_fact")
        self.assertEqual(self.version, 1)

    def test_another_was_faster(self) -> None:
        """Of two texts set on one base the second is told to look again."""

        async def guard(text: str) -> None:
            self.house.policy.guard = self.house._guard
            await self.setting(MORE)

        self.house.policy.guard = guard
        self.assertEqual(refusal_of(self.setting(FIRST_POLICY)).reason, "policy_changed")
        self.assertEqual(self.version, 2)

    def test_kept_but_not_applied_is_said(self) -> None:
        """An operator is told when the text is kept and does not decide yet."""
        calls: list[str] = []

        async def guard(text: str) -> None:
            calls.append(text)
            if len(calls) > 1:
                raise refused(GUARD_TIMEOUT, "too slow")

        self.house.policy.guard = guard
        self.assertEqual(refusal_of(self.setting(MORE)).reason, "policy_not_applied")
        self.house.refresh()
        self.assertEqual(self.version, 1)
        self.house.policy.guard = self.house._guard
        self.house.refresh()
        self.assertEqual(self.version, 2)

    def test_first_policy(self) -> None:
        """A new cluster begins with a policy by which its operators administer."""
        self.begin(House(policy=""))
        value_of(self.admin.ensure_first(ACTOR))
        value_of(self.admin.ensure_first(ACTOR))
        self.house.refresh()
        self.assertEqual(len(self.house.records("policy.activate")), 1)
        decision = self.operators.decide(self.house.policy.engine, 7, EDIT_POLICY)
        assert decision is not None
        self.assertTrue(decision.allowed)


class InForceTests(Desk):
    def store_version(self, text: str) -> None:
        """A version that comes by the store, past the admin."""
        self.house.run(
            lambda tx: tx.policies.activate(tx.policies.add(text, "sql", 1.0).version, 1.0)
        )

    @proves("G-POL-02")
    def test_bad_text_in_the_store(self) -> None:
        """A stored text that is refused leaves the one before, and is tried once."""
        self.house.guard_refuses = refused(INVALID, "no")
        self.store_version("permit (")
        guarded = len(self.house.guarded)
        self.house.refresh()
        self.house.refresh()
        self.assertEqual((self.version, len(self.house.guarded) - guarded), (1, 1))
        self.assertEqual(self.house.state_cache.state.policy.version, 2)  # type: ignore[union-attr]
        decision = self.operators.decide(self.house.policy.engine, 7, EDIT_POLICY)
        assert decision is not None
        self.assertEqual((decision.allowed, decision.policy_version), (True, 1))

    def test_facts_go_on_beside_a_bad_text(self) -> None:
        """While a stored text is refused, who is in which group still comes into force."""
        self.house.guard_refuses = refused(INVALID, "no")
        self.store_version("permit (")
        self.house.add_group("late")
        self.house.refresh()
        engine = self.house.policy.engine
        assert engine is not None
        self.assertEqual(
            (engine.version, engine.revision), (1, self.house.state_cache.state.revision)
        )
        assert self.house.publisher.published is not None
        bundle = decode_bundle(self.house.publisher.published.bundle)
        self.assertEqual((bundle.policy_version, bundle.policy_text), (1, POLICY))
        self.assertIn("late", {entity.uid.id for entity in bundle.entities})

    def test_claims_in_the_store(self) -> None:
        """In a text that was in force before, permits that read a claim are named in the log."""
        events = logged(self)
        self.store_version(POLICY + CLAIMS)
        self.house.refresh()
        self.house.refresh()
        self.assertEqual(self.version, 2)
        told = [
            (event["log_level"].name, event["policies"], event["facts"])
            for event in events
            if event.get("reason") == "policy_unenforced_fact"
        ]
        self.assertEqual(
            told,
            [("warn", ["deploy-only"], ["db_name"]), ("warn", ["not-root"], ["db_name"])],
        )

    def test_guard_out_of_time_is_tried_again(self) -> None:
        """A text whose trial only took too long comes into force at a later pass."""
        self.house.guard_refuses = refused(GUARD_TIMEOUT, "slow")
        self.store_version(MORE)
        self.house.refresh()
        self.assertEqual(self.version, 1)
        self.house.guard_refuses = None
        self.house.refresh()
        self.assertEqual(self.version, 2)

    def test_older_facts_change_nothing(self) -> None:
        """A pass that read the store earlier does not bring back what it read."""
        older = self.house.state_cache.state
        self.house.run(lambda tx: tx.people.add_group("ops", 2.0))
        self.store_version(MORE)
        self.house.refresh()
        engine = self.house.policy.engine
        value_of(self.house.policy.follow(older))
        self.assertIs(self.house.policy.engine, engine)

    def test_one_at_a_time(self) -> None:
        """Two changes at once come into force one after the other, the newer last."""
        waiting: Deferred[None] = Deferred()

        async def guard(text: str) -> None:
            await waiting

        self.house.policy.guard = guard
        self.store_version(MORE)
        first = outcome(self.house.policy.follow(value_of(self.house.state_cache.refresh())))
        self.store_version(POLICY)
        second = outcome(self.house.policy.follow(value_of(self.house.state_cache.refresh())))
        self.assertEqual((first, second), ([], []))
        waiting.callback(None)
        self.assertEqual((first, second, self.house.applied), ([None], [None], [1, 2, 3]))

    def test_bundles_and_deltas_lead_to_one_state(self) -> None:
        """A Proxy that applies the delta holds the very bundle that was signed."""
        before = self.house.publisher.published
        self.house.run(lambda tx: tx.people.add_group("ops", 2.0))
        self.house.refresh()
        after = self.house.publisher.published
        assert before is not None and after is not None
        self.assertEqual(after.parent, before.digest)
        made = encode_bundle(apply(decode_bundle(before.bundle), decode_delta(after.delta)))
        self.assertEqual(made, after.bundle)

    def test_another_policy_is_published_whole(self) -> None:
        """A new text comes without a delta, under its version."""
        self.store_version(MORE)
        self.house.refresh()
        published, signed = self.house.publisher.published, self.house.publisher._signed
        assert published is not None and signed is not None
        self.assertEqual((published.delta, published.policy_version), (b"", 2))
        self.assertEqual(decode_snapshot(signed.payload).policy_version, 2)


class OperatorTests(Desk):
    def authorize(self, uid: int | None, action: str) -> Any:
        return self.operators.authorize(Call(Peer("", 0, uid=uid)), action)

    def test_owner_and_root_may_connect(self) -> None:
        """Nobody else of the machine gets as far as a decision."""
        for uid in (0, 7):
            self.operators.admit("/m", Peer("", 0, uid=uid))
        for other in (8, None):
            with self.assertRaises(Unauthenticated):
                self.operators.admit("/m", Peer("", 0, uid=other))

    def test_the_policy_decides_and_refusals_are_recorded(self) -> None:
        """An operator whom the policy refuses is told a decision id that is on record."""
        self.assertEqual(value_of(self.authorize(7, "manageNodes")), operator(7))
        refusal = refusal_of(self.authorize(7, "noSuchAction"))
        self.assertIsInstance(refusal, Denied)
        (record,) = self.house.records("operator.refused")
        self.assertEqual(record["decision_id"], refusal.details["decision_id"])
        self.assertEqual((record["actor"]["id"], record["decision"]), ("local:7", "error"))

    @proves("G-OPEN-57")
    def test_break_glass_principals(self) -> None:
        """Who is named gets at policies whatever these say, and each use is recorded."""
        self.begin(House('@id("nobody") forbid (principal, action, resource);'))
        self.operators.rules = PolicyRules(break_glass=frozenset({"local:7", EVE}))
        house = self.house
        for action in (EDIT_POLICY, VIEW_POLICY):
            self.assertEqual(value_of(self.authorize(7, action)), operator(7))
            self.assertEqual(refusal_of(self.authorize(0, action)).reason, "denied")
        self.assertEqual(refusal_of(self.authorize(7, "managePersons")).reason, "denied")
        eve = self.operators.authorize(Call(house.peer(house.eve)), EDIT_POLICY)
        self.assertEqual(value_of(eve), person(EVE))
        ada = self.operators.authorize(Call(house.peer(house.ada)), EDIT_POLICY)
        self.assertEqual(refusal_of(ada).reason, "denied")
        used = house.records("operator.break_glass")
        self.assertEqual([one["actor"]["id"] for one in used], ["local:7", "local:7", EVE])
        self.assertEqual({one["reason"] for one in used}, {"denied"})
        self.assertEqual(used[0]["policies"], ["nobody"])
        house.run(lambda tx: tx.people_changes.disable(EVE))
        house.refresh()
        eve = self.operators.authorize(Call(house.peer(house.eve)), EDIT_POLICY)
        self.assertEqual(refusal_of(eve).reason, "disabled_person")

    def test_break_glass_only_without_a_policy(self) -> None:
        """While no policy is in force an operator may set one, and nothing else."""
        self.begin(House(policy=""))
        self.assertEqual(value_of(self.authorize(7, EDIT_POLICY)), operator(7))
        self.assertIsInstance(refusal_of(self.authorize(7, "manageNodes")), Denied)
        value_of(
            self.setting(
                '@id("o") permit (principal is Operator, '
                'action == Action::"editPolicy", resource is Cluster);'
            )
        )
        self.assertIsInstance(refusal_of(self.authorize(7, "manageNodes")), SvcError)
        self.assertEqual(value_of(self.authorize(7, EDIT_POLICY)), operator(7))

"""Deciding: the same answers as the whole policy set, and never a wrong one from memory."""

import gc
import json
import os
import weakref
from random import Random
from typing import Any

from cedarpy import Decision as CedarDecision
from cedarpy import Entities, PolicySet, is_authorized, policies_to_pst
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.interfaces.policy import IPolicyEngine
from svc.model.policy.access import AccessRequest, Decision, Entity, EntityUid
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import (
    Facts,
    GroupFacts,
    PersonFacts,
    cedar_json,
    entities_of,
    slice_digest,
)
from svc.policy.reads import reads_of
from svc.policy.refusals import EntitiesRefused, PolicyRefused
from svc.proxy.sessions.gate import _basis
from tests.policy.samples import (
    CLUSTER,
    SCHEMA,
    WORDS,
    altered,
    ask,
    engine,
    everybody,
    random_policy,
    random_request,
)
from tests.support.examples import examples

ALL = '@id("all") permit (principal, action, resource);'


def by_cedar(handles: "tuple[PolicySet, Entities]", request: AccessRequest) -> Any:
    """Verdict, names and whether it erred, from the whole set with the whole context."""
    context: dict[str, Any] = dict(request.context)
    reported = context.get("proxy_reported")
    if reported is not None:
        address = {"__extn": {"fn": "ip", "arg": reported["source_address"]}}
        context["proxy_reported"] = {"source_address": address}
    asked = {
        "principal": request.principal.form(),
        "action": {"type": "Action", "id": request.action},
        "resource": request.resource.form(),
        "context": json.dumps(context),
    }
    result = is_authorized(asked, *handles)
    names = tuple(sorted(result.diagnostics.id_annotations_by_reason.values()))
    erred = bool(result.diagnostics.errors)
    return result.decision is CedarDecision.Allow and not erred, names, erred


def seen(decision: Decision) -> Any:
    """The same three things of our decision."""
    return decision.allowed, decision.policies, decision.decision == "error"


def _fact(name: str, value: Any) -> "dict[str, Any]":
    return {name: value}


def fresh(text: str, entities: "tuple[Entity, ...]") -> CompiledPolicy:
    """An engine that remembers nothing."""
    return compile_policy(text, WORDS, entities, 1, 7)


TEXTS = 10 if os.environ.get("SVC_LONG") == "1" else 4
"""Random policies that are tried."""


class AgreementTests(SynchronousTestCase):
    """Slices against the whole set."""

    def test_random_requests(self) -> None:
        """Random requests, a thousand in the long form, are decided as the whole set decides."""
        random = Random(20)
        handle = Entities.from_json_str(cedar_json(everybody()), SCHEMA)
        verdicts: list[str] = []
        for _ in range(TEXTS):
            text = "\n".join(random_policy(random, f"p{n}") for n in range(25))
            ours, whole = engine(text), PolicySet.from_str(text)
            for _ in range(100):
                request = random_request(random)
                if request.context.get("proxy_reported", {}) == {"source_address": "odd"}:
                    continue  # Cedar refuses the request whole
                decision = ours.decide(request)
                self.assertEqual(seen(decision), by_cedar((whole, handle), request), request)
                self.assertEqual(seen(decision), seen(ours.decide_by_all(request)))
                verdicts.append(decision.decision)
        self.assertGreater(len(verdicts), 70 * TEXTS)
        for verdict in ("allow", "deny", "error"):
            self.assertGreater(verdicts.count(verdict), 2 * TEXTS, verdict)

    def test_interface(self) -> None:
        """The engine keeps its interface."""
        verifyObject(IPolicyEngine, engine(ALL))


class CacheTests(SynchronousTestCase):
    """An answer from memory is the answer."""

    TEXT = "\n".join(random_policy(Random(5), f"p{n}") for n in range(40))
    WARM = engine(TEXT)

    @settings(deadline=None, max_examples=examples(150))
    @given(st.integers(0, 2**32))
    def test_cached_equals_uncached(self, seed: int) -> None:
        """Whatever was asked before, an engine that remembers answers as one that does not."""
        request = random_request(Random(seed))
        cold = fresh(self.TEXT, self.WARM.entities)
        first, second, unremembered = (
            self.WARM.decide(request),
            self.WARM.decide(request),
            cold.decide(request),
        )
        self.assertEqual(first, unremembered)
        self.assertEqual(second, unremembered)

    def test_clock(self) -> None:
        """A policy that reads the hour or the second follows it, also for a repeated request."""
        for name in ("hour", "now"):
            text = (
                f'@id("late") permit (principal, action, resource) '
                f"when {{ context has {name} && context.{name} > 12 }};"
            )
            ours = engine(text)
            answers = [
                ours.decide(ask(**_fact(name, value))).allowed for value in (12, 13, 12, 13, 14)
            ]
            self.assertEqual(answers, [False, True, False, True, True], name)

    def test_seconds_are_not_kept(self) -> None:
        """Answers that read the second fill no memory."""
        ours = engine(ALL[:-1] + " when { context has now && context.now > 1 };")
        for now in range(50):
            ours.decide(ask(now=now))
        self.assertEqual(len(ours._answers), 0)

    def test_unread_facts_share_an_answer(self) -> None:
        """Facts that no policy reads do not multiply what is remembered."""
        ours = engine(ALL)
        for hour in range(24):
            self.assertTrue(ours.decide(ask(hour=hour)).allowed)
        self.assertEqual(len(ours._answers), 1)

    def test_a_replaced_engine_is_freed(self) -> None:
        """At once, with all that it remembers: no collection looks at one made early."""
        gc.disable()
        self.addCleanup(gc.enable)
        ours = engine(ALL)
        ours.decide(ask())
        held = weakref.ref(ours)
        del ours
        self.assertIsNone(held())

    def test_over_revisions(self) -> None:
        """What goes on to be remembered is what an engine made anew would say."""
        random, carried = Random(31), 0
        for _ in range(TEXTS):
            text = "\n".join(random_policy(random, f"p{n}") for n in range(12))
            entities = everybody()
            ours = engine(text)
            requests = [random_request(random) for _ in range(40)]
            for revision in range(6):
                for request in requests:
                    ours.decide(request)
                entities = altered(random, entities)
                ours = ours.with_entities(entities, revision)
                carried += len(ours._answers)
                new = fresh(text, entities)
                for request in requests:
                    self.assertEqual(ours.decide(request), new.decide(request), request)
        self.assertGreater(carried, 16 * TEXTS)

    def test_of_what_changed_nothing_is_kept(self) -> None:
        """A person who left is forgotten with all that was asked for them, at once."""
        ours = engine(ALL)
        for who in ("u1", "u2"):
            ours.decide(ask(who, hour=1))
        others = tuple(one for one in ours.entities if one.uid.id != "u1")
        ours = ours.with_entities(others, 8)
        self.assertEqual([plan.principal["id"] for plan in ours._plans.values()], ["u2"])
        self.assertEqual([plan.principal["id"] for plan, _ in ours._answers], ["u2"])

    def test_a_failed_answer_is_not_kept(self) -> None:
        """What could not be decided is tried again with the next revision."""
        ours = engine(ALL)
        ours.decide(ask("\ud800"))
        self.assertEqual(len(ours._answers), 1)
        self.assertEqual(len(ours.with_entities(ours.entities, 8)._answers), 0)

    def test_full(self) -> None:
        """No more than is allowed is kept, and what is forgotten is decided again."""
        ours = fresh(ALL, everybody()).with_entities(everybody(), 8, max_plans=8, max_answers=8)
        for _ in range(2):
            for n in range(20):
                self.assertTrue(ours.decide(ask(f"u{n}")).allowed)
            self.assertLessEqual(max(len(ours._plans), len(ours._answers)), 8)

    def test_joined_names(self) -> None:
        """Names that read alike when joined are different principals."""
        ours = engine('@id("one") permit (principal == User::"a|b", action, resource);')
        answers = [
            ours.decide(ask(who, what)).allowed for who, what in (("a|b", "c"), ("a", "b|c"))
        ]
        self.assertEqual(answers, [True, False])

    def test_the_decision_holds_its_own_request(self) -> None:
        """A remembered answer comes with the request that was asked now."""
        ours = engine(ALL)
        ours.decide(ask(hour=1))
        self.assertEqual(ours.decide(ask(hour=2)).request, ask(hour=2))


class EntityTests(SynchronousTestCase):
    """Other entities, same policies."""

    TEXT = '@id("ops") permit (principal in Group::"ops", action, resource);'

    def test_swap(self) -> None:
        """A person who joins or leaves a group is decided again with the next revision."""
        facts: list[Facts] = [GroupFacts("ops"), PersonFacts("u1", "ann")]
        before = engine(self.TEXT).with_entities(entities_of(facts, CLUSTER), 8)
        facts[1] = PersonFacts("u1", "ann", ("ops",))
        after = before.with_entities(entities_of(facts, CLUSTER), 9)
        answers = [e.decide(ask()).allowed for e in (before, after, before)]
        self.assertEqual(answers, [False, True, False])
        self.assertEqual((before.revision, after.revision), (8, 9))

    def test_marks(self) -> None:
        """Engines are told apart also where rows went without a new revision."""
        before = engine(self.TEXT)
        after = before.with_entities(before.entities[1:], before.revision)
        self.assertNotEqual(before.mark, after.mark)
        self.assertNotEqual(_basis(before, 1.2), _basis(after, 1.9))
        self.assertEqual(_basis(before, 1.2), _basis(before, 1.9))

    def test_digest(self) -> None:
        """The digest is that of the entities which are kept for replay, and tells them apart."""
        ours = engine(self.TEXT)
        one, other = ask("u1"), ask("u2")
        decision = ours.decide(one)
        self.assertEqual(decision.entities_digest, slice_digest(ours.entity_slice(one)))
        self.assertNotEqual(decision.entities_digest, ours.decide(other).entities_digest)
        names = {entity.uid.type for entity in ours.entity_slice(one)}
        self.assertEqual(names, {"User", "Group", "TcpService"})

    def test_slice_is_enough_for_replay(self) -> None:
        """An engine over the kept slice alone decides alike, with the same digest."""
        random = Random(9)
        ours = engine("\n".join(random_policy(random, f"p{n}") for n in range(20)))
        for _ in range(100):
            request = random_request(random)
            again = ours.with_entities(ours.entity_slice(request), 7)
            self.assertEqual(again.decide(request), ours.decide(request))

    def test_refused(self) -> None:
        """Entities that the vocabulary does not allow are refused, and so are groups in a ring."""
        ours = engine(ALL)
        person = entities_of([PersonFacts("u1", "ann")], CLUSTER)
        for bad in ([*person, *person], [_entity("Spaceship")], [_entity("Action")], _ring()):
            self.assertRaises(EntitiesRefused, ours.with_entities, bad, 1)
            self.assertRaises(EntitiesRefused, ours.with_entities, [*ours.entities, *bad], 1)

    def test_only_what_changed_is_made_anew(self) -> None:
        """An entity that is as it was is the same object, with the text that it has."""
        ours = engine(ALL)
        later = ours.with_entities(everybody()[1:], 8)
        before = {one.uid: one for one in ours.entities}
        self.assertEqual(len(later.entities), len(before) - 1)
        for one in later.entities:
            self.assertIs(one, before[one.uid])


def _entity(type_: str) -> Entity:
    return Entity(EntityUid(type_, "x"))


def _ring() -> list[Entity]:
    one, two = EntityUid("Organization", "1"), EntityUid("Group", "2")
    return [Entity(one, parents=(two,)), Entity(two, parents=(one,))]


class DenyTests(SynchronousTestCase):
    """Anything but a clean Allow denies."""

    def test_forbid_that_errs(self) -> None:
        """A forbid that fails to evaluate denies, though Cedar itself would allow."""
        broken = (
            '@id("broken") forbid (principal, action, resource) '
            "when { context has hour && context.hour * 9223372036854775807 > 1 };"
        )
        decision = engine(ALL + broken).decide(ask(hour=3))
        self.assertEqual((decision.allowed, decision.decision), (False, "error"))
        self.assertEqual(decision.errors, ("policy_erred:broken",))
        self.assertTrue(engine(ALL + broken).decide(ask(hour=0)).allowed)

    def test_malformed_address(self) -> None:
        """An address that is none is an error when a policy reads it."""
        fence = (
            '@id("net") permit (principal, action, resource) when { context has proxy_reported && '
            "context.proxy_reported has source_address && "
            "context.proxy_reported.source_address.isLoopback() };"
        )
        decision = engine(fence).decide(ask(proxy_reported={"source_address": "nowhere"}))
        self.assertEqual((decision.decision, decision.errors), ("error", ("request_refused",)))

    def test_not_in_the_vocabulary(self) -> None:
        """Unknown actions, wrong resources, unknown or mistyped facts are errors, not answers."""
        ours = engine(ALL)
        cases: dict[str, AccessRequest] = {
            "unknown_action": ask(action="fly"),
            "action_does_not_apply": ask(type_="Server"),
            "context_unknown:query": ask(query="select 1"),
            "context_unknown": ask(**_fact("\x1b[2J", 1)),
            "context_malformed:hour": ask(hour="1"),
            "context_malformed:now": ask(now=1.5),
            "context_malformed:weekday": ask(weekday=True),
            "context_malformed:approved_request": ask(approved_request={"expires": "9"}),
            "context_malformed:proxy_reported": ask(proxy_reported={"port": 1}),
            "context_malformed:mfa_age_seconds": ask(mfa_age_seconds=1 << 60),
        }
        for word, request in cases.items():
            decision = ours.decide(request)
            self.assertEqual((decision.allowed, decision.errors), (False, (word,)))
            self.assertEqual(ours.entity_slice(request), ())

    def test_hostile_ids(self) -> None:
        """Quotes, controls, invisible and look-alike letters match nobody and break nothing."""
        ours = engine('@id("one") permit (principal == User::"ann", action, resource);')
        self.assertTrue(ours.decide(ask("ann")).allowed)
        for id in ('"', 'ann"', "ann\0", "ann\n", "ann\u200b", "\u0430nn", "Ann", "ann ", "", "\\"):
            decision = ours.decide(ask(id, id))
            self.assertEqual((decision.decision, decision.policies), ("deny", ()), repr(id))

    def test_hostile_ids_among_entities(self) -> None:
        """Such names can also stand in the entities and are then only themselves."""
        for id in ('x"y', "a\0b", "\u200b", "\\", "\n"):
            ours = engine('@id("g") permit (principal in Group::"g", action, resource);')
            facts: list[Facts] = [GroupFacts("g"), PersonFacts(id, "n", ("g",))]
            ours = ours.with_entities(entities_of(facts, CLUSTER), 2)
            self.assertTrue(ours.decide(ask(id)).allowed, repr(id))
            self.assertFalse(ours.decide(ask(id + "x")).allowed, repr(id))

    def test_text_that_is_not_unicode(self) -> None:
        """An id that is no Unicode text is an error, not a crash."""
        decision = engine(ALL).decide(ask("\ud800"))
        self.assertEqual((decision.decision, decision.errors), ("error", ("evaluator_failed",)))

    def test_no_policy(self) -> None:
        """No policy, no access."""
        self.assertEqual(engine("").decide(ask()).decision, "deny")

    def test_runtime_texts_are_scanned(self) -> None:
        """The engine itself refuses a deep text before its parser sees it."""
        refusal = self.assertRaises(
            PolicyRefused,
            engine,
            ALL[:-1] + " when { " + "(" * 800 + "true" + ")" * 800 + " };",
        )
        self.assertEqual(refusal.reason, "policy_too_deep")


class ValueTests(SynchronousTestCase):
    """Facts reach the evaluator as they are."""

    def test_texts(self) -> None:
        """Quotes, controls and any letters in a fact are that fact and nothing else."""
        text = (
            '@id("root") permit (principal, action == Action::"webAccess", resource) '
            'when { context has path && context.path == "%s" };'
        )
        for written, value in (
            ('a\\"b', 'a"b'),
            ("\\\\", "\\"),
            ("\\u{0}", "\0"),
            ("\\n", "\n"),
            ("\u00e9\u200b", "\u00e9\u200b"),
            ("\U0001f600", "\U0001f600"),
        ):
            ours = engine(text % written)
            for asked in (value, value + '"', '","x":"', ""):
                request = ask("u1", "r1", "webAccess", "web", "WebApp", path=asked)
                self.assertEqual(ours.decide(request).allowed, asked == value, repr(asked))

    def test_sets_numbers_and_records(self) -> None:
        """Sets have no order, negative numbers stay what they are, also within a record."""
        ours = engine(
            '@id("read") permit (principal, action == Action::"dbQuery", resource) when { '
            'context has effects && context.effects == ["read", "set \\"x\\""] && '
            "context has approved_request && context.approved_request has expires && "
            "context.approved_request.expires == -7 && "
            "context has mfa_age_seconds && context.mfa_age_seconds == -5 };"
        )
        facts: dict[str, Any] = {"approved_request": {"expires": -7}, "mfa_age_seconds": -5}
        for effects in (("read", 'set "x"'), ['set "x"', "read"], frozenset(("read", 'set "x"'))):
            request = ask("u1", "r1", "dbQuery", "db_query", "Database", effects=effects, **facts)
            self.assertTrue(ours.decide(request).allowed)
        others: tuple[tuple[str, ...], ...] = ((), ("read",), ("read", 'set "x"', "write"))
        for other in others:
            request = ask("u1", "r1", "dbQuery", "db_query", "Database", effects=other, **facts)
            self.assertFalse(ours.decide(request).allowed)


class ReadsTests(SynchronousTestCase):
    """What a policy reads of the context."""

    def reads(self, condition: str) -> Any:
        """The facts a policy with this condition reads."""
        text = f"permit (principal, action, resource) when {{ {condition} }};"
        return reads_of(policies_to_pst(text).static_policies["policy0"].clauses)

    def test_named(self) -> None:
        """Facts read by name are told, wherever they stand."""
        cases = {
            "true": set(),
            "context.hour > 1": {"hour"},
            'context["hour"] > 1': {"hour"},
            "context has a.b && context.c.d": {"a", "c"},
            "if context has x then {a: [context.y]}.a.contains(1) else !context.z": set("xyz"),
            'principal.name like "context.hour*"': set(),
            "resource.hasTag(context.tag)": {"tag"},
            "ip(context.a).isInRange(context.b)": {"a", "b"},
        }
        for condition, names in cases.items():
            self.assertEqual(self.reads(condition), frozenset(names), condition)

    def test_whole(self) -> None:
        """Any other use of the context counts as all of it."""
        for condition in (
            "context == {a: 1}",
            "[context].contains({a: 1})",
            "{c: context}.c.hour > 1",
            "(if true then context else {hour: 1}).hour > 1",
        ):
            self.assertIsNone(self.reads(condition), condition)

"""The process that decides recorded requests again, run in this one on its own lines."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from io import BytesIO
from random import Random
from typing import Any

from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.model.policy.access import AccessRequest, request_form
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import cedar_json
from svc.policy.prescan import PolicyLimits
from svc.policy.replay import lines
from svc.policy.replay.child import answer
from svc.policy.replay.lines import (
    TURN_END,
    QuestionWindow,
    ReplayJob,
    ReplayQuestion,
    SliceWindow,
    requests_line,
    slice_line,
)
from svc.policy.replay.outcome import (
    MOST_EVENTS,
    MOST_SILENT,
    ReplayFindings,
    ReplayTotals,
    Verdicted,
)
from svc.policy.replay.slices import SlicedEngines, entities_of_slice
from tests.policy.samples import WORDS, ask, engine, everybody, random_policy, random_request

VERSION = 3
ALL = '@id("all") @reason("everybody") permit (principal, action, resource);'
NIGHT = (
    '@id("night") forbid (principal, action, resource) '
    "when { context has hour && context.hour > 20 };"
)
INSIDE = (
    '@id("inside") forbid (principal, action, resource) when { context has proxy_reported && '
    "context.proxy_reported has source_address && "
    'context.proxy_reported.source_address.isInRange(ip("10.0.0.0/8")) };'
)


def recorded(
    active: CompiledPolicy,
    request: AccessRequest,
    seq: int,
    version: int = VERSION,
    erased: Any = (),
) -> bytes:
    """A request as the active policy decided it, with its slice and its question."""
    found = active.decide(request)
    text = cedar_json(active.entity_slice(request))
    decided = (found.decision, found.policies, version)
    form = request_form(request)
    question = ReplayQuestion.of(found.entities_digest, form, erased, decided)
    number = sha256(question.text.encode()).hexdigest()
    return (
        slice_line(found.entities_digest, text)
        + question.line(number)
        + requests_line(seq, (number,), (question.now,))
    )


def replayed(candidate: str, active: str, *parts: bytes) -> Any:
    """What the child says of these lines."""
    job = ReplayJob(text=candidate, active=active, active_version=VERSION)
    out = BytesIO()
    data = job.line(WORDS, PolicyLimits()) + b"".join(parts) + TURN_END.encode()
    assert answer(BytesIO(data), out, confined=False) == 0
    told, totals = list(map(json.loads, out.getvalue().splitlines())), ReplayTotals()
    if "reason" in told[0]:
        return told[0]
    for one in told[:-1]:
        totals.add(one)
    totals.end(told[-1])
    return totals.form()


class ReplayTests(SynchronousTestCase):
    """`svc.policy.replay.child`."""

    @settings(max_examples=25)
    @given(st.integers(0, 2**32))
    def test_as_both_policies_decide(self, seed: int) -> None:
        """Whatever the policies and requests, changes are those between the two engines."""
        random = Random(seed)
        texts = ["\n".join(random_policy(random, f"{side}{n}") for n in range(4)) for side in "ab"]
        active, candidate = engine(texts[0], VERSION), engine(texts[1])
        assume(not candidate.claims)
        requests = [random_request(random) for _ in range(10)]
        requests += [
            evolve(one, context={**one.context, "now": random.choice((900, 1100))})
            for one in requests
        ]
        versions = [random.choice((VERSION, VERSION - 1)) for _ in requests]
        found = replayed(
            texts[1],
            texts[0],
            *(recorded(active, one, n, versions[n]) for n, one in enumerate(requests)),
        )
        pairs = [(active.decide(one), candidate.decide(one)) for one in requests]
        changed = [(a, b) for a, b in pairs if a.decision != b.decision]
        self.assertEqual((found["decided"], found["changed"]), (len(pairs), len(changed)))
        self.assertEqual(
            sorted(
                (each["decision_before"], each["decision_after"], *each["policies_after"])
                for each in found["changes"]
                for _ in range(each["count"])
            ),
            sorted((a.decision, b.decision, *b.policies) for a, b in changed),
        )
        used = {policy for _, b in pairs for policy in b.policies}
        self.assertEqual(set(found["unused"]), {f"b{n}" for n in range(4)} - used)

    def test_ends_within_a_line(self) -> None:
        """Whoever writes may be killed anywhere: no turn ends by that, and no text is at fault."""
        job = ReplayJob(text=ALL + NIGHT, active=ALL, active_version=VERSION)
        first = job.line(WORDS, PolicyLimits())
        data = first + recorded(engine(ALL, VERSION), ask("u1", hour=22), 0) + TURN_END.encode()
        for size in {0, 1, *range(len(first) - 1, len(data), 97), len(data) - 1}:
            out = BytesIO()
            self.assertEqual(answer(BytesIO(data[:size]), out, confined=False), 0)
            [told] = map(json.loads, out.getvalue().splitlines())
            self.assertEqual(sorted(told), ["determining", "named"], size)

    def test_by_person_resource_and_action(self) -> None:
        """A change names who, what and how often, and the policies on either side."""
        active = engine(ALL, VERSION)
        asked = [ask("u1", hour=9), ask("u1", hour=22), ask("u1", hour=23), ask("u2", hour=22)]
        found = replayed(
            ALL + NIGHT, ALL, *(recorded(active, one, n) for n, one in enumerate(asked))
        )
        self.assertEqual(found["directions"], {"allow_to_deny": 3})
        self.assertEqual(
            found["changes"][0],
            {
                "person": "u1",
                "resource": "r1",
                "action": "tcpConnect",
                "decision_before": "allow",
                "policies_before": ["all"],
                "decision_after": "deny",
                "policies_after": ["night"],
                "count": 2,
                "first_seq": 1,
                "last_seq": 2,
            },
        )

    def test_made_again(self) -> None:
        """A request that was made before is decided once, unless a policy reads when it is made."""
        active = engine(ALL, VERSION)
        asked = [ask("u1", hour=9, now=now) for now in (100, 200, 300, 200)]
        lines = [recorded(active, one, n) for n, one in enumerate(asked)]
        late = NIGHT.replace("night", "late").replace("hour > 20", "now > 200")
        late = late.replace("has hour", "has now")
        of_group = late.replace("(principal,", '(principal in Group::"g1",')
        for candidate, changed in ((ALL + NIGHT, 0), (ALL + late, 1), (ALL + of_group, 1)):
            found = replayed(candidate, ALL, *lines)
            self.assertEqual((found["decided"], found["changed"]), (4, changed), candidate)
        wrong = recorded(active, asked[0], 4).replace(b'"now":0', b'"now":"x"')
        wrong = wrong.replace(b",true]", b",false]")
        found = replayed(ALL, ALL, *lines, wrong)
        self.assertEqual((found["decided"], found["undecidable"]["not_in_vocabulary"]), (4, 1))

    def test_given_time(self) -> None:
        """The time that the process may take grows with what it is given, to no end but that."""
        code = (
            "import resource; from svc.policy.child import confine, limit_cpu; "
            "confine(5, growing=True); limit_cpu(7); "
            "print(*resource.getrlimit(resource.RLIMIT_CPU))"
        )
        said = subprocess.check_output([sys.executable, "-c", code], text=True).split()
        self.assertEqual(said[0], "7")
        self.assertNotEqual(said[1], "7")

    def test_erased_facts(self) -> None:
        """What a policy reads and was erased makes a request undecidable, by no other policy."""
        active = engine(ALL, VERSION)
        line = recorded(active, ask("u1", hour=9), 1, erased=["proxy_reported"])
        self.assertEqual(replayed(ALL + INSIDE, ALL, line)["undecidable"]["facts_erased"], 1)
        self.assertEqual(replayed(ALL + NIGHT, ALL, line)["decided"], 1)
        older = recorded(active, ask("u1", hour=9), 1, VERSION - 1, ["proxy_reported"])
        self.assertEqual(replayed(ALL, ALL + INSIDE, older)["undecidable"]["facts_erased"], 1)

    def test_what_is_not_known(self) -> None:
        """Without its entities, with others, or without its action a request is undecidable."""
        active = engine(ALL, VERSION)
        line = recorded(active, ask("u1"), 1)
        _, *parts = line.splitlines(keepends=True)
        alone = b"".join(parts)
        altered = line.replace(b"name1", b"name2")
        for given_lines, why in (
            (alone, "entities_not_recorded"),
            (altered, "entities_not_recorded"),
            (line.replace(b"tcpConnect", b"flyAway"), "not_in_vocabulary"),
        ):
            found = replayed(ALL, ALL, given_lines)
            self.assertEqual((found["undecidable"][why], found["decided"]), (1, 0), why)

    def test_refused(self) -> None:
        """A candidate that could not be activated is not replayed."""
        self.assertEqual(replayed("permit (", ALL)["reason"], "policy_invalid")

    def test_one_in_many(self) -> None:
        """One other decision among many equal ones is found; another result has another digest."""
        active = engine(ALL, VERSION)
        same = [recorded(active, ask("u1", hour=9), n) for n in range(500)]
        odd = recorded(active, ask("u1", hour=22), 250)
        found = replayed(ALL + NIGHT, ALL, *same[:250], odd, *same[250:])
        self.assertEqual((found["changed"], found["changes"][0]["first_seq"]), (1, 250))
        other = replayed(ALL + NIGHT, ALL, *same)
        self.assertNotEqual(found["changes_digest"], other["changes_digest"])


class BoundsTests(SynchronousTestCase):
    """Memory does not grow with the log."""

    def test_groups(self) -> None:
        """Of more sorts of changes than are kept each is still counted, and in the digest."""
        digests = []
        for last in ("x", "y"):
            totals, findings = ReplayTotals(most=2), ReplayFindings()
            for n, name in enumerate(("a", "b", "c", "a", last)):
                before, after = Verdicted("allow", ()), Verdicted("deny", ())
                findings.compare(n, name, "r", "use", before=before, after=after)
            totals.add(findings.told(ends=True))
            form = totals.form()
            self.assertEqual((form["changed"], form["beyond"], len(form["changes"])), (5, 2, 2))
            digests.append(form["changes_digest"])
        self.assertNotEqual(*digests)

    @given(st.lists(st.sampled_from(("same", "changed", "undecidable")), max_size=3000))
    def test_told_in_parts(self, kinds: list[str]) -> None:
        """Findings that are told in parts add up to the same, and no part is long."""
        before, after = Verdicted("allow", ("p",)), Verdicted("deny", ("q",))
        findings, whole = ReplayFindings(), ReplayFindings()
        parts, once = ReplayTotals(), ReplayTotals()
        for n, kind in enumerate(kinds):
            for one in (findings, whole):
                if kind == "undecidable":
                    one.cannot_decide(n, "facts_erased")
                else:
                    there = after if kind == "changed" else before
                    one.compare(n, "u", "r", "use", before=before, after=there)
            self.assertLessEqual(len(findings.events), MOST_EVENTS)
            self.assertLessEqual(findings.decided, MOST_SILENT)
            if findings.due:
                parts.add(findings.told(ends=False))
        parts.add(findings.told(ends=True))
        once.add(whole.told(ends=True))
        self.assertEqual(parts.form(), once.form())

    def test_malformed(self) -> None:
        """What is no finding is refused, whatever it is."""
        good = ReplayFindings().told(ends=True)
        for name, wrong in (
            ("decided", None),
            ("events", [[1]]),
            ("events", [[1, "u", "r", "use", ["allow"], ["deny", []]]]),
            ("events", 7),
        ):
            self.assertRaises(Malformed, ReplayTotals().add, {**good, name: wrong})
        self.assertRaises(Malformed, ReplayTotals().add, {})
        self.assertRaises(Malformed, ReplayTotals().end, {"named": 3})

    def test_engines(self) -> None:
        """Only the engines used last are kept."""
        base, entities = engine(ALL), everybody()
        engines = SlicedEngines(base, most=2)
        for digest in ("a", "b", "a", "c"):
            self.assertIsNotNone(engines.over(digest, entities))
        self.assertEqual([engines.has(digest) for digest in "abc"], [True, False, True])
        self.assertIsNone(engines.over("b", None))

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=60))
    def test_window(self, sent: list[tuple[int, int]]) -> None:
        """Both ends of the pipe keep the same slices, within bounds, the newest among them."""
        self.patch(lines, "MOST_SLICES", 4)
        self.patch(lines, "MOST_BYTES", 20)
        here, there = SliceWindow(), SliceWindow()
        for digest, size in sent:
            if here.get(str(digest)) is None:
                for window in (here, there):
                    window.add(str(digest), "x" * size)
            kept = [there.get(str(n)) for n in range(10)]
            self.assertIsNotNone(kept[digest])
            self.assertEqual(kept, [here.get(str(n)) for n in range(10)])
            self.assertLessEqual(len([one for one in kept if one is not None]), 4)

    def test_questions(self) -> None:
        """Both ends let go of the same questions, the oldest, and never of the one just sent."""
        self.patch(lines, "MOST_ASKED", 100)
        window: QuestionWindow[str, int] = QuestionWindow()
        self.assertEqual([window.add(str(n), n, 40) for n in range(4)], [[], [], [0], [1]])
        self.assertEqual(window.add("4", 4, 1000), [2, 3])
        self.assertEqual(window.kept, {"4": 4})

    def test_slices(self) -> None:
        """What is no slice of that digest is none; one that is no line is refused."""
        for text in ("", "[", "{}", "[1]", "[" * 9999):
            self.assertIsNone(entities_of_slice("0" * 64, text))
        self.assertRaises(Malformed, slice_line, "0" * 64, "[\n]")

"""What a person may view is remembered as long as it is true, and no longer."""

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from svc.model.policy.access import EntityUid
from svc.model.policy.requests import may_view
from svc.policy.engine import CompiledPolicy
from svc.proxy.sessions.viewable import Viewable
from tests.policy.samples import PEOPLE, altered, engine, everybody, random_policy

SOURCE = "10.1.2.3"
RESOURCE = EntityUid("TcpService", "r1")
ALL = '@id("all") permit (principal, action, resource);'
MANY = """
@id("many") permit (principal in Group::"g1", action, resource)
when { resource.hasTag("env") && resource.getTag("env") == "prod" };
"""


def resources(of: CompiledPolicy) -> list[EntityUid]:
    """All that could be viewed."""
    return [one.uid for one in of.entities if one.attrs.get("kind")]


class ViewableTests(SynchronousTestCase):
    """Answers of engines that follow each other."""

    def test_as_decided_anew(self) -> None:
        """Whatever changes, and however many revisions are passed over: the policy's own answer."""
        random, decisions, answers, allowed = Random(41), 0, 0, 0
        for _ in range(8):
            text = MANY + "\n".join(random_policy(random, f"p{n}") for n in range(8))
            ours, now = engine(text), 1000
            people = [Viewable(f"u{n}", SOURCE) for n in random.sample(range(PEOPLE), 3)]
            for _ in range(10):
                for one in people:
                    if random.random() < 0.3:
                        continue  # it is asked again later
                    one.follow(ours, now)
                    for uid in resources(ours):
                        expected = ours.decide(may_view(one.person_id, uid, now, SOURCE)).allowed
                        self.assertEqual(one.allows(ours, uid), expected, (text, uid))
                        answers, allowed = answers + 1, allowed + expected
                now += random.choice((0, 1, 2, 3, 60, 7_200, 90_000))
                if random.random() < 0.1:
                    text = MANY + random_policy(random, "other")
                    ours = engine(text).with_entities(ours.entities, 1)
                else:
                    ours = ours.with_entities(altered(random, ours.entities), 1)
            decisions += sum(one.decisions for one in people)
        self.assertGreater(allowed, answers // 20)
        self.assertLess(decisions, answers * 2 // 3)

    def test_one_change_is_one_decision(self) -> None:
        """A change of a resource has that one decided again, and of somebody else none."""
        ours = engine('@id("g") permit (principal in Group::"g1", action, resource);')
        viewable = Viewable("u1", SOURCE)
        viewable.follow(ours, 1000)
        for uid in resources(ours):
            viewable.allows(ours, uid)
        decided, gone = viewable.decisions, {RESOURCE, EntityUid("User", "u2")}
        ours = ours.with_entities([one for one in ours.entities if one.uid not in gone], 8)
        ours = ours.with_entities(everybody(), 9)
        viewable.follow(ours, 1000)
        for uid in resources(ours):
            viewable.allows(ours, uid)
        self.assertEqual(viewable.decisions, decided + 1)

    def test_by_the_clock(self) -> None:
        """What depends on the second, the hour or the day is decided for each moment."""
        for condition, moments, answers in (
            ("now > 1000", (1000, 1001, 999), [False, True, False]),
            ("hour >= 8 && context.hour < 18", (7, 8, 17, 18), [False, True, True, False]),
            ("weekday < 6", (24, 48, 72, 96), [True, False, False, True]),  # Friday is the first
        ):
            name = condition.split()[0]
            ours = engine(ALL[:-1] + f" when {{ context has {name} && context.{condition} }};")
            viewable, seen = Viewable("u1", SOURCE), list[bool]()
            for moment in moments:
                viewable.follow(ours, moment if name == "now" else moment * 3600)
                seen.append(viewable.allows(ours, RESOURCE))
            self.assertEqual(seen, answers, condition)

    def test_too_old(self) -> None:
        """After more changes than are known, all is decided again."""
        ours = engine(ALL)
        viewable = Viewable("u1", SOURCE)
        viewable.follow(ours, 1000)
        self.assertTrue(viewable.allows(ours, RESOURCE))
        for revision in range(40):
            ours = ours.with_entities(ours.entities, revision)
        self.assertIsNone(ours.changed_since(viewable._mark))
        viewable.follow(ours, 1000)
        self.assertTrue(viewable.allows(ours, RESOURCE))
        self.assertEqual(viewable.decisions, 2)

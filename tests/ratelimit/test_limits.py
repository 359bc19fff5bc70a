"""Budgets, shares and counts: exact whatever is asked, and of bounded size."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Fault, TooMany
from svc.model.audit.record import Actor
from svc.ratelimit.counter import OTHERS, RefusalCounter
from svc.ratelimit.limits import BUDGETS, Buckets, Budget, Rate, RefusalPolicy, Spacer
from svc.ratelimit.quota import FairQuota

ANN, BOB = Actor("person", "a" * 26), Actor("person", "b" * 26)
PAUSES = st.lists(st.floats(0, 5, allow_nan=False), max_size=80)


class BucketTests(SynchronousTestCase):
    @given(PAUSES, st.integers(1, 600), st.integers(1, 20))
    def test_rate(self, pauses: list[float], per_minute: int, burst: int) -> None:
        """Whatever the pattern, no more is taken than the burst and what has come back."""
        buckets, now, taken = Buckets(Rate(per_minute, burst)), 0.0, 0
        for pause in pauses:
            now += pause
            taken += not buckets.take("ann", now)
            self.assertLessEqual(taken, burst + now * per_minute / 60 + 1e-6)

    @given(PAUSES, st.integers(1, 600), st.integers(1, 20))
    def test_wait(self, pauses: list[float], per_minute: int, burst: int) -> None:
        """The wait that a refusal tells is enough, and half of it is not."""
        buckets, now = Buckets(Rate(per_minute, burst)), 0.0
        for pause in pauses:
            now += pause
            wait = buckets.take("ann", now)
            self.assertEqual(buckets.wait("ann", now + wait + 1e-6) if wait else 0, 0)
            if wait > 1e-3:
                self.assertGreater(buckets.wait("ann", now + wait / 2), 0)

    @given(st.lists(st.sampled_from("abc"), max_size=200), st.floats(0, 1e6))
    def test_each_name_by_itself(self, names: list[str], now: float) -> None:
        """One name's bucket is no other's."""
        buckets, taken = Buckets(Rate(1, 10)), Counter[str]()
        for name in names:
            taken[name] += not buckets.take(name, now)
        for name, count in Counter(names).items():
            self.assertEqual(taken[name], min(count, 10))

    def test_charged_past_the_end(self) -> None:
        """What happened all the same is owed, up to a whole bucket."""
        buckets = Buckets(Rate(60, 10))
        for _ in range(12):
            buckets.charge("ann", 0)
        self.assertAlmostEqual(buckets.wait("ann", 0), 3)
        for _ in range(100):
            buckets.charge("ann", 0)
        self.assertAlmostEqual(buckets.wait("ann", 0), 11)

    def test_given_back(self) -> None:
        """What was taken for nothing is there again, and no more than a full bucket."""
        buckets = Buckets(Rate(60, 1))
        self.assertEqual(buckets.take("ann", 0), 0)
        buckets.give_back("ann", 0)
        buckets.give_back("ann", 0)
        self.assertEqual([bool(buckets.take("ann", 0)) for _ in range(2)], [False, True])

    def test_costly_call(self) -> None:
        """A call that costs more takes more, or nothing."""
        buckets = Buckets(Rate(60, 15))
        self.assertEqual(buckets.take("ann", 0, 10), 0)
        self.assertAlmostEqual(buckets.take("ann", 0, 10), 5)
        self.assertEqual(buckets.take("ann", 0, 5), 0)

    def test_clock_that_goes_back(self) -> None:
        """Time that seems to go back gives nothing and takes nothing."""
        buckets = Buckets(Rate(60, 2))
        self.assertEqual([buckets.take("ann", now) for now in (100.0, 50.0)], [0, 0])
        self.assertGreater(buckets.take("ann", 50.0), 0)

    @given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 3)), max_size=200))
    def test_bounded(self, calls: list[tuple[int, float]]) -> None:
        """So many names are remembered; who asks without end is not let off by others."""
        buckets, now = Buckets(Rate(0.001, 1), max_names=8), 0.0
        buckets.take("greedy", now)
        for name, pause in calls:
            now += pause
            buckets.take(str(name), now)
            self.assertGreater(buckets.take("greedy", now), 0)
            self.assertLessEqual(len(buckets), 8)

    def test_idle_names_are_forgotten(self) -> None:
        """A bucket that is full again takes no room."""
        buckets = Buckets(Rate(60, 10))
        for name in range(100):
            buckets.take(str(name), 0)
        buckets.take("late", 21)
        self.assertEqual(len(buckets), 1)

    def test_turns(self) -> None:
        """Calls of one name follow one another at their distance, and so much is owed at most."""
        turns = Spacer(each=0.5, most=2)
        waits = [turns.next("ann", 10) for _ in range(6)]
        self.assertEqual(waits, [0.5, 1, 1.5, 2, 2, 2])
        self.assertEqual(turns.next("bob", 10), 0.5)
        self.assertEqual(turns.next("ann", 30), 0.5)
        self.assertEqual(len(turns), 1)


class ShareTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.sampled_from("abcdefghijkl"), st.booleans()), max_size=300))
    def test_shares(self, steps: list[tuple[str, bool]]) -> None:
        """Nobody has more than an eighth, and all together leave a quarter."""
        quota, held = FairQuota(32), Counter[str]()
        for name, gives in steps:
            if gives and held[name]:
                quota.give_back(name)
                held[name] -= 1
            elif not gives:
                expected = held[name] < 4 and held.total() < 24
                self.assertEqual(quota.take(name), expected)
                held[name] += expected
            self.assertEqual(quota.held, held.total())

    def test_another_always_finds_a_place(self) -> None:
        """Whatever one takes, a second finds its own places."""
        quota = FairQuota(32)
        self.assertEqual(sum(quota.take("greedy") for _ in range(100)), 4)
        self.assertEqual(sum(quota.take("other") for _ in range(4)), 4)


class TallyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.time = 100.0
        self.refusal_counter = RefusalCounter(lambda: self.time, max_callers=3)

    def test_counts(self) -> None:
        """Each caller and budget is counted with the first and the last time, once."""
        for self.time in (100.0, 130.0, 110.0):
            self.refusal_counter.add(ANN, "opens")
        self.refusal_counter.add(ANN, "denials")
        opens, denials = self.refusal_counter.take()
        self.assertEqual((opens.caller, opens.budget, opens.count), (ANN, "opens", 3))
        self.assertEqual((opens.first, opens.last), (100.0, 130.0))
        self.assertEqual(denials.count, 1)
        self.assertEqual(self.refusal_counter.take(), ())

    @given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["opens", "denials"]))))
    def test_nothing_is_lost(self, refused: list[tuple[int, str]]) -> None:
        """Past its limit of names it still counts each refusal, by budget, whatever is put back."""
        refusal_counter = RefusalCounter(lambda: self.time, max_callers=3)
        for count, (number, budget) in enumerate(refused):
            refusal_counter.add(Actor("person", str(number)), budget)
            if count % 7 == 3:
                refusal_counter.put_back(refusal_counter.take())
        taken = refusal_counter.take()
        self.assertLessEqual(len(taken), 3 + 2)
        for budget in ("opens", "denials"):
            counted = sum(one.count for one in taken if one.budget == budget)
            self.assertEqual(counted, sum(word == budget for _, word in refused))

    def test_too_many_names(self) -> None:
        """Callers past the limit are counted under one name."""
        for number in range(5):
            self.refusal_counter.add(Actor("node", str(number)), "registrations")
        *named, others = self.refusal_counter.take()
        self.assertEqual(len(named), 3)
        self.assertEqual((others.caller, others.count), (OTHERS, 2))


class BudgetTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.time, self.told = 0.0, list[str]()
        refusals = RefusalPolicy(RefusalCounter(lambda: 5.0), lambda: self.time, self.told.append)
        self.refusals, self.budget = refusals, Budget.of("opens", refusals, 60, 3)

    def test_refusal(self) -> None:
        """Past its budget a caller is told when to ask again, and is counted; another is not."""
        for _ in range(3):
            self.budget.spend(ANN)
        refusal = self.assertRaises(TooMany, self.budget.spend, ANN)
        self.assertEqual((refusal.reason, refusal.fault), ("too_many_requests", Fault.EXHAUSTED))
        self.assertEqual((refusal.retry_after, self.told), (1.0, ["opens"]))
        self.budget.spend(BOB)
        [one] = self.refusals.refusal_counter.take()
        self.assertEqual((one.caller, one.count), (ANN, 1))
        self.time = 1.0
        self.budget.spend(ANN)

    def test_hold(self) -> None:
        """The more of a caller is refused, the longer it is not read, to a limit."""
        for _ in range(3):
            self.budget.spend(ANN)
        holds = [self.assertRaises(TooMany, self.budget.spend, ANN).hold for _ in range(4000)]
        self.assertEqual(holds, sorted(holds))
        self.assertLess(holds[0], 0.01)
        self.assertEqual(holds[-1], 5.0)

    def test_look_without_taking(self) -> None:
        """To look costs nothing and counts nothing, but for who has nothing left."""
        for _ in range(10):
            self.budget.check(ANN)
        self.assertFalse(self.budget.is_spent(ANN))
        for _ in range(3):
            self.budget.charge(ANN)
        self.assertTrue(self.budget.is_spent(ANN))
        self.assertEqual(self.told, [])
        self.assertRaises(TooMany, self.budget.check, ANN)
        self.budget.give_back(ANN)
        self.budget.check(ANN)

    def test_words(self) -> None:
        """Each budget has one word."""
        self.assertEqual(len(set(BUDGETS)), len(BUDGETS))

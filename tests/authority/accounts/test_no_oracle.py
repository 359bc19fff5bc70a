"""Whoever may not sign in learns nothing from the answer, nor from when it comes."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from statistics import median
from typing import Any

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import VerifyMismatchError

from svc.authority.accounts.passwords import PasswordCost
from tests.authority.accounts.memory import HERE, AccountHouse
from tests.authority.accounts.test_sign_in import FAILED, AccountCase
from tests.authority.house import outcome

IS_LONG = os.environ.get("SVC_LONG") == "1"
TRIES = 2000 if IS_LONG else 200
COST = PasswordCost() if IS_LONG else PasswordCost(memory_kib=4096, passes=1)
LOCKED_FROM = "203.0.113.9"
MOST_APART = 0.1 if IS_LONG else 0.3
"""Of the medians, and, doubled, of the chance that one takes longer than another."""


def tries_of(at: AccountHouse) -> dict[str, Callable[[], Coroutine[Any, Any, Any]]]:
    """Sign-ins, each refused for its own reason."""
    return {
        "account_unknown": lambda: at.sign_in("nobody", code="123456"),
        "no account": lambda: at.sign_in("eve", code="123456"),
        "password_wrong": lambda: at.sign_in("ada", password="something else", code="123456"),
        "code_wrong": lambda: at.sign_in("ada", code="123456"),
        "recovery_wrong": lambda: at.sign_in("ada", code="aaaa-bbbb-cccc-dddd"),
        "account_locked": lambda: at.sign_in("ada", LOCKED_FROM, code="123456"),
    }


def chance_of_more(one: Sequence[float], other: Sequence[float]) -> float:
    """How probable it is that a value of *one* is greater than one of *other*: of a rank test."""
    more = sum((a > b) + (a == b) / 2 for a in one for b in other)
    return more / (len(one) * len(other))


class NoOracleTests(AccountCase):
    """Ada has an account, eve has none, and nobody is called nobody."""

    def test_when_it_is_told(self) -> None:
        """Every refusal is told at the same moment after the question."""
        self.at.sign_ins.answer_step = 0.25
        self.lock()
        for reason, ask in tries_of(self.at).items():
            with self.subTest(reason):
                got = outcome(ask())
                self.house.clock.advance(0.2)
                self.assertEqual(got, [])
                self.house.clock.advance(0.05)
                (refused,) = got
                self.assertEqual(refused.value.reason, FAILED)
        wanted = {"account_unknown", "password_wrong", "code_wrong", "recovery_wrong"}
        self.assertEqual(set(self.reasons()), wanted | {"account_locked"})

    def test_codes_of_enrollments(self) -> None:
        """Whether a name has a code that waits is told by neither words nor time."""
        self.at.sign_ins.answer_step = 0.25
        self.at.code("eve")
        for name in ("ada", "eve", "nobody"):
            got = outcome(self.at.begin(name, "abcd" * 8))
            self.house.clock.advance(0.2)
            self.assertEqual(got, [])
            self.house.clock.advance(0.05)
            (refused,) = got
            self.assertEqual(refused.value.reason, "enrollment_failed")

    def test_what_it_costs(self) -> None:
        """Over many tries in a random order no reason takes more CPU time than another.

        In `make test` with cheap hashes, which hide less; in the long form with those in use.
        """
        self.at = AccountHouse(COST)
        self.house, self.ada = self.at.house, self.at.enrolled("ada")
        self.lock()
        asked = tries_of(self.at)
        took: dict[str, list[float]] = {reason: [] for reason in asked}
        order, random_order = [*asked], random.Random(47)
        for _ in range(TRIES // len(asked)):
            random_order.shuffle(order)
            once: dict[str, float] = {}
            for reason in order:
                self.forget_failures()
                once[reason] = self.cpu_time_of(asked[reason]())
            # Of the round's own median: what else the machine does makes all of a round dearer.
            for reason, secs in once.items():
                took[reason].append(secs / median(once.values()))
        reasons = [*took]
        for at, one in enumerate(reasons):
            for other in reasons[:at]:
                with self.subTest(f"{one}, {other}"):
                    apart = median(took[one]) / median(took[other]) - 1
                    self.assertLess(abs(apart), MOST_APART)
        if len(asked) * 100 < TRIES:
            chances = [chance_of_more(took[one], took[reasons[0]]) for one in reasons[1:]]
            self.assertLess(max(abs(one - 0.5) for one in chances), 2 * MOST_APART, chances)

    def test_the_decoy_hash(self) -> None:
        """What stands for the hash of a name without an account has the cost of every other one."""
        hashes = self.at.hashes
        decoy = hashes.decoy(os.urandom)
        self.assertEqual(extract_parameters(decoy), extract_parameters(hashes.hash_now("any")))
        self.assertNotEqual(decoy, hashes.decoy(os.urandom))
        # Argon2 itself compares it, and does not merely find that it is no hash.
        verify = PasswordHasher().verify
        self.assertRaises(VerifyMismatchError, verify, decoy, "any")
        self.assertEqual(outcome(hashes.verify(decoy, "any")), [False])

    def lock(self) -> None:
        """Fail so often from one place that it has to wait for a long time."""
        for _ in range(12):
            self.at.sign_ins.lockouts.begin("ada", LOCKED_FROM)
            self.house.clock.advance(1)
        while self.at.sign_ins.lockouts.begin("ada", LOCKED_FROM):
            pass

    def forget_failures(self) -> None:
        """So that none of the others is locked as well."""
        for name in ("ada", "eve", "nobody"):
            self.at.sign_ins.lockouts.succeeded(name, HERE)

    def cpu_time_of(self, asking: Coroutine[Any, Any, Any]) -> float:
        """Of one refusal, without the collector's."""
        gc.disable()
        try:
            before = time.process_time()
            (refused,) = outcome(asking)
            return time.process_time() - before
        finally:
            gc.enable()
            self.assertEqual(refused.value.reason, FAILED)

"""Join tokens under any order of adding, spending, withdrawing and the passing of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import AlreadyExists
from svc.interfaces.store import ITransaction
from svc.model.cluster.node import Spending, TokenRecord, TokenRole
from svc.store.sqlite.memory import memory_store
from svc.testing.contracts.store import plain_chain_hash

T = TypeVar("T")
IDS = st.sampled_from(["t1", "t2", "t3"])
SECRETS = st.sampled_from([b"a" * 32, b"b" * 32])


class TokenMachine(RuleBasedStateMachine):
    """A model of three tokens beside the store's."""

    def __init__(self) -> None:
        super().__init__()
        self.store = memory_store(plain_chain_hash)
        self.tokens: dict[str, TokenRecord] = {}
        self.gone: set[str] = set()
        self.won: list[str] = []
        self.at = 0.0

    def ask(self, fn: Callable[[ITransaction], T]) -> T:
        """Run *fn* now; what it raises is raised here."""
        answers: list[T] = []
        asked = Deferred.fromCoroutine(self.store.run("ask", fn))
        failures: list[BaseException] = []
        asked.addCallbacks(answers.append, lambda failure: failures.append(failure.value))
        for failure in failures:
            raise failure
        return answers[0]

    @rule(secs=st.floats(0.5, 20))
    def time_passes(self, secs: float) -> None:
        self.at += secs

    @rule(id=IDS, secret=SECRETS, lives=st.floats(1, 30))
    def add(self, id: str, secret: bytes, lives: float) -> None:
        token = TokenRecord(
            id=id, secret_sha256=secret, role=TokenRole.PROXY, expires_at=self.at + lives
        )
        try:
            self.ask(lambda tx: tx.tokens.add(token, self.at))
        except AlreadyExists:
            assert id in self.tokens
        else:
            assert id not in self.tokens
            self.tokens[id] = token

    @rule(id=IDS, secret=SECRETS, undone=st.booleans())
    def spend(self, id: str, secret: bytes, undone: bool) -> None:
        """An attempt; where its transaction is undone the token is as good as before."""

        def attempt(tx: ITransaction) -> Spending:
            told = tx.tokens.spend(id, secret, self.at).outcome
            if undone:
                raise KeyError(told)
            return told

        try:
            told = self.ask(attempt)
        except KeyError as error:
            told = error.args[0]
        assert told is self.expected(id, secret)
        if told is Spending.SPENT and not undone:
            self.gone.add(id)
            self.won.append(id)

    @rule(id=IDS)
    def withdraw(self, id: str) -> None:
        good = id in self.tokens and id not in self.gone and self.at < self.tokens[id].expires_at
        assert self.ask(lambda tx: tx.tokens.withdraw(id, self.at)) is good
        if good:
            self.gone.add(id)

    @invariant()
    def one_spend_wins(self) -> None:
        assert len(self.won) == len(set(self.won))

    @invariant()
    def the_list_is_what_could_be_spent(self) -> None:
        good = {
            id
            for id, token in self.tokens.items()
            if id not in self.gone and token.expires_at > self.at
        }
        listed = self.ask(lambda tx: tx.tokens.waiting(self.at))
        assert {token.id for token in listed} == good

    def expected(self, id: str, secret: bytes) -> Spending:
        """What the model says an attempt is told."""
        token = self.tokens.get(id)
        if token is None:
            return Spending.UNKNOWN
        if token.secret_sha256 != secret:
            return Spending.WRONG_SECRET
        if id in self.gone:
            return Spending.ALREADY_SPENT
        return Spending.EXPIRED if token.expires_at <= self.at else Spending.SPENT

    def teardown(self) -> None:
        Deferred.fromCoroutine(self.store.close())


class TokenTests(SynchronousTestCase):
    """The store's tokens against the model."""

    def test_one_spend_wins(self) -> None:
        """In any order of events a token is spent at most once, and only while it is good."""
        run_state_machine_as_test(
            TokenMachine,
            settings=settings(deadline=None, max_examples=40, stateful_step_count=25),
        )

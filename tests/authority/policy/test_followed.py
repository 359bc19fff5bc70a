"""Whatever changed, failed or was put back: decisions are by the newest facts that were taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.entity_rows import entities_from
from svc.authority.state.cluster import ClusterState
from svc.model.cluster.agent import Agent
from svc.model.cluster.person import Person, PersonState
from svc.model.cluster.resource import Resource
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.version import PolicyVersion
from svc.policy.compile import compile_policy
from svc.policy.engine import CompiledPolicy
from tests.authority.house import KINDS, WORDS
from tests.pki.support import CLUSTER
from tests.support.logged import logged

TEXT = """\
@id("ops") permit (principal in Group::"ops", action, resource)
when { resource.hasTag("env") && resource.getTag("env") == "lab" };
@id("named") permit (principal is User, action, resource) when { principal.name == "eve" };
@id("bots") permit (principal is Agent, action, resource) when { principal.owner == "u0" };
@id("off") forbid (principal in Group::"off", action, resource);
"""
PEOPLE, THINGS = ("u0", "u1"), ("r0", "r1")
ASKED = [
    AccessRequest(
        request_kind="connect",
        principal=who,
        action="tcpConnect",
        resource=EntityUid(KINDS["tcp"].terms.entity_type, what),
    )
    for who in (*(EntityUid("User", one) for one in PEOPLE), EntityUid("Agent", "a0"))
    for what in THINGS
]
_PERSON = st.none() | st.builds(
    Person,
    id=st.none(),
    name=st.sampled_from(["ann", "eve"]),
    groups=st.lists(st.sampled_from(["ops", "off"]), unique=True).map(tuple),
    state=st.sampled_from([PersonState.ACTIVE, PersonState.DISABLED]),
)
_THING = st.none() | st.builds(
    Resource,
    id=st.none(),
    kind=st.sampled_from(["tcp", "odd"]),
    labels=st.sampled_from([{}, {"env": "lab"}, {"discovered.env": "lab"}, {"env": "prod"}]),
    identity=st.just("first"),
)
_AGENT = st.none() | st.sampled_from(PEOPLE).map(lambda owner: Agent("a0", "bot", owner))
_CHANGE = st.one_of(
    *(st.tuples(st.just(("people", one)), _PERSON) for one in PEOPLE),
    *(st.tuples(st.just(("catalog", one)), _THING) for one in THINGS),
    st.tuples(st.just(("agents", "a0")), _AGENT),
)
_STEP = st.tuples(
    st.lists(_CHANGE, min_size=1, max_size=3), st.sampled_from(["take", "fail", "begin", "back"])
)


def changed(facts: ClusterState, changes: list[Any]) -> ClusterState:
    """The facts after all of these, as one revision."""
    for (table, id), row in changes:
        rows = {one: kept for one, kept in getattr(facts, table).items() if one != id}
        if row is not None:
            rows[id] = evolve(row, id=id)
        table_now: dict[str, Any] = {table: rows}
        facts = evolve(facts, **table_now)
    return evolve(facts, revision=facts.revision + 1)


class FollowedTests(SynchronousTestCase):
    """One policy over facts that change."""

    def setUp(self) -> None:
        self.events = logged(self)
        self.fails, self.held = False, list[Callable[[], None]]()
        self.is_held = False
        self.policy = PolicyInForce(
            cluster=CLUSTER,
            vocabulary=WORDS,
            kinds=KINDS,
            guard=lambda text: succeed(None),
            in_thread=self.in_thread,
            in_force=self.in_force,
        )

    def in_thread(self, call: Callable[[], Any]) -> Deferred[Any]:
        """At once, or once the test says so."""
        done: Deferred[Any] = Deferred()

        def answer() -> None:
            try:
                done.callback(call())
            except Exception:
                done.errback()

        self.held.append(answer) if self.is_held else answer()
        return done

    async def in_force(self, engine: CompiledPolicy, text: str) -> None:
        if self.fails:
            raise ValueError("failed for a test")

    def follow(self, facts: ClusterState) -> Deferred[None]:
        return Deferred.fromCoroutine(self.policy.follow(facts))

    def check(self, facts: ClusterState) -> None:
        """Each question has the answer, and the digest, of an engine that knows nothing else."""
        engine = self.policy.engine
        assert engine is not None
        fresh = compile_policy(TEXT, WORDS, entities_from(facts, KINDS, CLUSTER), 1, facts.revision)
        self.assertEqual(engine.revision, facts.revision)
        for asked in ASKED:
            self.assertEqual(engine.decide(asked), fresh.decide(asked))

    @given(st.lists(_STEP, min_size=1, max_size=8))
    def test_any_changes(self, steps: list[Any]) -> None:
        """Taken, failed, two at once, and an older store put back."""
        self.setUp()
        stored = PolicyVersion(
            version=1,
            text=TEXT,
            sha256=b"s" * 32,
            author="test",
            created_at=1.0,
            activated_at=1.0,
        )
        facts = ClusterState(groups=("off", "ops"), policy=stored, revision=1)
        past = [facts]
        self.successResultOf(self.follow(facts))
        for changes, how in steps:
            facts = changed(facts, changes)
            if how == "fail":
                self.fails = True
                self.failureResultOf(self.follow(facts), ValueError)
                self.fails = False
                self.check(past[-1])
            elif how == "begin":
                self.is_held = True
                first, second = self.follow(facts), None
                self.check(past[-1])
                facts = changed(facts, changes[:1])
                second = self.follow(facts)
                self.is_held = False
                while self.held:
                    self.held.pop()()
                self.successResultOf(first)
                self.successResultOf(second)
            elif how == "back":
                facts = past[0]
                self.policy.begin_again()
            self.successResultOf(self.follow(facts))
            self.check(facts)
            past.append(facts)

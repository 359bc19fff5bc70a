"""Changes of an operator come in force without waiting for a reload pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.reload import ChangeFollower
from svc.messages.snapshot import decode_snapshot
from svc.runtime.services import BackgroundTasks
from tests.authority.house import House, value_of


class FollowingTests(SynchronousTestCase):
    """The Authority's own wiring of state_cache and policy."""

    def setUp(self) -> None:
        self.house = House()
        self.tasks = BackgroundTasks()
        following = ChangeFollower(self.house.policy, self.house.state_cache, self.tasks)
        self.house.state_cache.on_change(following.changed)

    def group(self, name: str) -> None:
        """Add a group, as the command does it."""
        self.house.add_group(name)
        value_of(self.house.state_cache.refresh())

    @property
    def revision(self) -> int:
        """What Proxies were last sent."""
        frame = self.house.publisher.frame(b"")
        assert frame is not None
        return decode_snapshot(frame.signed.payload).entity_revision

    def test_at_once(self) -> None:
        """A change is what is decided by, here and at the Proxies, before another pass."""
        before = self.revision
        self.group("ops")
        assert self.house.policy.engine is not None
        self.assertGreater(self.revision, before)
        self.assertEqual(self.house.policy.engine.revision, self.revision)

    def test_many(self) -> None:
        """Changes made while one is compiled are taken together, and none is forgotten."""
        waiting: list[tuple[Deferred[Any], Callable[[], Any]]] = []

        def in_thread(call: Callable[[], Any]) -> Deferred[Any]:
            waiting.append((Deferred(), call))
            return waiting[-1][0]

        self.house.policy.in_thread = in_thread
        for number in range(20):
            self.group(f"g{number}")
        self.assertEqual(len(waiting), 1)
        engines = 0
        while waiting:
            done, call = waiting.pop()
            done.callback(call())
            engines += 1
        self.assertEqual(engines, 2)
        assert self.house.policy.engine is not None
        self.assertEqual(self.house.policy.engine.revision, self.house.state_cache.state.revision)

    def test_failing(self) -> None:
        """A failure of one change forgets none that came while it was under way."""
        failing: Deferred[object] = Deferred()
        good = self.house.policy.in_force
        self.house.policy.in_force = lambda engine, text: failing
        self.group("one")
        self.house.policy.in_force = good
        self.group("two")
        before = self.revision
        failing.errback(LookupError("no"))
        self.assertGreater(self.revision, before)
        self.assertEqual(self.revision, self.house.state_cache.state.revision)
        self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)

    def test_failing_without_a_revision(self) -> None:
        """A row that is not what was signed for is left out at the next pass at the latest.

        No revision tells of such a row.
        """
        policy, facts = self.house.policy, self.house.state_cache.state
        ada = self.house.ada.id
        others = {id: one for id, one in facts.people.items() if id != ada}
        without = evolve(facts, people=others, absent=frozenset({f"person:{ada}"}))
        good = policy.in_force
        policy.in_force = lambda engine, text: fail(LookupError("no"))
        self.failureResultOf(Deferred.fromCoroutine(policy.follow(without)), LookupError)
        policy.in_force = good
        value_of(policy.follow(without))
        assert policy.engine is not None
        self.assertNotIn(ada, repr(policy.engine.entities))

    def test_stopped(self) -> None:
        """A stop amid a change ends it, and is no failure of the change."""
        waiting: Deferred[object] = Deferred()
        self.house.policy.in_force = lambda engine, text: waiting
        self.group("one")
        self.successResultOf(self.tasks.stopService())
        self.assertTrue(waiting.called)
        self.assertEqual(self.flushLoggedErrors(), [])

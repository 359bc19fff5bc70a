"""An Authority that stands by goes by the store that the leader goes by, an older one too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.state.anchor import StateAnchor
from svc.audit.state.in_force import StateView
from svc.authority.policy.active import PolicyInForce
from svc.compose.authority.standby import Follower
from svc.model.audit.record import chain_hash
from svc.policy.engine import CompiledPolicy
from svc.runtime.services import BackgroundTasks
from svc.store.sqlite.memory import memory_store
from tests.authority.house import KINDS, POLICY, WORDS, House
from tests.pki.support import CLUSTER


class Keys:
    """Nothing of the keys is followed here."""

    async def follow(self, *, leads: bool) -> None:
        """As :class:`svc.compose.authority.keys.KeyWiring`."""


class FollowerTests(SynchronousTestCase):
    """One follower over a store that somebody else writes to."""

    def setUp(self) -> None:
        self.house = House()
        self.applied: list[int] = []
        self.stored: list[int] = []
        self.anchor = StateAnchor(Path(self.mktemp()))
        self.tasks = BackgroundTasks()
        beginning, self.state_cache = self.house.restart(self.anchor, self.tasks)
        self.keeper = beginning.keeper
        self.policy = PolicyInForce(
            cluster=CLUSTER,
            vocabulary=WORDS,
            kinds=KINDS,
            guard=lambda text: succeed(None),
            in_thread=lambda call: succeed(call()),
            in_force=self.in_force,
        )
        keys: Any = Keys()
        self.follower = Follower(
            beginning=beginning,
            state_cache=self.state_cache,
            policy=self.policy,
            keys=keys,
            stored=self.stored.append,
            stopped_by=self.fail,
        )

    async def in_force(self, engine: CompiledPolicy, text: str) -> None:
        self.applied.append(engine.version)

    def follow(self) -> None:
        """One pass."""
        self.successResultOf(Deferred.fromCoroutine(self.follower.follow()))

    def activate(self, text: str) -> None:
        self.house.run(
            lambda tx: tx.policies.activate(tx.policies.add(text, "test", 2.0).version, 2.0)
        )

    def put_back(self) -> None:
        """An older store under everybody, by which the leader goes on."""
        self.house.store.store = memory_store(chain_hash)
        self.house.ledger.begin_from(StateView())

        def fill(tx: Any) -> None:
            tx.people.add_group("dev", 1.0)
            tx.policies.activate(tx.policies.add(POLICY, "test", 1.0).version, 1.0)

        self.house.run(fill)

    def go_on(self) -> None:
        """What the exchange of heads says once the leader goes on from an older store."""
        self.keeper.begin_again()
        self.follower.begin_again()

    def groups(self) -> set[str]:
        return set(self.state_cache.state.groups)

    def test_older_store(self) -> None:
        """It goes by the line that goes on, its policy too, from the next pass on."""
        self.activate(POLICY + "// another\n")
        self.house.add_group("lost")
        self.follow()
        self.assertEqual((self.groups(), self.applied), ({"dev", "lost"}, [2]))
        self.put_back()
        self.follow()
        self.assertIn("lost", self.groups(), "nobody has said that the store may be older")
        self.go_on()
        self.follow()
        self.assertEqual((self.groups(), self.applied), ({"dev"}, [2, 1]))
        self.assertEqual(self.stored[-1], 1)
        self.house.add_group("later")
        self.follow()
        self.assertEqual(self.groups(), {"dev", "later"})

    def test_told_amid_a_pass(self) -> None:
        """What is said while a pass reads the lost line is not forgotten by it."""
        reading: Deferred[None] = Deferred()
        store, amid = self.house.store, self.follower.beginning

        class Slow:
            async def read(self, desc: str, fn: Any) -> Any:
                found = await store.read(desc, fn)
                await reading
                return found

        self.house.add_group("lost")
        slow: Any = Slow()
        amid.store = slow
        first = Deferred.fromCoroutine(self.follower.follow())
        self.put_back()
        self.go_on()
        amid.store = store
        reading.callback(None)
        self.successResultOf(first)
        self.follow()
        self.assertEqual((self.groups(), self.applied[-1]), ({"dev"}, 1))

    def test_stopped_before_the_next_pass(self) -> None:
        """What was known of the lost line is not put back by a stop, and keeps no start away."""
        self.house.add_group("lost")
        self.follow()
        self.put_back()
        self.go_on()
        self.successResultOf(self.keeper.startService())
        self.successResultOf(self.keeper.stopService())
        self.assertEqual((self.anchor.tip(), self.anchor.checkpoint()), (None, None))
        self.follow()
        self.assertEqual(self.groups(), {"dev"})

    def test_told_amid_a_keeping(self) -> None:
        """What was being written of the lost line as that was given up is set aside, too."""
        self.house.add_group("lost")
        self.follow()
        writing: Deferred[None] = Deferred()

        async def late(call: Any) -> Any:
            if not writing.called:
                await writing
            return call()

        self.keeper.in_thread = lambda call: Deferred.fromCoroutine(late(call))
        self.keeper.advanced()
        self.put_back()
        self.go_on()
        writing.callback(None)
        self.assertEqual((self.anchor.tip(), self.anchor.checkpoint()), (None, None))
        self.follow()
        self.house.add_group("later")
        self.follow()
        tip = self.anchor.tip()
        assert tip is not None
        self.assertEqual(tip.hash, self.state_cache.ledger.view.hash)
        self.assertEqual(self.groups(), {"dev", "later"})

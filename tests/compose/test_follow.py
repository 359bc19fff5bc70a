"""An Authority that stands by goes by the store that the leader goes by, an older one too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.state import StateLedger, StateView
from svc.audit.state_anchor import StateAnchor, StateKeeper
from svc.authority.adoption import adoption_wish_file
from svc.authority.facts import Knowledge
from svc.authority.policy_in_force import PolicyInForce
from svc.compose.authority_follow import Follower
from svc.compose.state import StateBeginning, origin_verifier
from svc.model.audit import chain_hash
from svc.policy.engine import CompiledPolicy
from svc.service import BackgroundTasks
from svc.store.memory import memory_store
from tests.authority.house import KINDS, POLICY, WORDS, House
from tests.pki.support import CLUSTER


class Issuers:
    """Nothing of the issuing CAs is followed here."""

    async def follow(self, *, leads: bool) -> None:
        """As :class:`svc.authority.issuers.IssuersInForce`."""


class FollowerTests(SynchronousTestCase):
    """One follower over a store that somebody else writes to."""

    def setUp(self) -> None:
        self.house = House()
        self.applied: list[int] = []
        self.stored: list[int] = []
        ledger = StateLedger(origin_verifier(self.house.world.keys.root_der, CLUSTER))
        self.anchor = StateAnchor(Path(self.mktemp()))
        keeper = StateKeeper(ledger, self.anchor, BackgroundTasks())
        self.knowledge = Knowledge(self.house.store, ledger, self.house.now, keeper.advanced)
        recorder = evolve(self.house.recorder, ledger=ledger)
        wish = adoption_wish_file(self.anchor.path / "wish.json")
        beginning = StateBeginning(self.house.store, ledger, self.anchor, keeper, recorder, wish)
        self.policy = PolicyInForce(
            CLUSTER, WORDS, KINDS, lambda text: succeed(None),
            lambda call: succeed(call()), self.in_force,
        )  # fmt: skip
        issuers: Any = Issuers()
        self.follower = Follower(
            beginning, self.knowledge, self.policy, issuers, self.stored.append, self.fail
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
        self.house.ledger.view = StateView()

        def fill(tx: Any) -> None:
            tx.people.add_group("dev", 1.0)
            tx.policies.activate(tx.policies.add(POLICY, "test", 1.0).version, 1.0)

        self.house.run(fill)

    def groups(self) -> set[str]:
        return set(self.knowledge.facts.groups)

    def test_older_store(self) -> None:
        """It goes by the line that goes on, its policy too, from the next pass on."""
        self.activate(POLICY + "// another\n")
        self.house.add_group("lost")
        self.follow()
        self.assertEqual((self.groups(), self.applied), ({"dev", "lost"}, [2]))
        self.put_back()
        self.follow()
        self.assertIn("lost", self.groups(), "nobody has said that the store may be older")
        self.anchor.set_aside()
        self.follower.begin_anew()
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
        self.anchor.set_aside()
        self.follower.begin_anew()
        amid.store = store
        reading.callback(None)
        self.successResultOf(first)
        self.follow()
        self.assertEqual((self.groups(), self.applied[-1]), ({"dev"}, 1))

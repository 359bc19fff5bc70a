"""Who is on the store, whether each could reach each, and that no two have one name."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.ha.lease import BEATS, TERM_SECS
from svc.authority.ha.membership import REMEMBERED, Membership
from svc.errors import SvcError
from svc.model.audit.record import chain_hash
from svc.model.cluster.lease import Member, MembershipView
from svc.store.sqlite.memory import memory_store
from tests.authority.ha.test_lease import Cut
from tests.support.proof import proves

BEAT_SECS = TERM_SECS / BEATS


class Instance:
    """One Authority as far as membership goes."""

    def __init__(
        self, case: SynchronousTestCase, clock: Any, store: Any, name: str, *peers: str
    ) -> None:
        self.way = Cut(store)
        self.told: list[tuple[str, ...]] = []
        self.ended: list[SvcError] = []
        me = Member(name, f"node-{name}", f"{name}-{len(peers)}{id(self)}")
        self.service = Membership(
            store=self.way,
            me=me,
            peers=frozenset(peers),
            listens=True,
            clock=clock,
            on_missing_keys=self.told.append,
            stopped_by=self.ended.append,
        )
        case.successResultOf(self.service.startService())


class MembershipTests(SynchronousTestCase):
    """Instances on one store and one clock."""

    def setUp(self) -> None:
        """Nobody is there."""
        self.clock, self.store = Clock(), memory_store(chain_hash)

    def instance(self, name: str, *peers: str) -> Instance:
        """Another one, started, with private addresses for these names."""
        return Instance(self, self.clock, self.store, name, *peers)

    def after(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds * 2)):
            self.clock.advance(0.5)

    def rows(self) -> list[Member]:
        """What the store holds."""
        reading = self.store.read("members", lambda tx: tx.lease.members())
        found: list[Member] = self.successResultOf(Deferred.fromCoroutine(reading))
        return found

    def change(self, fn: Any) -> None:
        """A transaction of somebody else."""
        self.successResultOf(Deferred.fromCoroutine(self.store.run("change", fn)))

    def test_alone(self) -> None:
        """Who is alone needs no addresses: there is nobody to reach."""
        one = self.instance("a1")
        self.after(60)
        self.assertEqual(one.told, [()])

    @proves("G-RDY-05", "G-RDY-06")
    def test_a_missing_address(self) -> None:
        """Every member that lives must have an address at each, under its own name."""
        first, second = self.instance("a1", "a1", "a2"), self.instance("a2", "a1")
        self.after(BEAT_SECS)
        self.assertEqual(first.told, [()])
        self.assertEqual(second.told[-1], ("authority.peers.a2",))
        third = self.instance("a3", "a1", "a2", "a3")
        self.after(BEAT_SECS)
        self.assertEqual(first.told[-1], ("authority.peers.a3",))
        self.assertEqual(third.told, [()])
        self.assertEqual(first.service.node_id("a3"), "node-a3")
        self.successResultOf(third.service.stopService())
        self.after(REMEMBERED * TERM_SECS + BEAT_SECS)
        self.assertEqual(first.told[-1], (), "it has gone for good")

    def test_nobody_reaches_it(self) -> None:
        """Who has no private listener says so by its key."""
        self.instance("a1", "a1", "a2")
        second = self.instance("a2", "a1", "a2")
        second.service.listens = False
        self.after(BEAT_SECS)
        self.assertEqual(second.told[-1], ("endpoints.private_listen",))

    @proves("G-HA-06", "U-NOTE-18")
    def test_same_name(self) -> None:
        """A second process under the name of one that lives is refused; the first goes on."""
        first = self.instance("a1")
        self.after(BEAT_SECS)
        second = self.instance("a1")
        self.after(4 * BEAT_SECS)
        self.assertEqual(first.ended, [])
        [refusal] = second.ended
        self.assertEqual(refusal.reason, "lease_owner_taken")
        self.assertIn("authority.name", refusal.text)
        self.assertIn("node-a1", refusal.text)

    def test_back_again(self) -> None:
        """A process that died is replaced under its name by the next one, and nobody is refused."""
        first = self.instance("a1")
        self.after(7)
        self.successResultOf(first.service.stopService())
        second = self.instance("a1", "a1")
        self.after(TERM_SECS + 2 * BEAT_SECS)
        self.assertEqual(second.ended, [])
        self.assertEqual(self.rows()[0].instance, second.service.me.instance)

    def test_last_word_under_way(self) -> None:
        """One beat of a dead process that came late is no sign of life."""
        first = self.instance("a1")
        self.successResultOf(first.service.stopService())
        second = self.instance("a1", "a1")
        [row] = self.rows()
        self.change(lambda tx: tx.lease.appear(evolve(row, beats=row.beats + 1), row))
        self.after(3 * TERM_SECS)
        self.assertEqual(second.ended, [])

    def test_frozen(self) -> None:
        """Who was replaced while it stood still finds out that it is the second now."""
        first = self.instance("a1")
        first.way.held = []
        self.after(BEAT_SECS)
        second = self.instance("a1", "a1")
        self.after(2 * TERM_SECS)
        held, first.way.held = first.way.held, None
        for each in held:
            each.callback(None)
        self.after(4 * BEAT_SECS)
        self.assertEqual((len(first.ended), second.ended), (1, []))

    def test_no_store(self) -> None:
        """A store that is away is no reason to end, and no sign of anybody's death."""
        one = self.instance("a1")
        one.way.is_cut = True
        self.after(5 * TERM_SECS)
        one.way.is_cut = False
        self.after(BEAT_SECS)
        self.assertEqual((one.ended, one.told), ([], [()]))

    def test_hostile_row(self) -> None:
        """A name that is none is nobody's: it enters no log and no check."""
        one = self.instance("a1", "a1")
        self.change(lambda tx: tx.lease.appear(Member("A\x1b[31m\n", "n", "i"), None))
        self.after(BEAT_SECS)
        self.assertEqual(one.told, [()])


class RollTests(SynchronousTestCase):
    """What one observer makes of the rows."""

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30))
    def test_living(self, story: list[tuple[str, bool]]) -> None:
        """Who counted within the silence lives; who did not may be replaced; never both."""
        rows = {name: Member(name, "n", "i") for name in "abc"}
        beaten = dict.fromkeys("abc", 0.0)
        view = MembershipView().saw(rows.values(), 0.0)
        for at, (name, beats) in enumerate(story, 1):
            if beats:
                rows[name] = evolve(rows[name], beats=rows[name].beats + 1)
                beaten[name] = float(at)
            view = view.saw(rows.values(), float(at))
            living = {member.owner for member in view.living(at, 5.0)}
            self.assertEqual(living, {name for name in "abc" if at - beaten[name] < 5.0})
            dead = {name for name in "abc" if view.may_replace(rows[name], at, 5.0)}
            self.assertEqual(living | dead, set("abc"))
            self.assertEqual(living & dead, set())

"""Several instances on one store: one leads, and only it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from svc.authority.ha.lease import BEATS, TERM_SECS, FencedStore, Leadership
from svc.errors import LeaseLost, StoreUnavailable
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.record import chain_hash
from svc.model.cluster.lease import LeaderLease
from svc.store.sqlite.memory import memory_store
from tests.support.examples import examples
from tests.support.proof import proves

_T = TypeVar("_T")
BEAT_SECS = TERM_SECS / BEATS


@implementer(IStore)
@define
class Cut:
    """One instance's way to a store it shares, which can be cut or held back.

    Attributes:
        only: What alone is held back, by its description; empty: everything.
    """

    store: IStore
    is_cut: bool = False
    held: list[Deferred[None]] | None = None
    only: str = ""
    loses: bool = False
    """Whether what was written is not answered."""

    async def run(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:
        """Reach the store, unless the way is cut; wait first where it is held back."""
        await self._pass(desc)
        result = await self.store.run(desc, fn)
        if self.loses:
            raise StoreUnavailable("store: no answer", reason="store_outcome_unknown")
        return result

    async def read(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:
        """As above."""
        await self._pass(desc)
        return await self.store.read(desc, fn)

    async def close(self) -> None:
        """Nothing of ours."""

    async def _pass(self, desc: str) -> None:
        if self.is_cut:
            raise StoreUnavailable("store: cut off")
        if self.held is not None and self.only in ("", desc):
            waiting: Deferred[None] = Deferred()
            self.held.append(waiting)
            await waiting


@define
class Member:
    """An Authority as far as the lease goes."""

    name: str
    way: Cut
    clock: Clock
    alone: bool = False
    leadership: Leadership = field(init=False)
    told: list[LeaderLease | None] = field(factory=list)
    superseded: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        reactor: Any = self.clock
        self.leadership = Leadership(
            store=self.way,
            owner=self.name,
            instance=f"{self.name}-1",
            clock=reactor,
            alone=self.alone,
        )
        self.leadership.on_change(self.told.append)
        self.leadership.on_superseded(self.superseded.append)

    @property
    def leads(self) -> bool:
        """Whether it believes that it does."""
        return self.leadership.lease is not None

    def write(self, text: bytes = b"{}") -> Deferred[Any]:
        """One write of it."""
        fenced = FencedStore(self.way, self.leadership.held)
        return Deferred.fromCoroutine(fenced.run("write", lambda tx: tx.audit.append(text)))


class World(SynchronousTestCase):
    """Members on one store and one clock."""

    def setUp(self) -> None:
        """A store without a leader."""
        self.store, self.clock = memory_store(chain_hash), Clock()

    def member(self, name: str, alone: bool = False) -> Member:
        """Another instance, started."""
        made = Member(name=name, way=Cut(self.store), clock=self.clock, alone=alone)
        self.successResultOf(made.leadership.startService())
        return made

    def after(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds * 4)):
            self.clock.advance(0.25)

    def beats(self) -> int:
        """How often the lease was renewed."""
        read = self.store.read("beats", lambda tx: tx.lease.held().beats)
        return self.successResultOf(Deferred.fromCoroutine(read))

    def rows(self) -> int:
        """How many records were written."""
        read = self.store.read("rows", lambda tx: tx.audit.head().seq)
        return self.successResultOf(Deferred.fromCoroutine(read))


class LeadingTests(World):
    """Taking, keeping and losing the lease."""

    def test_the_first_leads(self) -> None:
        """The first instance leads at once and stays so; the next follows and names it."""
        a, b = self.member("a"), self.member("b")
        self.after(10 * TERM_SECS)
        self.assertEqual((a.leads, b.leads), (True, False))
        self.assertEqual((a.leadership.leader, b.leadership.leader), ("a", "a"))
        self.assertEqual([lease and lease.epoch for lease in a.told], [1])
        self.successResultOf(a.write())
        refusal = self.failureResultOf(b.write(), LeaseLost).value
        self.assertEqual((refusal.reason, refusal.leader), ("not_leader", "a"))
        verifyObject(IStore, FencedStore(self.store, a.leadership.held))

    @proves("G-OPEN-49")
    def test_renewed_in_time(self) -> None:
        """A lease is good for 15 s unless the leader renews it, which it does within 5 s."""
        self.assertEqual(TERM_SECS, 15.0)
        a = self.member("a")
        for _ in range(10):
            before = self.beats()
            self.after(5.0)
            self.assertGreater(self.beats(), before)
        self.assertEqual((a.leads, a.leadership.epoch()), (True, 1))

    def test_stopped(self) -> None:
        """A leader that stops gives the lease up: the next look of another takes it."""
        a, b = self.member("a"), self.member("b")
        self.successResultOf(a.leadership.led())
        waiting, given_up = b.leadership.led(), b.leadership.led()
        self.assertNoResult(waiting)
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        self.successResultOf(a.leadership.stopService())
        self.assertEqual(a.told[-1], None)
        self.after(BEAT_SECS)
        self.assertTrue(b.leads)
        self.successResultOf(waiting)
        self.assertEqual(b.leadership.epoch(), 2)
        self.assertEqual(
            self.failureResultOf(a.write(), LeaseLost).value.leader, "", "it holds nothing now"
        )

    def test_cut_off(self) -> None:
        """A leader that cannot reach the store steps down before another one takes over."""
        a, b = self.member("a"), self.member("b")
        self.after(7.0)
        a.way.is_cut = True
        stepped_down = took_over = None
        for step in range(400):
            self.clock.advance(0.25)
            if stepped_down is None and not a.leads:
                stepped_down = step
            if took_over is None and b.leads:
                took_over = step
        assert stepped_down is not None and took_over is not None
        self.assertLess(stepped_down, took_over)
        self.assertLessEqual(took_over * 0.25, TERM_SECS + 0.5)
        a.way.is_cut = False
        self.after(3 * TERM_SECS)
        self.assertEqual((a.leads, b.leads), (False, True))
        self.assertEqual((a.leadership.leader, a.superseded), ("b", ["b"]))
        b.way.is_cut = True
        self.after(3 * TERM_SECS)
        self.assertFalse(a.leads, "what it began as leader is out of date")

    def test_the_store_is_away(self) -> None:
        """A leader writes nothing while the store is away, and goes on where nobody took over."""
        a = self.member("a")
        a.way.is_cut = True
        self.after(4 * TERM_SECS)
        self.failureResultOf(a.write(), LeaseLost)
        self.assertEqual(a.leadership.leader, "")
        a.way.is_cut = False
        self.after(BEAT_SECS)
        self.successResultOf(a.write())
        self.assertEqual((a.leadership.epoch(), a.superseded), (1, []))

    def test_a_beat_whose_answer_was_lost(self) -> None:
        """A beat that was counted without our knowing costs nothing."""
        a = self.member("a")
        counted = self.store.run("beat", lambda tx: tx.lease.beat(tx.lease.held()))
        self.successResultOf(Deferred.fromCoroutine(counted))
        self.after(2 * BEAT_SECS)
        self.assertEqual((a.leads, a.leadership.epoch()), (True, 1))

    @proves("G-ROLE-11", "G-OPEN-49")
    def test_frozen(self) -> None:
        """A write begun by a leader that was frozen past its term is refused by the store."""
        a, b = self.member("a"), self.member("b")
        a.way.held = []
        late = a.write()  # on its way when everything of `a` stops
        self.after(TERM_SECS + 2 * BEAT_SECS)
        self.assertTrue(b.leads)
        self.successResultOf(b.write())
        before = self.rows()
        for waiting in a.way.held:
            waiting.callback(None)
        self.assertEqual(self.failureResultOf(late, LeaseLost).value.leader, "b")
        self.assertEqual(self.rows(), before)

    def test_one_epoch_twice(self) -> None:
        """Of two that both began an epoch, because the store forgot the first one, one writes.

        So it is after a failover to a replica that had not heard of the newest epoch.
        """
        a, b = self.member("a"), self.member("b")
        on_its_way: list[Deferred[None]] = []
        a.way.held, a.way.only = on_its_way, "write"
        writing = a.write()

        def fail_over(tx: Any) -> None:
            self.assertIsNotNone(tx.lease._replace(tx.lease.held(), LeaderLease()))

        self.successResultOf(Deferred.fromCoroutine(self.store.run("fail over", fail_over)))
        self.after(2 * BEAT_SECS)
        self.assertEqual((a.leads, b.leads), (False, True))
        self.assertEqual(b.leadership.epoch(), 1)
        self.successResultOf(b.write())
        before = self.rows()
        for waiting in on_its_way:
            waiting.callback(None)
        self.assertEqual(self.failureResultOf(writing, LeaseLost).value.leader, "b")
        self.assertEqual(self.rows(), before)

    def test_answer_lost(self) -> None:
        """Who took the lease without hearing so goes on with it at its next look."""
        a = Member("a", Cut(self.store), self.clock)
        taken = self.store.run("take", lambda tx: tx.lease.take("a", "a-1", LeaderLease()))
        self.successResultOf(Deferred.fromCoroutine(taken))
        self.successResultOf(a.leadership.startService())
        self.assertEqual(a.leadership.epoch(), 1)

    def test_a_take_that_waits(self) -> None:
        """Who waited a term and more for its taking leads on, and is never told that it does not.

        The store gives the lease late where the one before was stopped in a transaction.
        """
        a, b = self.member("a"), self.member("b")
        b.way.held, b.way.only = [], "take the lease"
        a.way.is_cut = True
        self.after(3 * TERM_SECS)
        self.assertFalse(b.leads)
        (taking,), b.way.held = b.way.held, None
        taking.callback(None)
        self.assertTrue(b.leads)
        self.after(2 * TERM_SECS)
        self.assertTrue(b.leads)
        self.assertEqual(len(b.told), 1)
        self.successResultOf(b.write())

    def test_a_take_that_waits_too_long(self) -> None:
        """Whose taking and beat both wait a term leads once a beat is quick."""
        a, b = self.member("a"), self.member("b")
        b.way.held, b.way.only = [], "take the lease"
        a.way.is_cut = True
        self.after(3 * TERM_SECS)
        b.way.only = "beat"
        (taking,), b.way.held = b.way.held, []
        taking.callback(None)
        self.after(TERM_SECS)
        self.assertFalse(b.leads)
        (beating,), b.way.held = b.way.held, None
        beating.callback(None)
        self.assertTrue(b.leads)
        self.after(TERM_SECS)
        self.assertEqual((len(b.told), b.leads), (1, True))

    def test_alone(self) -> None:
        """Whoever is alone on its store waits for no term: it was killed, and is back."""
        first = self.member("a")
        again = Member("a", Cut(self.store), self.clock, alone=True)
        again.leadership.instance = "a-2"
        self.successResultOf(again.leadership.startService())
        self.assertEqual(again.leadership.epoch(), 2)
        self.failureResultOf(first.write(), LeaseLost)

    def test_same_owner(self) -> None:
        """Another process of the same owner does not beat for the first one."""
        first = self.member("a")
        second = Member("a", Cut(self.store), self.clock)
        second.leadership.instance = "a-2"
        self.successResultOf(second.leadership.startService())
        self.after(3 * TERM_SECS)
        self.assertEqual((first.leads, second.leads), (True, False))

    def test_no_store(self) -> None:
        """A start without a store is refused; nothing is led."""
        a = Member("a", Cut(self.store, is_cut=True), self.clock)
        self.failureResultOf(a.leadership.startService(), StoreUnavailable)
        self.assertFalse(a.leads)


class ManyTests(World):
    """Any order of cuts and returns."""

    @settings(max_examples=examples(40), deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from((1, 4, 20, 80))), max_size=30))
    def test_one_writer(self, story: list[tuple[int, int]]) -> None:
        """At no moment do two write, epochs only grow, and a new member leads in the end."""
        self.setUp()
        members = [self.member(name) for name in "abc"]
        epochs: list[int] = []
        for who, quarters in story:
            members[who].way.is_cut = not members[who].way.is_cut
            for _ in range(quarters):
                self.clock.advance(0.25)
                self._write(members, epochs)
        for each in members:
            each.way.is_cut = False
        # Whoever was superseded is started again by whoever runs it.
        members.append(self.member("d"))
        self.after(TERM_SECS + 2 * BEAT_SECS)
        self._write(members, epochs)
        self.assertEqual(sum(each.leads for each in members), 1)
        self.assertEqual(epochs, sorted(epochs))

    def _write(self, members: list[Member], epochs: list[int]) -> None:
        written = []
        before = self.rows()
        for each in members:
            each.write().addErrback(lambda failure: failure.trap(LeaseLost, StoreUnavailable))
            after = self.rows()
            if after > before:
                written.append(each.leadership.epoch())
            before = after
        self.assertLessEqual(len(written), 1)
        epochs.extend(written)

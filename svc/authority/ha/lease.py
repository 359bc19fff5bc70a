"""Holds the leader's lease, and allows writes only while it is held.

Any number of Authorities may run on one store; :class:`Leadership` of each
looks at the lease again and again, takes it when it may, and keeps it by
beats.  Who cannot beat in time writes nothing before anybody else may take over, and
goes on if nobody did; whoever was stopped meanwhile and does not know yet is refused by the store,
because :class:`FencedStore` compares epoch, owner and process inside every write transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from svc.errors import LeaseLost, StoreUnavailable
from svc.interfaces.store import IStore, ITransaction
from svc.model.cluster.lease import LeaderLease, Watch
from svc.runtime.services import AsyncService, PeriodicTask

TERM_SECS = 15.0
BEATS = 5
"""So many beats of the holder, and looks of the others, come to a term: a dead holder is
replaced within a term and a fifth."""

HELD_SHARE = 0.8
"""The holder ends its own term after this share of it: two clocks never run quite alike."""

_log = Logger(namespace="svc_authority")
_T = TypeVar("_T")


@define(slots=False, eq=False)
class Leadership(AsyncService):
    """This instance's part in the lease.

    Attributes:
        store: The store itself, unfenced: the lease's own changes compare what they replace.
        owner: Our name among the Authorities.
        instance: Of this process; another one of the same owner does not beat for us.
        alone: Whether nobody else can write to the store (a lock beside it is ours): the
            lease is then taken at once, whoever held it, and needs no beats.
        term: How long a holder may be silent, in seconds, before another one takes over.
    """

    store: IStore
    owner: str
    instance: str
    clock: IReactorTime
    alone: bool = False
    term: float = TERM_SECS
    _lease: LeaderLease | None = field(default=None, init=False)
    _watch: Watch = field(factory=Watch, init=False)
    _end: IDelayedCall | None = field(default=None, init=False)
    _ours_at: IDelayedCall | None = field(default=None, init=False)
    _led: int | None = field(default=None, init=False)
    _on_change: list[Callable[[LeaderLease | None], object]] = field(factory=list, init=False)
    _on_superseded: list[Callable[[str], object]] = field(factory=list, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)
    _turns: PeriodicTask = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._turns = PeriodicTask(
            clock=self.clock,
            interval=self.term / BEATS,
            call=self._turn,
            what="lease of the write leader",
            at_once=False,
        )

    def on_change(self, callback: Callable[[LeaderLease | None], object]) -> None:
        """Call *callback* with the lease when it becomes ours, and with None when we lose it."""
        self._on_change.append(callback)

    def on_superseded(self, callback: Callable[[str], object]) -> None:
        """Call *callback* with the holder's name once a newer epoch than ours has started.

        We do not lead again in this life: what was begun as leader is out of date.
        """
        self._on_superseded.append(callback)

    @property
    def lease(self) -> LeaderLease | None:
        """The lease while it is ours."""
        return self._lease

    @property
    def leader(self) -> str:
        """The name of the holder that was last seen alive; empty if there is none."""
        if self._lease is not None:
            return self.owner
        seen = self._watch.lease
        if seen is None or self._watch.may_take(self.clock.seconds(), self.term):
            return ""
        return seen.owner

    def led(self) -> Deferred[None]:
        """Fires once we lead: at once, or when the lease becomes ours."""
        if self._lease is not None:
            return succeed(None)
        waiting: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        return waiting

    def held(self) -> LeaderLease:
        """The lease to write under.

        Raises:
            LeaseLost: we do not lead.
        """
        if self._lease is None:
            raise LeaseLost("" if self.leader == self.owner else self.leader)
        return self._lease

    def epoch(self) -> int:
        """Of the lease to write under.

        Raises:
            LeaseLost: we do not lead.
        """
        return self.held().epoch

    async def start(self) -> None:
        """Check the lease for the first time, take it if possible, and keep checking.

        Raises:
            StoreUnavailable: the store could not be asked.
        """
        await self._look()
        if not self.alone:
            self._turns.startService()

    async def stop(self) -> None:
        """Give the lease up, so that no standby has to wait until it expires."""
        if self._ours_at is not None:
            self._ours_at.cancel()
            self._ours_at = None
        if self._turns.running:
            await self._turns.stopService()
        mine = self._lease
        if mine is None:
            return
        self._ours(None, 0.0)
        try:
            await self.store.run("give up the lease", lambda tx: tx.lease.leave(mine))
        except StoreUnavailable as e:
            _log.warn("the lease was not released; it will expire", reason=e.reason)

    async def _turn(self) -> None:
        try:
            await self._beat() if self._lease is not None else await self._look()
        except StoreUnavailable as e:
            _log.warn("the lease could not be read", reason=e.reason)

    async def _look(self) -> None:
        began = self.clock.seconds()
        held = await self.store.read("the lease", lambda tx: tx.lease.held())
        self._watch = self._watch.saw(held, self.clock.seconds())
        if held.is_of(self.owner, self.instance):
            # The store was away, or the answer to our taking was lost: a beat shows whether
            # it still stands.  Nobody has begun another epoch, so nothing of ours is out of date.
            self._ours(held, began)
            await self._beat()
        elif self._led is not None:
            self._end_for_good(held)
        elif self.alone or self._watch.may_take(self.clock.seconds(), self.term):
            taken = await self.store.run(
                "take the lease", lambda tx: tx.lease.take(self.owner, self.instance, held)
            )
            if taken is not None and await self._lead(taken, began):
                _log.info("leading", epoch=taken.epoch, before=held.owner)
                return
        self._look_at_its_end()

    async def _lead(self, taken: LeaderLease, began: float) -> bool:
        """Lead under what was just taken; False where another one has it already.

        Taking may have waited for a transaction of who led before.  A term counted from before
        that would be over at once: it is counted from a beat that was quick.
        """
        while not self.alone and self.clock.seconds() - began > HELD_SHARE * self.term / 2:
            began = self.clock.seconds()
            kept = await self.store.run("beat", partial(_beaten, taken))
            if kept is None:
                return False
            taken = kept
        self._ours(taken, began)
        return True

    def _look_at_its_end(self) -> None:
        """Look when the holder's term ends unless it beats, not only at the next turn."""
        if self._ours_at is not None:
            self._ours_at.cancel()
            self._ours_at = None
        left = self._watch.since + self.term - self.clock.seconds()
        if self._lease is None and self._turns.running and left > 0:
            self._ours_at = self.clock.callLater(left, self._its_end)

    def _its_end(self) -> None:
        self._ours_at = None
        self._turns.hurry()

    async def _beat(self) -> None:
        """One beat.  The term runs from before it was asked for, so ours ends first."""
        began, mine = self.clock.seconds(), self._lease
        assert mine is not None
        kept = await self.store.run("beat", partial(_beaten, mine))
        if self._lease is not mine:
            return  # the term ended while the store was asked
        self._ours(kept, began)
        if kept is None:
            await self._look()

    def _end_for_good(self, held: LeaderLease) -> None:
        _log.error("another Authority took the lease", leader=held.owner, epoch=held.epoch)
        callbacks, self._on_superseded = self._on_superseded, []
        for each in callbacks:
            each(held.owner)

    def _ours(self, lease: LeaderLease | None, since: float) -> None:
        """What we hold from now on, and until when unless a beat follows."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        before, self._lease = self._lease, lease
        if lease is not None:
            self._led = lease.epoch
        if lease is not None and not self.alone:
            left = since + HELD_SHARE * self.term - self.clock.seconds()
            self._end = self.clock.callLater(max(0.0, left), self._term_over)
        if (before is None) != (lease is None):
            for callback in self._on_change:
                callback(lease)
        if lease is not None:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)

    def _term_over(self) -> None:
        self._end = None
        _log.error("the lease was not renewed in time; nothing is written until it is renewed")
        self._ours(None, 0.0)


def _beaten(mine: LeaderLease, tx: ITransaction) -> LeaderLease | None:
    return tx.lease.beat(mine)


@implementer(IStore)
@define
class FencedStore:
    """A store written to under a lease only.

    Attributes:
        lease: The lease to write under; raises LeaseLost where there is none.
    """

    store: IStore
    lease: Callable[[], LeaderLease]

    async def run(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:
        """See :class:`IStore`.

        Raises:
            LeaseLost: we do not lead, or lead no more; nothing was written.
        """
        return await self.store.run(desc, self.fenced(fn))

    def fenced(self, fn: Callable[[ITransaction], _T]) -> Callable[[ITransaction], _T]:
        """*fn*, in a transaction that holds only under the lease of now; raises as :meth:`run`."""
        mine = self.lease()

        def fenced(tx: ITransaction) -> _T:
            tx.lease.require(mine)
            return fn(tx)

        return fenced

    def read(self, desc: str, fn: Callable[[ITransaction], _T]) -> Coroutine[Any, Any, _T]:
        return self.store.read(desc, fn)

    async def close(self) -> None:
        await self.store.close()

"""Sends the rows of this Proxy's spools to the Authority (rule R11).

Each connection begins by asking how far Authority has each spool, and goes on
from there: also where that is further back than before, because Authority's
store may have been put back.  Calls are made one at a time, the oldest spool
first.  What a signed head covers leaves the disk; what none covers yet is asked
after again, less often the longer nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.audit.spool.entries import Extent
from svc.audit.spool.spool import Spool
from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.spooled import SPOOLED_METHOD, SpoolState, read_state, spooled_message
from svc.model.audit.spool import SpoolRow
from svc.proto.gate.v1 import control_pb2 as pb
from svc.runtime.backoff import Backoff
from svc.runtime.services import BackgroundTasks

_log = Logger(namespace="svc_proxy")

TOGETHER_SECS = 0.5
"""A call with its transaction and its head costs Authority as much as some hundred entries."""

_TIMEOUT = 10.0
_MOVED_WAIT = 1.0
_FIRST_WAIT = 2.0
_LONGEST_WAIT = 30.0
_REFUSED_WAIT = 5.0
_UNSERVED_WAIT = 60.0
"""An Authority of an older version takes no rows; another may lead in a while."""

_OTHER_ORIGIN = "other_origin"
"""The rows are those of a node that this one was before it joined again."""

_AWAY = frozenset({"authority_unreachable", "authority_unconfigured"})
"""There is no channel: the next connection says when there is one."""


@define
class _Progress:
    """How far Authority has one spool, over this connection.

    Attributes:
        received: As it said last.
        covered: The most that it said.
        sent: The last row that need not be sent again; past *received* where rows between
            them are lost, and Authority waits for them.
        is_known: Whether *received* is fresh.
        is_refused: Authority will never take its rows; they stay on the disk.
    """

    received: int = 0
    covered: int = 0
    sent: int = 0
    is_known: bool = False
    is_refused: bool = False

    def updated(self, state: SpoolState, sent: int = 0) -> bool:
        """Take Authority's answer to a call whose last row was *sent*; whether anything moved."""
        before = (self.received, self.covered)
        has_gone_back = state.received < self.received
        self.sent = state.received if has_gone_back else max(self.sent, sent, state.received)
        self.received, self.is_known = state.received, True
        self.covered = max(self.covered, state.covered)
        return (self.received, self.covered) != before


@define(eq=False)
class SpoolDelivery:
    """See the module.

    Attributes:
        channel: Gives the channel to Authority or raises while there is none.
        clock: Times the next look.
        gather: Seconds from the end of one delivery to the next one's beginning, while rows keep
            coming: those of one moment travel together, and Authority writes them in one
            transaction.
    """

    spool: Spool
    channel: Callable[[], IRpcChannel]
    tasks: BackgroundTasks
    clock: IReactorTime
    gather: float = TOGETHER_SECS
    _known: dict[str, _Progress] = field(factory=dict)
    _is_busy: bool = False
    _is_wanted: bool = False
    _again: IDelayedCall | None = None
    _put_off: bool = False
    _gathers: bool = False
    _brought_at: float = 0.0
    _waits: Backoff = field(factory=lambda: Backoff(_FIRST_WAIT, _LONGEST_WAIT))

    @property
    def is_busy(self) -> bool:
        """Whether rows are on their way, or will be in a moment."""
        return self._is_busy or self._gathers

    def connected(self) -> None:
        """A channel is open, perhaps to another Authority: ask which rows it has of each spool."""
        self._known.clear()
        self._waits.reset()
        self._look()

    def committed(self) -> None:
        """There are new rows: they go in a moment, unless Authority asked to be left alone."""
        if self._put_off:
            return
        self._waits.reset()
        if self._is_busy:
            self._is_wanted = True
            return
        wait = self._brought_at + self.gather - self.clock.seconds()
        if wait <= 0:
            self._look()
        elif not self._is_due_within(wait):
            self.stop()
            self._again = self.clock.callLater(wait, self._look)
            self._gathers = True

    def _is_due_within(self, wait: float) -> bool:
        again = self._again
        if again is None or not again.active():
            return False
        return again.getTime() <= self.clock.seconds() + wait

    def stop(self) -> None:
        """Look no more by itself."""
        if self._again is not None and self._again.active():
            self._again.cancel()
        self._again = None
        self._gathers = False

    def _look(self) -> None:
        self.stop()
        self._put_off = False
        if self._is_busy:
            self._is_wanted = True
            return
        self._is_busy = True
        self.tasks.spawn("deliver the spool", self._deliver())

    def _look_again(self) -> None:
        """Ask after what no head covers yet."""
        for one in self._known.values():
            one.is_known = False
        self._look()

    async def _deliver(self) -> None:
        try:
            self._is_wanted = True
            while self._is_wanted:
                self._is_wanted = False
                await self._round()
                self._brought_at = self.clock.seconds()
                if self._is_wanted and self.gather:
                    await deferLater(self.clock, self.gather)
        except CancelledError:
            raise
        except SvcError as e:
            self._failed(e)
        finally:
            self._is_busy = False

    async def _round(self) -> None:
        """Bring what there is, then see whether anything must be asked after."""
        extents = await self.spool.spools()
        here = {one.spool_id for one in extents}
        self._known = {name: one for name, one in self._known.items() if name in here}
        has_moved = False
        for extent in extents:
            has_moved |= await self._bring(extent)
        uncovered = [one for one in extents if self._is_uncovered(one)]
        if has_moved:
            self._waits.reset()
        if uncovered:
            self._later(_MOVED_WAIT if has_moved else self._waits.next())

    def _is_uncovered(self, extent: Extent) -> bool:
        known = self._known.get(extent.spool_id)
        # None: another connection came meanwhile, and everything is asked again.
        return known is None or (known.covered < extent.last and not known.is_refused)

    async def _bring(self, extent: Extent) -> bool:
        """Bring the rows of one spool; whether Authority has more of it than before."""
        known = self._known.setdefault(extent.spool_id, _Progress())
        if known.is_refused:
            return False
        has_moved = False
        try:
            if not known.is_known:
                has_moved = known.updated(await self._call(extent.spool_id))
            while rows := await self._next_rows(extent, known):
                last = rows[-1][0]
                state = await self._call(extent.spool_id, *(row for _, row in rows))
                has_moved |= known.updated(state, last)
        except SvcError as e:
            if e.fault is not Fault.INVALID and e.reason != _OTHER_ORIGIN:
                raise
            known.is_refused = True
            _log.error(
                "Authority does not accept rows of a spool; they stay on the disk",
                spool=extent.spool_id,
                reason=e.reason,
                text=e.text,
            )
        finally:
            # Also when Authority takes no more for now: room is what new sessions wait for.
            if has_moved:
                await self.spool.covered(extent.spool_id, known.covered)
        return has_moved

    async def _next_rows(
        self, extent: Extent, known: _Progress
    ) -> tuple[tuple[int, SpoolRow], ...]:
        first = max(known.sent + 1, extent.first)
        if first > extent.last:
            return ()
        return await self.spool.rows(extent.spool_id, first)

    async def _call(self, spool_id: str, *rows: SpoolRow) -> SpoolState:
        answer = await self.channel().unary(
            SPOOLED_METHOD, spooled_message(spool_id, rows), pb.SpooledResponse, timeout=_TIMEOUT
        )
        return read_state(answer)

    def _failed(self, error: SvcError) -> None:
        if error.reason in _AWAY:
            _log.info(
                "audit records are queued until the Authority is reachable", reason=error.reason
            )
            return
        wait = error.retry_after or _REFUSED_WAIT
        if error.fault is Fault.UNIMPLEMENTED:
            wait = _UNSERVED_WAIT
        _log.warn("Authority is not accepting audit rows", reason=error.reason, seconds=wait)
        self._later(wait)
        self._put_off = True

    def _later(self, wait: float) -> None:
        self.stop()
        self._again = self.clock.callLater(wait, self._look_again)

"""Checks repeatedly, while we lead, that the store accepts writes.

A store may answer every question and take no record: its disk is full, or a
limit or a fault keeps it from being written.  Then nothing is granted, and an
Authority that grants nothing is not ready, whether or not anybody asks it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Fault, LeaseLost, StoreFull, StoreUnavailable, SvcError
from svc.runtime.services import Readiness, bounded

UNWRITABLE = "store_unwritable"

WRITES = (StoreFull.reason, UNWRITABLE)
"""The conditions of readiness, as the words by which what is amiss is known."""

_ANSWER_SECS = 5.0
_log = Logger(namespace="svc_authority")


@define
class StoreWrites:
    """The result of the last write that was tried.

    Attributes:
        write: Writes what harms nobody, as leader; does nothing while we do not serve as one.
    """

    write: Callable[[], Awaitable[object]]
    clock: IReactorTime
    ready: Readiness
    _fault: SvcError | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        for each in WRITES:
            self.ready.met(each)

    async def look(self) -> None:
        """Try a write; readiness follows."""
        try:
            await bounded(self.clock, _ANSWER_SECS, self.write(), "the store")
        except LeaseLost:
            pass  # who does not lead writes nothing; that is a condition of its own
        except SvcError as failed:
            # A log that is not the known one is a condition of its own, too.
            if isinstance(failed, StoreUnavailable) or failed.fault is Fault.DEADLINE:
                self.found(failed)
            return
        if self._fault is not None:
            _log.info("the store accepts writes again")
        self._fault = None
        for each in WRITES:
            self.ready.met(each)

    def found(self, fault: SvcError) -> None:
        """A write failed: the probe's own, or a caller's."""
        condition = _condition(fault)
        if self._fault is None or _condition(self._fault) != condition:
            _log.error("the store cannot be written", reason=fault.reason, text=fault.text)
        self._fault = fault
        for each in WRITES:
            (self.ready.lost if each == condition else self.ready.met)(each)

    def require_room(self) -> None:
        """Return unless the disk under the store is full; before anything is granted.

        Raises:
            StoreFull: it is, as of the newest try.
        """
        if isinstance(self._fault, StoreFull):
            raise StoreFull(self._fault.text, retry_after=self._fault.retry_after)


def _condition(fault: SvcError) -> str:
    return StoreFull.reason if isinstance(fault, StoreFull) else UNWRITABLE

"""Ends a session when its grant does; where it is gated, Authority can put the end off."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from svc.model.session.ending import CERTIFICATE_ENDED, NOT_PROLONGED, grant_ending


@define(eq=False)
class GrantEnd:
    """The end of one session's time.

    Attributes:
        now: Wall time in seconds.
        end: Called with the word of the end.
        certificate_end: Of the person, in Unix seconds.
        is_gated: The grant is short, and prolonged.
        approval_end: Of the approved request that the session stands on; never without one.
    """

    clock: IReactorTime
    now: Callable[[], float]
    end: Callable[[str], object]
    certificate_end: float
    is_gated: bool = False
    approval_end: float = inf
    _ending: IDelayedCall | None = field(default=None, init=False)

    def hold_until(self, end_before_ms: int) -> None:
        """End at this time, in Unix milliseconds, and not at an earlier one that was said."""
        self.stop()
        word = grant_ending(end_before_ms, self.certificate_end)
        is_out_of_time = end_before_ms >= self.approval_end * 1000
        if self.is_gated and word != CERTIFICATE_ENDED and not is_out_of_time:
            word = NOT_PROLONGED
        left = max(0.0, end_before_ms / 1000 - self.now())
        self._ending = self.clock.callLater(left, self.end, word)

    def stop(self) -> None:
        """It is over.  Idempotent."""
        if self._ending is not None and self._ending.active():
            self._ending.cancel()

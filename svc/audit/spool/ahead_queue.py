"""Requests that wait until they are written ahead, on the reactor's thread: many share a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.audit.spool.entries import Outcome, SpoolRequest
from svc.errors import SvcError, Unavailable
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_audit")


@define(eq=False)
class AheadQueue:
    """See the module.

    Attributes:
        write_ahead: Writes requests, and returns why none of them may pass; it blocks.
        written: Told of the requests of a write that are on the disk, before their writers are.
        refused: Told of those that are not.
        in_turn: Calls back once this turn of the reactor is over: what is asked for in it is
            written together.
        refusal: Why the last write was refused, or a try after it; None where it was not.
    """

    write_ahead: Callable[[Sequence[SpoolRequest]], Outcome]
    in_thread: InThread
    written: Callable[[Sequence[SpoolRequest]], object]
    refused: Callable[[Sequence[SpoolRequest]], object]
    in_turn: Callable[[Callable[[], object]], object]
    refusal: SvcError | None = field(default=None, init=False)
    _waiting: list[SpoolRequest] = field(factory=list, init=False)
    _writers: list[Deferred[None]] = field(factory=list, init=False)
    """Who waits, for each of these."""
    _in_write: int = field(default=0, init=False)
    _is_turn_asked: bool = field(default=False, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)

    def __len__(self) -> int:
        """Requests that are not on the disk yet."""
        return self._in_write + len(self._waiting)

    def write(self, request: SpoolRequest) -> Deferred[None]:
        """Fires once *request* is on the disk, or with the SvcError that refuses it."""
        durable: Deferred[None] = Deferred()
        self._waiting.append(request)
        self._writers.append(durable)
        if not self._is_turn_asked and not self._in_write:
            self._begin_in_turn()
        return durable

    def idle(self) -> Deferred[None]:
        """Fires once nothing waits."""
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        self._go_on()
        return idle

    def _begin_in_turn(self) -> None:
        if not self._in_write and not self._is_turn_asked:
            self._is_turn_asked = True
            self.in_turn(self._turn_over)

    def _turn_over(self) -> None:
        self._is_turn_asked = False
        if not self._in_write:
            self._begin()

    def _begin(self) -> None:
        batch, self._waiting = self._waiting, []
        writers, self._writers = self._writers, []
        self._in_write = len(batch)
        writing = self.in_thread(partial(self.write_ahead, batch))
        writing.addBoth(self._answer, batch, writers)

    def _answer(
        self,
        outcome: Outcome | Failure,
        batch: Sequence[SpoolRequest],
        writers: Sequence[Deferred[None]],
    ) -> None:
        self.refusal = refusal = _broken(outcome) if isinstance(outcome, Failure) else outcome
        self._in_write = 0
        (self.written if refusal is None else self.refused)(batch)
        for durable in writers:
            if durable.called:
                continue  # its writer went away
            if refusal is None:
                durable.callback(None)
            else:
                durable.errback(refusal)
        self._go_on()

    def _go_on(self) -> None:
        """Write what was asked for meanwhile, by those just answered too."""
        if self._waiting:
            self._begin_in_turn()
        elif not self._in_write:
            idle, self._idle = self._idle, []
            for one in idle:
                one.callback(None)


def _broken(failure: Failure) -> SvcError:
    _log.failure("writing requests ahead failed", failure)
    return Unavailable(
        "the audit spool cannot be written, so nothing passes", reason="audit_unavailable"
    )

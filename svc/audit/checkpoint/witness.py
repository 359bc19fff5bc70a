"""Sends each signed head to every witness that ``[audit].witness`` names.

A sink that fails is tried again, less and less often, and gets the newest heads
once it is back: the log never waits for it.  What somebody else holds is what
proves later that nothing before it was changed (rule R10), so a sink is best
where the gateway's operator cannot write.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.audit.checkpoint.anchor import MAX_LINE, parsed_head
from svc.audit.checkpoint.head import to_line
from svc.errors import AuditBroken, SvcError
from svc.interfaces.audit import IHeadSink, IHeadSource
from svc.model.audit.record import SignedHead
from svc.runtime.backoff import Backoff
from svc.runtime.durable import open_regular
from svc.runtime.services import AsyncService, bounded, cancel
from svc.runtime.threads import InThread

WAITING = 64
"""So many of the newest heads wait for a sink that is away."""

ANSWER_SECS = 10.0
"""A sink that has not taken or shown a head in this time has failed."""

STOP_SECS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

_log = Logger(namespace="svc_audit")


@implementer(IHeadSink, IHeadSource)
@define
class FileSink:
    """A file with a line a head: opened again for each, so it may be rotated away at any time.

    It belongs to one Authority.  Its heads grow, for ``audit verify --anchor`` takes it as it is:
    one that comes late, behind a greater one, is left out.

    It may lie on another host that falls silent.  So it has a thread of its own, and what is asked
    of it while a call hangs waits there as long as its caller does: a head and a look at most.

    Attributes:
        path: Its directory is there; the file is made.
        in_thread: Runs its calls one after another, away from everybody else's.
        closed: Called when nothing more will be asked.
    """

    path: Path
    in_thread: InThread
    closed: Callable[[], object]

    @property
    def name(self) -> str:
        return f"file://{self.path}"

    async def put(self, line: bytes) -> None:
        await self.in_thread(lambda: _append(self.path, line + b"\n"))

    async def newest(self) -> SignedHead | None:
        return await self.in_thread(lambda: newest_in(self.path))

    def close(self) -> None:
        self.closed()


def newest_in(path: Path) -> SignedHead | None:
    """The head in the last whole line of a witness's file; blocks.

    Raises:
        AuditBroken: that line is no head.
        OSError: it cannot be read.
    """
    if not path.exists():
        return None
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * MAX_LINE))
        tail = file.read()
    last = _last_line(tail)
    return parsed_head(last, {}) if last else None


def _last_line(tail: bytes) -> bytes:
    """The last whole line; empty where there is none."""
    lines = tail[: tail.rfind(b"\n") + 1].splitlines()
    return lines[-1] if lines else b""


def _is_late(line: bytes, last: bytes) -> bool:
    """Whether the *last* line is of the same log and as great, and no older store was put back."""
    try:
        head, before = parsed_head(line, {}), parsed_head(last, {}).head
    except AuditBroken:
        return False  # what is there is not ours to judge: nothing may be kept away by it
    is_same = (head.head.cluster, head.head.log_id) == (before.cluster, before.log_id)
    return is_same and head.restored is None and head.head.tree_size <= before.tree_size


def _append(path: Path, line: bytes) -> None:
    """Append durably, over what an unfinished append may have left, unless it comes late.

    A file that may only be appended to (``chattr +a``) is not asked for more.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    with open(descriptor, "rb+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * MAX_LINE))
        tail = file.read()
        if _is_late(line.removesuffix(b"\n"), _last_line(tail)):
            os.fsync(descriptor)  # it may be there from an append that was given up
            return
        cut = len(tail) - (tail.rfind(b"\n") + 1)
        if cut:
            try:
                file.truncate(size - cut)
            except PermissionError:
                line = b"\n" + line
        if file.write(line) != len(line):
            raise OSError(errno.ENOSPC, "the line was cut short")
        os.fsync(descriptor)


@define(slots=False, eq=False)
class Witness(AsyncService):
    """Sends heads to one sink; starts before heads are signed, and stops after the last."""

    sink: IHeadSink
    clock: IReactorTime
    _waiting: deque[bytes] = field(factory=lambda: deque(maxlen=WAITING), init=False)
    _work: Deferred[None] | None = field(default=None, init=False)
    _is_busy: bool = field(default=False, init=False)
    _pause: IDelayedCall | None = field(default=None, init=False)
    _waits: Backoff = field(init=False, factory=lambda: Backoff(FIRST_PAUSE, LONGEST_PAUSE))

    def signed(self, head: SignedHead) -> None:
        """A head is durable; returns at once."""
        self._waiting.append(to_line(head))
        if not self._is_busy and self._pause is None:
            self._begin()

    async def stop(self) -> None:
        """Send the heads that still wait, if the sink accepts them within a few seconds."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._waiting and not self._is_busy:
            self._begin()
        if self._is_busy and self._work is not None:
            ended: Deferred[None] = Deferred()
            self._work.addBoth(lambda _: ended.callback(None))
            try:
                await bounded(self.clock, STOP_SECS, ended, "a witness of the audit log")
            except SvcError:
                await cancel(self._work)
        if self._waiting:
            missing = len(self._waiting)
            _log.warn("a witness lacks the newest heads", sink=self.sink.name, heads=missing)
        self.sink.close()

    def _begin(self) -> None:
        self._is_busy = True
        self._work = Deferred.fromCoroutine(self._bring())
        self._work.addErrback(_unless_cancelled)

    async def _bring(self) -> None:
        """Bring what waits, oldest first; a sink that fails is left for a while."""
        try:
            while self._waiting:
                line = self._waiting[0]
                await bounded(self.clock, ANSWER_SECS, self.sink.put(line), self.sink.name)
                if self._waiting and self._waiting[0] is line:
                    self._waiting.popleft()
                self._succeeded()
        except (SvcError, OSError) as failed:
            self._failed(failed)
        finally:
            self._is_busy = False

    def _succeeded(self) -> None:
        if self._waits.failures:
            _log.info("a witness of the audit log answers again", sink=self.sink.name)
        self._waits.reset()

    def _failed(self, failed: SvcError | OSError) -> None:
        """Said once, until it is back."""
        if not self._waits.failures:
            _log.error(
                "a witness does not accept audit heads", sink=self.sink.name, text=str(failed)
            )
        pause = self._waits.next()
        if self.running:
            self._pause = self.clock.callLater(pause, self._again)

    def _again(self) -> None:
        self._pause = None
        self._begin()


def _unless_cancelled(failure: Failure) -> None:
    if failure.check(CancelledError) is None:
        _log.failure("a witness of the audit log failed", failure)

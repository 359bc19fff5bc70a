"""Work that may end the process that does it, in a process of its own that stays warm.

Some libraries can be killed by what they read, or kept busy by it.  What they are given goes to a
child process, one piece at a time, under limits of memory and time; if it ends, the next piece
gets a new one.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet import defer
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IProcessTransport, IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import Fault, SvcError
from svc.runtime.apart_child import DONE, HEAD, READY, framed

MOST_GIVEN = 256 * 1024
MOST_ANSWERED = 1024 * 1024
MOST_WAITING = 64
"""Pieces that wait for their turn; each is bounded, and so is all of them."""

MOST_OF_ONE = MOST_WAITING // 8
"""Pieces of one person, waiting or being done: nobody keeps the others out."""

START_SECS = 15.0
WORK_SECS = 5.0
"""What one piece may take, whatever else the machine does; of the child's own CPU time it has
:data:`svc.runtime.apart_child.CPU_SECS`."""

WHOLE_SECS = 20.0
"""What a caller waits at most: for the pieces before his, for the start, and for his own."""

_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from svc.runtime.apart_child import main; main()"
)

_log = Logger(namespace="svc")


def apart_command() -> tuple[str, ...]:
    """The child: this interpreter, isolated, and the code that runs here."""
    return (sys.executable, "-I", "-c", _PROGRAM, str(Path(__file__).resolve().parents[2]))


@define(eq=False)
class WorkApart:
    """The child process; begun by the first piece of work.

    Attributes:
        reactor: Starts processes.
        clock: Keeps the deadlines.
    """

    reactor: IReactorProcess
    clock: IReactorTime
    command: Sequence[str] = field(factory=apart_command)
    _child: _ApartProcess | None = field(default=None, init=False)
    _children: set[_ApartProcess] = field(factory=set, init=False)
    _turn: DeferredLock = field(factory=DeferredLock, init=False)
    _of_each: Counter[str] = field(factory=Counter, init=False)
    _is_stopped: bool = field(default=False, init=False)

    async def run(self, work: str, data: bytes, person: str) -> bytes:
        """What the function *work*, as in ``module:name``, makes of *data* in the child.

        Args:
            work: Is imported by the child.
            data: Is its argument.
            person: On whose behalf; each has a share of the queue.

        Raises:
            SvcError: ``apart_busy``, ``apart_too_large``, ``apart_deadline`` or ``apart_failed``;
                nothing in it is from *data*.
        """
        if len(data) > MOST_GIVEN:
            raise _refused("apart_too_large", "is larger than the process takes")
        if len(self._turn.waiting) >= MOST_WAITING:
            raise _refused("apart_busy", "waits behind too much other work", Fault.EXHAUSTED)
        if self._of_each[person] >= MOST_OF_ONE:
            raise _refused(
                "apart_busy", "waits behind too much of the same person", Fault.EXHAUSTED
            )
        self._of_each[person] += 1
        try:
            return await self._in_turn(work, data)
        finally:
            self._of_each[person] -= 1
            if not self._of_each[person]:
                del self._of_each[person]

    async def _in_turn(self, work: str, data: bytes) -> bytes:
        ends = self.clock.seconds() + WHOLE_SECS
        try:
            await self._turn.acquire().addTimeout(WHOLE_SECS, self.clock)
        except defer.TimeoutError:
            raise _refused("apart_deadline", "waited too long", Fault.DEADLINE) from None
        try:
            return await self._run(work, data, ends)
        finally:
            self._turn.release()

    def rest(self) -> None:
        """End the child; the next piece begins another.  Nothing is being done."""
        self._end()

    async def stop(self) -> None:
        """End the child; nothing is begun any more."""
        self._is_stopped = True
        self._end()
        for child in list(self._children):
            await child.gone

    async def _run(self, work: str, data: bytes, ends: float) -> bytes:
        if self._is_stopped:
            raise _refused("apart_failed", "comes when the process has stopped")
        child = self._child
        if child is None or child.has_ended:
            child = self._child = _ApartProcess()
            self._children.add(child)
            child.gone.addCallback(self._children.discard)
            self.reactor.spawnProcess(
                child, self.command[0], self.command, env={}, path="/", childFDs=None
            )
            await self._within(self._left(START_SECS, ends), child, READY)
        child.transport.write(framed(work.encode("ascii")) + framed(data))
        answer = await self._within(self._left(WORK_SECS, ends), child, DONE)
        return answer[1:]

    def _left(self, seconds: float, ends: float) -> float:
        return max(0.0, min(seconds, ends - self.clock.seconds()))

    async def _within(self, seconds: float, child: _ApartProcess, wanted: bytes) -> bytes:
        """The child's next answer; a child that gives none, or another, is ended."""
        is_late = False

        def late() -> None:
            nonlocal is_late
            is_late = True
            child.kill()

        overdue = self.clock.callLater(seconds, late)
        is_good = False
        try:
            answer = await child.answer()
            is_good = answer is not None and answer[:1] == wanted
        finally:
            if overdue.active():
                overdue.cancel()
            if not is_good:
                self._end()
        if is_late or child.status == signal.SIGPROF:
            _log.warn("work in a process of its own took too long")
            raise _refused("apart_deadline", "took too long", Fault.DEADLINE)
        if not is_good or answer is None:
            _log.warn("a process of its own ended amid its work", status=child.status)
            raise _refused("apart_failed", "ended the process that did it")
        return answer

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()


def _refused(reason: str, text: str, fault: Fault = Fault.UNAVAILABLE) -> SvcError:
    return SvcError(f"work in a process of its own {text}", reason=reason, fault=fault)


class _ApartProcess(ProcessProtocol):
    """One child: its answers, one at a time."""

    transport: IProcessTransport

    def __init__(self) -> None:
        self.has_ended = False
        self.status: Any = None
        self.gone: Deferred[_ApartProcess] = Deferred()
        self._heard = b""
        self._waiting: Deferred[bytes | None] | None = None

    def answer(self) -> Deferred[bytes | None]:
        """The next answer; None: it has ended."""
        waiting: Deferred[bytes | None] = Deferred()
        self._waiting = waiting
        self._look()
        return waiting

    def outReceived(self, data: bytes) -> None:
        """Collect an answer, up to a limit."""
        self._heard += data
        if len(self._heard) > MOST_ANSWERED + HEAD:
            self.kill()
        self._look()

    def errReceived(self, data: bytes) -> None:
        """Read and drop: it may quote what the child was given."""

    def kill(self) -> None:
        """End it now, if it has not ended."""
        if not self.has_ended:
            self.has_ended = True
            self.transport.signalProcess("KILL")
            self._tell(None)

    def processEnded(self, reason: Failure) -> None:
        """Tell whoever waits."""
        self.has_ended = True
        self.status = getattr(reason.value, "signal", None) or getattr(reason.value, "status", 0)
        self._tell(None)
        self.gone.callback(self)

    def _look(self) -> None:
        size = int.from_bytes(self._heard[:HEAD], "big")
        if self.has_ended:
            self._tell(None)
        elif len(self._heard) >= HEAD + size and len(self._heard) >= HEAD:
            answer, self._heard = self._heard[HEAD : HEAD + size], self._heard[HEAD + size :]
            self._tell(answer)

    def _tell(self, answer: bytes | None) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(answer)

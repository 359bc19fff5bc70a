"""Tries every policy text in a separate process before this one parses it.

A text may end the process that parses it, or keep it busy for minutes.  So it
is first tried in a child process, and only a text that came through there is
handed on.  Used for a text that somebody proposes and, just the same, for one
that is found in the store: a store can be written by others.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.interfaces import IProcessTransport, IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import Malformed
from svc.model.policy.access import AccessRequest, Entity
from svc.policy.child import MAX_INPUT, job, questions_job
from svc.policy.prescan import PolicyLimits, check_size
from svc.policy.refusals import (
    GUARD_CRASHED,
    GUARD_TIMEOUT,
    INVALID,
    REASONS,
    TOO_LARGE,
    PolicyRefused,
    refused,
)
from svc.policy.trial import TrialAnswer, answer_from_form
from svc.policy.vocabulary import Vocabulary

DEADLINE = 30.0
MAX_OUTPUT = 256 * 1024
_REMEMBERED = 64
_OUT_OF_TIME = frozenset({signal.SIGXCPU, signal.SIGKILL})  # the kernel's own limits
_PROGRAM = (
    "import gc, os, sys; gc.disable(); sys.path.append(sys.argv[1]); "
    "from svc.policy.child import main; os._exit(main())"
)
"""It tries one text and is gone: to collect garbage, and to take apart at its end what it has
imported, would be a fifth of its time."""

_log = Logger(namespace="svc_policy")


def guard_command() -> tuple[str, ...]:
    """The child's command: this interpreter, isolated, and the code that runs here.

    ``-I`` keeps the working directory and the environment off the module path;
    the one directory added is that of the running program.
    """
    return (sys.executable, "-I", "-c", _PROGRAM, str(Path(__file__).resolve().parents[2]))


class PolicyGuard:
    """Tries policy texts in a child process, one at a time.

    Args:
        reactor: Starts processes and keeps the deadline.
        command: What to run, the interpreter's full path first; in a frozen
            program ``(program, "_policy-guard")``.
        limits: How much policy is taken.
        deadline: Seconds after which the child is killed.
        own: Texts of this build, which need no trial.
    """

    def __init__(
        self,
        reactor: Any,
        command: Sequence[str] | None = None,
        limits: PolicyLimits | None = None,
        deadline: float = DEADLINE,
        own: Iterable[str] = (),
    ) -> None:
        self._processes: IReactorProcess = reactor
        self._clock: IReactorTime = reactor
        self._command = tuple(command or guard_command())
        self.limits = limits or PolicyLimits()
        self._deadline = deadline
        self._own = frozenset(own)
        self._one_at_a_time = DeferredLock()
        self._passed: dict[tuple[bytes, str], None] = {}

    async def check(self, text: str, vocabulary: Vocabulary) -> None:
        """Return when *text* may be parsed here; a text that passed is not tried again.

        Called by Authority before a text is kept, and by every reload pass
        that finds one.  Does not block: the work is the child's.

        Raises:
            PolicyRefused: with one of the reasons of ``svc.policy.refusals``.
        """
        if text in self._own:
            return
        check_size(text, self.limits)
        data = job(text, vocabulary, self.limits)
        known = (sha256(data).digest(), vocabulary.digest)
        if known in self._passed:
            return
        await self._run(data)
        self._passed[known] = None
        while len(self._passed) > _REMEMBERED:
            self._passed.pop(next(iter(self._passed)))

    async def ask(
        self,
        text: str,
        requests: Iterable[AccessRequest],
        entities: Iterable[Entity],
        *,
        vocabulary: Vocabulary,
        proposed: bool,
    ) -> tuple[TrialAnswer, ...]:
        """How *text* decides *requests*, evaluated in the child process.

        Args:
            entities: Those that the answers can depend on.
            proposed: As for ``questions_job``.

        Raises:
            PolicyRefused: with one of the reasons of ``svc.policy.refusals``.
        """
        check_size(text, self.limits)
        asked = tuple(requests)
        data = questions_job(text, vocabulary, self.limits, asked, entities, proposed=proposed)
        if len(data) > MAX_INPUT:
            raise refused(
                TOO_LARGE, f"policy: it and the entities it names take over {MAX_INPUT} bytes"
            )
        answers = (await self._run(data)).get("answers")
        try:
            found = tuple(map(answer_from_form, answers if isinstance(answers, list) else ()))
        except Malformed:
            found = ()
        if len(found) != len(asked):
            raise _crashed()
        return found

    async def _run(self, data: bytes) -> dict[str, Any]:
        await self._one_at_a_time.acquire()
        try:
            return await self._tried(data)
        finally:
            self._one_at_a_time.release()

    async def _tried(self, data: bytes) -> dict[str, Any]:
        child = _Child(data)
        self._processes.spawnProcess(
            child, self._command[0], self._command, env={}, path="/", childFDs=None
        )
        overdue = self._clock.callLater(self._deadline, child.kill)
        try:
            await child.ended
        finally:
            if overdue.active():
                overdue.cancel()
            child.kill()
        return _judged(child)


class _Child(ProcessProtocol):
    """One run: the text in, at most :data:`MAX_OUTPUT` out, and how it ended."""

    transport: IProcessTransport

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.output = b""
        self.alive = False
        self.killed = False
        self.signal: int | None = None
        self.status: int | None = None
        self.ended: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        """Hand over the text."""
        self.alive = True
        self.transport.write(self._data)
        self.transport.closeStdin()

    def outReceived(self, data: bytes) -> None:
        """Keep what it says, to a limit."""
        self.output += data
        if len(self.output) > MAX_OUTPUT:
            self.kill()

    def errReceived(self, data: bytes) -> None:
        """Read and drop: it may quote the policy."""

    def kill(self) -> None:
        """End it now, if it has not ended."""
        if self.alive and not self.killed:
            self.killed = True
            self.transport.signalProcess("KILL")

    def processEnded(self, reason: Failure) -> None:
        """Store how it ended and wake the waiting caller."""
        self.alive = False
        if isinstance(reason.value, ProcessTerminated):
            self.signal, self.status = reason.value.signal, reason.value.status
        elif isinstance(reason.value, ProcessDone):
            self.status = 0
        if not self.ended.called:
            self.ended.callback(None)


def _judged(child: _Child) -> dict[str, Any]:
    if child.killed or child.signal in _OUT_OF_TIME:
        _log.warn("trying a policy took too long or used too much memory", reason=GUARD_TIMEOUT)
        raise refused(
            GUARD_TIMEOUT,
            "policy: trying it took too long or used too much memory; make it simpler",
        )
    answer = _answer(child.output) if child.status == 0 and child.signal is None else None
    if answer is None:
        _log.warn(
            "trying a policy ended the guard process", reason=GUARD_CRASHED, signal=child.signal
        )
        raise _crashed()
    if "reason" in answer:
        reason = answer["reason"]
        raise refused(reason if reason in REASONS else INVALID, str(answer.get("text", "")))
    return answer


def _crashed() -> PolicyRefused:
    return refused(
        GUARD_CRASHED, "policy: it crashed the process that tries policies; make it simpler"
    )


def _answer(output: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None

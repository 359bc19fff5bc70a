"""The resident's control socket: one JSON question and one JSON answer on each line.

A unix socket of mode 0600 in a directory of mode 0700, and the peer's uid is
asked all the same (rule R19).  It tells and refreshes, and carries the session of a command that
hands over its pipes; policy decides that session as any other.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IFileDescriptorReceiver, IReactorTime
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.client.hand_over import CARRY, GO
from svc.client.places import CONTROL_SOCKET
from svc.client.resident.handed import Caller
from svc.errors import Malformed, SvcError, Unavailable
from svc.pki.files import check_directory

_log = Logger(namespace="svc_client")

_MAX_ANSWER = 64 * 1024 * 1024

QUESTION_SECS = 15.0
"""How long a caller may take to ask."""

TAKE_SECS = 60.0
"""How long it may take to read what was answered."""

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""``await answer(question)``; raises SvcError for a question it does not take."""


Carry = Callable[[dict[str, Any], Caller], Awaitable[None]]
"""``await carry(question, caller)``: one session between a caller's pipes."""


@implementer(IFileDescriptorReceiver)
class ControlProtocol(LineOnlyReceiver):
    """One caller: one question, one answer, the end."""

    transport: Any
    delimiter = b"\n"
    MAX_LENGTH = 4096

    def __init__(
        self,
        guard: Callable[[Any], bool],
        answer: Answer,
        carry: Carry,
        spawn: Callable[[str, Coroutine[Any, Any, object]], object],
        clock: IReactorTime,
    ) -> None:
        self._guard = guard
        self._answer = answer
        self._carry = carry
        self._spawn = spawn
        self._clock = clock
        self._deadline: IDelayedCall | None = None
        self._asked = False
        self._is_lost = False
        self._caller = Caller(lambda data: self.transport.write(data))

    def connectionMade(self) -> None:
        """Let in whom the guard lets in."""
        if not self._guard(self.transport):
            self.transport.abortConnection()
            return
        self._leave_after(QUESTION_SECS)

    def lineReceived(self, line: bytes) -> None:
        """The question; of further ones, only the word of a caller whose session stands."""
        if not self._asked:
            self._asked = True
            self._leave_after(None)
            self._spawn("control question", self._served(line))
        elif line == GO.encode("ascii"):
            self._caller.went()

    def fileDescriptorReceived(self, descriptor: int) -> None:
        """A pipe that a caller hands over."""
        os.set_inheritable(descriptor, False)
        self._caller.take(descriptor)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The caller has gone, and what it asked for with it."""
        self._is_lost = True
        self._leave_after(None)
        self._caller.lost()

    def _leave_after(self, seconds: float | None) -> None:
        """Cut the caller off after a time; None: no longer."""
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None
        if seconds is not None and not self._is_lost:
            self._deadline = self._clock.callLater(seconds, self.transport.abortConnection)

    async def _served(self, line: bytes) -> None:
        try:
            await self._caller.serve(lambda: self._serve(line))
        finally:
            self._leave_after(TAKE_SECS)
            self.transport.loseConnection()

    async def _serve(self, line: bytes) -> None:
        try:
            question = _question(line)
            if question.get("ask") == CARRY:
                await self._carry(question, self._caller)
                return
            answer = await self._answer(question)
        except SvcError as error:
            answer = {"error": {"reason": error.reason, "text": error.text}}
        self.transport.write(json.dumps(answer).encode("ascii") + b"\n")


class ControlFactory(Factory):
    """Makes the protocol of each caller."""

    noisy = False

    def __init__(
        self,
        guard: Callable[[Any], bool],
        answer: Answer,
        carry: Carry,
        spawn: Callable[[str, Coroutine[Any, Any, object]], object],
        clock: IReactorTime,
    ) -> None:
        self._made = guard, answer, carry, spawn, clock

    def buildProtocol(self, addr: object) -> ControlProtocol:
        """One a caller."""
        return ControlProtocol(*self._made)


def ask_resident(
    directory: Path, question: dict[str, Any], seconds: float
) -> dict[str, Any] | None:
    """Ask the resident that keeps its sockets in *directory*; None where none runs.

    Blocks; for commands, before or without a reactor.

    Raises:
        SvcError: it did not answer in time, or refused.
    """
    if not directory.exists():
        return None
    check_directory(directory, os.geteuid())
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(seconds)
            try:
                asked.connect(f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}")
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            return _exchange(asked, question)
    finally:
        os.close(descriptor)


def _exchange(asked: socket.socket, question: dict[str, Any]) -> dict[str, Any]:
    try:
        asked.sendall(json.dumps(question).encode("ascii") + b"\n")
        data = bytearray()
        while len(data) <= _MAX_ANSWER and (piece := asked.recv(65536)):
            data += piece
    except OSError as error:
        raise Unavailable(
            f"`svc up` runs, and does not answer: {error}", reason="resident_silent"
        ) from None
    answer = _question(bytes(data))
    refusal = answer.get("error")
    if isinstance(refusal, dict):
        raise Unavailable(str(refusal.get("text")), reason=str(refusal.get("reason")))
    return answer


def _question(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        raise Malformed("control: the message is not JSON") from None
    if not isinstance(found, dict):
        raise Malformed("control: the message is not a JSON object")
    return found

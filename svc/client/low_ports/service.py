"""The helper's socket: who may ask how often, and for how long."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IFileDescriptorReceiver, IReactorTime
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.client.low_ports.binding import PortBinder
from svc.client.low_ports.words import MAX_QUESTION, read, written
from svc.errors import Malformed, SvcError, TooMany
from svc.ratelimit.limits import Buckets, Rate
from svc.rpc.peer import peer_of

_log = Logger(namespace="svc_client")

MAX_CONNECTIONS = 256
"""Of all users: past it the oldest is cut off, which a question that is asked at once is not."""

MAX_OF_USER = 16
DEADLINE_SECS = 10.0
"""For a whole connection."""

QUESTIONS = Rate(per_minute=6000, burst=4000)
"""Of a user: a resident with a thousand resources asks for each, and again every 15 seconds."""

_LINES = Rate(per_minute=6, burst=30)
"""Refusals of a user that are logged."""


class Spawn(Protocol):
    """Runs a coroutine that nobody awaits."""

    def __call__(self, what: str, coro: Coroutine[Any, Any, object], /) -> None: ...


@implementer(IFileDescriptorReceiver)
class BinderProtocol(LineOnlyReceiver):
    """One question of one user."""

    transport: Any
    delimiter = b"\n"
    MAX_LENGTH = MAX_QUESTION

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._deadline: IDelayedCall | None = None
        self._given: int | None = None
        self._has_asked = False
        self._is_lost = False
        self.uid = -1

    def connectionMade(self) -> None:
        """Note who it is, and for how long."""
        self.uid = _uid(self.transport)
        self._deadline = self._questions.clock.callLater(DEADLINE_SECS, self._late)
        try:
            self._questions.enter(self)
        except SvcError as refusal:
            self._has_asked = True
            self._refuse(refusal)

    def fileDescriptorReceived(self, descriptor: int) -> None:
        """The socket to bind; the first one that comes."""
        os.set_inheritable(descriptor, False)
        if self._given is None and not self._has_asked:
            self._given = descriptor
        else:
            os.close(descriptor)

    def lineReceived(self, line: bytes) -> None:
        """The question; further ones are not read."""
        if not self._has_asked:
            self._has_asked = True
            self._questions.spawn("question", self._answered(line))

    def lineLengthExceeded(self, line: bytes) -> None:
        """No question is so long."""
        self._has_asked = True
        self._refuse(Malformed(f"svc-client-net: a question has at most {MAX_QUESTION} bytes"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The user's program has its answer, or wants none."""
        self._is_lost = True
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._questions.leave(self)
        self._close_given()

    async def _answered(self, line: bytes) -> None:
        try:
            question = read(line)
            answer = await self._questions.helper.answer(self.uid, question, self._given)
        except SvcError as refusal:
            self._refuse(refusal)
        else:
            self._say(answer)
        finally:
            self._close_given()

    def _refuse(self, refusal: SvcError) -> None:
        self._questions.refused(self.uid, refusal)
        self._say({"error": {"reason": refusal.reason, "text": refusal.text}})

    def _say(self, answer: dict[str, Any]) -> None:
        if not self._is_lost:
            self.transport.write(written(answer) + self.delimiter)
            self.transport.loseConnection()

    def _late(self) -> None:
        if not self._has_asked:
            text = f"no question within {DEADLINE_SECS:g} seconds"
            self._questions.refused(self.uid, SvcError(text, reason="deadline"))
        self.transport.abortConnection()

    def _close_given(self) -> None:
        if self._given is not None:
            os.close(self._given)
            self._given = None


def _uid(transport: Any) -> int:
    uid = peer_of(transport).uid
    assert uid is not None, "the socket is a Unix socket"
    return uid


@define(eq=False)
class Questions:
    """Everybody who asks now, and how often each user has."""

    helper: PortBinder
    clock: IReactorTime
    spawn: Spawn
    _open: dict[BinderProtocol, None] = field(factory=dict, init=False)
    _asked: Buckets = field(factory=lambda: Buckets(QUESTIONS), init=False)
    _logged: Buckets = field(factory=lambda: Buckets(_LINES), init=False)

    def enter(self, one: BinderProtocol) -> None:
        """Count a connection.

        Raises:
            TooMany: the user has too many, or asked too often.
        """
        if sum(each.uid == one.uid for each in self._open) >= MAX_OF_USER:
            text = f"uid {one.uid} has {MAX_OF_USER} connections already; close one"
            raise TooMany(text, retry_after=DEADLINE_SECS)
        wait = self._asked.take(str(one.uid), self.clock.seconds())
        if wait:
            text = f"uid {one.uid} asks too often; try again in {int(wait) + 1} s"
            raise TooMany(text, retry_after=wait)
        if len(self._open) >= MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abortConnection()
        self._open[one] = None

    def leave(self, one: BinderProtocol) -> None:
        """It is gone."""
        self._open.pop(one, None)

    def refused(self, uid: int, refusal: SvcError) -> None:
        """Log a refusal, unless the user has filled the log with them."""
        if not self._logged.take(str(uid), self.clock.seconds()):
            _log.warn("refused", uid=uid, reason=refusal.reason, text=refusal.text)


class BinderFactory(Factory):
    """Makes the protocol of each connection."""

    noisy = False

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def buildProtocol(self, addr: object) -> BinderProtocol:
        """One a question."""
        return BinderProtocol(self._questions)

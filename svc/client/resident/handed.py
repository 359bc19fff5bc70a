"""Carries the sessions of ``svc proxy-ssh``, which hands its two pipes to the resident.

What is said with it is described in :mod:`svc.client.hand_over`.  It decides nothing that the
command would not: a session is asked for with the same parameters, and a refusal is told in the
same words.  What the command can only do by itself it is told to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred

from svc import __version__
from svc.client.ended import CutSessions, ended_text
from svc.client.hand_over import EXIT, ITSELF, OPEN, OUT, SAY, TAKEN
from svc.client.resident.refused import RecentRefusals, refused_text, wrong_kind
from svc.client.sessions import ClientSession, SessionDialer, SessionIntent, opened_text
from svc.client.stdio import PipedSession, StdioPipes
from svc.errors import SvcError, Unprocessed
from svc.interfaces.kinds import ServedKind
from svc.interfaces.rpc import IRpcChannel
from svc.messages.session import Listed
from svc.model.session.parameters import resolved
from svc.runtime.services import bounded
from svc.telemetry.escape import escaped

_GO_SECS = 10.0
_PIPES = 2
_MODES = (os.O_RDONLY, os.O_WRONLY)


def _no_session() -> bool:
    """Nothing passes yet."""
    return False


@define(eq=False)
class Caller:
    """The ``svc proxy-ssh`` at the other end of a control connection.

    Attributes:
        write: Sends bytes to it.
        ready: Fires when it has given up its pipes.
        given: The descriptors it sent.
        leave: Ends its session with what its tool said last; says whether one stands.
    """

    write: Callable[[bytes], object]
    ready: Deferred[None] = field(factory=Deferred, init=False)
    given: list[int] = field(factory=list, init=False)
    leave: Callable[[], bool] = field(default=_no_session, init=False)
    _is_lost: bool = field(default=False, init=False)
    _serving: Deferred[None] | None = field(default=None, init=False)

    def tell(self, word: str, text: str = "") -> None:
        """Say one line; a text with line ends is several."""
        for line in text.split("\n"):
            self.write(f"{word} {line}".rstrip().encode("utf-8", "replace") + b"\n")

    def take(self, descriptor: int) -> None:
        """Keep a descriptor; more than the two pipes are closed at once."""
        if len(self.given) < _PIPES:
            self.given.append(descriptor)
        else:
            os.close(descriptor)

    def went(self) -> None:
        """It said ``go``."""
        if not self.ready.called:
            self.ready.callback(None)

    def lost(self) -> None:
        """It is gone, and so is the session's tool, which may have said its last before."""
        self._is_lost = True
        if self._serving is not None and not self.leave():
            self._serving.cancel()
        self.close()

    async def serve(self, serving: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Await what is done for it, for as long as it is there; then let go of its pipes."""
        self._serving = Deferred.fromCoroutine(serving())
        try:
            await self._serving
        except CancelledError:
            if not self._is_lost:
                raise
        finally:
            self.close()

    def pipes(self) -> tuple[int, int] | None:
        """Its pipes, opened anew; None where they are no two pipes.

        Whoever shares an open file shares its flags: a descriptor as it was sent could be made
        blocking by another process, and then one write would stop all sessions.
        """
        if len(self.given) != _PIPES:
            return None
        opened: list[int] = []
        for descriptor, mode in zip(self.given, _MODES, strict=True):
            try:
                if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    raise OSError("no pipe")
                flags = mode | os.O_NONBLOCK | os.O_CLOEXEC
                opened.append(os.open(f"/proc/self/fd/{descriptor}", flags))
            except OSError:
                for each in opened:
                    os.close(each)
                return None
        self.close()
        return opened[0], opened[1]

    def close(self) -> None:
        """Close what it sent."""
        while self.given:
            os.close(self.given.pop())


@frozen
class Question:
    """What a ``svc proxy-ssh`` asks for; its fields are unchecked texts."""

    version: str
    config: str
    resource: str
    kind: str
    parameters: Mapping[str, str]

    @classmethod
    def read(cls, question: Mapping[str, Any]) -> Question | None:
        """From the JSON object that was sent; None where it is not of that form."""
        given = question.get("parameters")
        texts = {name: question.get(name) for name in ("version", "config", "resource", "kind")}
        if not isinstance(given, dict) or not all(
            isinstance(text, str) for text in (*texts.values(), *given.values())
        ):
            return None
        return cls(**{name: str(text) for name, text in texts.items()}, parameters=given)


@define(eq=False)
class HandedSessions:
    """Carries them.

    Attributes:
        config: The mark of the configuration file that the resident read.
        channel: The channel to a Proxy now; raises ``Unavailable`` where there is none.
        listed: What the person may view, as last heard.
        check: Raises SvcError unless our identity is the one on disk, and good now.
        moved: Returns once another connection to a Proxy is there.
        options: What the commands that it tells to type end with, to use this identity.
        count: How many there are.
    """

    config: str
    reactor: Any
    kinds: Mapping[str, ServedKind]
    dialer: SessionDialer
    channel: Callable[[], IRpcChannel]
    listed: Callable[[], Mapping[str, Listed]]
    check: Callable[[], object]
    refusals: RecentRefusals
    cuts: CutSessions
    moved: Callable[[], Awaitable[None]]
    options: str = ""
    count: int = field(default=0, init=False)

    async def carry(self, question: Mapping[str, Any], caller: Caller) -> None:
        """One session, from the question to its end."""
        intent = self._intent(question)
        pipes = None if intent is None else caller.pipes()
        if intent is None or pipes is None:
            caller.tell(ITSELF)
            return
        caller.tell(TAKEN)
        self.count += 1
        try:
            await _Handed(sessions=self, intent=intent, caller=caller, pipes=list(pipes)).run()
        finally:
            self.count -= 1

    def _intent(self, question: Mapping[str, Any]) -> SessionIntent | None:
        """What is asked for; None where the command is to go on by itself."""
        asked = Question.read(question)
        if asked is None or (asked.version, asked.config) != (__version__, self.config):
            return None
        kind = self.kinds.get(asked.kind)
        if kind is None:
            return None
        try:
            resolved(kind.taken(), asked.parameters, asked.kind)
            self.check()
            self.channel()
        except SvcError:
            return None
        return SessionIntent(asked.resource, kind, asked.parameters)


@define(eq=False)
class _Handed:
    """One of them."""

    sessions: HandedSessions
    intent: SessionIntent
    caller: Caller
    pipes: list[int]

    async def run(self) -> None:
        channel = self.sessions.channel()
        try:
            ended = await self._carried()
        except Unprocessed:
            self.caller.tell(ITSELF)
        except SvcError as refusal:
            if self._has_lost(channel) and "decision_id" not in refusal.details:
                self.caller.tell(ITSELF)
            else:
                self._refused(refusal)
        else:
            self.caller.tell(EXIT, "0" if ended.is_clean else "1")
        finally:
            while self.pipes:
                os.close(self.pipes.pop())

    async def _carried(self) -> Any:
        try:
            return await self._once()
        except Unprocessed:
            # The Proxy leaves and did nothing for the session: the next one may.
            await self.sessions.moved()
            return await self._once()

    async def _once(self) -> Any:
        session = self.sessions.dialer.endpoint(self.intent)
        piped = PipedSession(session=session, begin=self._begin, cut=self._cut)
        self.caller.leave = piped.leave
        try:
            return await piped.carry()
        finally:
            self.caller.leave = _no_session

    async def _begin(self, session: ClientSession) -> StdioPipes:
        """Let the command give up its pipes; only then is one of them touched."""
        sessions, caller = self.sessions, self.caller
        sessions.refusals.opened()
        caller.tell(OPEN, opened_text(session))
        await bounded(sessions.reactor, _GO_SECS, caller.ready, "svc proxy-ssh")
        output, input_ = self.pipes.pop(), self.pipes.pop()
        return StdioPipes(
            reactor=sessions.reactor,
            input=input_,
            output=output,
            output_closed=lambda: caller.tell(OUT),
        )

    def _cut(self, session: ClientSession) -> None:
        over = session.over()
        self.sessions.cuts.note(self.intent.resource, over)
        self.caller.tell(SAY, f"svc: {escaped(ended_text(self.intent.resource, over))}")

    def _has_lost(self, channel: IRpcChannel) -> bool:
        """Whether the connection that it was asked on is there no more."""
        try:
            return self.sessions.channel() is not channel
        except SvcError:
            return True

    def _refused(self, refusal: SvcError) -> None:
        name = self.intent.resource
        self.sessions.refusals.note(name, refusal)
        seen = self.sessions.listed().get(name)
        if seen is not None:
            refusal = wrong_kind(name, self.intent.kind.name, seen.kind, refusal)
        self.caller.tell(SAY, f"svc: {escaped(refused_text(name, refusal, self.sessions.options))}")
        self.caller.tell(EXIT, "1")

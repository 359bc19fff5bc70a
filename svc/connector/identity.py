"""Fetches what the target of a session is told of who makes its requests (rule R34).

It comes from Authority, over our own TLS inside a Proxy's lane: neither the Proxy nor the person
can say it.  One connection serves all sessions, and is closed when nobody asks for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from attrs import define, field
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from svc.connector.uses import SessionUses
from svc.errors import Fault, SvcError, Unavailable, Unprocessed
from svc.interfaces.kinds import Identify
from svc.interfaces.rpc import IRpcChannel
from svc.messages.identity import TOKEN_METHOD, TokenAsk, read_token, token_request
from svc.messages.use import REPORT_METHOD, SessionUse, use_request
from svc.model.session.identity import CACHED_SECS, UNAVAILABLE
from svc.model.signing import Signed
from svc.proto.gate.v1 import identity_pb2 as pb
from svc.proto.gate.v1 import recording_pb2
from svc.recording.part import PUT_METHOD, RecordingPart, put_request
from svc.runtime.services import AsyncService, BackgroundTasks, bounded

MOST_KEPT = 16
"""Of the tokens of one session: one for each person that its requests name."""

_CALL_SECS = 5.0
_ALL_SECS = 10.0
"""A request waits no longer, with the connection that may have to be made first."""

_PUT_SECS = 30.0
"""Of the last part too, after which Authority looks at the whole of it."""

_IDLE_SECS = 15.0
_AGE_SECS = 45.0
"""A Proxy ends a lane after a minute."""

AskIdentity = Callable[[TokenAsk], Awaitable[bytes]]
"""Asks Authority for a token; raises SvcError."""


@define
class SessionIdentity:
    """What the target of one session is told; its requests come one after the other."""

    grant: Signed
    ask: AskIdentity
    clock: IReactorTime
    _kept: dict[str, tuple[float, bytes]] = field(factory=dict, init=False)

    async def token(self, named: str) -> bytes:
        """The token for a request that names this person; empty: none.

        Raises:
            SvcError: there is none to be had.
        """
        now = self.clock.seconds()
        asked_at, kept = self._kept.get(named, (0.0, b""))
        if kept and now < asked_at + CACHED_SECS:
            return kept
        self._kept.pop(named, None)
        found = await self.ask(TokenAsk(self.grant, named))
        while len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[named] = now, found
        return found


@define(slots=False, eq=False)
class AuthorityIdentities(AsyncService):
    """Asks Authority, for every session of one Connector.

    Attributes:
        dial: Opens a connection to Authority's renewal listener.
        spawn: Runs something that nobody waits for.
    """

    dial: Callable[[], Awaitable[IRpcChannel]]
    clock: IReactorTime
    spawn: Callable[[str, Coroutine[Any, Any, object]], object]
    _dialing: DeferredLock = field(factory=DeferredLock, init=False)
    _channel: IRpcChannel | None = field(default=None, init=False)
    _made_at: float = field(default=0.0, init=False)
    _asking: int = field(default=0, init=False)
    _idle_timer: IDelayedCall | None = field(default=None, init=False)

    def of(self, grant: Signed) -> Identify:
        """What tells the target of the session that was granted so."""
        return SessionIdentity(grant, self.ask, self.clock).token

    async def ask(self, ask: TokenAsk) -> bytes:
        """A token for the target of a session.

        Raises:
            SvcError: Authority's refusal.
            Unavailable: no answer came.
        """
        try:
            answer = await bounded(
                self.clock,
                _ALL_SECS,
                self._asked(TOKEN_METHOD, token_request(ask), pb.IdentityResponse),
                "the identity",
            )
            return read_token(answer)
        except SvcError as error:
            if error.fault is Fault.DENIED:  # as it comes over the wire, and not a class of ours
                raise
            raise Unavailable(
                f"who makes the request could not be learnt from Authority: {error.text}",
                reason=UNAVAILABLE,
            ) from error

    def uses(self, tasks: BackgroundTasks) -> SessionUses:
        """What tells Authority of sessions that are over, over the same connection."""
        return SessionUses(self.report, self.clock, tasks)

    async def report(self, use: SessionUse) -> None:
        """Tell Authority what a session did with its rights.

        Raises:
            SvcError: it took none.
        """
        asked = self._asked(REPORT_METHOD, use_request(use), pb.SessionUseResponse)
        await bounded(self.clock, _ALL_SECS, asked, "the report of a session")

    async def put_recording(self, part: RecordingPart) -> tuple[int, bool]:
        """Bring a part of a recording; how much Authority holds, and whether it has all.

        Raises:
            SvcError: it took none.
        """
        asked = self._asked(
            PUT_METHOD, put_request(part), recording_pb2.PutRecordingResponse, _PUT_SECS
        )
        held = await bounded(self.clock, _PUT_SECS + _ALL_SECS, asked, "the bytes of a recording")
        return held.held, held.done

    async def stop(self) -> None:
        """Close the connection."""
        if self._idle_timer is not None and self._idle_timer.active():
            self._idle_timer.cancel()
        self._leave()

    async def _asked(
        self, method: str, request: Any, answers: Any, seconds: float = _CALL_SECS
    ) -> Any:
        self._asking += 1
        try:
            try:
                return await self._call(method, request, answers, seconds)
            except Unprocessed:
                # The lane ended between two calls.
                self._leave()
                return await self._call(method, request, answers, seconds)
        finally:
            self._asking -= 1
            self._leave_later()

    async def _call(self, method: str, request: Any, answers: Any, seconds: float) -> Any:
        channel = await self._connected()
        try:
            return await channel.unary(method, request, answers, timeout=seconds)
        except Unavailable:
            if self._channel is channel:
                self._leave()
            raise

    async def _connected(self) -> IRpcChannel:
        await self._dialing.acquire()
        try:
            if self._channel is not None and self.clock.seconds() > self._made_at + _AGE_SECS:
                self._leave()
            if self._channel is None:
                self._channel = await self.dial()
                self._made_at = self.clock.seconds()
            return self._channel
        finally:
            self._dialing.release()

    def _leave_later(self) -> None:
        if self._idle_timer is not None and self._idle_timer.active():
            self._idle_timer.reset(_IDLE_SECS)
        else:
            self._idle_timer = self.clock.callLater(_IDLE_SECS, self._is_idle)

    def _is_idle(self) -> None:
        if not self._asking:
            self._leave()

    def _leave(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            self.spawn("close an identity lane", channel.close())

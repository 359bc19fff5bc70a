"""Brings recordings to Authority, over our own TLS inside a Proxy's lane, while they are made.

Authority says how much it holds of each; so what was cut off goes on from there, whichever of the
two was gone.  A file goes when Authority has all of it and has put it on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.connector.recordings.buffers import BufferedRecording, RecordingBuffers
from svc.errors import Fault, SvcError
from svc.recording.part import MOST_PART, RecordingPart
from svc.runtime.services import AsyncService, bounded

_log = Logger(namespace="svc_connector")

GATHER_SECS = 2.0
"""What a recording that goes on has grown by is brought so much later."""

AGAIN_SECS = 15.0
KEY_SECS = 60.0
"""What is sealed to a key that an Authority lacks is brought again so much later: its operator
copies a new key to one Authority after another."""

_LACKS_KEY = "recording_key"
LAST_SECS = 5.0
"""What a Connector that stops waits for those that have ended."""

_AWAY = frozenset({Fault.UNAVAILABLE, Fault.DEADLINE, Fault.EXHAUSTED, Fault.INTERNAL})

PutRecording = Callable[[RecordingPart], Awaitable[tuple[int, bool]]]
"""Brings a part to Authority: how much it holds now, and whether it has all; raises SvcError."""


@define(slots=False, eq=False)
class RecordingUploads(AsyncService):
    """Of one Connector.

    Attributes:
        end_thread: Ends what writes and reads the files; fires once it has.
        on_waiting: Told how many recordings wait, and their bytes.
    """

    buffers: RecordingBuffers
    put: PutRecording
    clock: IReactorTime
    end_thread: Callable[[], Awaitable[object]]
    on_waiting: Callable[[int, int], object] = lambda count, size: None
    _running: Deferred[None] | None = field(default=None, init=False)
    _wake: Deferred[None] | None = field(default=None, init=False)
    _pause: Deferred[None] | None = field(default=None, init=False)
    _key_timer: IDelayedCall | None = field(default=None, init=False)
    _lacking: set[str] = field(factory=set, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _reported: bool = field(default=False, init=False)

    async def start(self) -> None:
        """Go on with what a life before has left."""
        self.buffers.on_change = self._changed
        self._running = Deferred.fromCoroutine(self._run())
        self._running.addErrback(lambda failure: _log.failure("uploads ended", failure))

    async def stop(self) -> None:
        """Bring what has ended, for a little while; the rest is for the next life."""
        self._is_stopping = True
        if self._key_timer is not None:
            self._key_timer.cancel()
            self._key_timer = None
        self._hurry()
        self._end_pause()
        try:
            assert self._running is not None
            await bounded(self.clock, LAST_SECS, self._running, "recordings")
        except SvcError:
            pass
        try:
            await bounded(self.clock, LAST_SECS, self.end_thread(), "the recordings' disk")
        except SvcError:
            _log.error("the disk of recordings does not answer")

    def _changed(self) -> None:
        self.on_waiting(len(self.buffers.waiting), self.buffers.used)
        self._hurry()

    def _hurry(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake.callback(None)

    async def _run(self) -> None:
        await self.buffers.find()
        while True:
            is_there = await self._pass()
            self.on_waiting(len(self.buffers.waiting), self.buffers.used)
            if self._is_stopping:
                return
            await self._rest(is_there)

    async def _rest(self, is_there: bool) -> None:
        if not is_there:
            await self._for(AGAIN_SECS)
        elif not self._due():
            self._wake = Deferred()
            await self._wake
            if not self._is_stopping and not any(one.is_ended for one in self._due()):
                await self._for(GATHER_SECS)

    async def _for(self, seconds: float) -> None:
        """Wait so long, or until we stop."""
        over: Deferred[None] = Deferred()
        self._pause = over
        timer = self.clock.callLater(seconds, self._end_pause)
        await over
        if timer.active():
            timer.cancel()

    def _end_pause(self) -> None:
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.callback(None)

    def _due(self) -> list[BufferedRecording]:
        return [
            one
            for one in self.buffers.waiting.values()
            if not (one.is_refused or one.lacks_key)
            and (one.is_ended or one.sent is None or one.size > one.sent)
        ]

    async def _pass(self) -> bool:
        """Bring what there is; whether Authority was there for it."""
        for one in self._due():
            try:
                while not await self._brought(one):
                    pass
            except SvcError as refusal:
                if refusal.fault in _AWAY:
                    self._report(refusal)
                    return False
                if refusal.reason == _LACKS_KEY:
                    self._put_off(one, refusal)
                    continue
                one.is_refused = True
                _log.error(
                    "Authority does not take a recording; its file stays here",
                    recording=one.id,
                    path=str(one.path),
                    reason=refusal.reason,
                )
            except OSError as error:
                one.is_refused = True
                _log.error("a recording cannot be read", recording=one.id, error=error.strerror)
        self._reported = False
        return True

    def _put_off(self, one: BufferedRecording, refusal: SvcError) -> None:
        """Bring it later, and the others meanwhile."""
        one.lacks_key = True
        if one.id not in self._lacking:
            self._lacking.add(one.id)
            _log.error(
                "an Authority lacks the key that a recording is sealed to; it waits here",
                recording=one.id,
                reason=refusal.reason,
                error=refusal.text,
            )
        if self._key_timer is None and not self._is_stopping:
            self._key_timer = self.clock.callLater(KEY_SECS, self._ask_again)

    def _ask_again(self) -> None:
        self._key_timer = None
        self._lacking &= set(self.buffers.waiting)
        for one in self.buffers.waiting.values():
            one.lacks_key = False
        self._hurry()

    async def _brought(self, one: BufferedRecording) -> bool:
        """Bring a part; whether that was all there is now."""
        offset, size, is_ended = one.sent or 0, one.size, one.is_ended
        data = b""
        if one.sent is not None and size > offset:
            data = await self.buffers.read(one, offset, MOST_PART)
        is_last = is_ended and one.sent is not None and offset + len(data) == size
        part = RecordingPart(
            signed=one.signed,
            channel=one.channel,
            offset=offset,
            data=data,
            is_last=is_last,
            reason=one.reason if is_last else "",
        )
        held, is_done = await self.put(part)
        if held > one.size and is_ended and not is_done:
            raise SvcError(
                "Authority holds more of it than there is here",
                reason="recording_damaged",
                fault=Fault.PRECONDITION,
            )
        one.sent = min(held, one.size)
        if is_done:
            await self.buffers.remove(one)
            return True
        return not is_ended and one.sent >= size

    def _report(self, refusal: SvcError) -> None:
        if not self._reported:
            self._reported = True
            _log.warn(
                "recordings wait for Authority",
                count=len(self.buffers.waiting),
                reason=refusal.reason,
            )

"""What a kind records one session with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from svc.connector.recordings.buffers import BufferedRecording, RecordingBuffers, unavailable
from svc.errors import SvcError
from svc.interfaces.recordings import Failed, ILiveRecording, IRecorder
from svc.model.recording import MOST_CHANNELS
from svc.model.session.grant import Grant
from svc.model.signing import Signed
from svc.recording.file import RecordingEnd, RecordingHeader
from svc.recording.sealing import DATA, MOST_DATA, Frame
from svc.runtime.services import BackgroundTasks

FLUSH_SECS = 1.0
"""What is younger may be lost when the Connector is killed."""

BEHIND_BYTES = 1 << 20
_LIMIT = "the session has recorded as much as it may"


@implementer(IRecorder)
@define(eq=False)
class SessionRecorder:
    """Of one session.

    Attributes:
        grant: As it was verified; *signed* is the same as Authority signed it.
        now: Wall time.
    """

    buffers: RecordingBuffers
    grant: Grant
    signed: Signed
    clock: IReactorTime
    now: Callable[[], float]
    tasks: BackgroundTasks
    _begun: int = field(default=0, init=False)
    _used: int = field(default=0, init=False)

    @property
    def of_command(self) -> int:
        """See IRecorder."""
        return self.buffers.limits().of_command

    async def check(self) -> None:
        """See IRecorder."""
        self._require_key()
        await self.buffers.try_disk()

    async def begin(self, failed: Failed) -> ILiveRecording:
        """See IRecorder."""
        self._require_key()
        if self._begun >= MOST_CHANNELS or not self.has_room(0):
            raise unavailable(_LIMIT)
        channel, self._begun = self._begun, self._begun + 1
        header = RecordingHeader(
            signed=self.signed,
            channel=channel,
            key=self.grant.recording_key,
            began_ms=int(self.now() * 1000),
        )
        return LiveRecording(
            session=self,
            buffered=await self.buffers.begin(header),
            failed=failed,
            began_at=header.began_ms / 1000,
        )

    def has_room(self, size: int) -> bool:
        """Whether the session may record so much more; counts it if so."""
        if self._used + size > self.buffers.limits().of_session:
            return False
        self._used += size
        return True

    def _require_key(self) -> None:
        if not self.grant.recording_key:
            raise unavailable("the Authority named no key to record it with; is it older?")


@implementer(ILiveRecording)
@define(eq=False)
class LiveRecording:
    """One that is being made.

    Attributes:
        failed: Told once, where it cannot go on.
    """

    session: SessionRecorder
    buffered: BufferedRecording
    failed: Failed
    began_at: float
    _pending: list[bytes] = field(factory=list, init=False)
    _size: int = field(default=0, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _is_writing: bool = field(default=False, init=False)
    _end: RecordingEnd | None = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)
    _ahead: list[Callable[[], object]] = field(factory=list, init=False)

    @property
    def is_behind(self) -> bool:
        """See ILiveRecording."""
        return self._size > BEHIND_BYTES and not self._is_over

    def write(self, data: bytes) -> None:
        """See ILiveRecording."""
        if self._is_over or self._end is not None:
            return
        if not self.session.has_room(len(data)):
            self._cut("session_limit", _LIMIT)
            return
        self._pending.append(data)
        self._size += len(data)
        if self._size >= MOST_DATA:
            self._flush()
        elif self._timer is None:
            self._timer = self.session.clock.callLater(FLUSH_SECS, self._flush)

    def once_ahead(self, go_on: Callable[[], object]) -> None:
        """See ILiveRecording."""
        if self.is_behind:
            self._ahead.append(go_on)
        else:
            go_on()

    def end(self, *, unrecorded: int = 0) -> None:
        """See ILiveRecording."""
        self._finish(RecordingEnd(unrecorded=unrecorded))

    def _cut(self, reason: str, text: str) -> None:
        self._finish(RecordingEnd(reason))
        self.failed(text)

    def _finish(self, end: RecordingEnd) -> None:
        if self._end is None and not self._is_over:
            self._end = end
            self._flush()

    def _flush(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        if not self._is_writing and not self._is_over:
            self._is_writing = True
            self.session.tasks.spawn("write a recording", self._written())

    async def _written(self) -> None:
        buffers, buffered = self.session.buffers, self.buffered
        try:
            while self._pending or self._end is not None:
                data, end = b"".join(self._pending), self._end
                self._pending.clear()
                frames = [
                    Frame(DATA, data[at : at + MOST_DATA]) for at in range(0, len(data), MOST_DATA)
                ]
                await buffers.append(buffered, [*frames, *([] if end is None else [end.frame()])])
                self._size -= len(data)
                self._go_on()
                if end is not None:
                    self._close("")
        except SvcError as refusal:
            self._close("buffer_full" if "room" in refusal.text else "disk_failed")
            self.failed(refusal.text)
        except BaseException:
            self._close("connector_stopped")
            raise
        finally:
            self._is_writing = False

    def _close(self, reason: str) -> None:
        self._is_over, self._end = True, None
        self._pending.clear()
        self.session.buffers.end(self.buffered, reason)
        self._go_on()

    def _go_on(self) -> None:
        if not self.is_behind:
            waiting, self._ahead[:] = list(self._ahead), []
            for go_on in waiting:
                go_on()


def recorder_of(
    buffers: RecordingBuffers, clock: Any, now: Callable[[], float], tasks: BackgroundTasks
) -> Callable[[Grant, Signed], SessionRecorder]:
    """Makes what records a session."""
    return lambda grant, signed: SessionRecorder(
        buffers=buffers, grant=grant, signed=signed, clock=clock, now=now, tasks=tasks
    )

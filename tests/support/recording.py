"""A recorder in memory."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface import implementer

from svc.authority.recordings.key import RecordingKey, RecordingKeys
from svc.errors import SvcError, Unavailable
from svc.interfaces.recordings import Failed, ILiveRecording, IRecorder
from svc.recording.sealing import public_key

RECORDING_KEY = RecordingKey(bytes(range(32)), public_key(bytes(range(32))))
RECORDING_KEYS = RecordingKeys(RECORDING_KEY)


@implementer(ILiveRecording)
@define(eq=False)
class MemoryRecording:
    """What was recorded, and whether it ended."""

    failed: Failed
    began_at: float = 1000.0
    is_behind: bool = False
    text: bytes = b""
    ended: bool = False
    unrecorded: int = 0
    waiting: list[Callable[[], object]] = field(factory=list)

    def write(self, data: bytes) -> None:
        """See ILiveRecording."""
        self.text += data

    def once_ahead(self, go_on: Callable[[], object]) -> None:
        """See ILiveRecording."""
        self.waiting.append(go_on)

    def end(self, *, unrecorded: int = 0) -> None:
        """See ILiveRecording."""
        self.ended, self.unrecorded = True, unrecorded


@implementer(IRecorder)
@define(eq=False)
class MemoryRecorder:
    """Records into memory.

    Attributes:
        refusal: Why nothing can be recorded; empty: it can.
        disk: What beginning one waits for; None: nothing.
        waiting: How many wait.
    """

    refusal: str = ""
    of_command: int = 1000
    made: list[MemoryRecording] = field(factory=list)
    disk: Deferred[None] | None = None
    waiting: int = 0

    async def check(self) -> None:
        """See IRecorder."""
        if self.refusal:
            raise unrecorded(self.refusal)

    async def begin(self, failed: Failed) -> MemoryRecording:
        """See IRecorder."""
        await self.check()
        if self.disk is not None:
            self.waiting += 1
            over: Deferred[None] = Deferred()
            self.disk.addCallback(over.callback)
            await over
        self.made.append(MemoryRecording(failed))
        return self.made[-1]


def unrecorded(text: str) -> SvcError:
    """Nothing can be recorded."""
    return Unavailable(text, reason="recording_unavailable")

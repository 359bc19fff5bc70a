"""Whether a session is recorded, and what happens to it where it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import SvcError, Unavailable
from svc.interfaces.kinds import Use
from svc.interfaces.recordings import IRecorder
from svc.kinds.ssh.recorded.channel import ChannelRecording
from svc.kinds.ssh.rights import UNRECORDED, SessionRights

_log = Logger(namespace="svc_connector")


class RecordMode(Enum):
    """What an operator wants of a session whose policy does not require a recording."""

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"
    OFF = "off"


def mode_of(chosen: RecordMode, rights: SessionRights) -> RecordMode:
    """What holds for a session: without the right to go unrecorded it is recorded, or it ends."""
    return chosen if rights.has(UNRECORDED) else RecordMode.REQUIRED


@define(eq=False)
class RecordedSession:
    """Of one session.

    Attributes:
        title: Of its recordings.
        use: Told where the session goes unrecorded.
        over: Ends the session, saying why.
    """

    recorder: IRecorder
    mode: RecordMode
    title: str
    records_input: bool
    use: Use
    clock: IReactorTime
    over: Callable[[str], object] = field(default=lambda text: None, init=False)
    _channels: set[ChannelRecording] = field(factory=set, init=False)
    _has_failed: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)

    async def check(self) -> None:
        """Return where the session may open.

        Raises:
            SvcError: ``recording_unavailable``: it has to be recorded, and cannot be.
        """
        if self.mode is RecordMode.REQUIRED:
            await self.recorder.check()

    async def begin(self) -> ChannelRecording | None:
        """Begin the recording of a channel; None: it goes without.

        Raises:
            SvcError: as of :meth:`check`.
        """
        if self.mode is RecordMode.OFF:
            self.use(UNRECORDED, True)
            return None
        try:
            live = await self.recorder.begin(self._failed)
        except SvcError as refusal:
            if self.mode is RecordMode.REQUIRED:
                raise
            self._unrecorded(refusal.text)
            return None
        if self._is_over:
            live.end()
            raise Unavailable("the session is over", reason="recording_unavailable")
        recording = ChannelRecording(
            live=live,
            title=self.title,
            seconds=self.clock.seconds,
            records_input=self.records_input,
            of_command=self.recorder.of_command,
            ended=self._channels.discard,
        )
        self._channels.add(recording)
        return recording

    def end(self) -> None:
        """The session is over, and with it the recordings of channels that never opened."""
        self._is_over = True
        for each in list(self._channels):
            each.end()

    def _failed(self, text: str) -> None:
        if self.mode is not RecordMode.REQUIRED:
            self._unrecorded(text)
        elif not self._has_failed:
            self._has_failed = True
            self.over(refusal_of(text))

    def _unrecorded(self, text: str) -> None:
        _log.warn("a session goes unrecorded", title=self.title, text=text)
        self.use(UNRECORDED, True)


def refusal_of(text: str) -> str:
    """What a person is told whose session has to be recorded, and cannot be."""
    return f"svc: this session has to be recorded, and cannot be: {text}"

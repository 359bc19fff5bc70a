"""The files of recordings that Authority does not have yet.

One thread writes and reads all of them, in order.  Nothing here is readable: frames are sealed to
Authority's key before they are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from svc.errors import Malformed, SvcError, Unavailable
from svc.model.recording import recording_id
from svc.model.signing import Signed
from svc.recording.file import RecordingHeader, beginning, read_header
from svc.recording.sealing import MOST_SEALED, Frame, FrameChain, seal
from svc.runtime import durable
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_connector")

UNAVAILABLE = "recording_unavailable"
SUFFIX = ".rec"
_KEPT_FREE = 2 * MOST_SEALED
"""Of the room for all: what one more recording has to find, and the last frames of others."""


@frozen
class BufferLimits:
    """What recordings may take of a Connector's disk, in bytes.

    Attributes:
        most: All that wait, together.
        of_session: Those of one session.
        of_command: What is recorded of the output of one command without a terminal.
    """

    most: int
    of_session: int
    of_command: int


@define(eq=False)
class BufferedRecording:
    """One file.

    Attributes:
        size: Its bytes on the disk.
        sent: How many of them Authority has; None: it was not asked yet.
        is_ended: Nothing is added any more.
        reason: Why it was cut short, where the file cannot say so itself.
        is_refused: Authority does not take it.
        lacks_key: The Authority that was asked last does not have the key that it is sealed to.
    """

    id: str
    path: Path
    signed: Signed
    channel: int
    size: int = 0
    sent: int | None = None
    is_ended: bool = False
    reason: str = ""
    is_refused: bool = False
    lacks_key: bool = False
    chain: FrameChain | None = None
    key: bytes = b""


@define(eq=False)
class RecordingBuffers:
    """All of one Connector.

    Attributes:
        root: A private directory; made where it is needed.
        limits: Of now.
        thread: Runs what blocks.
        on_change: Told when there is more to bring to Authority.
    """

    root: Path
    limits: Callable[[], BufferLimits]
    thread: InThread
    on_change: Callable[[], object] = lambda: None
    waiting: dict[str, BufferedRecording] = field(factory=dict, init=False)
    _used: int = field(default=0, init=False)

    @property
    def used(self) -> int:
        """Bytes on the disk."""
        return self._used

    async def find(self) -> None:
        """Take up what a life before has left; all of it has ended."""
        for one in await self.thread(self._found):
            self.waiting[one.id] = one
            self._used += one.size
        self.on_change()

    def check(self) -> None:
        """Return if there is room for one more.

        Raises:
            SvcError: ``recording_unavailable``.
        """
        if self._used + _KEPT_FREE > self.limits().most:
            raise unavailable("recordings that wait for Authority fill the room for them")

    async def try_disk(self) -> None:
        """Return if something can be written.

        Raises:
            SvcError: ``recording_unavailable``.
        """
        self.check()
        await self._written(self._try)

    def _try(self) -> None:
        self._make_root()
        durable.try_room(self.root)

    async def begin(self, header: RecordingHeader) -> BufferedRecording:
        """Make the file of one more.

        Raises:
            SvcError: ``recording_unavailable``.
        """
        self.check()
        id = recording_id(header.grant.session_uid, header.channel)
        one = BufferedRecording(
            id=id,
            path=self.root / f"{id}{SUFFIX}",
            signed=header.signed,
            channel=header.channel,
            chain=header.chain(),
            key=header.key,
            sent=0,
        )
        data = beginning(header)

        def make() -> None:
            self._make_root()
            durable.write_new(one.path, data)
            durable.sync_directory(self.root)

        await self._written(make)
        self._grown(one, len(data))
        self.waiting[id] = one
        self.on_change()
        return one

    async def append(self, one: BufferedRecording, frames: Sequence[Frame]) -> None:
        """Seal these and add them.

        Raises:
            SvcError: ``recording_unavailable``: nobody knows how much of them was written.
        """
        room = sum(MOST_SEALED - (1 << 16) + 4 + len(each.data) for each in frames)
        if self._used + room > self.limits().most:
            raise unavailable("recordings that wait for Authority fill the room for them")
        added = await self._written(lambda: _append(one, frames))
        self._grown(one, added)
        self.on_change()

    def end(self, one: BufferedRecording, reason: str = "") -> None:
        """Nothing is added any more."""
        if not one.is_ended:
            one.is_ended, one.reason, one.chain = True, reason, None
            self.on_change()

    async def read(self, one: BufferedRecording, offset: int, most: int) -> bytes:
        """Bytes of a file, of those that are known to be on the disk."""
        size = min(most, one.size - offset)
        return await self.thread(lambda: _read(one.path, offset, size))

    async def remove(self, one: BufferedRecording) -> None:
        """Authority has it."""

        def remove() -> None:
            one.path.unlink(missing_ok=True)
            durable.sync_directory(self.root)

        await self.thread(remove)
        if self.waiting.pop(one.id, None) is not None:
            self._used -= one.size

    def _grown(self, one: BufferedRecording, added: int) -> None:
        one.size += added
        self._used += added

    async def _written(self, call: Callable[[], object]) -> int:
        try:
            done = await self.thread(call)
        except OSError as error:
            what = "its disk is full" if durable.is_full(error) else error.strerror or "no disk"
            _log.error("a recording cannot be written", path=str(self.root), error=what)
            raise unavailable(f"the Connector cannot write it: {what}") from None
        return done if isinstance(done, int) else 0

    def _make_root(self) -> None:
        if not self.root.is_dir():
            self.root.mkdir(mode=0o700)
            durable.sync_directory(self.root.parent)

    def _found(self) -> list[BufferedRecording]:
        found = []
        for path in sorted(self.root.glob(f"*{SUFFIX}")) if self.root.is_dir() else ():
            try:
                found.append(_left(path))
            except (Malformed, OSError) as fault:
                _log.error("not a recording, and left alone", path=str(path), error=str(fault))
        return found


def unavailable(text: str) -> SvcError:
    """Nothing can be recorded now."""
    return Unavailable(text, reason=UNAVAILABLE)


def _left(path: Path) -> BufferedRecording:
    with path.open("rb") as file:
        header, _ = read_header(file.read(1 << 17))
        size = os.fstat(file.fileno()).st_size
    return BufferedRecording(
        id=recording_id(header.grant.session_uid, header.channel),
        path=path,
        signed=header.signed,
        channel=header.channel,
        size=size,
        is_ended=True,
    )


def _append(one: BufferedRecording, frames: Sequence[Frame]) -> int:
    assert one.chain is not None
    chain = evolve(one.chain)
    data = b"".join(seal(one.key, chain, each) for each in frames)
    descriptor = os.open(one.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # What an earlier call began to write and could not end is written over.
        at = os.lseek(descriptor, one.size, os.SEEK_SET)
        os.ftruncate(descriptor, at)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    one.chain = chain
    return len(data)


def _read(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)

"""Keeps on disk the ends of sessions that the Authority has not confirmed.

An end that Authority answers within a moment never gets there, so while
Authority is well this costs nothing.  One that waits is written down: a Proxy
that is killed while Authority is away still tells how each session ended.  Told
twice is no harm, because the first end that Authority records stays; so the
file is only tidied now and then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import define, field, frozen
from google.protobuf.message import DecodeError
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.audit.spool.aside import copy_aside, move_aside
from svc.audit.spool.framing import Framed, framed, frames
from svc.audit.spool.refusals import disk_full
from svc.errors import Malformed, SvcError, Unavailable
from svc.messages.control import CountedEnd, ended_message, read_ended
from svc.proto.gate.v1 import control_pb2 as pb
from svc.runtime import durable
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_proxy")

MOMENT_SECS = 0.2
"""How long an end may wait for Authority's answer before it is written down."""

END_BYTES = 512
"""What an end may take of the disk: twice its size, because answered ones stay for a while."""

_AGAIN_SECS = 5.0
_CLOSE_SECS = 0.01
_SLACK = 1000
"""Answered ends that may stand in the file beside as many as wait, before it is written again."""


@frozen
class OwedEnd:
    """A session's end, and the person whose share of the queue it uses; empty if nobody's."""

    ended: CountedEnd
    person_id: str = ""


@define
class EndsFile:
    """The file.  Everything here blocks.

    Attributes:
        path: In a private directory that exists.
    """

    path: Path

    def load(self) -> list[OwedEnd]:
        """What is there.

        A file that cannot be read is kept aside; so is a copy of one that holds anything else.

        Raises:
            OSError: it could not be kept.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as e:
            self.set_aside(e.strerror or str(e))
            return []
        read = [*_read(data)]
        ends = [one for one in read if one is not None]
        if read and not ends:
            self.set_aside("damaged")
        elif len(ends) < len(read):
            _log_aside(copy_aside(data, self.path.parent, self._name_aside()), "damaged")
        return ends

    def set_aside(self, reason: str) -> None:
        """Move the file away, that what it holds is not written over.  Raises OSError."""
        _log_aside(move_aside(self.path, self.path.parent, self._name_aside()), reason)

    def _name_aside(self) -> str:
        return f"{self.path.name}-{self.path.stat().st_mtime_ns}"

    def append(self, owed: Iterable[OwedEnd]) -> None:
        """Append *owed* and return once they are durable. Raises OSError."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        with open(descriptor, "ab") as file:
            file.write(_written(owed))
            file.flush()
            os.fsync(descriptor)

    def replace(self, owed: Iterable[OwedEnd]) -> None:
        """Return once exactly *owed* are durable.  Raises OSError."""
        data = _written(owed)
        if data:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            durable.replace(self.path, data)
        else:
            self.path.unlink(missing_ok=True)


@define(eq=False)
class EndsJournal:
    """Writes down what waits, and forgets what was answered.

    Attributes:
        clock: Times the moment.
        failed: Why ends that wait could not be written down; no session may begin meanwhile.
    """

    file: EndsFile
    in_thread: InThread
    tasks: BackgroundTasks
    clock: IReactorTime
    _new: dict[str, OwedEnd] = field(factory=dict)
    _since: dict[str, float] = field(factory=dict)
    _kept: dict[str, OwedEnd] = field(factory=dict)
    _lines: int = 0
    _is_sound: bool = False
    _is_unread: bool = False
    failed: SvcError | None = field(default=None, init=False)
    _writing: DeferredLock = field(factory=DeferredLock)
    _timer: IDelayedCall | None = None

    @property
    def not_durable(self) -> int:
        """Ends that a crash now would lose."""
        return len(self._new)

    async def load(self) -> tuple[OwedEnd, ...]:
        """What a former life left; called once, first."""
        found: list[OwedEnd] = []
        try:
            found = await self.in_thread(self.file.load)
        except OSError as e:
            self._is_unread = True
            self._refused(e)
        self._kept = {one.ended.session_uid: one for one in found}
        self._lines = len(found)
        return tuple(self._kept.values())

    def add(self, owed: OwedEnd) -> None:
        """It waits from now on."""
        if owed.ended.session_uid not in self._kept:
            self._new[owed.ended.session_uid] = owed
            self._since.setdefault(owed.ended.session_uid, self.clock.seconds())
            self._soon(MOMENT_SECS)

    def answered(self, uid: str) -> None:
        """Authority has it, or will never take it."""
        self._new.pop(uid, None)
        self._since.pop(uid, None)
        if self._kept.pop(uid, None) is not None:
            self._soon(MOMENT_SECS)

    async def flush(self) -> None:
        """Write down at once what waits; called as the role stops, too."""
        self.stop()
        await self._writing.acquire()
        try:
            await self._write()
            self.failed = None
        except OSError as e:
            self._is_sound = False
            self._refused(e)
        finally:
            self._writing.release()

    def _refused(self, error: OSError) -> None:
        """Let no session begin until the disk takes ends; that is tried again."""
        _log.error(
            "the end of sessions cannot be recorded",
            reason=error.strerror or str(error),
            file=str(error.filename or self.file.path),
        )
        self.failed = disk_full() if durable.is_full(error) else _unwritten()
        self._soon(_AGAIN_SECS)

    def stop(self) -> None:
        """Write no more by itself."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    async def _write(self) -> None:
        if self._is_unread:
            await self.in_thread(lambda: self.file.set_aside("it could not be read"))
            self._is_unread = False
        new = dict(self._new)
        is_long = self._lines > 2 * len(self._kept) + _SLACK
        is_over = not self._kept and self._lines > 0
        if is_long or is_over or (new and not self._is_sound):
            everything = [*self._kept.values(), *new.values()]
            await self.in_thread(lambda: self.file.replace(everything))
            self._lines, self._is_sound = len(everything), bool(everything)
        elif new:
            await self.in_thread(lambda: self.file.append(new.values()))
            self._lines += len(new)
        # Those answered meanwhile stand in the file, and are no longer waited for.
        for uid in new:
            if uid in self._new:
                self._kept[uid] = self._new.pop(uid)
                del self._since[uid]

    def _soon(self, seconds: float) -> None:
        if self._timer is None or not self._timer.active():
            self._timer = self.clock.callLater(seconds, self._due)

    def _due(self) -> None:
        oldest = next(iter(self._since.values()), 0.0)
        left = oldest + MOMENT_SECS - self.clock.seconds()
        if left > _CLOSE_SECS and not self._lines:
            # What has waited since then was answered; nothing stands in the file to be tidied.
            self._soon(left)
            return
        self.tasks.spawn("write down ends of sessions", self.flush())


def _unwritten() -> SvcError:
    return Unavailable(
        "the end of sessions cannot be recorded, so no session can open; try again",
        reason="audit_unavailable",
    )


def _written(owed: Iterable[OwedEnd]) -> bytes:
    return b"".join(framed(n, _payload(one)) for n, one in enumerate(owed))


def _payload(owed: OwedEnd) -> bytes:
    return owed.person_id.encode() + b"\0" + ended_message([owed.ended]).SerializeToString()


def _read(data: bytes) -> Iterator[OwedEnd | None]:
    """The ends that *data* holds in order, and None for each part that is no end."""
    for found in frames(data):
        if not isinstance(found, Framed):
            yield None
            continue
        person_id, _, message = found.payload.partition(b"\0")
        try:
            [ended], _ = read_ended(pb.EndSessionsRequest.FromString(message))
            yield OwedEnd(ended, person_id.decode())
        except (Malformed, DecodeError, ValueError) as e:
            _log.warn("a recorded end of a session cannot be read", text=str(e))
            yield None


def _log_aside(path: Path, reason: str) -> None:
    _log.error(
        "recorded ends of sessions cannot be read; Authority may record these sessions as "
        "abandoned; the file is kept",
        reason=reason,
        file=str(path),
    )

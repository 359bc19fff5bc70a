"""The store of recordings that comes with svc: a directory.

Of each there are two files: ``ID.rec``, as its Connector wrote it, sealed; and ``ID.json``, what is
known of it.  Whoever can read the directory learns who was recorded when, and not what.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from fcntl import LOCK_EX, flock
from pathlib import Path
from threading import Lock
from typing import Any

from attrs import asdict, define, field
from twisted.logger import Logger
from zope.interface import implementer

from svc.interfaces.recordings import IRecordingStore
from svc.model.recording import Recording, RecordingState
from svc.runtime import durable

_log = Logger(namespace="svc_authority")

_ID = re.compile(r"[0-9a-f]{32}-[0-9]{1,5}\Z")


@implementer(IRecordingStore)
@define(eq=False)
class RecordingFiles:
    """See the module.

    Attributes:
        root: Made, of mode 0700, when the first recording comes.
    """

    root: Path
    _total: int | None = field(default=None, init=False)
    _counting: Any = field(factory=Lock, init=False)

    def facts(self, id: str) -> Recording | None:
        """See IRecordingStore."""
        try:
            return _read(self._path(id, "json"))
        except FileNotFoundError:
            return None

    def set_facts(self, recording: Recording) -> None:
        """See IRecordingStore."""
        self._make_root()
        said = {**asdict(recording), "state": recording.state.value}
        durable.replace(self._path(recording.id, "json"), json.dumps(said, indent=1).encode())

    def all(self) -> Iterator[Recording]:
        """See IRecordingStore; what cannot be read is logged, and left out."""
        for path in self.root.glob("*-*.json"):
            try:
                yield _read(path)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError, KeyError) as fault:
                _log.error("a recording cannot be read", path=str(path), error=str(fault))

    def held(self, id: str) -> int:
        """See IRecordingStore."""
        try:
            return self._path(id, "rec").stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, id: str, offset: int, data: bytes) -> int:
        """See IRecordingStore."""
        held, path = self.held(id), self._path(id, "rec")
        if held != offset or not data:
            return held
        self._make_root()
        self.total()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with durable.naming(path):
            descriptor = os.open(path, flags, 0o600)
            try:
                # Another Authority may be brought the same bytes, in the same directory.
                flock(descriptor, LOCK_EX)
                if (found := os.fstat(descriptor).st_size) != offset:
                    return found
                _add(descriptor, offset, data)
            finally:
                os.close(descriptor)
        if not held:
            durable.sync_directory(self.root)
        self._count(len(data))
        return held + len(data)

    def read(self, id: str, offset: int, size: int) -> bytes:
        """See IRecordingStore."""
        with self._path(id, "rec").open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def total(self) -> int:
        """See IRecordingStore."""
        with self._counting:
            if self._total is None:
                self._total = sum(path.stat().st_size for path in self.root.glob("*.rec"))
            return self._total

    def remove(self, id: str) -> None:
        """See IRecordingStore; what is known of it goes last."""
        held = self.held(id)
        for ending in ("rec", "json"):
            self._path(id, ending).unlink(missing_ok=True)
        if self.root.is_dir():
            durable.sync_directory(self.root)
        self._count(-held)

    def _count(self, more: int) -> None:
        """Of several recordings at a time, in as many threads."""
        with self._counting:
            self._total = None if self._total is None else self._total + more

    def _path(self, id: str, ending: str) -> Path:
        if _ID.match(id) is None:
            raise FileNotFoundError(id)
        return self.root / f"{id}.{ending}"

    def _make_root(self) -> None:
        if not self.root.is_dir():
            self.root.mkdir(mode=0o700, exist_ok=True)
            durable.sync_directory(self.root.parent)


def _add(descriptor: int, end: int, data: bytes) -> None:
    """All of it, or nothing."""
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _read(path: Path) -> Recording:
    said = json.loads(path.read_bytes())
    return Recording(**{**said, "state": RecordingState(said["state"])})

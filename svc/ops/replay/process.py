"""The process that decides recorded requests again, as its parent has it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from svc.policy.refusals import GUARD_CRASHED, GUARD_TIMEOUT, INVALID, REASONS, refused

SILENCE = 60.0
"""Seconds in which the child has to take what it is given, or to answer."""

AHEAD = 1 << 20
"""Bytes that wait for the child, so that it decides while we read."""

MAX_ANSWER = 16 * 1024 * 1024

_OUT_OF_TIME = (-signal.SIGXCPU, -signal.SIGKILL)
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from svc.policy.replay.child import main; sys.exit(main())"
)


class ReplayProcess:
    """The process; it is killed where the context is left before it ended."""

    def __enter__(self) -> ReplayProcess:
        command = (sys.executable, "-I", "-c", _PROGRAM, str(Path(__file__).resolve().parents[3]))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout
        os.set_blocking(self._in.fileno(), False)
        with suppress(OSError):  # the user may have used up what is given for pipes
            fcntl.fcntl(self._in.fileno(), fcntl.F_SETPIPE_SZ, AHEAD)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        with suppress(BrokenPipeError):
            self._in.close()

    def send(self, data: bytes) -> None:
        """Give it lines; what it says when it takes no more is raised."""
        left = memoryview(data)
        while left:
            if not self._ready(self._in, select.POLLOUT):
                raise _too_long()
            try:
                left = left[os.write(self._in.fileno(), left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                self.ended()
                raise _crashed() from None

    def ended(self) -> Mapping[str, Any]:
        """What it found; nothing more is given to it."""
        with suppress(BrokenPipeError):
            self._in.close()
        data = bytearray()
        while True:
            if not self._ready(self._out, select.POLLIN):
                raise _too_long()
            part = os.read(self._out.fileno(), 1 << 16)
            if not part:
                break
            data += part
            if len(data) > MAX_ANSWER:
                raise _crashed()
        status = self._process.wait(SILENCE)
        if status in _OUT_OF_TIME:
            raise _too_long()
        return _answer(bytes(data), status)

    @staticmethod
    def _ready(stream: IO[bytes], event: int) -> bool:
        poll = select.poll()
        poll.register(stream.fileno(), event)
        return bool(poll.poll(SILENCE * 1000))


def _answer(data: bytes, status: int) -> Mapping[str, Any]:
    try:
        found = json.loads(data) if status == 0 else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _crashed()
    if "reason" in found:
        reason = found["reason"]
        raise refused(reason if reason in REASONS else INVALID, str(found.get("text", "")))
    return found


def _too_long() -> Exception:
    return refused(
        GUARD_TIMEOUT,
        "policy: replaying it took too long or used too much memory; make it simpler, or replay "
        "less (--since)",
    )


def _crashed() -> Exception:
    return refused(GUARD_CRASHED, "policy: it crashed the process that replays; make it simpler")

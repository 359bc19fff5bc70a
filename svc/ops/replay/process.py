"""The process that decides recorded requests again, as those that give and read have it.

One process writes its lines to it and another one reads what it tells, so that neither waits
for the other; see :mod:`svc.ops.replay.workers`.
"""

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
"""Seconds in which the child has to tell something: it does so at least each thousand requests."""

AHEAD = 1 << 20
"""Bytes that wait for the child, so that it decides while we read."""

MAX_ANSWER = 16 * 1024 * 1024
"""Of one line."""

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
        self._data = bytearray()
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

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def send(self, data: bytes) -> None:
        """Give it lines; waits as long as it lives, since whoever reads it says how long it may.

        Raises:
            BrokenPipeError: it ended.
        """
        left = memoryview(data)
        while left:
            poll = select.poll()
            poll.register(self._in.fileno(), select.POLLOUT)
            poll.poll()
            with suppress(BlockingIOError):
                left = left[os.write(self._in.fileno(), left) :]

    def leave(self) -> None:
        """Leave writing to another process, which has a copy of this end."""
        with suppress(BrokenPipeError):
            self._in.close()

    def only_write(self) -> None:
        """Leave reading to another process."""
        self._out.close()

    def told(self) -> Mapping[str, Any]:
        """The next of its answers.

        Raises:
            PolicyRefused: it refused the text, took too long, or ended before it said so.
        """
        while (end := self._data.find(b"\n")) < 0:
            part = os.read(self._out.fileno(), 1 << 16) if self._is_ready() else None
            if part is None:
                raise _too_long()
            self._data += part
            if not part or len(self._data) > MAX_ANSWER:
                raise self._ended()
        line = bytes(self._data[:end])
        del self._data[: end + 1]
        return _answer(line)

    def _ended(self) -> Exception:
        try:
            status = self._process.wait(SILENCE)
        except subprocess.TimeoutExpired:
            return _too_long()
        return _too_long() if status in _OUT_OF_TIME else _crashed()

    def _is_ready(self) -> bool:
        poll = select.poll()
        poll.register(self._out.fileno(), select.POLLIN)
        return bool(poll.poll(SILENCE * 1000))


def _answer(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
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

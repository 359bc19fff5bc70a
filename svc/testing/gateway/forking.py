"""Processes of ``svc`` that a fork server starts; the tests' side of it."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock

from attrs import define, field, frozen

from svc.testing.gateway.fork_server import MAX_ORDER, NUMBER

_starting = Lock()


@define(eq=False, slots=False)
class Forked:
    """A child of the fork server, asked like a :class:`subprocess.Popen`.

    Attributes:
        returncode: Once it is known that it has ended; negative for a signal.
    """

    words: Sequence[str]
    pid: int
    _told: int
    _handle: int | None
    returncode: int | None = field(default=None, init=False)

    def poll(self) -> int | None:
        """Its status, if it has ended."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its status, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(list(self.words), timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        if self.poll() is None and self._handle is not None:
            try:
                signal.pidfd_send_signal(self._handle, signal.Signals(number))
            except ProcessLookupError:
                pass  # it ended just now

    def kill(self) -> None:
        """``kill -9``."""
        self.send_signal(signal.SIGKILL)

    def _status(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            ready, _, _ = select.select([self._told], [], [], seconds)
            if not ready:
                return None
            self.returncode = _number(self._told, -signal.SIGKILL)
            os.close(self._told)
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
        return self.returncode


def fork(
    words: Sequence[str],
    arguments: Sequence[str],
    environ: Mapping[str, str],
    directory: Path,
    standard: Sequence[int],
    is_leader: bool = False,
    module: str = "svc",
) -> Forked:
    """Start *module*, which is ``svc`` or a program of its tests, with *arguments*.

    Args:
        words: The command that this stands for.
        standard: Descriptors of its stdin, stdout and stderr.
        is_leader: Whether it begins a session of its own.
    """
    order = {
        "module": module,
        "arguments": list(arguments),
        "environ": dict(environ),
        "directory": str(directory),
        "is_leader": is_leader,
    }
    data = json.dumps(order).encode()
    assert len(data) <= MAX_ORDER, "the order is too long"
    told, telling = os.pipe()
    try:
        with _starting:
            way = _server().way
        socket.send_fds(way, [data], [*standard, telling])
    except BaseException:
        os.close(told)
        raise
    finally:
        os.close(telling)
    pid = _number(told)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        handle = None  # it has ended already
    return Forked(words=words, pid=pid, told=told, handle=handle)


@frozen
class _Server:
    way: socket.socket
    pid: int


_adopted: list[_Server] = []


def adopt(way: socket.socket, pid: int) -> None:
    """Use a fork server that is already there, a child of this process; before the first `fork`."""
    assert not _server.cache_info().currsize, "there is a fork server"
    _adopted[:] = [_Server(way, pid)]


def _number(pipe: int, otherwise: int | None = None) -> int:
    """What the server says next, or *otherwise* if it has ended, and its children with it."""
    data = os.read(pipe, NUMBER.size)
    if len(data) == NUMBER.size:
        number: int = NUMBER.unpack(data)[0]
        return number
    if otherwise is None:
        raise RuntimeError("the fork server of the tests has ended")
    return otherwise


@cache
def _server() -> _Server:
    """This process's fork server, which ends when the way to it does."""
    if _adopted:
        return _adopted[0]
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "svc.testing.gateway.fork_server", str(its.fileno())]
    with its:
        server = subprocess.Popen(
            command,
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=Path(__file__).parent.parent.parent.parent,
            env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        )
    return _Server(ours, server.pid)


@atexit.register
def _end() -> None:
    """Registered before any child can be: those who end their children have done so by then."""
    if _adopted or _server.cache_info().currsize:
        _server().way.close()
        os.waitpid(_server().pid, 0)

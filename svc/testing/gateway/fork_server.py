"""Starts ``svc`` for tests without importing it each time; ``forking`` runs it.

A process that has imported the program, but has made no reactor and no
thread, forks itself for each order.  The child gets the descriptors,
environment and directory of the order and is from then on the program: what
the imports cost (half a second and more) is paid once.

An order is one packet: JSON, and four descriptors, which are stdin, stdout,
stderr and a pipe.  Into the pipe go the child's pid and, when it has ended,
its status, each as a native ``int``.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from runpy import run_module
from types import ModuleType
from typing import Any

from attrs import frozen

import svc
from svc.config.reading import read_settings
from svc.errors import SvcError
from svc.runtime.large_pages import collapse, regions

NUMBER = struct.Struct("=i")
MAX_ORDER = 1 << 17
SITE_PACKAGES = "SVC_TEST_SITE_PACKAGES"
"""Names a folder in which a child finds distributions, as if they were installed beside svc."""

CLOCK_OFFSET = "SVC_TEST_CLOCK_OFFSET"
"""Seconds by which a child's clock is ahead, or behind if they are negative."""

_NOT_BEFORE = ("svc.__main__", "svc.demo.", "svc.kinds.ssh.", "svc.plugins.", "svc.testing.")
"""What the program may import in a child only: it runs, makes the reactor (as Conch does) or reads
folders."""

_MORE = (
    "svc.telemetry.tracing",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "twisted.internet.epollreactor",
)
_REACTOR = "twisted.internet.reactor"
_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_PR_SET_THP_DISABLE = 41
_ANYBODY = ctypes.c_ulong(-1)


@frozen
class _Order:
    """What a child is to become."""

    module: str
    arguments: list[str]
    environ: dict[str, str]
    directory: str
    is_leader: bool
    handles: tuple[int, ...]

    @property
    def words(self) -> str:
        """The program and its first words, without options and paths."""
        words = [word for word in self.arguments if word[:1] not in ("-", "/")]
        return " ".join([self.module, *words[:3]])


def main() -> int:
    """Import, and serve."""
    prepare()
    return serve(socket.socket(fileno=int(sys.argv[1])))


def prepare(*more: str) -> None:
    """Import what svc imports, and *more* modules, into a process that will fork."""
    for module in walk_packages(svc.__path__, "svc."):
        if not module.name.startswith(_NOT_BEFORE):
            import_module(module.name)
    for name in (*_MORE, *more):
        import_module(name)
    # The descriptors of a reactor would be one and the same in all children.
    assert _REACTOR not in sys.modules, "an import has made a reactor"
    _import_klein()
    # Makes the model of the settings, which takes longer than most commands.
    with suppress(SvcError):
        read_settings("", "connector")
    assert _REACTOR not in sys.modules, "an import has made a reactor"
    gc.collect()
    gc.freeze()
    _share_large_pages()


def _share_large_pages() -> None:
    """Hold what children share in large pages, where the kernel can: a fork then takes half.

    It copies the table of the pages, which has an entry for each.
    """
    with open("/proc/self/maps", encoding="utf-8") as maps:
        wanted = list(regions(maps))
    for begin in wanted:
        collapse(begin)  # an older kernel refuses it, and nothing depends on it


def _import_klein() -> None:
    """Import Klein, which takes a tenth of a role's start, but not the reactor that it imports.

    Klein uses that reactor only in its ``run``, which no part of svc calls.
    """
    sys.modules[_REACTOR] = ModuleType(_REACTOR)
    try:
        import_module("klein")
    finally:
        del sys.modules[_REACTOR]


def serve(
    asked: socket.socket, on_end: Callable[[str, float], object] = lambda words, cpu_secs: None
) -> int:
    """Serve, and end when nobody is left who could order; in a child, run the program.

    Args:
        on_end: Given the words of each child that has ended, and the CPU time that it used.
    """
    order = _serve(asked, on_end)
    if order is None:
        return 0
    _become(order)
    leaving(partial(run_module, order.module, run_name="__main__", alter_sys=True))
    return 1


def leaving(program: Callable[[], object]) -> None:
    """Run what ends by SystemExit, and end as the interpreter would, but free nothing.

    Freeing what is shared with the server would copy its memory page by page, which takes longer
    than most commands.  A status that is no number, and a stream that cannot be flushed, are left
    to the interpreter.
    """
    try:
        program()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            raise ended from None
        os._exit((ended.code or 0) & 0xFF)


def _serve(asked: socket.socket, on_end: Callable[[str, float], object]) -> _Order | None:
    """Fork for each order and tell each end; in a child, return its order."""
    ours = os.getpid()
    running: dict[int, tuple[int, int, str]] = {}
    looking = select.poll()
    looking.register(asked, select.POLLIN)
    while True:
        for handle, _ in looking.poll():
            if handle != asked.fileno():
                pid, told, words = running.pop(handle)
                looking.unregister(handle)
                os.close(handle)
                _, status, used = os.wait4(pid, 0)
                _tell(told, os.waitstatus_to_exitcode(status))
                os.close(told)
                on_end(words, used.ru_utime + used.ru_stime)
                continue
            order = _received(asked)
            if order is None:
                return None
            *standard, told = order.handles
            pid = os.fork()
            if pid == 0:
                asked.close()
                for watched, other in running.items():
                    os.close(watched)
                    os.close(other[1])
                os.close(told)
                _die_with(ours)
                return order
            for one in standard:
                os.close(one)
            _tell(told, pid)
            watched = os.pidfd_open(pid)
            running[watched] = (pid, told, order.words)
            looking.register(watched, select.POLLIN)


def _received(asked: socket.socket) -> _Order | None:
    data, handles, _, _ = socket.recv_fds(asked, MAX_ORDER, 4, socket.MSG_CMSG_CLOEXEC)
    if not data:
        return None
    wanted: dict[str, Any] = json.loads(data)
    return _Order(**wanted, handles=tuple(handles))


def _tell(pipe: int, number: int) -> None:
    try:
        os.write(pipe, NUMBER.pack(number))
    except BrokenPipeError:
        pass  # whoever started it no longer asks


def _die_with(parent: int) -> None:
    """The kernel kills this child when the server ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _become(order: _Order) -> None:
    """Take the order's place in the world."""
    for number, handle in enumerate(order.handles[:3]):
        os.dup2(handle, number)
        os.close(handle)
    if order.is_leader:
        os.setsid()
    # Where only a parent may trace its child, strace of a test could not attach to it.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY)
    # Its memory is the server's, in large pages already: a copy of each is more than a test gains.
    ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environ)
    place = os.environ.pop(SITE_PACKAGES, "")
    if place:
        sys.path.insert(0, place)
    offset = os.environ.pop(CLOCK_OFFSET, "")
    if offset:
        real, seconds = time.time, float(offset)
        time.time = lambda: real() + seconds  # svc asks the module each time: no call of it is kept
    sys.argv = [order.module, *order.arguments]


if __name__ == "__main__":
    sys.exit(main())

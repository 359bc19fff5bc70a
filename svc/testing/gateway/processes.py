"""Real processes under a test's control: started, watched, measured, and always ended.

Blocking, and without a reactor: a test asks, waits with a deadline, and goes
on.  Nothing here sleeps for a guessed time; a wait ends as soon as what is
waited for is there, or a watched process is not.  Commands of
:func:`svc_command`, and programs of the tests, are started by a fork server,
which has imported what they import; ``SVC_TEST_EXEC=1`` starts each of them
from nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any, TypeVar

from attrs import define, field, frozen

from svc.testing.gateway.forking import Forked, fork

TIMEOUT_SECS = 60.0
"""Seconds a test waits for what must come: so many that a busy machine does not decide."""

_BETWEEN_LOOKS = 0.02
_MOST_BETWEEN_LOOKS = 0.2
_RESTS = 3
"""How many times as long as a look took, we wait before the next one."""
_SVC = (sys.executable, "-m", "svc")
_PROGRAM = "SVC_TEST_PROGRAM"
_PR_SET_PDEATHSIG = 1
_T = TypeVar("_T")
_libc = ctypes.CDLL(None, use_errno=True)
_running: weakref.WeakSet[Child] = weakref.WeakSet()


class TooLate(AssertionError):
    """What a test waited for did not come in time."""


@frozen
class Ran:
    """What a command that has ended left.

    Attributes:
        status: Its exit status; negative for the signal that ended it.
    """

    words: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    def checked(self) -> Ran:
        """Itself; AssertionError with all it said unless the status is 0."""
        if self.status != 0:
            raise AssertionError(
                f"{' '.join(self.words)}: status {self.status}\n{self.stdout}\n{self.stderr}"
            )
        return self

    @property
    def json(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.stdout)


def svc_command(*words: str) -> list[str]:
    """The argument vector of ``svc`` with *words*: run by this interpreter, or another program.

    That is the one that ``SVC_TEST_PROGRAM`` names, such as a release's file, which then unpacks
    itself below our ``XDG_CACHE_HOME``.
    """
    program = os.environ.get(_PROGRAM)
    return [*((program,) if program else _SVC), *words]


def environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment that holds nothing of the developer's: no ``SVC_*``, no home, no locale."""
    cache = os.environ.get("XDG_CACHE_HOME") if _PROGRAM in os.environ else None
    return {
        **({"XDG_CACHE_HOME": cache} if cache else {}),
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        **(more or {}),
    }


def run(
    words: Sequence[str],
    home: Path,
    more: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    seconds: float = TIMEOUT_SECS,
) -> Ran:
    """Run a command to its end; killed, with a failure, when it takes longer than *seconds*."""
    command = list(words)
    environ = environment(home, more)
    with ExitStack() as files:
        given, said, told = (files.enter_context(TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        process = begun(command, environ, home, (given, said, told))
        try:
            status = process.wait(seconds)
        except BaseException:
            process.kill()
            process.wait()
            raise
        said.seek(0)
        told.seek(0)
        return Ran(
            words=tuple(words), status=status, stdout=_text(said.read()), stderr=_text(told.read())
        )


def begun(
    words: Sequence[str],
    environ: Mapping[str, str],
    home: Path,
    standard: Sequence[IO[bytes]],
    is_leader: bool = False,
) -> subprocess.Popen[bytes] | Forked:
    """Start a command with these as its stdin, stdout and stderr; forked if it is one of ours."""
    handles = [each.fileno() for each in standard]
    if _is_forked(words):
        module, arguments = words[2], words[3:]
        return fork(words, arguments, environ, home, handles, is_leader, module)
    given, said, told = handles
    return subprocess.Popen(
        list(words),
        stdin=given,
        stdout=said,
        stderr=told,
        env=dict(environ),
        cwd=home,
        preexec_fn=die_with_parent,
        start_new_session=is_leader,
    )


def _is_forked(words: Sequence[str]) -> bool:
    """Whether it is a module of svc or of its tests, run by this interpreter."""
    if tuple(words[:2]) != _SVC[:2] or os.environ.get("SVC_TEST_EXEC") == "1":
        return False
    return words[2].partition(".")[0] in ("svc", "tests")


CUT = " (cut)"
"""Ends a line that a process was killed in the midst of, once it is started again."""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _end_last_line(log: Path) -> int:
    """End the line that a killed process may have left half written, so that it looks like none.

    Returns:
        The size of the log then.
    """
    with log.open("a+b") as file:
        size = file.tell()
        file.seek(max(0, size - 1))
        return size + (file.write(f"{CUT}\n".encode()) if file.read(1) not in (b"", b"\n") else 0)


def die_with_parent() -> None:
    """Between fork and exec: the kernel kills this child when the test's process ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@define(eq=False, slots=False)
class Child:
    """One process, its output in a file.

    Attributes:
        log: Where stdout and stderr go; a restart goes on in the same file.
        environ: What it has beside :func:`environment`.
    """

    name: str
    words: Sequence[str]
    home: Path
    log: Path
    environ: Mapping[str, str] = field(factory=dict)
    _process: subprocess.Popen[bytes] | Forked | None = field(default=None, init=False)
    _since: int = field(default=0, init=False)

    def start(self) -> None:
        """Start it; AssertionError if it runs."""
        assert not self.is_alive, f"{self.name} runs already"
        self._since = _end_last_line(self.log)
        environ = environment(self.home, self.environ)
        with self.log.open("ab") as log, open(os.devnull, "rb") as nothing:
            standard = (nothing, log, log)
            self._process = begun(self.words, environ, self.home, standard, True)
        _running.add(self)

    @property
    def process(self) -> subprocess.Popen[bytes] | Forked:
        """The process; AssertionError before the first start."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def pid(self) -> int:
        """Of the process, alive or not."""
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs, stopped by a signal or not."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        self.process.send_signal(number)

    def wait(self, seconds: float = TIMEOUT_SECS) -> int:
        """The exit status; negative for the signal that ended it.

        Raises:
            TooLate: it still runs.
        """
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TooLate(f"{self.name} has not ended after {seconds} s\n{self.tail()}") from None

    def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = TIMEOUT_SECS) -> int:
        """SIGTERM; the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def end(self) -> None:
        """Kill it and what it started in its own session."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left in it, or it has not been made yet
        self._process.kill()
        self._process.wait()

    def text(self, whole: bool = False) -> str:
        """What it said since its latest start, or ever."""
        with self.log.open("rb") as log:
            log.seek(0 if whole else self._since)
            return _text(log.read())

    def tail(self, lines: int = 30) -> str:
        """Its last words, for a failure's text."""
        return "\n".join(self.text(whole=True).splitlines()[-lines:])

    def events(self, message: str | None = None, whole: bool = False) -> list[dict[str, Any]]:
        """Its log events (``SVC_LOG_FORMAT=json``), those with this message alone if given.

        A line that is not complete yet is none.
        """
        found = []
        for line in self.text(whole).split("\n")[:-1]:
            if line.startswith("{") and line.endswith("}"):
                event = json.loads(line)
                if message is None or event.get("message") == message:
                    found.append(event)
        return found

    def rss(self) -> int:
        """Resident bytes now."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise AssertionError(f"{self.name} has no memory: it has ended")


def until(
    what: str,
    look: Callable[[], _T | None],
    seconds: float = TIMEOUT_SECS,
    alive: Iterable[Child] = (),
) -> _T:
    """Look again and again until *look* returns something true; what it returned.

    Args:
        what: What is waited for, for the failure's text.
        look: Returns a false value while it is not there; must not block.
        alive: Children that must not end meanwhile.

    Raises:
        TooLate: it did not come, or a child ended first; with the child's last words.
    """
    children = tuple(alive)
    end = monotonic() + seconds
    while True:
        began = monotonic()
        found = look()
        if found:
            return found
        took = monotonic() - began
        for child in children:
            if not child.is_alive:
                raise TooLate(f"{what}: {child.name} ended first\n{child.tail()}")
        left = end - monotonic()
        if left <= 0:
            last = "\n".join(f"--- {child.name}\n{child.tail()}" for child in children)
            raise TooLate(f"{what}: not after {seconds} s (last: {found!r})\n{last}")
        rest = min(max(_BETWEEN_LOOKS, _RESTS * took), _MOST_BETWEEN_LOOKS)
        _pause(min(rest, left), children)


def _pause(seconds: float, children: Sequence[Child]) -> None:
    """Wait for a moment, or until a child ends."""
    handles = []
    poll = select.poll()
    try:
        for child in children:
            try:
                handles.append(os.pidfd_open(child.pid))
            except ProcessLookupError:
                return
            poll.register(handles[-1], select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        for handle in handles:
            os.close(handle)


@atexit.register
def end_all() -> None:
    """Kill every child there is; runs at the interpreter's exit."""
    for child in list(_running):
        child.end()

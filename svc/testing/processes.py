"""Real processes under a test's control: started, watched, measured, and always ended.

Blocking, and without a reactor: a test asks, waits with a deadline, and goes
on.  Nothing here sleeps for a guessed time; a wait ends as soon as what is
waited for is there, or a watched process is not.
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
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from attrs import define, field, frozen

import svc

PATIENCE = 20.0
"""Seconds a test waits for what must come."""

_BETWEEN_LOOKS = 0.02
_PR_SET_PDEATHSIG = 1
_SOURCES = str(Path(svc.__file__).resolve().parent.parent)
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
    """The argument vector of ``svc`` with *words*, run by this interpreter."""
    return [sys.executable, "-m", "svc", *words]


def environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment that holds nothing of the developer's: no ``SVC_*``, no home, no locale."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": _SOURCES,
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        **(more or {}),
    }


def run(
    words: Sequence[str],
    home: Path,
    more: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    seconds: float = 30.0,
) -> Ran:
    """Run a command to its end; killed, with a failure, when it takes longer than *seconds*."""
    done = subprocess.run(
        list(words),
        input=stdin,
        capture_output=True,
        env=environment(home, more),
        cwd=home,
        timeout=seconds,
        preexec_fn=die_with_parent,
        check=False,
    )
    return Ran(tuple(words), done.returncode, _text(done.stdout), _text(done.stderr))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


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
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _since: int = field(default=0, init=False)

    def start(self) -> None:
        """Start it; AssertionError if it runs."""
        assert not self.is_alive, f"{self.name} runs already"
        self._since = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                list(self.words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self.home, self.environ),
                cwd=self.home,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
        _running.add(self)

    @property
    def process(self) -> subprocess.Popen[bytes]:
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

    def wait(self, seconds: float = PATIENCE) -> int:
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

    def stop(self, seconds: float = PATIENCE) -> int:
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
            pass  # nobody is left in it
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
        """Its log events (``SVC_LOG_FORMAT=json``), those with this message alone if given."""
        found = []
        for line in self.text(whole).splitlines():
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
    seconds: float = PATIENCE,
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
        found = look()
        if found:
            return found
        for child in children:
            if not child.is_alive:
                raise TooLate(f"{what}: {child.name} ended first\n{child.tail()}")
        left = end - monotonic()
        if left <= 0:
            last = "\n".join(f"--- {child.name}\n{child.tail()}" for child in children)
            raise TooLate(f"{what}: not after {seconds} s (last: {found!r})\n{last}")
        _pause(min(_BETWEEN_LOOKS, left), children)


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

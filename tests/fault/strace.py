"""Faults in the system calls of a live process, by the stock ``strace``.

A process of a test's own is attached to.  Root is not needed: what the fork server
(``svc/testing/gateway/fork_server.py``) starts lets itself be traced.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from svc.testing.gateway.processes import TIMEOUT_SECS, TooLate, die_with_parent, until
from tests.support.tools import missing, stock_tool

_HITS = ("(INJECTED)", "(DELAYED)", "+++ killed by SIGKILL +++")


@define(eq=False)
class Strace:
    """One ``strace`` at work on one process."""

    _process: subprocess.Popen[bytes]
    _said: Path
    _told: Path

    @property
    def hits(self) -> int:
        """How many calls were made to fail, or killed the process."""
        return sum(map(self.text().count, _HITS))

    def text(self) -> str:
        """All that it has written down so far."""
        return self._said.read_text("utf-8", "replace")

    def await_hit(self, seconds: float = TIMEOUT_SECS) -> None:
        """Wait until a call was hit."""
        until("a call is hit", lambda: self.hits > 0, seconds)

    def end(self) -> None:
        """Let the process go on by itself."""
        self._process.terminate()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()  # it may wait for a thread that was killed under it
            self._process.wait(TIMEOUT_SECS)
        for path in (self._said, self._told):
            path.unlink(missing_ok=True)


def inject(pid: int, calls: str, fault: str, when: str) -> Strace:
    """Begin to inject a fault into a process; returns once it is attached.

    Args:
        calls: Names of system calls, with commas.
        fault: As ``strace -e inject`` takes it: ``error=EIO``, ``signal=SIGKILL``.
        when: Of each thread's calls from now on: ``3`` the third, ``2+`` from the second on.

    Raises:
        SkipTest: there is no strace, or it may not attach.  AssertionError instead, with
            ``SVC_REQUIRE_TOOLS=1``.
    """
    return _attached(pid, ["-e", f"trace={calls}", "-e", f"inject={calls}:{fault}:when={when}"])


@contextmanager
def record(pid: int, calls: str) -> Iterator[Strace]:
    """Write down these calls of a process with all their bytes, as long as the block lasts.

    Raises:
        SkipTest: as :func:`inject`.
    """
    made = _attached(pid, ["-yy", "-xx", "-s", "1048576", "-e", f"trace={calls}"])
    try:
        yield made
    finally:
        made.end()


def _attached(pid: int, options: Sequence[str]) -> Strace:
    program = stock_tool("strace")
    handle, said = tempfile.mkstemp(prefix="svc-strace-")
    os.close(handle)
    told = Path(f"{said}.told")
    words = [program, "-f", "-o", said, *options, "-p", str(pid)]
    with told.open("wb") as errors:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            preexec_fn=die_with_parent,
        )
    made = Strace(process, Path(said), told)
    try:
        until("attached", lambda: "attached" in told.read_text() or process.poll() is not None)
        if "not permitted" in told.read_text():
            missing("strace may not attach to a process here (kernel.yama.ptrace_scope, seccomp)")
        if "attached" not in told.read_text():
            raise TooLate(f"strace ended: {told.read_text()}")
    except BaseException:
        made.end()
        raise
    return made

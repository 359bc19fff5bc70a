"""Runs the tests, several processes at once: ``python -m tests.runner [-j N] [NAME ...]``.

``trial -j`` hands single tests to whichever worker is free, so that each worker founds a gateway
for nearly every module.  Here a process runs a whole package under trial, or in `ALONE` a module,
and all modules that share something expensive by `SHARING` run in one, after one another.  The
processes are forked from this one, which has imported svc; each has a fork server for svc, forked
from it likewise.

A NAME is a package or a module below ``tests``, ``tests`` itself if there is none.  The exit
status is 0 if every test ran, and passed or was skipped.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from attrs import field, frozen
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.internal.charmap import intervals_from_codec
from hypothesis.internal.conjecture import providers
from twisted.scripts import trial

from svc.testing.gateway import fork_server, forking

if TYPE_CHECKING:
    from tests.support.costs import Costs

ROOT = Path(__file__).resolve().parents[1]

SHARING = tuple(
    re.compile(pattern, re.M)
    for pattern in (
        r"^from tests\.system\.common import",
        r"^from tests\.system\.board import .*\bweb\b",
        r"^from tests\.system\.killing import",
        r"^from tests\.fault\.duel import",
        r"^from tests\.system\.(hostile_case|stage) import",
        r"^from tests\.system\.signing_in import [^)]*\bstage\b",
        r"^from tests\.system\.world import .*\bworld\b",
        r"^from tests\.support\.sources import",
        r"^from tests\.support\.wheels import .*\b(own_wheel|environment_with)\b",
    )
)
"""What a module says that shares a gateway, a wheel or parsed sources with all that say it."""

ALONE = ("tests.system", "tests.fault", "tests.interop", "tests.contrib", "tests.store")
"""Packages whose modules take long, and run each by itself."""

APART = ("tests.fault", "tests.interop")
"""Packages that `make fault` runs, and `make test` leaves to it."""

_RUN_BY = re.compile(r'^RUN_BY = "make fault( LONG=1)?"$', re.M)
"""What a module says that is run with them, or in its long form only."""

_FIRST = (
    "tests.system.",
    "tests.fault.",
    "tests.interop.",
    "tests.test_",
    "tests.store.",
    "tests.contrib.",
    "tests.ops.",
    "tests.cli.",
)
"""What takes long and waits much begins first: what is quick fills the cores at the end."""

_IN_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30
"""What a run may need there, several times over."""

_OBJECTS = 20_000
"""So many new ones let Python look for garbage.  At its own 700 that is a tenth of the CPU time."""

_PR_SET_PDEATHSIG = 1
_COUNTS = re.compile(r"(\w+)=(\d+)")
_END = re.compile(r"^Ran (\d+) tests? in .*\n+(?:PASSED|FAILED)(?: \((.*)\))?$", re.M)
_RULE = "=" * 79


@frozen
class Outcome:
    """What came of a group.

    Attributes:
        counts: By trial's words (``successes``, ``skips``); empty if it did not come to its end.
        told: What trial says of tests that were not plain successes, or all it said.
    """

    group: Sequence[str]
    status: int
    counts: Mapping[str, int]
    told: str
    secs: float
    cpu_secs: float

    @property
    def is_good(self) -> bool:
        """Whether there were tests, and all of them passed or were skipped."""
        return self.status == 0 and sum(self.counts.values()) > 0

    def __str__(self) -> str:
        name = self.group[0] + (f" and {len(self.group) - 1} more" if self.group[1:] else "")
        counted = f"{sum(self.counts.values()):4} tests {self.secs:6.1f} s {self.cpu_secs:6.1f} cpu"
        return f"{'ok    ' if self.is_good else 'FAILED'} {counted}  {name}"


@frozen
class Running:
    """A group under way."""

    group: Sequence[str]
    place: Path
    since: float = field(factory=monotonic)

    def outcome(self, status: int, cpu_secs: float) -> Outcome:
        """What came of it, read from what it left."""
        text = (self.place / "out").read_text("utf-8", "replace")
        end = _END.search(text)
        counts = {}
        if end is not None:
            counts = {word: int(count) for word, count in _COUNTS.findall(end[2] or "")}
        told = text
        if end is not None:
            told = text[text.index(_RULE) : end.start()] if _RULE in text else ""
        return Outcome(
            group=self.group,
            status=status,
            counts=counts,
            told=told,
            secs=monotonic() - self.since,
            cpu_secs=cpu_secs,
        )


def modules(names: Iterable[str], root: Path = ROOT) -> list[str]:
    """The test modules below packages, or the modules themselves.

    Raises:
        SystemExit: there is no such package or module.
    """
    found: dict[str, None] = {}
    for name in names:
        place = root.joinpath(*name.split("."))
        paths = sorted(place.rglob("test_*.py")) if place.is_dir() else [place.with_suffix(".py")]
        for path in paths:
            if not path.is_file():
                raise SystemExit(f"tests.runner: {name}: no package and no module")
            found[".".join(path.relative_to(root).with_suffix("").parts)] = None
    return list(found)


def groups(names: Iterable[str], root: Path = ROOT) -> list[tuple[str, ...]]:
    """Which modules run in one process, in the order in which they begin."""
    made: dict[str, list[str]] = {}
    for name in names:
        text = _text_of(name, root)
        shared = (each.pattern for each in SHARING if each.search(text))
        package = name.rpartition(".")[0]
        own = name if package in (*ALONE, "tests") else package
        made.setdefault(next(shared, own), []).append(name)
    return sorted(map(tuple, made.values()), key=_urgency)


def _text_of(name: str, root: Path) -> str:
    return root.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")


def part_of(name: str, root: Path = ROOT) -> str:
    """The command that runs a module: ``test``, ``fault``, or ``long`` for `make fault LONG=1`."""
    said = _RUN_BY.search(_text_of(name, root))
    if said is not None:
        return "long" if said[1] else "fault"
    return "fault" if name.rpartition(".")[0] in APART else "test"


def _urgency(group: tuple[str, ...]) -> tuple[int, int, str]:
    kinds = (n for n, first in enumerate(_FIRST) if any(one.startswith(first) for one in group))
    return next(kinds, len(_FIRST)), -len(group), group[0]


def run(
    waiting: Iterable[Sequence[str]], jobs: int, base: Path, costs: Costs | None = None
) -> Iterator[Outcome]:
    """Run groups, *jobs* at a time, and give each outcome as it comes.

    A forked child leaves it, and whoever called, by SystemExit.
    """
    queue = list(enumerate(waiting))[::-1]
    running: dict[int, Running] = {}
    while queue or running:
        while queue and len(running) < jobs:
            number, group = queue.pop()
            place = base / str(number)
            place.mkdir()
            running[_forked(partial(_become, group, place, costs))] = Running(group, place)
        pid, status, used = os.wait4(-1, 0)
        if pid in running:
            ended = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            yield ended.outcome(code, used.ru_utime + used.ru_stime)


def _forked(child: Callable[[], NoReturn]) -> int:
    """Start a child that ends with us; its pid."""
    sys.stdout.flush()
    ours = os.getpid()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != ours:
            os._exit(1)
        child()
    return pid


def _become(group: Sequence[str], place: Path, costs: Costs | None) -> NoReturn:
    """Be a trial of one group."""
    with open(place / "out", "wb") as out, open(os.devnull, "rb") as nothing:
        for number, file in ((0, nothing), (1, out), (2, out)):
            os.dup2(file.fileno(), number)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = _forked(partial(_serve, ours, its, costs))
    its.close()
    forking.adopt(ours, pid)
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    if costs is not None:
        costs.measure_tests()
    sys.argv = ["trial", "--temp-directory", str(place / "trial"), *group]
    fork_server.leaving(trial.run)
    raise AssertionError("trial has exited")


def _serve(ours: socket.socket, its: socket.socket, costs: Costs | None) -> NoReturn:
    """Be the fork server of a group."""
    ours.close()
    for first, end in ((3, its.fileno()), (its.fileno() + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(first, end)
    told = (costs.add_process,) if costs is not None else ()
    fork_server.leaving(lambda: sys.exit(fork_server.serve(its, *told)))
    raise AssertionError("the fork server has exited")


def _use_memory() -> None:
    """Keep what tests write in memory, where there is room: they wait for disks a tenth of a run.

    What a crash of the machine would leave is asked of the kernel's calls, not of a disk.
    """
    if "TMPDIR" in os.environ or not os.access(_IN_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_IN_MEMORY).free >= _ROOM_BYTES:
        os.environ["TMPDIR"] = str(_IN_MEMORY)
        tempfile.tempdir = None


def _read_constants(base: Path) -> None:
    """Let Hypothesis read all constants of svc, which it tries as examples, and what letters are.

    Each process that draws an example would parse all our modules, which takes half a second; and
    those that draw the first texts would sort all of Unicode, which takes two.
    """
    set_hypothesis_home_dir(base / "hypothesis")
    providers._get_local_constants()
    intervals_from_codec("utf-8")


def _costs(place: str) -> Costs:
    """What keeps the costs; imported where it is asked for, since it looks at all processes."""
    from tests.support.costs import Costs

    return Costs(os.path.abspath(place))


def main(words: Sequence[str]) -> int:
    """Run what was asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="tests.runner")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="say which took most")
    parser.add_argument("--costs", metavar="FILE", help="what each test and process took")
    parser.add_argument("--part", choices=("test", "fault"), help="only what `make PART` runs")
    parser.add_argument("names", nargs="*", default=["tests"])
    asked = parser.parse_args(words)
    # All share the PostgreSQL server of this run.
    os.environ.setdefault("SVC_TEST_RUN", str(os.getpid()))
    chosen = modules(asked.names)
    if asked.part is not None:
        chosen = [name for name in chosen if part_of(name) == asked.part]
    elif os.environ.get("SVC_LONG") != "1":
        # A module without a test fails, so one that is named must be there to say so.
        chosen = [name for name in chosen if name in asked.names or part_of(name) != "long"]
    waiting = groups(chosen)
    fork_server.prepare("hypothesis.stateful", "psycopg2", "svc.testing.gateway.gateway")
    began = monotonic()
    _use_memory()
    base = Path(tempfile.mkdtemp(prefix="svc-tests-"))
    tempfile.tempdir = None  # asked for again by whoever is told another environment
    if any("hypothesis" in _text_of(name, ROOT) for name in chosen):
        _read_constants(base)
    total: Counter[str] = Counter()
    cpu_secs, bad, ended = 0.0, [], []
    costs = _costs(asked.costs) if asked.costs else None
    for outcome in run(waiting, asked.jobs, base, costs):
        print(outcome, outcome.told, sep="\n" if outcome.told else "", flush=True)
        total.update(outcome.counts)
        cpu_secs += outcome.cpu_secs
        ended.append(outcome)
        if not outcome.is_good:
            bad.append(outcome)
    print(f"Ran {total.total()} tests in {monotonic() - began:.0f} s, {cpu_secs:.0f} s of CPU time")
    if asked.slowest:
        dearest = sorted(ended, key=lambda one: one.cpu_secs, reverse=True)[: asked.slowest]
        print("The dearest, by CPU time:", *dearest, sep="\n")
    counted = ", ".join(f"{word}={count}" for word, count in sorted(total.items()))
    if bad:
        print(f"FAILED ({counted}); what they left is in {base}:", *bad, sep="\n")
        return 1
    shutil.rmtree(base)
    print(f"PASSED ({counted})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

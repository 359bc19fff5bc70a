"""Starts that must be refused: run as real processes, a few at a time, and judged alike."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, field, frozen

from svc.testing.gateway.forking import Forked
from svc.testing.gateway.processes import begun, environment, svc_command

CANARY = "hunter2canary"
"""Stands where a secret might; no refusal may hold it."""

AT_ONCE = 3
SECONDS = 90.0

Tree = dict[str, tuple[int, int]]
"""Mode and size of everything in a directory, by path."""


def nothing(directory: Path) -> None:
    """No file but the configuration is needed."""


@frozen
class Start:
    """One start.

    Attributes:
        label: Names it in a failure.
        words: The command line; ``{dir}`` is a directory of its own.
        config: The text of ``{dir}/c.toml``; ``{dir}`` likewise.  None: there is no such file.
        says: What one line of stderr must hold, all of it.
        prepare: Makes further files in that directory.
    """

    label: str
    words: tuple[str, ...]
    config: str | None
    says: tuple[str, ...]
    status: int = 1
    environ: Mapping[str, str] = field(factory=dict)
    prepare: Callable[[Path], object] = nothing


@frozen
class Outcome:
    """What came of one start.

    Attributes:
        before: The directory's content before it, and ``after`` after it.
    """

    start: Start
    status: int
    stdout: str
    stderr: str
    before: Tree
    after: Tree

    @property
    def faults(self) -> Iterator[str]:
        """What is not as a refusal must be."""
        said = self.stderr.splitlines()
        if self.status != self.start.status:
            yield f"status {self.status}, not {self.start.status}"
        if not any(all(words in line for words in self.start.says) for line in said):
            yield f"no line says {' … '.join(self.start.says)!r}"
        if self.stdout:
            yield f"on stdout: {self.stdout!r}"
        if CANARY in self.stderr:
            yield "the canary is shown"
        if "Traceback" in self.stderr:
            yield "a traceback"
        if self.after != self.before:
            yield f"left behind: {sorted(set(self.after.items()) ^ set(self.before.items()))}"


def from_nothing(start: Start) -> Start:
    """The same by an interpreter of its own, whichever `svc_command` would be forked."""
    prefix = svc_command()
    assert list(start.words[: len(prefix)]) == prefix
    return evolve(start, words=(*svc_words(), *start.words[len(prefix) :]))


def svc_words(*words: str) -> list[str]:
    """``svc`` as its console script runs it: the working directory is no place of modules."""
    return [sys.executable, "-P", "-m", "svc", *words]


def outcomes(starts: Iterable[Start], directory: Path) -> Iterator[Outcome]:
    """Run them all, some at once; each in a directory of its own under *directory*."""
    running: deque[_Begun] = deque()
    for number, start in enumerate(starts):
        own = directory / str(number)
        own.mkdir(mode=0o700, parents=True)
        running.append(_begin(start, own))
        if len(running) == AT_ONCE:
            yield _ended(running.popleft())
    while running:
        yield _ended(running.popleft())


@frozen
class _Begun:
    start: Start
    own: Path
    before: Tree
    process: subprocess.Popen[bytes] | Forked
    said: tuple[Path, Path]


def _begin(start: Start, own: Path) -> _Begun:
    if start.config is not None:
        (own / "c.toml").write_text(start.config.replace("{dir}", str(own)), "utf-8")
        (own / "c.toml").chmod(0o600)
    start.prepare(own)
    before = tree(own)
    more = {name: value.replace("{dir}", str(own)) for name, value in start.environ.items()}
    words = [word.replace("{dir}", str(own)) for word in start.words]
    said = own.with_suffix(".out"), own.with_suffix(".err")
    with open(os.devnull, "rb") as nothing, said[0].open("wb") as out, said[1].open("wb") as err:
        process = begun(words, environment(own, more), own, (nothing, out, err))
    return _Begun(start=start, own=own, before=before, process=process, said=said)


def _ended(one: _Begun) -> Outcome:
    try:
        status = one.process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        one.process.kill()
        status = one.process.wait()
    said, told = (path.read_text("utf-8", "replace") for path in one.said)
    return Outcome(
        start=one.start,
        status=status,
        stdout=said,
        stderr=told,
        before=one.before,
        after=tree(one.own),
    )


def tree(directory: Path) -> Tree:
    """What is in a directory; sizes of directories do not count."""
    found: Tree = {}
    for place, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(place, name)
            status = path.lstat()
            found[str(path)] = (status.st_mode, status.st_size if name in files else 0)
    return found


def faults(starts: Sequence[Start], directory: Path) -> list[str]:
    """What was not refused as it must be; empty when all is well."""
    return [
        f"{outcome.start.label}: {'; '.join(wrong)}\n{outcome.stderr.strip()}"
        for outcome in outcomes(starts, directory)
        if (wrong := list(outcome.faults))
    ]

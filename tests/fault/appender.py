"""Appends to an Authority's log for ever, over its control socket; tells what was acknowledged.

A process of its own: ``appender DIRECTORY PREFIX``.  Each append adds a group of a name never
used before.  Its lines: ``acked NAME``, ``refused NAME REASON``.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet import task
from twisted.internet.defer import Deferred, gatherResults

from svc.cli.control import ask
from svc.errors import SvcError
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, until

_BEFORE_NEXT = 0.02
PAUSE = 0.0 if os.environ.get("SVC_LONG") == "1" else 0.03
"""After each append; in the short form most of a test is waiting, and not the appends' number."""


def tell(*words: str) -> None:
    """One line."""
    sys.stdout.write(f"{' '.join(words)}\n")
    sys.stdout.flush()


async def append(reactor: Any, wanted: Namespace, names: Iterator[int]) -> None:
    """One of those that append side by side."""
    for number in names:
        name = f"{wanted.prefix}{number}"
        request = pb.AddGroupRequest(name=name)
        try:
            await ask(reactor, wanted.directory, "AddGroup", request, pb.AddGroupResponse)
            tell("acked", name)
        except SvcError as refusal:
            tell("refused", name, refusal.reason)
            await task.deferLater(reactor, _BEFORE_NEXT)
        else:
            await task.deferLater(reactor, wanted.pause)


def main(reactor: Any, words: Sequence[str]) -> Deferred[Any]:
    """Append."""
    parser = ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("prefix")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.0)
    wanted = parser.parse_args(words)
    reactor.seconds = time.monotonic
    names = count(1)
    each = (append(reactor, wanted, names) for _ in range(wanted.at_once))
    return gatherResults([Deferred.fromCoroutine(one) for one in each])


@define(eq=False)
class Appender:
    """The process, for a test; what it says is read as it comes.

    Attributes:
        acked: Every name that was acknowledged.
        refusals: Every refusal's reason, by name.
    """

    child: Child
    acked: set[str] = field(init=False, factory=set)
    refusals: dict[str, str] = field(init=False, factory=dict)
    _read: int = field(init=False, default=0)

    @classmethod
    def started(cls, directory: Path, home: Path, at_once: int = 2) -> Appender:
        """Begin to append to the Authority whose state directory this is."""
        prefix = f"g{os.urandom(3).hex()}-"
        words = [sys.executable, "-m", "tests.fault.appender", str(directory), prefix]
        child = Child(
            name="appender",
            words=[*words, "--at-once", str(at_once), "--pause", str(PAUSE)],
            home=home,
            log=home / f"{prefix}.log",
        )
        child.start()
        return cls(child)

    def look(self) -> int:
        """Read what has come; how many appends were acknowledged so far."""
        with self.child.log.open("rb") as log:
            log.seek(self._read)
            data = log.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in filter(None, whole.decode("utf-8", "replace").splitlines()):
            what, *rest = line.split()
            if what == "acked":
                self.acked.add(rest[0])
            elif what == "refused":
                self.refusals[rest[0]] = rest[1]
            else:
                raise AssertionError(data.decode("utf-8", "replace"))
        return len(self.acked)

    def await_acked(self, more: int = 1, seconds: float = TIMEOUT_SECS) -> None:
        """Wait until so many more were acknowledged."""
        goal = self.look() + more
        until(f"{more} acknowledged", lambda: self.look() >= goal, seconds, [self.child])

    def await_refused(self, more: int = 1, seconds: float = TIMEOUT_SECS) -> None:
        """Wait until so many more were refused."""
        self.look()
        goal = len(self.refusals) + more

        def enough() -> bool:
            self.look()
            return len(self.refusals) >= goal

        until(f"{more} refused", enough, seconds, [self.child])


if __name__ == "__main__":
    task.react(main, [sys.argv[1:]])

"""The code map is true: each function of a walk is there, and names the next one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from tests.support.sources import trees

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "code-map.md"
_STEP = re.compile(r"^(\d+)\. `([\w/.]+)` `([\w.]+)`: \S")
_BACK = re.compile(r"^Back in step (\d+)")


@frozen
class Step:
    """A function of a walk; *after* is the one that names it, None where none of ours does."""

    number: int
    path: str
    name: str
    after: Step | None

    @property
    def room(self) -> str:
        """The room that the function is in."""
        return self.path.split("/")[1]

    @property
    def callers(self) -> Iterator[Step]:
        """Who called it, the nearest first."""
        above = self.after
        while above is not None:
            yield above
            above = above.after


@cache
def functions(path: str) -> dict[str, str]:
    """The text of each function of a file, by its name with its class."""
    lines = (ROOT / path).read_text("utf-8").splitlines()
    found = {}
    for node in trees()[Path(path)].body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        before = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                found[before + one.name] = "\n".join(lines[one.lineno - 1 : one.end_lineno])
    return found


def walks() -> dict[str, list[Step]]:
    """The walks of the page, by their headings."""
    found: dict[str, list[Step]] = {}
    after: Step | None = None
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            steps = found.setdefault(line[3:], [])
            after = None
        elif match := _STEP.match(line):
            after = Step(number=int(match[1]), path=match[2], name=match[3], after=after)
            steps.append(after)
        elif match := _BACK.match(line):
            (after,) = (one for one in steps if one.number == int(match[1]))
        elif line and found:
            after = None
    return found


class CodeMapTests(SynchronousTestCase):
    """The walks of the page."""

    def test_walks(self) -> None:
        """Steps are numbered in order, in files and functions that there are."""
        self.assertEqual(len(walks()), 9)
        for title, steps in walks().items():
            self.assertEqual([one.number for one in steps], list(range(1, len(steps) + 1)), title)
            self.assertGreater(len(steps), 5, title)
            missing = [
                f"{one.path} {one.name}" for one in steps if one.name not in functions(one.path)
            ]
            self.assertEqual(missing, [], title)

    def test_no_room_again(self) -> None:
        """A call that leaves a room does not come back to it by another call."""
        for title, steps in walks().items():
            again = []
            for one in steps:
                rooms = [room for room, _ in groupby(each.room for each in one.callers)]
                if rooms and one.room in rooms[1:]:
                    again.append(f"{one.number} {one.name}: {one.room} again")
            self.assertEqual(again, [], title)

    def test_each_names_the_next(self) -> None:
        """A function calls the one that follows it, or hands it on."""
        for title, steps in walks().items():
            lost = [
                f"{one.after.number} {one.after.name} -> {one.number} {one.name}"
                for one in steps
                if one.after is not None
                and not re.search(
                    rf"\b{one.name.rpartition('.')[2]}\b",
                    functions(one.after.path)[one.after.name],
                )
            ]
            self.assertEqual(lost, [], title)

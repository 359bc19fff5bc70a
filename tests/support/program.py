"""Runs the Python text in its first argument, with the others as that program's own.

As a module of the tests it is forked from a process that has imported svc, which ``python -c``
would do anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

PROGRAM = (sys.executable, "-m", "tests.support.program")


def program(text: str, *arguments: str) -> Sequence[str]:
    """The command that runs *text*."""
    return [*PROGRAM, text, *arguments]


if __name__ == "__main__":
    exec(compile(sys.argv.pop(1), "<program>", "exec"), {"__name__": "__main__"})
    sys.exit()

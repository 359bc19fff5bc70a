"""Where ``svc`` begins: with nothing of the environment's on the path of its modules (rule R21).

Python itself obeys variables such as ``PYTHONPATH`` before a line of ours runs: what they bring is
imported in place of our modules, in a process that holds keys.  So a process that finds one of
them starts the program again without it, and ``proxy-ssh``, which ssh starts for a person, refuses.
Only what this module needs is imported before that.  ``proxy-ssh`` then looks for a resident that
carries its session, so that nothing else has to be imported.

What it does not do: a ``sitecustomize`` on such a path has run in the first process by then, as
the same user.  Whoever may set the environment of a process is not kept from harm by the process;
what is kept out is a variable that was set for something else.
"""

from __future__ import annotations

import os
import sys

from svc.runtime.python_environment import obeyed, why_not, without_them

TYPE_CHECKING = False  # as in typing, which takes longer to import than all that stands here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
_HOME = os.path.dirname(os.path.dirname(_MAIN))
_PROXY_SSH = "proxy-ssh"


def main() -> int:
    """Run one command of ``svc``; the exit status."""
    found = [] if sys.flags.ignore_environment else obeyed(os.environ)
    if found and command(sys.argv[1:]) == _PROXY_SSH:
        return _refused(
            f"proxy-ssh: {why_not(found)}, as `env {_without(found)} svc proxy-ssh` does"
        )
    if found:
        try:
            os.execve(sys.executable, again(sys.argv, os.environ), without_them(os.environ))
        except OSError as error:
            return _refused(f"{sys.executable}: cannot be re-executed: {error.strerror}")
    script = sys.argv[0]
    if os.path.isabs(script) and sys.path[:1] == [os.path.dirname(os.path.realpath(script))]:
        del sys.path[0]  # where the script lies there are no modules of ours
    if command(sys.argv[1:]) == _PROXY_SSH:
        from svc.client.hand_over import hand_over

        status = hand_over(sys.argv[1:], os.environ)
        if status is not None:
            return status
    try:
        from svc.cli import main as run

        return run()
    except ModuleNotFoundError as error:  # many are imported only where they are needed
        return _refused(
            f"there is no module {error.name}; svc takes none from PYTHONPATH: install svc, and "
            "what it needs, into one environment"
        )


def _refused(text: str) -> int:
    sys.stderr.write(f"svc: {text}\n")
    return 1


def _without(found: Sequence[str]) -> str:
    return " ".join(f"-u {name}" for name in found)


def again(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What starts the program of *words* again; the working directory is no place of modules.

    As it was called, for what it says of itself; by its path where only ``PYTHONPATH`` leads to
    our package.
    """
    script = words[0]
    places = environ.get("PYTHONPATH", "").split(os.pathsep)
    is_led = any(place and os.path.realpath(place) == os.path.realpath(_HOME) for place in places)
    if is_led or not os.path.isfile(script):
        script = _MAIN
    return [sys.executable, "-P", script, *words[1:]]


def command(words: Sequence[str]) -> str:
    """The command among the words of a command line; empty where there is none."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word in ("--config", "-c"):
            del left[:1]
        elif not word.startswith("-"):
            return word
    return ""

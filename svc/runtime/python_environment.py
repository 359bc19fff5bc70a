"""Finds environment variables that make Python load foreign modules (rule R21).

Imported before anything else of the program, so it imports next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which imports much
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HARMLESS = frozenset(
    {
        "PYTHONCOERCECLOCALE",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONFAULTHANDLER",
        "PYTHONIOENCODING",
        "PYTHONNODEBUGRANGES",
        "PYTHONNOUSERSITE",
        "PYTHONSAFEPATH",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
    }
)
"""Variables of Python that neither bring code nor change what ours does; they stay."""


def obeyed(environ: Mapping[str, str]) -> list[str]:
    """The variables of Python in *environ* that are not harmless; an empty one has no effect."""
    return sorted(
        name
        for name, value in environ.items()
        if value and name.startswith("PYTHON") and name not in HARMLESS
    )


def without_them(environ: Mapping[str, str]) -> dict[str, str]:
    """The same without those variables, for this program and all that it starts."""
    found = obeyed(environ)
    return {name: value for name, value in environ.items() if name not in found}


def why_not(found: Sequence[str]) -> str:
    """What is wrong with an environment that holds these variables, and what to do."""
    return (
        f"{', '.join(found)} in the environment: it lets Python load modules or settings into "
        "a process that holds keys; unset it and start again"
    )

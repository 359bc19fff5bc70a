"""How the interpreter was built that runs our side: without optimisations it is slower by a lot."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Mapping

from attrs import frozen

MARK = "*"
"""Stands after each figure of ours that an interpreter without optimisations made."""

_WORDS = {True: "yes", False: "no", None: "unknown"}


@frozen
class Build:
    """What the interpreter says of its own build.

    Attributes:
        has_pgo: Optimised by a profile of its running (``--enable-optimizations``); None: it does
            not say.
        has_lto: Optimised as a whole when it was linked (``--with-lto``); None likewise.
        flags: The words given to its ``configure``.
    """

    version: str
    has_pgo: bool | None
    has_lto: bool | None
    flags: str

    @property
    def mark(self) -> str:
        """What stands after a figure of ours."""
        return MARK if self.has_pgo is False else ""

    def text(self) -> str:
        """Two or three lines for people."""
        pgo, lto = (_WORDS[each] for each in (self.has_pgo, self.has_lto))
        said = f"interpreter: {self.version}, PGO {pgo}, LTO {lto}\nconfigured: {self.flags or '-'}"
        if not self.mark:
            return said
        return (
            f"{said}\n{MARK} after a figure of ours: made by an interpreter without optimisations;"
            " one that has them (configure --enable-optimizations --with-lto) is quicker"
        )


def this_build() -> Build:
    """Of this interpreter, which runs every process of ours."""
    return build_of(sysconfig.get_config_vars())


def build_of(said: Mapping[str, object]) -> Build:
    """The build that ``sysconfig`` tells of."""
    flags = str(said.get("CONFIG_ARGS") or "")
    compiled = " ".join(
        str(said.get(name) or "")
        for name in ("PY_CFLAGS", "PY_CFLAGS_NODIST", "PY_CORE_CFLAGS", "PY_LDFLAGS_NODIST")
    )
    # Debian optimises by a profile, and takes the flags of that out of what its build says.
    otherwise = False if said.get("PGO_PROF_USE_FLAG") else None
    has_pgo = "--enable-optimizations" in flags or "-fprofile-use" in compiled
    has_lto = "--with-lto" in flags.replace("--with-lto=no", "") or "-flto" in compiled
    return Build(
        version=f"{platform.python_implementation()} {platform.python_version()}",
        has_pgo=has_pgo or otherwise,
        has_lto=has_lto or otherwise,
        flags=flags,
    )

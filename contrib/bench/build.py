"""How the interpreter was built that runs our side: without optimisations it is slower by a lot."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Mapping

from attrs import frozen

MARK = "*"
"""Stands after each figure of ours that an interpreter without optimisations made."""


@frozen
class Build:
    """What the interpreter says of its own build.

    Attributes:
        has_pgo: Optimised by a profile of its running (``--enable-optimizations``).
        has_lto: Optimised as a whole when it was linked (``--with-lto``).
        flags: The words given to its ``configure``.
    """

    version: str
    has_pgo: bool
    has_lto: bool
    flags: str

    @property
    def mark(self) -> str:
        """What stands after a figure of ours."""
        return "" if self.has_pgo else MARK

    def text(self) -> str:
        """Two or three lines for people."""
        pgo, lto = ("yes" if each else "no" for each in (self.has_pgo, self.has_lto))
        said = f"interpreter: {self.version}, PGO {pgo}, LTO {lto}\nconfigured: {self.flags or '-'}"
        if self.has_pgo:
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
    return Build(
        version=f"{platform.python_implementation()} {platform.python_version()}",
        has_pgo="--enable-optimizations" in flags or "-fprofile-use" in compiled,
        has_lto="--with-lto" in flags.replace("--with-lto=no", "") or "-flto" in compiled,
        flags=flags,
    )

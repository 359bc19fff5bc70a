"""Which program a unit runs, and whether it lies where a service can rely on it."""

from __future__ import annotations

import os
import pwd
import sys
import tempfile
from collections.abc import Iterable, Mapping

from attrs import frozen

import svc
from svc.setup.units.machine import ServiceRefused

_HOMES = ("/home", "/root", "/run/user")
_TEMPORARY = ("/tmp", "/var/tmp")

ONE_FILE = "svc-one-file.json"
"""Lies where an executable of a release unpacked itself (``contrib/release``)."""


@frozen
class Program:
    """The program of a unit.

    Attributes:
        words: The first words of its command line.
        parts: Every file that it is made of, or one of each place.
        unpacks: Whether it unpacks itself into a cache of the account that runs it.
    """

    words: tuple[str, ...]
    parts: tuple[str, ...]
    unpacks: bool = False


@frozen
class UnfitPlaces:
    """Directories that are none of a service's.

    Attributes:
        homes: Of persons.
        temporary: Which are emptied now and then, and which everybody may write to.
        hidden: What ``ProtectHome`` and ``PrivateTmp`` of a unit keep from its process.
    """

    homes: tuple[str, ...]
    temporary: tuple[str, ...]
    hidden: tuple[str, ...]


def this_program() -> Program:
    """The ``svc`` that runs: the one file, the script beside its interpreter, or a module."""
    interpreter, library = os.path.abspath(sys.executable), os.path.abspath(os.__file__)
    if os.path.isfile(os.path.join(sys.prefix, ONE_FILE)):
        file = os.path.abspath(sys.argv[0])
        used = (os.path.realpath(interpreter), library)
        # The static file brings its own Python, which the account of the unit unpacks as well.
        beside = (part for part in used if not lies_in(part, (sys.prefix,)))
        return Program((file,), (file, *beside), unpacks=True)
    script = os.path.join(os.path.dirname(interpreter), "svc")
    words = (script,) if os.access(script, os.X_OK) else (interpreter, "-P", "-m", "svc")
    package = os.path.abspath(svc.__file__)
    return Program(words, (words[0], interpreter, package, library))


def places(environ: Mapping[str, str]) -> UnfitPlaces:
    """Home and temporary directories of this machine and of whoever runs the command."""
    homes = list(_HOMES)
    for text in (str(os.getuid()), environ.get("SUDO_UID", "")):
        try:
            homes.append(pwd.getpwuid(int(text)).pw_dir)
        except (KeyError, ValueError, OverflowError):
            continue  # Nobody of that number: no home.
    temporary = (*_TEMPORARY, "/dev/shm", tempfile.gettempdir())
    return UnfitPlaces(
        homes=tuple(filter(_is_deep, homes)),
        temporary=tuple(filter(_is_deep, temporary)),
        hidden=(*_HOMES, *_TEMPORARY),
    )


def _is_deep(directory: str) -> bool:
    """Whether it is a directory of somebody's own; the home of many an account is ``/``."""
    return os.path.isabs(directory) and os.path.normpath(directory) != "/"


def check_program(program: Program, role: str, found: UnfitPlaces) -> None:
    """Refuse a program that lies in a home (for a server) or temporary directory.

    Raises:
        ServiceRefused: naming what lies where.
    """
    homes = () if role == "client" else found.homes
    for part in program.parts:
        for what, directories in (("temporary", found.temporary), ("home", homes)):
            if place := lies_in(part, directories):
                real = os.path.realpath(part)
                led = "" if real == os.path.normpath(part) else f" (a link to {real})"
                raise ServiceRefused(
                    f"{part}{led}: lies in the {what} directory {place}, where no unit's program "
                    "may lie; install svc and its Python elsewhere, for example in /opt/svc, and "
                    "give the same command to /opt/svc/bin/svc",
                    reason="program_place",
                )


def lies_in(path: str, directories: Iterable[str]) -> str | None:
    """The directory that holds the path, by its name or once links are followed."""
    names = {os.path.normpath(path), os.path.realpath(path)}
    for directory in directories:
        for place in {os.path.normpath(directory), os.path.realpath(directory)}:
            if any(name == place or name.startswith(f"{place}/") for name in names):
                return directory
    return None

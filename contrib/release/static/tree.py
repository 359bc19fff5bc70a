"""Lays out what the static file unpacks: a Python that finds everything beside it.

===================== =============================================================================
``bin/python3``       the launcher, by which processes of svc start this Python
``lib/svc``           glibc's loader, by the name that the process has
``lib/python``        CPython
``lib/*.so.N``        libraries that the loader finds
``lib/python3.11``    the standard library, and every package beside it: no ``site`` is needed,
                      which on Debian would look into directories of the machine
``start.py``          what the launcher runs
``share/doc``         the terms of each Debian package, and the licenses that they name
===================== =============================================================================
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from contrib.release.plan import ReleaseRefused

PYTHON = "3.11"
"""Of Debian 12."""

LOADER = "ld-linux-x86-64.so.2"
START = b"""import sys
del sys.argv[0]
from svc.start import main
sys.exit(main())
"""
"""Its first argument is the file that was called: svc sees it as its own name."""

_LIBRARY = f"usr/lib/python{PYTHON}"
_LICENSES = "usr/share/common-licenses"
_PLACES = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")
_FOR_ITSELF = ("libgcc_s.so.1",)
"""glibc loads it by its name when a thread is cancelled."""

_UNUSED = re.compile(
    r"(.*/)?(__pycache__|test|tests|idlelib|lib2to3|ensurepip|turtledemo|tkinter|pydoc_data|distutils"
    r"|venv|config-[^/]*|curses|dbm)/.*"
    r"|.*/(_test\w*|_xx\w*|xxlimited\w*|_ctypes_test|readline|_curses\w*|_dbm|nis|ossaudiodev"
    r"|_tkinter|_crypt)\.[^/]*so"
    r"|(turtle|antigravity|this|sitecustomize|crypt)\.py"
)
"""Of the standard library: tests, drawing, installing, and what needs further libraries."""

_UNUSED_THERE = re.compile(
    r"(.*/)?(test|tests|newsfragments|__pycache__)/.*|.*\.(c|h|pyx|pxd|cpp)|[^/]*\.pth"
    r"|(_distutils_hack|setuptools[^/]*|pkg_resources)/.*"
)
"""Of the packages: tests, and what only compilers and installers read."""


def lay_tree(root: Path, debian: Path, files: Mapping[str, bytes]) -> None:
    """Lay out everything but the launcher and byte code in the new directory *root*.

    Args:
        debian: Where the packages of Debian were unpacked.
        files: What wheels install, by its path below ``lib/python3.11/site-packages``.

    Raises:
        ReleaseRefused: something is missing, or there twice.
    """
    modules = debian / _LIBRARY
    for path in sorted(modules.rglob("*")):
        name = path.relative_to(modules).as_posix()
        if path.is_file() and not _UNUSED.fullmatch(name):
            _put(root / "lib" / f"python{PYTHON}" / name, path.read_bytes())
    site = f"lib/python{PYTHON}/site-packages/"
    for name, data in sorted(files.items()):
        inner = name.removeprefix(site)
        if not _UNUSED_THERE.fullmatch(inner):
            _put(root / "lib" / f"python{PYTHON}" / inner if inner != name else root / name, data)
    _put(root / "start.py", START)
    _put(root / "lib/python", (debian / f"usr/bin/python{PYTHON}").read_bytes(), 0o755)
    _put(root / "lib/svc", _found(debian, LOADER).read_bytes(), 0o755)
    lay_libraries(root, debian)
    for path in sorted((debian / "usr/share/doc").glob("*/copyright")):
        if path.is_file():  # a link to that of another package is followed
            _put(root / "share/doc" / path.parent.name / path.name, path.read_bytes())
    for path in sorted((debian / _LICENSES).iterdir()):
        _put(root / "share/doc" / path.name, path.read_bytes())


def lay_libraries(root: Path, debian: Path) -> None:
    """Put in what the libraries and programs there need, and what that needs.

    Raises:
        ReleaseRefused: no package has one of them.
    """
    objects = [path for path in sorted(root.rglob("*")) if _is_object(path)]
    there, needed = {path.name for path in objects}, {*_FOR_ITSELF, *_needed_by(objects)}
    while missing := sorted(needed - there):
        for name in missing:
            mode = 0o755 if name == LOADER else 0o644
            _put(root / "lib" / name, _found(debian, name).read_bytes(), mode)
        there.update(missing)
        needed = _needed_by(root / "lib" / name for name in missing)


def _is_object(path: Path) -> bool:
    """Whether it is a program or a library."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _needed_by(objects: Iterable[Path]) -> set[str]:
    """The names of the libraries that these name."""
    words = ["readelf", "--dynamic", "--wide", *map(str, objects)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise ReleaseRefused(f"readelf: status {done.returncode}\n{done.stderr}")
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout))


def _found(debian: Path, name: str) -> Path:
    for place in _PLACES:
        if (debian / place / name).exists():
            return debian / place / name
    raise ReleaseRefused(f"{name}: is needed, and no package of Debian that is taken has it")


def _put(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        raise ReleaseRefused(f"{path.name}: is brought by two packages, as {path}")
    path.write_bytes(data)
    path.chmod(mode)

"""The one file: an executable archive of svc and every library, with the launcher in front.

It is a zip behind a first line for the shell, which Python runs by its ``__main__.py``
(:mod:`contrib.release.launcher`).  Wheels go into it as pip would install them, in order and
without times: the same wheels give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from contrib.release.launcher import ABOUT, MAIN
from contrib.release.plan import ReleaseRefused
from svc.model.release import Version

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The libraries are compiled for one minor version of Python: that which builds."""

MACHINE = platform.machine()
TARGET = f"{MACHINE}-unknown-linux-gnu-cp{PYTHON.replace('.', '')}"

_LAUNCHER = Path(__file__).with_name("launcher.py")
_TIME = (1980, 1, 1, 0, 0, 0)
_DATA = re.compile(r"[^/]+\.data/(purelib|platlib|data|scripts|headers)/(.+)")
_GLIBC = (28, 27, 26, 25, 24, 17, 12, 5)
"""glibc 2.N of the wheels that are taken: what is built does not depend on the builder's own."""

_DIGEST_DIGITS = 16


def locked_wheels(locked: Path, to: Path) -> list[Path]:
    """Download the wheel of each locked library, if its hash is that of the lock.

    Args:
        locked: ``requirements/runtime.txt``.

    Raises:
        ReleaseRefused: one cannot be had.
    """
    words = ["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    words += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp"]
    words += ["--python-version", PYTHON]
    for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none"):
        words += ["--abi", abi]
    named = [f"manylinux_2_{minor}_{MACHINE}" for minor in _GLIBC]
    named += [f"manylinux{name}_{MACHINE}" for name in ("2014", "2010", "1")]
    for name in named:
        words += ["--platform", name]
    words += ["--dest", str(to), "--requirement", str(locked)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        raise ReleaseRefused(f"the locked libraries cannot be had:\n{done.stdout}{done.stderr}")
    return sorted(to.glob("*.whl"))


def write_one_file(path: Path, version: Version, wheels: Iterable[Path]) -> None:
    """Write the executable.

    Args:
        wheels: Of svc and of each library.

    Raises:
        ReleaseRefused: two wheels have the same file with other bytes.
    """
    members = installed_files(wheels)
    digest = hashlib.sha256()
    for name, data in sorted(members.items()):
        digest.update(f"{hashlib.sha256(data).hexdigest()} {name}\n".encode())
    about = {
        "name": f"{version}-{digest.hexdigest()[:_DIGEST_DIGITS]}",
        "python": PYTHON,
        "machine": MACHINE,
    }
    members[ABOUT] = json.dumps(about, sort_keys=True).encode() + b"\n"
    members[MAIN] = _LAUNCHER.read_bytes()
    with path.open("wb") as file:
        file.write(f"#!/usr/bin/env -S python{PYTHON} -I\n".encode())
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in sorted(members.items()):
                info = zipfile.ZipInfo(name, _TIME)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, data)
    path.chmod(0o755)


def installed_files(wheels: Iterable[Path]) -> dict[str, bytes]:
    """The content of what these wheels install together, by where it lies in an environment.

    Raises:
        ReleaseRefused: two wheels have the same file with other bytes.
    """
    members: dict[str, bytes] = {}
    for wheel in sorted(wheels, key=lambda one: one.name):
        for name, data in _installed(wheel):
            if members.setdefault(name, data) != data:
                raise ReleaseRefused(f"{wheel.name}: brings {name}, which another wheel has too")
    return members


def _installed(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel, by where they lie in an environment; scripts and headers are not."""
    site = f"lib/python{PYTHON}/site-packages"
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if name.endswith("/"):
                continue
            found = _DATA.fullmatch(name)
            if found is None:
                yield f"{site}/{name}", files.read(name)
            elif found[1] in ("purelib", "platlib"):
                yield f"{site}/{found[2]}", files.read(name)
            elif found[1] == "data":
                yield found[2], files.read(name)

"""The packages of Debian 12 of the static file: by their lock, or as installed here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from contrib.release.plan import ReleaseRefused

LOCK = Path("contrib/release/static/packages.lock")
"""Below the root of a checkout."""

UNPACKED = (
    "base-files",
    "gcc-12-base",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    "python3.11-minimal",
    "zlib1g",
)
"""What lies in the archive: CPython, the C library, what CPython needs, and the terms of all."""

LINKED = ("libmd-dev", "musl-dev", "zlib1g-dev")
"""What the launcher is linked with."""

_SUITE = "bookworm"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@frozen
class Package:
    """A package of Debian for x86-64.

    Attributes:
        digest: SHA-256 of its ``.deb`` in hex; empty of one that is installed here.
    """

    name: str
    version: str
    digest: str = ""

    @property
    def purl(self) -> str:
        """Its name in a bill of materials."""
        version = self.version.replace(":", "%3A").replace("+", "%2B")
        return f"pkg:deb/debian/{self.name}@{version}?arch=amd64&distro={_SUITE}"


def locked_packages(text: str) -> tuple[Package, ...]:
    """The packages of a lock.

    Raises:
        ReleaseRefused: it is none, or does not have each package once.
    """
    lines = [line.split(" ") for line in text.splitlines()]
    if not all(len(words) == 3 and _SHA256.fullmatch(words[2]) for words in lines):
        raise ReleaseRefused(f"{LOCK.name}: a line is no name, version and SHA-256 in hex")
    if sorted(words[0] for words in lines) != sorted(UNPACKED + LINKED):
        raise ReleaseRefused(f"{LOCK.name}: does not name each package once; make it again")
    return tuple(Package(*words) for words in lines)


def offered() -> Iterator[Package]:
    """What apt would install now.  Raises ReleaseRefused: it knows none of a name."""
    for name in sorted(UNPACKED + LINKED):
        told = _run("apt-cache", "show", "--no-all-versions", f"{name}:amd64")
        fields = dict(re.findall(r"^(Version|SHA256): (.+)$", told, re.M))
        yield Package(name, fields["Version"], fields["SHA256"])


def unpack_locked(packages: Iterable[Package], to: Path) -> None:
    """Download packages, and unpack those whose digest is that of the lock into the new *to*.

    Raises:
        ReleaseRefused: one cannot be had, or is another one.
    """
    packages, place = tuple(packages), to.with_name(f"{to.name}-downloads")
    place.mkdir(parents=True)
    words = [f"{one.name}:amd64={one.version}" for one in packages]
    _run("apt-get", "--quiet", "download", *words, cwd=place)
    unpack_packages(packages, place, to)


def unpack_packages(packages: Iterable[Package], place: Path, to: Path) -> None:
    """Unpack what lies in *place* as ``NAME_VERSION_ARCH.deb``, likewise."""
    to.mkdir()
    for one in packages:
        found = list(place.glob(f"{one.name}_{one.version.replace(':', '%3a')}_*.deb"))
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in found]
        if digests != [one.digest]:
            raise ReleaseRefused(
                f"{one.name} {one.version}: what was downloaded is not the package of {LOCK.name}"
            )
        _run("dpkg-deb", "--extract", str(found[0]), str(to))


def copy_installed(to: Path) -> tuple[Package, ...]:
    """Copy the files of the packages that are installed here into the new *to*; which they are.

    A test takes them: those of the lock would have to be downloaded.

    Raises:
        ReleaseRefused: not all are installed.
    """
    found = []
    for name in UNPACKED + LINKED:
        shown = "${db:Status-Status} ${Version} ${Architecture}"
        words = ("dpkg-query", "--show", f"--showformat={shown}\n", name)
        status, _, rest = _run(*words).strip().partition(" ")
        version, _, architecture = rest.partition(" ")
        if status != "installed" or architecture != "amd64":
            raise ReleaseRefused(f"the Debian package {name} is not installed for amd64")
        found.append(Package(name, version))
        for line in _run("dpkg-query", "--listfiles", name).splitlines():
            _copy(line, to)
    return tuple(found)


def _copy(path: str, to: Path) -> None:
    """A file, or a link as one; of an excluded one, such as documentation, there is none here."""
    if os.path.isdir(path) or not os.path.exists(path):
        return
    there = to / path.lstrip("/")
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, there)


def _run(*words: str, cwd: Path | None = None) -> str:
    """What a tool of Debian prints.  Raises ReleaseRefused: there is none, or it failed."""
    environ = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True)
    except FileNotFoundError:
        raise ReleaseRefused(
            f"{words[0]} is not installed: the static file is made on Debian 12"
        ) from None
    if done.returncode:
        raise ReleaseRefused(f"{' '.join(words)}: status {done.returncode}\n{done.stderr}")
    return done.stdout

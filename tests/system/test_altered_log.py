"""A store that is altered under a running gateway: nobody is let in, and it heals."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.monitor import LOOK_SECS
from svc.testing.gateway.gateway import Gateway, init_gateway, make_gateway
from svc.testing.gateway.processes import TooLate, run, until
from svc.testing.gateway.settings import AUTHORITY
from tests.system.world import around

RUN_BY = "make fault"

_RARE = {"audit.head_after_secs": 3600.0, "audit.head_every_records": 100_000}
"""So that a record stays behind the last head for long, where only looking at it helps."""


def carries(endpoint: tuple[str, int]) -> bool:
    """Whether a session comes about there, and carries something."""
    try:
        with socket.create_connection(endpoint, 30) as peer:
            peer.sendall(b"hello")
            return peer.recv(5) == b"hello"
    except OSError:
        return False


class AlteredLogTests(SynchronousTestCase):
    """Four processes, and a person who comes and goes."""

    def setUp(self) -> None:
        echo = [one for one in around().resources if one.id == "echo"]
        self.gateway = make_gateway(echo, numbers=_RARE | {"snapshot.reload_secs": LOOK_SECS})
        self.addCleanup(self.gateway.end)
        self.person = self.gateway.add_person("ada", "ops")
        self.person.up("echo")
        self.child = self.gateway.child(AUTHORITY)
        self.opened()
        # The first one comes soon, whatever is configured; what these tests alter comes after it.
        first = self.gateway.files.state(AUTHORITY) / "anchor" / "latest"
        until("the first head", first.exists, alive=[self.child])

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Do something to the store behind everybody's back."""
        with closing(sqlite3.connect(self.gateway.files.store, timeout=10)) as store, store:
            return store.execute(statement, values).fetchall()

    def is_open(self) -> bool:
        """Whether a session comes about, and carries something."""
        return carries(self.person.endpoint("echo"))

    def opened(self) -> None:
        """Open a session, once that is possible again."""
        until("a session opens", self.is_open, alive=[self.child])

    def sessions(self) -> int:
        """How many sessions Authority remembers."""
        return int(self.sql("SELECT count(*) FROM sessions")[0][0])

    def not_ready(self, reason: str) -> None:
        """Wait until Authority says that it is not ready, and why; nobody is let in then."""

        def look() -> bool:
            status, body = self.gateway.get(AUTHORITY, "/readyz")
            return status == 503 and reason in body

        until(f"not ready by {reason}", look, alive=[self.child])
        before = self.sessions()
        for _ in range(3):
            self.assertFalse(self.is_open())
        self.assertEqual(self.sessions(), before)
        self.assertEqual(self.person.refused("echo")["reason"], reason)

    def ready(self) -> None:
        """All is well again: a session opens, and the log verifies."""
        self.gateway.await_ready(AUTHORITY)
        self.opened()
        self.assertEqual(self.gateway.operator("audit", "verify").status, 0)
        self.assertNotIn("Traceback", self.child.text())
        self.assertNotIn("internal", self.child.text())

    def test_a_record_behind_the_last_head(self) -> None:
        """One that does not verify is named by the next pass, hours before a head is due."""
        # What is written while the first head is, has another soon, which could not be signed.
        self.child.stop()
        self.gateway.start(AUTHORITY)
        self.opened()
        newest = "SELECT seq, canonical FROM audit_log ORDER BY seq DESC LIMIT 1"
        change = "UPDATE audit_log SET canonical = ? WHERE seq = ?"
        [[seq, text]] = self.sql(newest)

        def altered() -> bool:
            """Alter one that no pass has looked at; true once one was found."""
            nonlocal seq, text
            self.sql(change, text, seq)
            self.is_open()
            [[seq, text]] = self.sql(newest)
            self.sql(change, text.replace('"event"', '"Event"'), seq)
            try:
                said = f"record {seq} does not verify"
                until("a pass finds it", lambda: said in self.child.text(), 2 * LOOK_SECS)
            except TooLate:
                return False  # a pass had looked at it just before
            return True

        until("a record is altered between two passes", altered, 60, [self.child])
        self.not_ready("audit_broken")
        self.sql(change, text, seq)
        self.ready()

    def test_rows_that_vanish(self) -> None:
        """A store that drops each record as it is inserted grants nothing at all."""
        before = self.sessions()
        self.sql(
            "CREATE TRIGGER vanish AFTER INSERT ON audit_log BEGIN "
            "DELETE FROM audit_log WHERE seq = new.seq; END"
        )
        self.assertFalse(self.is_open())
        self.not_ready("audit_record_lost")
        self.assertEqual(self.sessions(), before)
        self.sql("DROP TRIGGER vanish")
        self.ready()


class AdoptedTests(SynchronousTestCase):
    """An Authority that was killed, and whose store was altered before it came back."""

    def use(self, gateway: Gateway) -> Gateway:
        """Look at its Authority, and end it with the test."""
        self.gateway = gateway
        self.addCleanup(gateway.end)
        return gateway

    def sql(self, statement: str) -> list[Any]:
        """Change the store of an Authority that has ended."""
        with closing(sqlite3.connect(self.gateway.files.store, timeout=10)) as store, store:
            return store.execute(statement).fetchall()

    def refused(self) -> None:
        """It does not start, and says what to do."""
        refused = run(self.child.words, self.gateway.directory)
        self.assertEqual(refused.status, 6, refused.stderr)
        self.assertNotIn("Traceback", refused.stderr)
        config = self.gateway.files.config(self.child.name)
        self.assertIn(f"svc --config {config} authority audit adopt", refused.stderr)

    def adopted(self, *said: str) -> None:
        """What is lost is said, and with a reason the Authority goes on."""
        shown = self.gateway.operator("audit", "adopt").stdout
        for each in said:
            self.assertIn(each, shown)
        self.gateway.operator("audit", "adopt", "--reason", "somebody altered it")
        self.gateway.start(AUTHORITY)
        self.gateway.await_ready(AUTHORITY)
        self.assertEqual(self.gateway.operator("audit", "verify").status, 0)

    def last(self) -> int:
        """The number of the newest record."""
        return int(self.gateway.status()["audit_seq"])

    def unsigned(self) -> set[str]:
        """The rows that no signed record stands behind."""
        return set(self.gateway.status()["unsigned"])

    def test_life(self) -> None:
        """Records no head covers are altered; one that a head covers is; the newest are deleted."""
        gateway = self.use(init_gateway(numbers=_RARE))
        gateway.make_authority()
        self.child = gateway.child(AUTHORITY)
        anchor = gateway.files.state(AUTHORITY) / "anchor"
        until("a head", (anchor / "latest").exists, alive=[self.child])
        at = self.last()
        for name in ("one", "two", "three"):
            gateway.operator("groups", "add", name)
        self.child.kill()
        self.alter(at + 1)
        self.refused()
        self.adopted(f"lost: 3 records, from {at + 1} to {at + 3}: record {at + 1} does not verify")
        [aside] = anchor.glob("cut-*.jsonl")
        self.assertEqual(len(aside.read_text().splitlines()), 3)
        shown = gateway.operator("audit", "show", "--json").json
        [cut] = [one for one in shown if one["event"] == "audit.cut"]
        self.assertEqual((cut["details"]["first_n"], cut["details"]["count"]), (at + 1, 3))
        self.assertLessEqual({"group:one", "group:three", "group:two"}, self.unsigned())

        at = self.last()
        for name in ("four", "five"):
            gateway.operator("groups", "add", name)
        self.child.stop()
        self.alter(at + 1)
        self.assertEqual(gateway.operator("audit", "verify", check=False).status, 6)
        self.adopted("newest signed head: ", f"record {at + 1} does not verify")

        at = self.last()
        gateway.operator("groups", "add", "six")
        self.child.stop()
        self.sql(f"DELETE FROM audit_log WHERE seq > {at}")
        self.refused()
        self.adopted("newest signed head: ", f"missing or differs: {at + 1}")
        self.assertLessEqual({"group:four", "group:five", "group:six"}, self.unsigned())

    def test_sessions(self) -> None:
        """A record that is no text, before that of a session: its entities go with the records."""
        echo = [one for one in around().resources if one.id == "echo"]
        gateway = self.use(make_gateway(echo, numbers=_RARE | {"snapshot.reload_secs": LOOK_SECS}))
        self.child = gateway.child(AUTHORITY)
        person = gateway.add_person("ada", "ops")
        person.up("echo")
        at = self.last()

        def has_entities() -> bool:
            """Whether a session left them beside its record."""
            carries(person.endpoint("echo"))
            return bool(self.sql("SELECT digest FROM entity_slices"))

        until("a session is recorded with its entities", has_entities, alive=[self.child])
        self.child.kill()
        bad = "replace(canonical, '\"event\"', '\"event' || CAST(x'ff' AS TEXT) || '\"')"
        self.sql(f"UPDATE audit_log SET canonical = CAST({bad} AS TEXT) WHERE seq = {at + 1}")
        self.adopted(f"record {at + 1} does not verify")
        self.assertEqual(self.sql("SELECT digest FROM entity_slices"), [])

    def alter(self, seq: int) -> None:
        """Somebody changes one record."""
        change = "UPDATE audit_log SET canonical = replace(canonical, '\"event\"', '\"Event\"')"
        self.sql(f"{change} WHERE seq = {seq}")

"""F10: the leader is killed with a full audit queue; the next one drains it, each row once.

Also what an operator sees of rows that somebody put there.  Short, or with SVC_LONG=1 in full.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.spool import SpoolRow
from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.processes import Child, Ran, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.fault.queued import Spool
from tests.fault.tally import Tally, counted, in_long_form
from tests.support.postgres import connected, empty_database
from tests.support.proof import proves
from tests.support.standing_still import stand_still

TALLY = Tally("F10")
ROWS = counted(300, 10_000)
DEPTH, HELD, MISSING, AGE = (
    f"svc_audit_outbox_{name}" for name in ("depth", "held", "missing_total", "oldest_age_secs")
)
REASONS = ("unsigned", "unknown_key", "forged", "replayed")
LEASE_SECS = 2
SECOND = "authority2"
TIMEOUT_SECS = 120.0
"""For 10,000 rows, on a machine that has other work."""


class FullQueue(SynchronousTestCase):
    """One Authority, and the key of a Proxy."""

    def origin(self, gateway: Gateway) -> Spool:
        """The spool of a Proxy that joined and went away."""
        gateway.make_proxy()
        gateway.child(PROXY).stop()
        nodes = gateway.operator("nodes", "list", "--json").json
        (node_id,) = [one["id"] for one in nodes if one["role"] == "proxy"]
        return Spool.of_node(node_id, gateway.files.state(PROXY))

    def select(self, store: Path | str, query: str) -> list[Any]:
        """Rows of the store."""
        if isinstance(store, Path):
            with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
                return connection.execute(query).fetchall()
        with connected(store) as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def stands_still(self, authority: Child, store: Path) -> bool:
        """Whether it was stopped where it keeps nobody from writing; else it goes on."""
        stand_still(authority)
        with closing(sqlite3.connect(store, timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                authority.signal(signal.SIGCONT)
                return False
        return True

    def waiting(self, store: Path | str) -> int:
        """How many rows are in the queue and not held."""
        return int(self.select(store, "SELECT count(*) FROM outbox WHERE hold IS NULL")[0][0])

    def check(self, store: Path | str, rows: list[SpoolRow]) -> None:
        """Each row is in the log once, and the log has no hole."""
        logged = [text for (text,) in self.select(store, "SELECT canonical FROM audit_log")]
        wanted = {row.canonical.decode() for row in rows}
        found = [text for text in logged if text in wanted]
        TALLY.many(len(rows), len(set(found)))
        self.assertEqual((len(found), set(found)), (len(rows), wanted))
        ((first, last, count),) = self.select(
            store, "SELECT min(seq), max(seq), count(*) FROM audit_log"
        )
        self.assertEqual((first, last), (1, count))

    @proves(
        "G-AUD-09",
        "G-AUD-10",
        "X-15",
        "G-OPEN-14",
        "G-MET-38",
        "G-MET-39",
        "G-MET-40",
        "G-MET-41",
        "G-MET-42",
    )
    def test_one_authority(self) -> None:
        """It is killed over a full queue and drains it when it is back; bad rows stay held."""
        gateway = init_gateway()
        self.addCleanup(gateway.end)
        gateway.make_authority()
        origin, store = self.origin(gateway), gateway.files.store
        rows = origin.fill(ROWS)
        authority = gateway.child(AUTHORITY)
        until("it stands still", lambda: self.stands_still(authority, store), alive=[authority])
        queued = time.time()
        bad = [
            evolve(rows[1], signature=b""),
            evolve(rows[2], key_id="0" * 64),
            evolve(rows[3], canonical=rows[4].canonical),
        ]
        origin.queue(bad, store)
        origin.queue(rows, store)
        authority.kill()
        began = monotonic()
        gateway.start(AUTHORITY, ready=False)
        until("it is drained", lambda: not self.waiting(store), TIMEOUT_SECS, [authority])
        TALLY.worst = max(TALLY.worst, monotonic() - began)
        self.check(store, rows)
        origin.queue(rows[5:6], store)
        self.check_held(gateway, store, queued)
        self.check_log(gateway, store)

    def check_held(self, gateway: Gateway, store: Path, queued: float) -> None:
        """A row of each sort is held; one is deleted by SQL, the others an operator settles.

        Args:
            queued: The time before any of them was put there.
        """
        gateway.await_metric(AUTHORITY, DEPTH, 4)
        gateway.await_metric(AUTHORITY, HELD, 4)
        age = gateway.metric(AUTHORITY, AGE)
        until("another pass", lambda: gateway.metric(AUTHORITY, AGE) > age)
        self.assertLessEqual(gateway.metric(AUTHORITY, AGE), time.time() - queued)
        for reason in REASONS:
            held = gateway.metric(AUTHORITY, f"{HELD}_total", reason=reason)
            self.assertEqual((reason, held), (reason, 1), "once a row, not once a pass")
        self.assertEqual(gateway.metric(AUTHORITY, MISSING), 0, "drained rows are not missing")
        self.change(store, "DELETE FROM outbox WHERE hold = 'unknown_key'")
        gateway.await_metric(AUTHORITY, MISSING, 1)
        listed = gateway.operator("audit", "outbox", "list", "--json").json
        self.assertEqual({one["reason"] for one in listed}, {*REASONS} - {"unknown_key"})
        for one in listed:
            words = ("audit", "outbox", "release", str(one["id"]), "--reason", "a test")
            if one["reason"] == "unsigned":
                self.assertIn("row_not_releasable", gateway.operator(*words, check=False).stderr)
            gateway.operator("audit", "outbox", "discard", *words[3:])
        gateway.await_metric(AUTHORITY, DEPTH, 0)
        self.assertEqual([gateway.metric(AUTHORITY, one) for one in (HELD, AGE)], [0, 0])

    def check_log(self, gateway: Gateway, store: Path) -> None:
        """After a stop in order nothing waits; a signature that is changed is found."""
        gateway.child(AUTHORITY).stop()
        self.assertEqual(self.select(store, "SELECT count(*) FROM outbox"), [(0,)])
        self.assertIn("verified", self.verify(gateway).checked().stdout)
        self.change(
            store, "UPDATE audit_log SET signature = zeroblob(64) WHERE signature IS NOT NULL"
        )
        self.assertEqual(self.verify(gateway).status, 6)

    def verify(self, gateway: Gateway) -> Ran:
        """The log, with the Authority stopped."""
        config = str(gateway.files.config(AUTHORITY))
        return run(
            svc_command("--config", config, "authority", "audit", "verify"), gateway.directory
        )

    def change(self, store: Path, statement: str) -> None:
        """By SQL, behind everybody's back."""
        with closing(sqlite3.connect(store, timeout=10)) as connection, connection:
            connection.execute(statement)

    @in_long_form
    def test_two_authorities(self) -> None:
        """The leader is killed while it drains; the one that stood by goes on with the rest."""
        gateway = init_gateway(numbers={"store_lease_secs": LEASE_SECS})
        self.addCleanup(gateway.end)
        url = empty_database(self)
        files = gateway.files
        files.write_authorities({AUTHORITY: "a1", SECOND: "a2"}, _on(url))
        gateway.make_authority()
        gateway.make_child(SECOND, "authority")
        origin = self.origin(gateway)
        second = gateway.roles[SECOND]
        second.start()
        until("it stands by", lambda: '"standing by"' in second.text(), alive=[second])
        rows = origin.fill(ROWS)
        origin.queue(rows, url)
        until("some are drained", lambda: self.waiting(url) < len(rows))
        gateway.child(AUTHORITY).kill()
        left, began = self.waiting(url), monotonic()
        self.assertGreater(left, 0)
        until("it is drained", lambda: not self.waiting(url), TIMEOUT_SECS, [second])
        TALLY.worst = max(TALLY.worst, monotonic() - began)
        TALLY.tell(f"{left} left by a leader that was killed")
        self.check(url, rows)
        query = "SELECT canonical FROM audit_log WHERE event = 'audit.gap'"
        self.assertEqual([json.loads(text) for (text,) in self.select(url, query)], [])


def _on(url: str) -> dict[str, Any]:
    return {"store_url": url, "plugins.stores": ["postgresql"]}

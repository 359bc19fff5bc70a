"""``policy.served``: what nobody serves, by the tunnels that the log has open."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from attrs import evolve

from svc.ops.doctor import served
from svc.ops.doctor.checks import CHECKS
from svc.ops.doctor.run import examine
from tests.ops.doctor.ended import CopyCase

CHECK = "policy.served"


class ServedTests(CopyCase):
    """A gateway that seems to run: somebody leads, and its Connector has a tunnel."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(served, "is_running", lambda state: True)

    def lead(self) -> None:
        """Somebody holds the lease."""
        self.copy.sql("UPDATE lease SET owner = 'authority'")

    def registered(self) -> int:
        """Where the log has the last registration of the Connector."""
        path = self.copy.state("authority") / "store.db"
        with closing(sqlite3.connect(path)) as store:
            (seq,) = store.execute(
                "SELECT max(seq) FROM audit_log WHERE event = 'tunnel.registered'"
            ).fetchone()
        return int(seq)

    def tunnel(self) -> None:
        """The Connector's tunnel is open."""
        fact = f"open_tunnel.{self.registered()}"
        self.copy.sql("INSERT INTO store_facts (name, value) VALUES (?, '')", fact)

    def test_nobody_leads(self) -> None:
        """Nothing is warned of while nobody could serve anything."""
        self.assert_ok("authority", CHECK, "no Authority leads")
        self.lead()
        self.patch(served, "is_running", lambda state: False)
        self.assert_ok("authority", CHECK, "no Authority leads")

    def test_served(self) -> None:
        """All is well with a tunnel that serves what is assigned; without one it is not."""
        self.lead()
        self.assert_found("authority", CHECK, "warn", "nobody serves echo", "start it")
        self.tunnel()
        self.assert_ok("authority", CHECK, "serves: 1")

    def test_not_declared(self) -> None:
        """What its Connector does not declare; what it offers is about to be registered."""
        self.lead()
        self.tunnel()
        self.copy.sql("UPDATE resources SET id = 'ecco'")
        self.copy.sql("UPDATE resource_identities SET resource_id = 'ecco'")
        self.assert_found("authority", CHECK, "warn", "nobody serves ecco", "does not declare")
        offer = "INSERT INTO undeclared_resources SELECT id, 'ecco', 'tcp', 0 FROM nodes"
        self.copy.sql(f"{offer} WHERE role = 'connector'")
        self.assert_ok("authority", CHECK)
        self.copy.sql("DELETE FROM store_facts WHERE name LIKE 'open_tunnel.%'")
        self.assert_found("authority", CHECK, "warn", "compare the ids and kinds")

    def test_within_a_role(self) -> None:
        """A running Authority gives a Connector three minutes to come back."""
        self.lead()
        chosen = [one for one in CHECKS if one.id == CHECK]
        self.copy.sql("UPDATE nodes SET last_seen = ?", self.copy.at - 60)
        self.copy.sql("UPDATE node_health SET at = ?", self.copy.at - 60)
        for after, severity in ((0, "ok"), (119, "ok"), (121, "warn")):
            context = evolve(self.copy.context("authority"), is_within=True)
            context = evolve(context, at=self.copy.at + after)
            (found,) = examine(chosen, [context]).checks
            self.assertEqual(found.severity.word, severity, (after, found))

    def test_some_proxies_only(self) -> None:
        """A Proxy that the Connector is not connected to, as long as that Proxy is here."""
        self.lead()
        self.tunnel()
        self.copy.sql("UPDATE nodes SET last_seen = ?", self.copy.at)
        self.copy.sql("UPDATE nodes SET role = 'proxy', name = 'edge2' WHERE role = 'authority'")
        self.assert_found("authority", CHECK, "info", "not connected to edge2", "endpoints.proxy")
        self.copy.sql("UPDATE nodes SET last_seen = ? WHERE name = 'edge2'", self.copy.at - 999)
        self.copy.sql("DELETE FROM node_health")
        self.assert_ok("authority", CHECK)

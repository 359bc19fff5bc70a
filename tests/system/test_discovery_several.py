"""Two Authorities on one PostgreSQL store: what was discovered outlives the one that leads."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import init_gateway
from svc.testing.gateway.processes import run, svc_command, until
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.support.postgres import empty_database
from tests.support.proof import proves
from tests.system.test_discovery import entry, write
from tests.system.world import around

RUN_BY = "make fault"

LEASE_SECS = 15
LATE_SECS = 120
"""For what departs at the end of a lease that a new leader began, and for its record."""

PROCESSES = {"authority": "a1", "authority2": "a2"}
LAB = {"name": "lab", "kinds": ["tcp"], "match_labels": {"tier": "lab"}}


@proves("G-POL-06", "G-ROLE-11")
class SeveralAuthorities(SynchronousTestCase):
    """One leads, one stands by; a Connector finds what a file lists."""

    def setUp(self) -> None:
        self.listed = Path(mkdtemp(prefix="svc-found-")) / "found.json"
        write(self.listed, [entry("found1"), entry("found2")])
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        source = {"name": "rack", "source": "file", "path": str(self.listed), "every_secs": 0.2}
        self.gateway = init_gateway(
            [target],
            numbers={
                "store_lease_secs": 4,
                "discovery.lease_secs": LEASE_SECS,
                "discovery.auto_scopes": [LAB],
                "connector.discovery_sources": [source],
            },
        )
        self.addCleanup(self.gateway.end)
        self.url = empty_database(self)
        store = {"store_url": self.url, "plugins.stores": ["postgresql"]}
        self.gateway.files.write_authorities(PROCESSES, store)
        self.gateway.make_authority()
        second = self.gateway.make_child("authority2", "authority")
        second.start()
        until("it stands by", lambda: '"standing by"' in second.text(), alive=[second])
        self.gateway.await_ready("authority2")
        self.gateway.set_policy(POLICY)
        self.gateway.make_proxy()
        self.gateway.make_connector([target])
        self.ada = self.gateway.add_person("ada", "ops")

    def catalog(self, authority: str) -> dict[str, Any]:
        """The resources as an Authority that leads lists them."""
        config = str(self.gateway.files.config(authority))
        words = ("--config", config, "authority", "resources", "list", "--json")
        ran = run(svc_command(*words), self.gateway.directory)
        return {one["id"]: one for one in ran.json} if ran.status == 0 else {}

    def await_states(self, authority: str, **states: str) -> dict[str, Any]:
        """Wait until these have these states; the catalog then."""
        found: dict[str, Any] = {}

        def are_there() -> bool:
            nonlocal found
            found = self.catalog(authority)
            return all(found.get(id, {}).get("state") == word for id, word in states.items())

        until(f"{authority} has {states}", are_there, LATE_SECS)
        return found

    def recorded(self) -> list[tuple[str, str]]:
        """What became of discovered resources, by the log of who leads now."""
        config = str(self.gateway.files.config("authority2"))
        words = ("audit", "show", "--event", "resource", "--last", "100", "--json")
        ran = run(svc_command("--config", config, "authority", *words), self.gateway.directory)
        listed = ran.checked().json
        found = [(one["event"], one["resource_id"]) for one in listed]
        return [one for one in found if one[1].startswith("found")]

    def test_the_leader_stands_still(self) -> None:
        """Another one leads: what is found stays, and the first one writes no more.

        What was withdrawn while nobody led departs at the end of the lease that began anew.
        """
        before = self.await_states("authority", found1="served", found2="served")
        self.addCleanup(self.ada.up("found1").stop)
        first = self.gateway.roles["authority"]
        with socket.create_connection(self.ada.endpoint("found1"), 20) as end:
            end.sendall(b"a")
            self.assertEqual(end.recv(1), b"a")
            os.kill(first.pid, signal.SIGSTOP)
            self.addCleanup(first.kill)
            write(self.listed, [entry("found1"), entry("found3")])
            after = self.await_states(
                "authority2", found1="served", found2="departed", found3="served"
            )
            for word in ("resource_identity", "assignment_revision", "node_id"):
                self.assertEqual(after["found1"].get(word), before["found1"].get(word), word)
            os.kill(first.pid, signal.SIGCONT)
            self.assertNotEqual(first.wait(), 0)
            end.sendall(b"b")
            self.assertEqual(end.recv(1), b"b")
        records = [
            ("resource.add", "found1"),
            ("resource.add", "found2"),
            ("resource.add", "found3"),
            ("resource.depart", "found2"),
        ]
        # A record is shown once a signed head covers it.
        until("found2's end is recorded", lambda: len(self.recorded()) >= len(records), LATE_SECS)
        self.assertEqual(sorted(self.recorded()), records)

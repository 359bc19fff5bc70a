"""A Connector discovers resources: they are published, admitted by scopes, used, and depart."""

from __future__ import annotations

import contextlib
import json
import socket
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, GatewayTarget
from tests.support.proof import proves
from tests.system.world import around

LEASE_SECS = 6
SCOPES = [
    {"name": "lab", "kinds": ["tcp"], "match_labels": {"tier": "lab"}, "labels": {"from": "lab"}},
]


@cache
def stage() -> tuple[Gateway, GatewayPerson, Path]:
    """The gateway of this module, a person who may use everything, and the list of the source."""
    listed = Path(mkdtemp(prefix="svc-found-")) / "found.json"
    write(listed, [])
    gateway = make_gateway(
        [GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")],
        numbers={
            "discovery.lease_secs": LEASE_SECS,
            "discovery.auto_scopes": SCOPES,
            "connector.discovery_sources": [
                {"name": "rack", "source": "file", "path": str(listed), "every_secs": 0.2}
            ],
        },
    )
    return gateway, gateway.add_person("ada", "ops"), listed


def entry(id: str, **more: Any) -> dict[str, Any]:
    """One resource of the list: the echo service."""
    address = f"127.0.0.1:{around().ports['echo']}"
    return {"id": id, "kind": "tcp", "address": address, "labels": {"tier": "lab"}, **more}


def write(path: Path, resources: list[dict[str, Any]]) -> None:
    """Put a list in the place of the one before, at once."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"resources": resources}), "utf-8")
    new.rename(path)


def states(gateway: Gateway) -> dict[str, str]:
    """The state of each resource."""
    found = gateway.operator("resources", "list", "--json").json
    return {one["id"]: one["state"] for one in found}


def await_state(gateway: Gateway, id: str, state: str | None) -> None:
    """Wait until a resource has a state."""
    until(f"{id} is {state}", lambda: states(gateway).get(id) == state)


class DiscoveryTests(SynchronousTestCase):
    """One gateway for all of them."""

    @proves("G-POL-06", "G-MET-55", "G-MET-56")
    def test_found_used_and_gone(self) -> None:
        """What a file lists is served to who may use it, and departs when it is listed no more."""
        gateway, ada, listed = stage()
        before = gateway.metric(AUTHORITY, "svc_scope_publishes_total")
        write(listed, [entry("found1")])
        await_state(gateway, "found1", "served")
        self.assertEqual(gateway.metric(AUTHORITY, "svc_scope_live_rows"), 1)
        self.assertGreater(gateway.metric(AUTHORITY, "svc_scope_publishes_total"), before)
        [row] = [
            one
            for one in gateway.operator("resources", "list", "--json").json
            if one["id"] == "found1"
        ]
        self.assertEqual((row["source"], row["scope"]), ("discovered", "lab"))
        self.assertEqual(row["labels"], {"discovered.tier": "lab", "from": "lab"})
        ada.up("found1")
        self.assertIn("found1", {one["resource"] for one in ada.listed()})
        with socket.create_connection(ada.endpoint("found1"), 20) as end:
            end.sendall(b"found")
            self.assertEqual(end.recv(5, socket.MSG_WAITALL), b"found")
            write(listed, [])
            await_state(gateway, "found1", "departed")
            end.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(end.recv(1), b"")
        [ended] = until("its end is told", lambda: ada.status()["ended"])
        self.assertEqual((ended["resource"], ended["reason"]), ("found1", "assignment_changed"))
        self.assertEqual(gateway.metric(AUTHORITY, "svc_scope_live_rows"), 0)
        self.assertEqual(
            self.recorded(gateway, "found1"), ["resource.add", "resource.depart:withdrawn"]
        )

    def recorded(self, gateway: Gateway, resource: str) -> list[str]:
        """The records of what became of a resource, with their reasons."""
        words = ("--resource", resource, "--event", "resource", "--last", "100", "--json")
        shown = gateway.operator("audit", "show", *words).json
        return [":".join(filter(None, (one["event"], one.get("reason")))) for one in shown]

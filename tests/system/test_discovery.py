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
from svc.testing.gateway.processes import run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.sshd import start_sshd
from tests.system.world import around

LEASE_SECS = 6
SCOPES = [
    {
        "name": "hosts",
        "kinds": ["ssh"],
        "onward_auth": ["passthrough", "stored_key"],
        "id_prefix": "host",
    },
    {"name": "lab", "kinds": ["tcp"], "match_labels": {"tier": "lab"}, "labels": {"from": "lab"}},
]


@cache
def stage() -> tuple[Gateway, GatewayPerson, Path]:
    """The gateway of this module, a person who may use everything, and the list of the source."""
    listed = Path(mkdtemp(prefix="svc-found-")) / "found.json"
    write(listed, [])
    more = listed.with_name("more.json")
    write(more, [])
    gateway = make_gateway(
        [GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")],
        numbers={
            "discovery.lease_secs": LEASE_SECS,
            "discovery.auto_scopes": SCOPES,
            "connector.discovery_sources": [
                {"name": "rack", "source": "file", "path": str(listed), "every_secs": 0.2},
                {"name": "hall", "source": "file", "path": str(more), "every_secs": 0.2},
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
    new.write_text(json.dumps({"resources": resources}, ensure_ascii=False), "utf-8")
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
        self.addCleanup(ada.up("found1").stop)
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

    @proves("G-OPEN-17", "G-SES-13", "G-OPEN-61")
    def test_a_mode_is_chosen(self) -> None:
        """A host whose mode nobody chose waits for it, and is served once somebody did."""
        gateway, ada, listed = stage()
        self.addCleanup(write, listed, [])
        write(listed, [entry("host1", kind="ssh"), entry("tail1", kind="web")])
        await_state(gateway, "host1", "mode_required")
        lines = [one.split() for one in gateway.operator("resources", "list").stdout.splitlines()]
        self.assertIn(["host1", "ssh", "mode_required"], [line[:3] for line in lines])
        gateway.operator("resources", "set", "host1", "--onward-auth", "passthrough")
        await_state(gateway, "host1", "served")
        [row] = [
            one for one in gateway.operator("list-resources", "--json").json if one["id"] == "host1"
        ]
        self.assertEqual(
            (row["onward_auth"], row["source"], row["scope"], row["node_name"]),
            ("passthrough", "discovered", "hosts", CONNECTOR),
        )
        until("ada sees it", lambda: "host1" in {one["resource"] for one in ada.listed()})

    def test_a_host(self) -> None:
        """Stock ssh reaches a host that was discovered."""
        gateway, ada, listed = stage()
        sshd = start_sshd(gateway.directory / "sshd")
        self.addCleanup(sshd.child.end)
        self.addCleanup(write, listed, [])
        write(listed, [entry("host2", kind="ssh", address=sshd.address, onward_auth="passthrough")])
        await_state(gateway, "host2", "served")
        until("ada sees it", lambda: "host2" in {one["resource"] for one in ada.listed()})
        done = run([*sshd.tool("ssh", ada), "host2", "echo", "found"], ada.home)
        self.assertEqual(done.checked().stdout, "found\n")

    @proves("G-CLI-11", "G-ERR-11")
    def test_scopes_by_command(self) -> None:
        """What no scope admits is not in the catalog, and why is told; a scope admits it."""
        gateway, ada, listed = stage()
        self.addCleanup(write, listed, [])
        write(listed, [entry("web1", labels={"tier": "prod"})])
        # A registration may tell of it before it is published.
        why = "web1: no scope admits it"
        until("it is told why", lambda: why in gateway.operator("resources", "list").stderr)
        self.assertEqual(states(gateway)["web1"], "not_in_catalog")
        refused = gateway.operator("scopes", "set", "more", "--kinds", "ssh,tcp", check=False)
        self.assertNotEqual(refused.status, 0)
        self.assertIn(
            "scope more: onward_auth is required because kinds contains ssh", refused.stderr
        )
        self.assertEqual(
            gateway.operator("scopes", "set", "more", "--kinds", "tcp").stdout,
            "set more, revision 1\n",
        )
        await_state(gateway, "web1", "served")
        shown = gateway.operator("scopes", "show", "more", "--json").json
        self.assertEqual(
            [(one["id"], one["discovery_source"]) for one in shown["discovered"]],
            [("web1", "rack")],
        )
        refused = gateway.operator("scopes", "remove", "lab", check=False)
        self.assertIn("discovery.auto_scopes", refused.stderr)
        self.addCleanup(ada.up("web1").stop)
        with socket.create_connection(ada.endpoint("web1"), 20) as end:
            end.sendall(b"x")
            self.assertEqual(end.recv(1), b"x")
            self.assertIn(
                "1 resource(s) departed", gateway.operator("scopes", "remove", "more").stdout
            )
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(end.recv(1), b"")
        self.assertEqual(states(gateway)["web1"], "departed")

    @proves("G-MET-54")
    def test_a_connector_that_stops(self) -> None:
        """What a Connector that is gone had published departs at the end of the leases."""
        gateway, _, listed = stage()
        self.addCleanup(write, listed, [])
        write(listed, [entry("found2")])
        await_state(gateway, "found2", "served")
        before = gateway.metric(AUTHORITY, "svc_scope_leases_expired_total")
        gateway.child(CONNECTOR).kill()
        self.addCleanup(await_state, gateway, "found2", "served")
        self.addCleanup(gateway.start, CONNECTOR)
        gateway.await_metric(AUTHORITY, "svc_scope_leases_expired_total", before + 2)
        gateway.await_metric(AUTHORITY, "svc_scope_live_rows", 0)
        self.assertEqual(states(gateway)["found2"], "departed")
        self.assertEqual(self.recorded(gateway, "found2")[-1], "resource.depart:lease_expired")

    def test_more_labels_than_one_message(self) -> None:
        """A Connector that says much of its resources keeps no Proxy from the policy."""
        gateway, ada, listed = stage()
        labels = {
            "tier": "lab",
            **{f"l{n}": "\N{LATIN SMALL LETTER E WITH ACUTE}" * 200 for n in range(60)},
        }
        for path in (listed, listed.with_name("more.json")):
            self.addCleanup(write, path, [])
            write(path, [entry(f"{path.stem}{n}", labels=labels) for n in range(34)])
        await_state(gateway, "found33", "served")
        await_state(gateway, "more33", "served")
        gateway.child(PROXY).kill()
        gateway.start(PROXY)  # It is sent all of the policy at once.
        until("ada sees it", lambda: "more33" in {one["resource"] for one in ada.listed()})

    def test_a_spoilt_list(self) -> None:
        """A list that is none changes nothing, and the log says so."""
        gateway, _, listed = stage()
        self.addCleanup(write, listed, [])
        write(listed, [entry("found3")])
        await_state(gateway, "found3", "served")
        listed.write_text("{", "utf-8")
        connector = gateway.child(CONNECTOR)
        until(
            "it is told",
            lambda: f"{listed}: line 1: is not JSON" in connector.text(),
            alive=[connector],
        )
        self.assertEqual(states(gateway)["found3"], "served")

    def recorded(self, gateway: Gateway, resource: str) -> list[str]:
        """The records of what became of a resource, with their reasons."""
        words = ("--resource", resource, "--event", "resource", "--last", "100", "--json")
        shown = gateway.operator("audit", "show", *words).json
        return [":".join(filter(None, (one["event"], one.get("reason")))) for one in shown]


class StartTests(SynchronousTestCase):
    """What an Authority and a Connector do not start with."""

    def start(self, role: str, text: str) -> tuple[int, str]:
        """The status, and what was said."""
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        base = f'cluster = "a.example"\nstate_dir = "{home}/state"\n'
        if role == AUTHORITY:
            base += f'store_url = "sqlite://{home}/state/s.db"\n'
        else:
            base += 'endpoints.proxy = ["127.0.0.1:1"]\n'
        config = home / "c.toml"
        config.write_text(base + text, "utf-8")
        ran = run(svc_command("--config", str(config), role), home)
        return ran.status, ran.stderr

    @proves("G-CFG-14", "G-ERR-14", "U-NOTE-31", "X-40")
    def test_ssh_without_onward_auth(self) -> None:
        """The Authority does not start, and names the scope; an empty list is none."""
        for more in ("", "onward_auth = []\n"):
            text = f'[[discovery.auto_scopes]]\nname = "racks"\nkinds = ["tcp", "ssh"]\n{more}'
            status, said = self.start(AUTHORITY, text)
            self.assertEqual(status, 1)
            self.assertIn("scope racks: onward_auth is required because kinds contains ssh", said)
        text = '[[discovery.auto_scopes]]\nname = "racks"\nkinds = ["kube"]\n'
        self.assertIn("svc init", self.start(AUTHORITY, text)[1], "it wants keys, and no mode")

    @proves("G-CFG-18", "U-NOTE-12")
    def test_sources(self) -> None:
        """A source that is not enabled, or whose table is wrong, stops the Connector's start."""
        for text, said in (
            ('source = "magic"', "connector.discovery_sources[0].source: magic: not enabled"),
            ('source = "file"', "connector.discovery_sources[0].path: required"),
            ('source = "file"\npath = "/a.json"\npth = 1', "discovery_sources[0].pth"),
        ):
            table = f'[[connector.discovery_sources]]\nname = "rack"\n{text}\n'
            status, told = self.start(CONNECTOR, table)
            self.assertEqual(status, 1)
            self.assertIn(said, told)
        self.assertIn(
            "discovery_source", self.start(CONNECTOR, "connector.discovery_source = 1")[1]
        )

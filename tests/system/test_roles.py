"""What each role is, seen from outside: its process, its sockets, what the Authority owns."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, begun, environment, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.common import ROLES, ada, shared
from tests.system.kernel import sockets_of
from tests.system.world import around


@cache
def bea() -> GatewayPerson:
    """A person of the group that may use ``echo``, with no resident."""
    return shared().add_person("bea", "ops")


def through(person: GatewayPerson, resource: str = "echo") -> bytes:
    """What comes back of a word sent through a session of its own."""
    ran = person.svc("proxy-ssh", resource, "--kind", "tcp", stdin=b"word")
    return ran.checked().stdout.encode()


def _has_started(child: Child) -> bool:
    return '"message":"started"' in child.text()


def _says_started(log: Path) -> bool:
    return '"message":"started"' in log.read_text("utf-8")


@contextlib.contextmanager
def without_telemetry(gateway: Gateway) -> Iterator[None]:
    """All three roles again, with neither ``metrics_listen`` nor an ``otel_endpoint``."""
    paths = [gateway.files.config(role) for role in ROLES]
    before = [path.read_text("utf-8") for path in paths]
    for path, text in zip(paths, before, strict=True):
        lines = text.splitlines(keepends=True)
        path.write_text("".join(one for one in lines if not one.startswith("telemetry.")), "utf-8")
    try:
        for role in ROLES:
            gateway.child(role).kill()
            child = gateway.start(role, ready=False)
            if role != CONNECTOR:  # which listens nowhere
                until(f"{role} up", partial(_has_started, child), alive=[child])
        until("a tunnel", lambda: gateway.status()["connectors"] == 1)
        yield
    finally:
        for path, text in zip(paths, before, strict=True):
            path.write_text(text, "utf-8")
        for role in ROLES:
            gateway.restart(role)
        gateway.await_tunnels(1)


class ProcessTests(SynchronousTestCase):
    """A role as a process."""

    @proves("G-ROLE-02")
    def test_foreground(self) -> None:
        """Each role stays the process that was started, whatever the others do, until a signal."""
        gateway = shared()
        for role in ROLES:
            child = gateway.child(role)
            self.assertTrue(child.is_alive, role)
            self.assertEqual(os.getsid(child.pid), child.pid, "not in the session it was given")
            serving = {one.local for one in sockets_of(child) if one.is_bound}
            self.assertEqual(serving, set(gateway.listening(role).values()), role)
        self.addCleanup(gateway.await_tunnels, 1)
        for role, number in ((AUTHORITY, signal.SIGTERM), (PROXY, signal.SIGINT)):
            gateway.child(role).signal(number)
            self.assertEqual(gateway.child(role).wait(), 0, role)
        connector = gateway.child(CONNECTOR)
        before = gateway.metric(CONNECTOR, "svc_connector_reconnects_total")
        until(
            "many dials in vain",
            lambda: gateway.metric(CONNECTOR, "svc_connector_reconnects_total") > before + 5,
        )
        self.assertTrue(connector.is_alive)
        gateway.start(AUTHORITY)
        gateway.start(PROXY)
        gateway.await_tunnels(1)
        for number in (signal.SIGTERM, signal.SIGINT):
            connector.signal(number)
        self.assertEqual(connector.wait(), 0)
        self.assertNotIn("ERROR", connector.tail())
        gateway.start(CONNECTOR)

    @proves("G-LOG-01")
    def test_logs_go_to_stderr(self) -> None:
        """A role writes nothing to stdout from its start to its end; its log is on stderr."""
        gateway = shared()
        self.addCleanup(gateway.await_tunnels, 1)
        for role in ROLES:
            gateway.child(role).stop()
        for role in ROLES:
            out, log = (gateway.directory / f"{role}.{name}" for name in ("stdout", "stderr"))
            command = svc_command("--config", str(gateway.files.config(role)), role)
            environ = {**environment(gateway.directory), "SVC_LOG_FORMAT": "json"}
            with (
                open(os.devnull, "rb") as stdin,
                out.open("wb") as stdout,
                log.open("wb") as stderr,
            ):
                standard = (stdin, stdout, stderr)
                process = begun(command, environ, gateway.directory, standard)
            try:
                until(f"{role} is up", partial(_says_started, log))
            finally:
                process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(30), 0, role)
            self.assertEqual(out.read_bytes(), b"", role)
            gateway.start(role, ready=False)

    @proves("G-CFG-02", "G-ROLE-18", "G-TEL-01", "G-TEL-02", "G-AUD-03", "X-31")
    def test_without_telemetry(self) -> None:
        """Without telemetry a Connector listens nowhere, and the audit log goes on as ever."""
        gateway, person = shared(), bea()
        wanted = {
            AUTHORITY: {"admin", "control", "join", "renewal"},
            PROXY: {"public"},
            CONNECTOR: set(),
        }
        with without_telemetry(gateway):
            for role, names in wanted.items():
                listening = gateway.listening(role)
                self.assertEqual(set(listening), names, role)
                bound = {one.local for one in sockets_of(gateway.child(role)) if one.is_bound}
                self.assertEqual(bound, set(listening.values()), role)
            first = gateway.status()["audit_seq"]
            self.assertEqual(through(person), b"word")
            records = gateway.operator("audit", "show", "--last", "20", "--json").json
            new = [one["event"] for one in records if one["seq"] > first]
            self.assertIn("session.start", new)
            self.assertIn("verified", gateway.verify())

    @proves("G-GEN-06", "G-CLI-23")
    def test_connections(self) -> None:
        """While sessions run no role is connected to anything but the gateway and the targets."""
        gateway, person = shared(), bea()
        targets = {f"127.0.0.1:{port}" for port in around().ports.values()}
        known = {
            AUTHORITY: set(),
            PROXY: {gateway.listening(AUTHORITY)["control"]},
            CONNECTOR: {gateway.public, *targets},
        }
        seen: dict[str, set[str]] = {role: set() for role in ROLES}
        resident = person.up("echo")
        try:
            for _ in range(4):
                with socket.create_connection(person.endpoint("echo"), 20) as peer:
                    peer.sendall(b"question")
                    self.assertEqual(peer.recv(8, socket.MSG_WAITALL), b"question")
                    for role in ROLES:
                        seen[role] |= self.outward(gateway, role)
            text = gateway.operator("policy", "show", "--json").json["text"]
            gateway.set_policy(f"{text}// once more\n")
            self.assertRaises(ConnectionResetError, self.used, person.endpoint("vault"))
            for role in ROLES:
                seen[role] |= self.outward(gateway, role)
            self.explained(person)
        finally:
            resident.stop()
        self.assertEqual(seen[CONNECTOR] & targets, {f"127.0.0.1:{around().ports['echo']}"})
        for role in ROLES:
            self.assertLessEqual(seen[role], known[role], role)

    def used(self, address: tuple[str, int]) -> None:
        """Connect and use; a reset may come before the connecting itself is over."""
        with socket.create_connection(address, 20) as peer:
            self.use(peer)

    def use(self, peer: socket.socket) -> None:
        """Write until it fails."""
        while peer.send(b"x"):
            peer.recv(1)

    def explained(self, person: GatewayPerson) -> None:
        """``svc status`` asks again, and gives the reason of each refusal."""
        refusal = person.refused("vault")
        plain = person.svc("status").checked().stdout
        full = person.svc("status", "--refresh", "--explain").checked().stdout
        why = f"(denied, policies closed); to see why: svc why {refusal['decision_id']}"
        self.assertIn(why, full)
        self.assertNotIn(why, plain)

    def outward(self, gateway: Gateway, role: str) -> set[str]:
        """Where the role's connections lead that nobody made to it."""
        own = set(gateway.listening(role).values())
        held = list(sockets_of(gateway.child(role)))
        self.assertEqual([one for one in held if one.protocol.startswith("udp")], [], role)
        return {one.remote for one in held if one.is_connected and one.local not in own}


class OwnedTests(SynchronousTestCase):
    """What the Authority keeps."""

    @proves("G-ROLE-08", "G-OPEN-33")
    def test_registry_and_catalog(self) -> None:
        """The lists hold what was declared, enrolled and revoked, and who was here when."""
        gateway = shared()
        echo = f"127.0.0.1:{around().ports['echo']}"
        gateway.make_connector([GatewayTarget("third", echo)], "c3")
        child: Child = gateway.roles.pop("c3")
        self.addCleanup(child.end)
        until("it serves", lambda: self.resources(gateway).get("third") == ("tcp", "c3", "served"))
        self.assertEqual(self.resources(gateway)["echo"], ("tcp", CONNECTOR, "served"))
        self.assertEqual(self.resources(gateway)["vault"], ("tcp", CONNECTOR, "served"))
        self.check_departed(gateway, child)
        gateway.operator("nodes", "revoke", "c3", "--reason", "lost")
        until("gone", lambda: self.resources(gateway)["third"] == ("tcp", "c3", "departed"))
        child.end()
        before = self.nodes(gateway)
        self.assertEqual(before["c3"][:2], (CONNECTOR, "revoked"))
        self.assertEqual(before[CONNECTOR][:2], (CONNECTOR, "active"))
        self.assertEqual(before[PROXY][:2], (PROXY, "active"))
        self.assertTrue(before["c3"][2] and before[CONNECTOR][2] and before[PROXY][2], before)

    def check_departed(self, gateway: Gateway, connector: Child) -> None:
        """A resource that nobody serves now is departed for a restarted Proxy, too."""
        connector.kill()
        gateway.restart(PROXY)
        gateway.await_tunnels(1)
        refused = ada().svc("proxy-ssh", "third", "--kind", "tcp")
        self.assertEqual(refused.status, 1)
        self.assertIn("reason departed", refused.stderr)

    def resources(self, gateway: Gateway) -> dict[str, tuple[str, str, str]]:
        """Kind, node and state of every resource."""
        rows = gateway.operator("resources", "list", "--json").json
        return {row["id"]: (row["kind"], row["node_name"], row["state"]) for row in rows}

    def nodes(self, gateway: Gateway) -> dict[str, tuple[str, str, object]]:
        """Role, state and last report of every node, by the older spelling."""
        rows = gateway.operator("list-nodes", "--health", "--json").json
        return {row["name"]: (row["role"], row["state"], row["last_seen"]) for row in rows}

"""Traces of real processes: what a collector is sent, and that nobody needs it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, run, svc_command, until
from svc.testing.gateway.settings import ALL, AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.collector import Collector, Seen
from tests.system.common import shared
from tests.system.world import around

RUN_BY = "make fault"

PROFILE = "blue"
OPEN, AUTHORIZE, NOTICE = (
    "gate.v1.Session/Open",
    "gate.v1.Control/Authorize",
    "gate.v1.OpenNotice",
)
ATTRIBUTES = {"service.name", "profile", "action", "resource", "decision", "session_uid"}
CANARY = "hunter2canary"
_HEX, _WORD, _TABLE = "[0-9a-f]{64}", "[a-z][a-z_.]*", r"\{.+\}"
MEMBERS = {
    "action": "connect|db_connect|db_query|kube|web",
    "actor": r'\{"id": "\S+", "kind": "(person|node|operator|service|anonymous)"\}',
    "catalog_version": r"\d+",
    "cedar_action": "[a-z][A-Za-z]*",
    "class": _WORD,
    "code": "[A-Z0-9-]+",
    "decision": "allow|deny|not_served",
    "decision_id": "[0-9a-z-]+",
    "details": _TABLE,
    "entities_digest": _HEX,
    "event": _WORD,
    "event_id": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "form": "svc-audit-export-v1",
    "hash": _HEX,
    "key_id": _HEX,
    "node_id": "[a-z2-7]{26}",
    "origin": "[a-z2-7]{26}",
    "origin_signature": "[A-Za-z0-9+/]{86}==",
    "personal": _TABLE,
    "policies": r"\[.*\]",
    "policy_version": r"\d+",
    "prev_hash": _HEX,
    "reason": _WORD,
    "request": _TABLE,
    "resource_id": r"\S+",
    "resource_kind": "[a-z]+",
    "seq": r"\d+",
    "session_uid": "[0-9a-f]{32}",
    "severity": _WORD,
    "spool": _TABLE,
    "state": _TABLE,
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "trace_id": "[0-9a-f]{32}",
}
"""What `docs/reference/audit.md` says a line may hold, and the form of each."""

ALWAYS = {
    *("actor", "class", "code", "event", "event_id", "form", "hash", "origin", "prev_hash"),
    *("seq", "severity", "time"),
}
OF_A_SESSION = {
    *("action", "catalog_version", "cedar_action", "decision", "decision_id", "details"),
    *("entities_digest", "node_id", "policies", "policy_version", "request", "resource_id"),
    *("resource_kind", "session_uid", "trace_id"),
}
IS_LONG = os.environ.get("SVC_LONG") == "1"
MESSAGES = 10_000 if IS_LONG else 500


def make_traced(collector: Collector, layout: str = "four") -> tuple[Gateway, GatewayPerson]:
    """A gateway whose roles export to a collector, and a person whose resident runs."""
    port = around().ports["echo"]
    targets = [
        GatewayTarget("echo", f"127.0.0.1:{port}"),
        GatewayTarget("vault", f"127.0.0.1:{port}", labels=("closed=yes",)),
        GatewayTarget("gone", "127.0.0.1:9"),
    ]
    numbers = {"telemetry.otel_endpoint": collector.url, "profile": PROFILE}
    gateway = make_gateway(targets, layout=layout, numbers=numbers)
    until("all served", lambda: _all_served(gateway))
    person = gateway.add_person("ada", "ops")
    person.up("echo", "vault", "gone")
    return gateway, person


def _all_served(gateway: Gateway) -> bool:
    rows = gateway.operator("resources", "list", "--json").json
    return all(row["state"] == "served" for row in rows)


@cache
def traced() -> tuple[Collector, Gateway, GatewayPerson]:
    """One gateway and collector for the tests that leave both well."""
    collector = Collector()
    return (collector, *make_traced(collector))


def ask(person: GatewayPerson, resource: str, question: bytes = b"question") -> bytes:
    """What a target answers through the gateway; nothing if the session is refused."""
    try:
        with closing(socket.create_connection(person.endpoint(resource), 30)) as peer:
            peer.sendall(question)
            peer.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := peer.recv(65536):
                answer += piece
            return answer
    except TimeoutError:
        raise
    except OSError:  # reset, at whatever moment it comes
        return b""


def opens(collector: Collector) -> set[str]:
    """The ids of the opens a collector knows."""
    return {span.span_id for span in collector.spans if span.name == OPEN}


def refused(gateway: Gateway, person: GatewayPerson, resource: str) -> str:
    """The uid of a session that was refused just now."""

    def newest() -> str:
        of_it = [one for one in person.status()["refused"] if one["resource"] == resource]
        return str(of_it[-1]["decision_id"]) if of_it else ""

    before = newest()
    assert ask(person, resource) == b""
    until("the refusal", lambda: newest() != before)
    return str(gateway.decision(newest())[0]["session_uid"])


def settled(collector: Collector, gateway: Gateway, person: GatewayPerson) -> set[str]:
    """All opens so far: once a later one has come from each role, no earlier is on its way."""
    uid = refused(gateway, person, "gone")
    until("its spans", lambda: len(collector.of_session(uid)) == 3)
    return opens(collector)


def trace_of(collector: Collector, known: set[str], resource: str, count: int) -> dict[str, Seen]:
    """The spans of the open of a resource that is not among *known*, by service."""

    def is_new(span: Seen) -> bool:
        named = span.attributes.get("resource") == resource
        return span.name == OPEN and named and span.span_id not in known

    opened = collector.await_spans(f"open of {resource}", 1, is_new)[0]
    spans = collector.await_spans("its trace", count, lambda one: one.trace_id == opened.trace_id)
    return {span.service: span for span in spans}


def lease_of(gateway: Gateway) -> tuple[Any, ...]:
    """Whose lease of the store it is, and which."""
    url = f"file:{gateway.files.store}?mode=ro"
    with closing(sqlite3.connect(url, uri=True)) as store:
        return tuple(store.execute("SELECT epoch, owner, instance FROM lease").fetchone())


def sockets_of(child: Child, listening: bool) -> set[tuple[str, str]]:
    """Local and remote address of each of a process's IPv4 TCP sockets, as the kernel has them."""
    held = set()
    for handle in Path(f"/proc/{child.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed since it was listed
            held.add(os.readlink(handle))
    found = set()
    for line in Path(f"/proc/{child.pid}/net/tcp").read_text("ascii").splitlines()[1:]:
        local, remote, state, *_, inode = line.split()[1:10]
        if f"socket:[{inode}]" in held and (state == "0A") is listening:
            found.add((_address(local), _address(remote)))
    return found


def _address(told: str) -> str:
    """``127.0.0.1:80`` for the kernel's ``0100007F:0050``."""
    host, _, port = told.partition(":")
    return f"{socket.inet_ntoa(bytes.fromhex(host)[::-1])}:{int(port, 16)}"


class TraceTests(SynchronousTestCase):
    """One session's spans."""

    @proves("G-TRC-01", "G-TRC-02", "G-TRC-04", "G-TRC-06", "G-OPEN-54", "G-SES-11", "G-ROLE-03")
    def test_one_trace_of_three_services(self) -> None:
        """An allowed session is one trace: Proxy, and under it Authority and Connector."""
        collector, gateway, person = traced()
        known = settled(collector, gateway, person)
        self.assertEqual(ask(person, "echo"), b"question")
        spans = trace_of(collector, known, "echo", 3)
        self.assertEqual(set(spans), {"svc-proxy", "svc-authority", "svc-connector"})
        proxy, authority, connector = (spans[f"svc-{one}"] for one in (PROXY, AUTHORITY, CONNECTOR))
        self.assertEqual((proxy.name, authority.name, connector.name), (OPEN, AUTHORIZE, NOTICE))
        self.assertEqual(proxy.parent, "")
        self.assertEqual((authority.parent, connector.parent), (proxy.span_id, proxy.span_id))
        self.assertEqual({one.trace_id for one in spans.values()}, {proxy.trace_id})
        uid = proxy.attributes["session_uid"]
        self.assertRegex(uid, "^[0-9a-f]{32}$")
        facts = {"action": "connect", "resource": "echo", "session_uid": uid}
        self.assertEqual(proxy.attributes, {**facts, "decision": "allow"})
        self.assertEqual(authority.attributes, {**facts, "decision": "allow"})
        self.assertEqual(connector.attributes, facts)
        shown = gateway.operator("audit", "show", "--json", "--session", uid).json
        records = {one["event"]: one for one in shown}
        self.assertEqual(records["session.start"]["session_uid"], uid)
        for name, span in spans.items():
            self.assertEqual(span.of, {"service.name": name, "profile": PROFILE})
            self.assertEqual((span.kind, span.status, span.events), (2, 0, 0))
        for path, sort, _ in collector.posts:
            self.assertEqual((path, sort), ("/v1/traces", "application/x-protobuf"))

    @proves("G-OPEN-10")
    def test_the_form_of_an_export(self) -> None:
        """Every line of an export has the documented members and no other, each of its form."""
        collector, gateway, person = traced()
        known = settled(collector, gateway, person)
        self.assertEqual(ask(person, "echo"), b"question")
        trace = trace_of(collector, known, "echo", 3)["svc-proxy"]
        lines = [json.loads(one) for one in gateway.operator("audit", "export").stdout.splitlines()]
        records = [one for one in lines if one.get("form") == "svc-audit-export-v1"]
        self.assertEqual(len(lines), len(records) + 1)  # the head
        self.assertGreater(len(records), 20)
        for record in records:
            for name, value in record.items():
                self.assertIn(name, MEMBERS, record["event"])
                shown = value if isinstance(value, str) else json.dumps(value)
                self.assertRegex(shown, rf"\A(?:{MEMBERS[name]})\Z", f"{record['event']}: {name}")
            self.assertLessEqual(ALWAYS, set(record), record["event"])
        self.assertEqual(
            [int(one["event_id"].replace("-", "")[12], 16) for one in records], [7] * len(records)
        )
        uid = trace.attributes["session_uid"]
        [start] = [one for one in records if one.get("session_uid") == uid if "request" in one]
        self.assertLessEqual(ALWAYS | OF_A_SESSION, set(start))
        self.assertEqual(start["trace_id"], trace.trace_id)
        self.assertLessEqual({"principal", "action", "resource", "context"}, set(start["request"]))
        self.assertLessEqual(
            {"key_id", "reason", "state"}, {name for one in records for name in one}
        )

    @proves("G-TRC-06")
    @proves("G-GEN-05")
    def test_each_way_to_look(self) -> None:
        """A role that serves has logs, three paths, metrics, traces and a self-check at once."""
        collector, gateway, person = traced()
        known = settled(collector, gateway, person)
        opened = gateway.metric(PROXY, "svc_sessions_total", protocol="tcp")
        self.assertEqual(ask(person, "echo"), b"question")
        self.assertEqual(len(trace_of(collector, known, "echo", 3)), 3)
        self.assertEqual(gateway.metric(PROXY, "svc_sessions_total", protocol="tcp"), opened + 1)
        for path in ("/healthz", "/readyz", "/metrics"):
            self.assertEqual(gateway.get(PROXY, path)[0], 200, path)
        lines = gateway.child(PROXY).text().splitlines()
        self.assertEqual([one for one in lines if "timestamp" not in json.loads(one)], [])
        command = svc_command("--config", str(gateway.files.config(PROXY)), "doctor", "--json")
        done = run(command, gateway.directory, seconds=60)
        self.assertEqual((done.status, json.loads(done.stdout)["result"]), (0, "pass"))

    def test_a_refused_session(self) -> None:
        """A denied session says so on Proxy and Authority, is no error, and ends there."""
        collector, gateway, person = traced()
        uid = refused(gateway, person, "vault")
        until("its spans", lambda: len(collector.of_session(uid)) == 2)
        settled(collector, gateway, person)
        spans = collector.of_session(uid)
        self.assertEqual({span.service for span in spans}, {"svc-proxy", "svc-authority"})
        self.assertEqual(len({span.trace_id for span in spans}), 1)
        for span in spans:
            self.assertEqual((span.attributes["decision"], span.status), ("deny", 0))

    def test_an_unreachable_target(self) -> None:
        """Where the target does not answer, Proxy and Connector show an error, by its sort."""
        collector, gateway, person = traced()
        uid = refused(gateway, person, "gone")
        until("its spans", lambda: len(collector.of_session(uid)) == 3)
        spans = {span.service: span for span in collector.of_session(uid)}
        self.assertEqual(spans["svc-authority"].attributes["decision"], "allow")
        self.assertEqual(spans["svc-authority"].status, 0)
        for service in ("svc-proxy", "svc-connector"):
            self.assertEqual((spans[service].status, spans[service].message), (2, "unavailable"))

    def test_messages_are_not_traced(self) -> None:
        """Messages through a session, each answered before the next, add no span."""
        collector, gateway, person = traced()
        known = settled(collector, gateway, person)
        with closing(socket.create_connection(person.endpoint("echo"), 60)) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(b"x")
            self.assertEqual(peer.recv(1), b"x")
            spans = trace_of(collector, known, "echo", 3)
            before = [one for one in collector.spans if one.name in (OPEN, AUTHORIZE, NOTICE)]
            for _ in range(MESSAGES):
                peer.sendall(b"y")
                self.assertEqual(peer.recv(1), b"y")
        settled(collector, gateway, person)
        trace = spans["svc-proxy"].trace_id
        self.assertEqual(len([one for one in collector.spans if one.trace_id == trace]), 3)
        after = [one for one in collector.spans if one.name in (OPEN, AUTHORIZE, NOTICE)]
        self.assertEqual(len(after), len(before) + 3)

    @proves("G-TRC-06", "G-TRC-07")
    def test_nothing_but_the_facts(self) -> None:
        """No other attribute, no event, and no canary: bytes, tokens, people, policies."""
        collector, gateway, person = traced()
        known = opens(collector)
        query = f"GET /?password={CANARY} HTTP/1.1\r\nCookie: s={CANARY}\r\n\r\n".encode()
        self.assertEqual(ask(person, "echo", query), query)
        trace_of(collector, known, "echo", 3)
        token = gateway.operator("nodes", "add", f"n-{CANARY}", "--role", "proxy").stdout.strip()
        gateway.operator("nodes", "add", "x", "--role", "nonsense", check=False)
        [ada] = [
            one
            for one in gateway.operator("persons", "list", "--json").json
            if one["name"] == "ada"
        ]
        collector.await_spans("AddNode", 1, lambda one: one.name == "gate.v1.Admin/AddNode")
        for span in collector.spans:
            self.assertLessEqual(set(span.attributes) | set(span.of), ATTRIBUTES)
            self.assertEqual(span.events, 0)
        joined = [path.read_text("utf-8").strip() for path in gateway.files.tokens()]
        chain = gateway.status()["last_hash"]
        hidden = [CANARY, token, ada["id"], "ops-all", "BEGIN ", "spiffe:", chain, *joined]
        for canary in hidden:
            self.assertTrue(canary)
            self.assertNotIn(canary.encode(), collector.dump, canary)

    @proves("G-TRC-01")
    def test_roles_do_not_bind_the_collectors_port(self) -> None:
        """Each role is connected to the collector, and listens where its configuration says."""
        collector, gateway, person = traced()
        known = settled(collector, gateway, person)
        # One that was started again has had nothing to say to it yet.
        self.assertEqual(ask(person, "echo"), b"question")
        trace_of(collector, known, "echo", 3)
        address = f"127.0.0.1:{collector.port}"
        for name, child in gateway.roles.items():
            bound = {local for local, _ in sockets_of(child, True)}
            self.assertEqual(bound, set(gateway.listening(name).values()), name)
            self.assertIn(address, {remote for _, remote in sockets_of(child, False)}, name)


class WhoTests(SynchronousTestCase):
    """Who exports, and who never does."""

    @proves("G-TRC-03", "G-ROLE-03")
    def test_all_in_one_process(self) -> None:
        """``svc all`` exports under its own name, and a session there is one trace as well."""
        collector = Collector()
        self.addCleanup(collector.close)
        gateway, person = make_traced(collector, ALL)
        self.addCleanup(gateway.end)
        known = opens(collector)
        self.assertEqual(ask(person, "echo"), b"question")
        trace_of(collector, known, "echo", 3)
        [opened] = [
            one
            for one in collector.spans
            if one.name == OPEN and one.attributes.get("resource") == "echo"
        ]
        trace = [one for one in collector.spans if one.trace_id == opened.trace_id]
        self.assertEqual({one.name for one in trace}, {OPEN, AUTHORIZE, NOTICE})
        self.assertEqual({one.service for one in trace}, {"svc-all"})
        under = {one.parent for one in trace if one is not opened and one.name != OPEN}
        self.assertEqual(under, {opened.span_id})

    @proves("G-ROLE-22")
    def test_commands_and_residents_do_not_export(self) -> None:
        """One-shot commands and ``svc up`` open no connection to the collector they could see."""
        _, gateway, person = traced()
        other = Collector()
        self.addCleanup(other.close)
        seen = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": other.url,
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{other.url}/v1/traces",
            "OTEL_TRACES_EXPORTER": "otlp",
        }
        config = gateway.directory / "one-shot.toml"
        text = (gateway.files.config(AUTHORITY)).read_text("utf-8")
        self.assertIn(traced()[0].url, text)
        config.write_text(text.replace(traced()[0].url, other.url), "utf-8")
        for words in (
            ("status",),
            ("nodes", "list"),
            ("persons", "list"),
            ("policy", "show"),
            ("audit", "verify"),
        ):
            command = svc_command("--config", str(config), "authority", *words)
            run(command, gateway.directory, seen).checked()
        run(svc_command("resources", "list"), person.home, seen).checked()
        assert person.resident is not None
        person.resident.stop()
        person.resident.environ = {**person.resident.environ, **seen}
        person.up("echo")
        self.assertEqual(ask(person, "echo"), b"question")
        done = run(svc_command("proxy-ssh", "echo"), person.home, seen)
        self.assertIn("svc why ", done.stderr)  # it asked; a tcp resource is no ssh resource
        self.assertEqual((other.connections, other.posts), (0, []))

    @proves("G-ROLE-03", "X-36")
    def test_commands_bind_nothing_and_take_no_lease(self) -> None:
        """A one-shot command listens nowhere, and the lease stays with whoever has it."""
        stock_tool("strace")
        collector, gateway, person = traced()
        port = collector.url.rpartition(":")[2]
        lease = lease_of(gateway)
        trace = gateway.directory / "calls"
        config = str(gateway.files.config(AUTHORITY))
        asked = (
            (("--config", config, "authority", "status"), gateway.directory),
            (("--config", config, "authority", "audit", "verify"), gateway.directory),
            (("resources", "list"), person.home),
            (("--config", config, "authority", "store", "migrate", "--check"), gateway.directory),
            (("status", "--refresh"), person.home),
        )
        # One of each sort: it asks the Authority, reads the store, or asks a Proxy.
        for words, home in asked if IS_LONG else asked[:3]:
            with self.subTest(words=words):
                # A process stops at these calls alone, and not at each of its thousands.
                strace = ["strace", "-f", "--seccomp-bpf", "-o", str(trace)]
                strace += ["-e", "trace=listen,connect,sendto"]
                run([*strace, *svc_command(*words)], home, seconds=60).checked()
                calls = trace.read_text("utf-8", "replace")
                self.assertIn("+++ exited with 0 +++", calls)
                self.assertNotIn("listen(", calls)
                self.assertNotIn(f"htons({port})", calls)
        self.assertEqual(lease_of(gateway), lease)

    @proves("G-CFG-03")
    def test_unset(self) -> None:
        """Without the key no role has a connection beside the gateway's own."""
        gateway = shared()
        known = {address for role in gateway.roles for address in gateway.listening(role).values()}
        known |= {f"127.0.0.1:{port}" for port in around().ports.values()}
        for name, child in gateway.roles.items():
            self.assertNotIn("telemetry.otel_endpoint", child.text(), name)
            for local, remote in sockets_of(child, False):
                self.assertTrue({local, remote} & known, f"{name}: {local} -> {remote}")


class FailingTests(SynchronousTestCase):
    """A collector that fails, then comes back."""

    @proves("G-TRC-08")
    def test_changes_no_answer_and_stops_no_role(self) -> None:
        """Refusing, hanging or gone: opens are answered alike, roles start, and stop with 0."""
        collector, gateway, person = traced()
        self.addCleanup(setattr, collector, "status", 200)
        self._same_answers(person)
        collector.status = 503
        self._same_answers(person)
        collector.status = 0
        self._same_answers(person)
        until("a request that hangs", lambda: collector.hung)
        self.assertEqual(gateway.child(CONNECTOR).stop(), 0)
        collector.close()
        self.addCleanup(lambda: None if collector.is_open else collector.listen())
        gateway.start(CONNECTOR)
        gateway.await_tunnels(1)
        until("a session of it", lambda: ask(person, "echo"))
        self._same_answers(person)
        self.assertIn("verified", gateway.verify())
        for role in (AUTHORITY, PROXY):
            self.assertTrue(gateway.child(role).is_alive, role)
        self.assertEqual(gateway.child(PROXY).stop(), 0)
        collector.status = 200
        collector.listen()
        gateway.start(PROXY)
        gateway.await_tunnels(1)
        until("a session through it", lambda: ask(person, "echo"))
        known = opens(collector)
        self._same_answers(person)
        self.assertEqual(len(trace_of(collector, known, "echo", 3)), 3)

    def _same_answers(self, person: GatewayPerson) -> None:
        self.assertEqual(ask(person, "echo"), b"question")
        self.assertEqual(ask(person, "vault"), b"")
        self.assertEqual(person.refused("vault")["reason"], "denied")

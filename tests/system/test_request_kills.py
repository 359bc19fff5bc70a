"""Authority, a Proxy, a Connector and the targets are killed amid requests of two kinds.

Nobody takes what was cut off for whole, everybody can go on afterwards, and each request that
reached a target, or was answered, is in the log.  With SVC_LONG=1 statements to a PostgreSQL server
are among them.
"""

from __future__ import annotations

import atexit
import http.client
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from threading import Event, Thread

import psycopg
from attrs import define, field
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.postgres import SETTINGS, USER, PostgresServer, find_programs
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, POLICY, PROXY, GatewayTarget
from tests.support.temporary import process_directory
from tests.support.tools import missing
from tests.system.kube_api.server import PODS, TOKEN
from tests.system.request_targets import LOAD

RUN_BY = "make fault"

IS_LONG = os.environ.get("SVC_LONG") == "1"
KILLS, TARGET_KILLS, IDLE = (40, 10, 1000) if IS_LONG else (1, 1, 0)
KINDS = ["kube", *(["postgres"] if IS_LONG else []), "ssh", "tcp", "web"]
NUMBERS = {"plugins.kinds": KINDS, "limits.max_sessions_per_person": 4000}
TIMES = {
    "tunnel.keepalive_secs": 0.5,
    "tunnel.keepalive_timeout_secs": 0.5,
    "tunnel.lease_secs": 6,
    "tunnel.lease_renew_secs": 2,
    "session.reclaim_secs": 5,
}
WHOLE = 1 << 30
LAST_CHUNK = b"\r\n0\r\n\r\n"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
WATCH = b"/api/v1/namespaces/shop/pods?watch=1&resourceVersion=0"
WARM = 20
KIBIBYTES = 60
"""What one idle stream may take of a Proxy."""


@define(eq=False)
class Both:
    """A gateway with an application and a cluster, whose process a test may kill.

    Attributes:
        heard: The file with the numbers of the load's requests that reached the targets.
        records: The numbers of those that are in the log, up to the record ``newest``.
    """

    times: dict[str, float]
    ports: list[int] = field(factory=lambda: list(free_ports()[:2]))
    heard: Path = field(init=False)
    targets: Child = field(init=False)
    records: set[str] = field(factory=set, init=False)
    newest: int = field(default=0, init=False)
    gateway: Gateway = field(init=False)
    person: GatewayPerson = field(init=False)

    def __attrs_post_init__(self) -> None:
        place = process_directory()
        self.heard = place / "heard"
        words = [sys.executable, "-m", "tests.system.request_targets", *map(str, self.ports)]
        words.append(str(self.heard))
        self.targets = Child(name="targets", words=words, home=place, log=place / "log")
        self.start_targets()
        token = place / "token"
        token.write_text(TOKEN, "ascii")
        token.chmod(0o600)
        web, kube = (f"127.0.0.1:{port}" for port in self.ports)
        more = {"tls": "off", "token_file": str(token), "groups": ["svc:people"]}
        offered: tuple[GatewayTarget, ...] = (
            GatewayTarget("board", web, "web"),
            GatewayTarget("prod", kube, "kube", more=more),
        )
        if IS_LONG:
            offered = (*offered, database(place))
        self.gateway = make_gateway(offered, numbers=NUMBERS | self.times)
        self.person = self.gateway.add_person("ada", "ops")
        config = self.person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        self.gateway.set_policy(POLICY)
        self.person.up(*(one.id for one in offered))

    def recorded(self) -> set[str]:
        """The numbers of the load's requests that are in the log; the policy denies none."""
        after = str(self.newest)
        said = self.gateway.operator("audit", "export", "--personal", "--after", after).stdout
        self.records.update(LOAD.findall(said))
        for line in said.splitlines()[-2:-1]:  # the head is last
            self.newest = json.loads(line)["seq"]
        return self.records

    def start_targets(self) -> None:
        """Start them, and wait until they listen."""
        self.targets.start()
        for port in self.ports:
            until("the targets", lambda port=port: _listens(port), alive=[self.targets])  # type: ignore[misc]


def database(place: Path) -> GatewayTarget:
    """A server of PostgreSQL, which ends with this process."""
    found = find_programs()
    if found is None:
        missing("there is no PostgreSQL server; the Debian package postgresql brings one")
    port = str(free_ports()[0])
    settings = {**SETTINGS, "listen_addresses": "127.0.0.1", "port": port}
    server = PostgresServer.made(found, settings)
    atexit.register(server.remove)
    access = server.directory / "data" / "pg_hba.conf"
    access.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n", "ascii")
    server.start()
    unused = place / "password"
    unused.touch(0o600)
    unused.write_text("none\n", "ascii")
    more = {"tls": "off", "auth": "trust", "password_files": {USER: str(unused)}}
    return GatewayTarget("orders", f"127.0.0.1:{port}", "postgres", more=more)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@cache
def both() -> Both:
    """The one of this process."""
    return Both(TIMES)


@define(eq=False)
class Stream:
    """One request whose answer lasts."""

    peer: socket.socket
    said: bytes = b""
    is_reset: bool = False
    size: int = 0

    def await_bytes(self, wanted: bytes) -> None:
        """Read until they have come."""
        while wanted not in self.said:
            piece = self.peer.recv(65536)
            assert piece, f"ended: {self.said[-300:]!r}"
            self.said += piece

    def leave(self) -> None:
        """Be gone at once, as a tool that is killed: not every server looks for a half-close."""
        gone = struct.pack("ii", 1, 0)
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, gone)
        self.peer.close()

    def end(self) -> bytes:
        """Read on to the end; all that came since the first bytes, of which the newest is kept."""
        count, newest = 0, b""
        try:
            while piece := self.peer.recv(1 << 20):
                count += len(piece)
                newest = (newest + piece)[-4096:]
        except ConnectionResetError:
            self.is_reset = True
        self.peer.close()
        self.size = len(self.said) + count
        return newest


STREAMS = {
    "websocket": ("board", b"/ws", UPGRADE, b"\r\n\r\n"),
    "download": ("board", b"/bytes/%d" % WHOLE, b"", b"\r\n\r\n"),
    "watch": ("prod", WATCH, b"", b'"back"'),
}
"""Resource, path, further fields, and what comes first of the answer."""


def opened(name: str, at: tuple[str, int]) -> Stream:
    """One of them, at this local endpoint, under way."""
    _, path, fields, first = STREAMS[name]
    stream = Stream(socket.create_connection(at, TIMEOUT_SECS))
    host = f"Host: {at[0]}:{at[1]}\r\n".encode()
    stream.peer.sendall(b"GET " + path + b" HTTP/1.1\r\n" + host + fields + b"\r\n")
    stream.await_bytes(first)
    if name == "websocket":
        stream.peer.sendall(b"\x81\x82\0\0\0\0hi")
        stream.await_bytes(b"\x81\x02hi")
    return stream


def streams(at: Both) -> dict[str, Stream]:
    """One of each."""
    return {name: opened(name, at.person.endpoint(STREAMS[name][0])) for name in STREAMS}


class RequestKills(SynchronousTestCase):
    """What whoever waits for an answer is told, and what is left."""

    def setUp(self) -> None:
        self.both = both()
        self.gateway = self.both.gateway
        # So large that no number is found in another text.
        self.numbers = count((1 << 52) + (int.from_bytes(os.urandom(3), "big") << 24))

    @contextmanager
    def load(self) -> Iterator[dict[str, list[str]]]:
        """Short requests all the while; the numbers of those that were answered, by target."""
        answered: dict[str, list[str]] = {"board": [], "prod": []}
        over = Event()
        loads = dict.fromkeys(answered, self._load)
        if IS_LONG:
            answered["orders"], loads["orders"] = [], self._statements
        threads = [
            Thread(target=loads[name], args=(name, each, over))
            for name, each in answered.items()
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        try:
            yield answered
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def _load(self, name: str, answered: list[str], over: Event) -> None:
        host, port = self.both.person.endpoint(name)
        while not over.is_set():
            connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_SECS)
            try:
                while not over.wait(0.01):
                    number = str(next(self.numbers))
                    path, status = (
                        (f"/load/{number}", 200)
                        if name == "board"
                        else (f"{PODS}/load-{number}", 404)
                    )
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    if number.encode() in answer.read() and answer.status == status:
                        answered.append(number)
            except (OSError, http.client.HTTPException):
                over.wait(0.1)
            finally:
                connection.close()

    def _statements(self, name: str, answered: list[str], over: Event) -> None:
        """Of tables that are not there: only the server can say so, of what was allowed."""
        host, port = self.both.person.endpoint(name)
        place = f"host={host} port={port} user={USER} dbname=postgres connect_timeout=5"
        while not over.is_set():
            try:
                with psycopg.connect(place, autocommit=True) as connection:
                    while not over.wait(0.01):
                        number = str(next(self.numbers))
                        try:
                            connection.execute(f"TABLE load_{number}")
                        except psycopg.errors.UndefinedTable:
                            answered.append(number)
            except psycopg.Error:
                over.wait(0.1)

    def await_load(self, answered: dict[str, list[str]]) -> None:
        """Wait until each target has answered some more."""
        before = {name: len(each) for name, each in answered.items()}
        until(
            "the load at each target",
            lambda: all(len(each) > before[name] + 20 for name, each in answered.items()),
        )

    def killed(self, kill: Callable[[], object], start: Callable[[], object]) -> dict[str, bytes]:
        """Kill amid it all and start again; the last bytes of each stream."""
        with self.load() as answered:
            under_way = streams(self.both)
            self.assertGreaterEqual(self.gateway.metric(PROXY, "svc_active_sessions"), 3)
            self.await_load(answered)
            kill()
            try:
                last = {name: one.end() for name, one in under_way.items()}
            finally:
                start()
            self.assertLess(under_way["download"].size, WHOLE, "it is not whole")
            self.await_load(answered)
        for one in streams(self.both).values():
            one.leave()
        self.gateway.await_metric(PROXY, "svc_active_sessions", 0)
        self.gateway.await_metric(PROXY, "svc_active_connector_tunnels", 1)
        self.check_records(answered)
        return last

    def check_records(self, answered: dict[str, list[str]]) -> None:
        """Each request that a target saw is in the log, and so is each that was answered."""
        told = set(self.both.heard.read_text("ascii").split()).union(*answered.values())
        until("every request in the log", lambda: told <= self.both.recorded())
        self.assertIn("verified", self.gateway.verify())
        lost = ("audit", "show", "--event", "audit.gap", "--last", "99", "--json")
        self.assertEqual(self.gateway.operator(*lost).json, [])
        if IS_LONG:
            sys.stdout.write(f"{self.id()}: {len(told)} requests passed, all in the log\n")
            sys.stdout.flush()

    def reasons(self) -> set[str]:
        """Why sessions were cut, as the person's status has it."""
        return {one["reason"] for one in self.both.person.status()["ended"]}

    def assertCutOff(self, last: dict[str, bytes]) -> None:
        """No end looks like a regular one."""
        self.assertFalse(last["watch"].endswith(LAST_CHUNK), last["watch"][-200:])
        self.assertNotIn(b"\x88\x02\x03\xe8", last["websocket"])

    def test_the_proxy(self) -> None:
        """Every stream is cut off, none ends as if it were whole, and all can begin again."""
        proxy = self.gateway.child(PROXY)
        for _ in range(KILLS):
            last = self.killed(proxy.kill, lambda: self.gateway.start(PROXY))
            self.assertCutOff(last)
            self.assertIn("proxy_gone", self.reasons())

    def test_the_connector(self) -> None:
        """The Proxy says in each protocol's own form why it is over, where that has one."""
        connector = self.gateway.child(CONNECTOR)
        for _ in range(KILLS):
            last = self.killed(connector.kill, lambda: self.gateway.start(CONNECTOR))
            text = b"the connection to the Connector was lost (tunnel_transport_error)"
            self.assertEqual(last["websocket"], b"\x88\x43\x03\xf5" + text)
            event, end = last["watch"].split(b"\r\n", 1)[1].split(b"\n", 1)
            status = json.loads(event)["object"]
            self.assertEqual((end, status["reason"]), (LAST_CHUNK, "ServiceUnavailable"))
            self.assertIn(text.decode(), status["message"])
            self.assertIn("tunnel_transport_error", self.reasons())

    def test_the_authority(self) -> None:
        """What is open goes on without it, and is decided; the records reach the log afterwards."""
        authority = self.gateway.child(AUTHORITY)
        for _ in range(KILLS):
            with self.load() as answered:
                under_way = streams(self.both)
                self.await_load(answered)
                authority.kill()
                self.await_load(answered)
                self.gateway.start(AUTHORITY)
                self.await_load(answered)
                under_way["websocket"].peer.sendall(b"\x81\x82\0\0\0\0on")
                under_way["websocket"].await_bytes(b"\x81\x02on")
            for one in under_way.values():
                one.leave()
            self.gateway.await_metric(PROXY, "svc_active_sessions", 0)
            self.check_records(answered)

    def test_the_target(self) -> None:
        """What the target left unfinished stays so."""
        for _ in range(TARGET_KILLS):
            last = self.killed(self.both.targets.kill, self.both.start_targets)
            self.assertCutOff(last)
            self.assertEqual(last["websocket"], b"")
            self.assertIn("broken", self.reasons())


class IdleStreams(SynchronousTestCase):
    """What streams cost in which nothing happens."""

    def test_idle(self) -> None:
        """With SVC_LONG=1: a thousand WebSockets and watches that are idle cost little."""
        if not IDLE:
            raise SkipTest("with SVC_LONG=1: a thousand WebSockets and a thousand watches")
        at = Both({})
        self.addCleanup(at.targets.end)
        self.addCleanup(at.gateway.end)
        for name in ("websocket", "watch"):
            at.gateway.restart(PROXY)  # which has no memory left over from others
            until("the person's way there again", partial(self.is_served, at, name))
            self.opened(at, name, WARM)
            before = at.gateway.child(PROXY).rss()
            after = self.opened(at, name, IDLE)
            each = (after - before) / IDLE / 1024
            sys.stdout.write(f"{IDLE} idle, each a {name}: {each:.0f} KiB at the Proxy\n")
            sys.stdout.flush()
            self.assertLess(each, KIBIBYTES)

    def is_served(self, at: Both, name: str) -> bool:
        """Whether one can be opened: for a moment a person still hears of the Proxy that ended."""
        try:
            opened(name, at.person.endpoint(STREAMS[name][0])).leave()
        except (AssertionError, OSError):
            return False
        return True

    def opened(self, at: Both, name: str, count: int) -> int:
        """What the Proxy holds while so many are open."""
        place = at.person.endpoint(STREAMS[name][0])
        held = [opened(name, place) for _ in range(count)]
        self.assertEqual(at.gateway.metric(PROXY, "svc_active_sessions"), count)
        size = at.gateway.child(PROXY).rss()
        for one in held:
            one.leave()
        at.gateway.await_metric(PROXY, "svc_active_sessions", 0, 60)
        return size

"""Raw-frame attackers against a running gateway's public listener.

Each ends as its table says, costs the Proxy no memory, and a session beside it goes on.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from typing import Any

from attrs import define
from hyperframe.frame import PingFrame
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, PROXY, GatewayTarget
from tests.system.attackers import CALLS, CALM, FLOODS, MANY, WRONGS, Attacker
from tests.system.hostile_server import hostile_server
from tests.system.raw import Ending, greeted
from tests.system.slow_attackers import WAITERS
from tests.system.test_health import pair
from tests.system.world import around

RUN_BY = "make fault"

_SHORT = {"limits.stalled_secs": 1, "limits.idle_secs": 2, "limits.handshake_secs": 2}
_MEGABYTES = 20
_sources: Iterator[int] = count(1)


@define(eq=False)
class Attacked:
    """A gateway, and a session that was open before the attackers came."""

    gateway: Gateway
    person: GatewayPerson
    session: socket.socket
    rss: int

    @property
    def address(self) -> str:
        """Of the public listener."""
        return self.gateway.public

    def grown(self) -> float:
        """Megabytes by which the Proxy has grown."""
        return (self.gateway.child(PROXY).rss() - self.rss) / 1e6

    def echoes(self) -> bool:
        """Whether the session still carries bytes."""
        self.session.sendall(b"still here")
        got = b""
        while len(got) < 10:
            piece = self.session.recv(10)
            if not piece:
                return False
            got += piece
        return got == b"still here"

    def words(self, source: str, role: str = PROXY) -> set[str]:
        """The reasons that a role logged for a peer's connections."""
        ended = self.gateway.child(role).events("connection ended")
        return {event["reason"] for event in ended if event["peer"] == source}


@cache
def attacked() -> Attacked:
    """The gateway of this module, warm."""
    port = around().ports["echo"]
    gateway = make_gateway([GatewayTarget("echo", f"127.0.0.1:{port}")], numbers=_SHORT)
    person = gateway.add_person("ada", "ops")
    person.up("echo")
    session = socket.create_connection(person.endpoint("echo"), 30)
    made = Attacked(gateway=gateway, person=person, session=session, rss=0)
    made.echoes()
    for each in (FLOODS[0], WRONGS[0], *CALLS[:2]):
        run(made.address, each, source())
    made.rss = gateway.child(PROXY).rss()
    return made


def source() -> str:
    """A loopback address that no attacker had before."""
    number = next(_sources)
    return f"127.0.{1 + number // 200}.{1 + number % 200}"


def run(address: str, attacker: Attacker, origin: str, certificate: Iterable[str] = ()) -> Ending:
    """One attack to its end."""
    raw = greeted(address, origin, tuple(certificate))
    try:
        attacker.attack(raw)
        if attacker.goaway is not None:
            return raw.until_closed()
        raw.until_answered(len(attacker.answers) + len(attacker.resets))
        return raw.until_quiet()
    finally:
        raw.close()


class AttackTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.on = attacked()

    def assert_ends(self, attackers: Iterable[Attacker], certificate: Iterable[str] = ()) -> None:
        told: dict[str, Any] = {}
        wanted: dict[str, Any] = {}
        for one in attackers:
            origin = source()
            ending = run(self.on.address, one, origin, certificate)
            if one.word:
                until(f"word of {one.name} in the log", lambda o=origin: self.on.words(o))  # type: ignore[misc]
            told[one.name] = (
                ending.goaway,
                ending.word,
                self.on.words(origin),
                ending.is_closed,
                ending.statuses,
                ending.resets & set(one.resets),
                self.on.echoes(),
                self.on.grown() < _MEGABYTES,
            )
            words = {one.word} if one.word else set()
            wanted[one.name] = (
                one.goaway,
                one.word,
                words,
                one.goaway is not None,
                told[one.name][4] if one.goaway else set(one.answers),
                set(one.resets),
                True,
                True,
            )
        differing = {
            name: (told[name], wanted[name]) for name in told if told[name] != wanted[name]
        }
        self.assertEqual(differing, {})

    def test_floods(self) -> None:
        """A stranger's floods end its connection with the fitting code and word."""
        self.assert_ends(FLOODS)

    def test_floods_with_a_certificate(self) -> None:
        """So do a person's."""
        self.assert_ends(FLOODS, pair(self.on.person.directory))

    def test_other_listeners(self) -> None:
        """Authority's listeners have the same limits, for whomever they serve."""
        gateway = self.on.gateway
        proxy, person = pair(gateway.files.state(PROXY)), pair(self.on.person.directory)
        told, wanted = {}, {}
        for name, address in gateway.listening(AUTHORITY).items():
            if name == "telemetry":
                continue
            for one in (FLOODS[3], FLOODS[0], WRONGS[0]):
                origin = source()
                # Administrators are people: this listener takes no node's certificate.
                ending = run(address, one, origin, person if name == "admin" else proxy)
                until("word", lambda o=origin: self.on.words(o, AUTHORITY))  # type: ignore[misc]
                told[name, one.name] = (ending.goaway, self.on.words(origin, AUTHORITY))
                wanted[name, one.name] = (one.goaway, {one.word})
        self.assertEqual(told, wanted)
        self.assertGreaterEqual(len(told), 9)

    def test_dialed_servers(self) -> None:
        """A Proxy that floods whoever dials it is left by Connectors and by people."""
        gateway = self.on.gateway
        person = gateway.add_person("bob", "ops")
        gateway.make_connector([], "edge")
        ping = PingFrame(0, b"12345678").serialize() * MANY
        with hostile_server(pair(gateway.files.state(PROXY)), ping) as server:
            gateway.configure("edge", {"endpoints.proxy": [server.address]})
            gateway.child("edge").kill()
            child = gateway.start("edge", ready=False)
            ended = until("flood ended", lambda: child.events("connection ended"), alive=[child])
            child.kill()
            self.assertEqual(
                [ended[0][name] for name in ("reason", "at", "peer")],
                ["ping_flood", "endpoints.proxy", server.address],
            )
            config = person.directory / "client.toml"
            text = config.read_text("utf-8")
            self.assertIn(gateway.public, text)
            config.write_text(text.replace(gateway.public, server.address), "utf-8")
            self.assertNotEqual(person.svc("resources", "list").status, 0)
            until("both endings", lambda: len(server.endings) > 1)
        endings = {(one.goaway, one.word) for one in server.endings}
        self.assertIn((CALM, "ping_flood"), endings)
        # The last words may be overtaken by a reset: the server was still sending.
        self.assertLessEqual(endings, {(CALM, "ping_flood"), (None, "")})

    def test_wrongs(self) -> None:
        """What breaks HTTP/2 ends the connection that sent it."""
        self.assert_ends(WRONGS)

    def test_calls(self) -> None:
        """A call that is wrong is refused alone."""
        self.assert_ends(CALLS)

    def test_waiters(self) -> None:
        """Who leaves something half done is cut off in time, all of them together."""
        origins = {one.name: source() for one in WAITERS}
        with ThreadPoolExecutor(len(WAITERS)) as pool:
            endings = dict(
                zip(
                    origins,
                    pool.map(lambda one: one.attack(self.on.address, origins[one.name]), WAITERS),
                    strict=True,
                )
            )
        told: dict[str, Any] = {}
        wanted: dict[str, Any] = {}
        for one in WAITERS:
            ending, origin = endings[one.name], origins[one.name]
            if one.word:
                until(f"word of {one.name} in the log", lambda o=origin: self.on.words(o))  # type: ignore[misc]
            is_closed = not (one.answers or one.resets)
            told[one.name] = (
                ending.goaway,
                self.on.words(origin),
                ending.is_closed,
                ending.resets & {8},
                ending.statuses if one.answers else set(),
            )
            words = {one.word} if one.word else set()
            wanted[one.name] = (
                one.goaway,
                words,
                is_closed,
                set(one.resets),
                set(one.answers),
            )
        self.assertEqual(told, wanted)
        self.assertTrue(self.on.echoes())
        self.assertLess(self.on.grown(), _MEGABYTES)

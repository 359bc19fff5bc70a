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
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway import Gateway, make_gateway
from svc.testing.person import Person
from svc.testing.processes import until
from svc.testing.settings import PROXY, Target
from tests.system.attackers import CALLS, FLOODS, WRONGS, Attacker
from tests.system.raw import Ending, greeted
from tests.system.slow_attackers import WAITERS
from tests.system.test_health import pair
from tests.system.world import around

_SHORT = {"limits.stalled_secs": 1, "limits.idle_secs": 2, "limits.handshake_secs": 2}
_MEGABYTES = 20
_sources: Iterator[int] = count(1)


@define(eq=False)
class Attacked:
    """A gateway, and a session that was open before the attackers came."""

    gateway: Gateway
    person: Person
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

    def words(self, source: str) -> set[str]:
        """The reasons logged for a peer's connections."""
        ended = self.gateway.child(PROXY).events("connection ended")
        return {event["reason"] for event in ended if event["peer"] == source}


@cache
def attacked() -> Attacked:
    """The gateway of this module, warm."""
    port = around().ports["echo"]
    gateway = make_gateway([Target("echo", f"127.0.0.1:{port}")], numbers=_SHORT)
    person = gateway.add_person("ada", "ops")
    person.up("echo")
    session = socket.create_connection(person.endpoint("echo"), 30)
    made = Attacked(gateway, person, session, 0)
    made.echoes()
    for each in (FLOODS[0], WRONGS[0], *CALLS[:2]):
        run(made, each, source())
    made.rss = gateway.child(PROXY).rss()
    return made


def source() -> str:
    """A loopback address that no attacker had before."""
    number = next(_sources)
    return f"127.0.{1 + number // 200}.{1 + number % 200}"


def run(on: Attacked, attacker: Attacker, origin: str, certificate: Iterable[str] = ()) -> Ending:
    """One attack to its end."""
    raw = greeted(on.address, origin, tuple(certificate))
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
            ending = run(self.on, one, origin, certificate)
            if one.word:
                until("word in the log", lambda o=origin: self.on.words(o))  # type: ignore[misc]
            told[one.name] = (
                ending.goaway, ending.word, self.on.words(origin), ending.is_closed,
                ending.statuses, ending.resets & set(one.resets), self.on.echoes(),
                self.on.grown() < _MEGABYTES,
            )  # fmt: skip
            words = {one.word} if one.word else set()
            wanted[one.name] = (
                one.goaway, one.word, words, one.goaway is not None,
                told[one.name][4] if one.goaway else set(one.answers), set(one.resets), True, True,
            )  # fmt: skip
        self.assertEqual(told, wanted)

    def test_floods(self) -> None:
        """A stranger's floods end its connection with the fitting code and word."""
        self.assert_ends(FLOODS)

    def test_floods_with_a_certificate(self) -> None:
        """So do a person's."""
        self.assert_ends(FLOODS, pair(self.on.person.directory))

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
                until("word in the log", lambda o=origin: self.on.words(o))  # type: ignore[misc]
            is_closed = not (one.answers or one.resets)
            told[one.name] = (
                ending.goaway, self.on.words(origin), ending.is_closed, ending.resets & {8},
                ending.statuses if one.answers else set(),
            )  # fmt: skip
            words = {one.word} if one.word else set()
            wanted[one.name] = (
                one.goaway, words, is_closed, set(one.resets), set(one.answers),
            )  # fmt: skip
        self.assertEqual(told, wanted)
        self.assertTrue(self.on.echoes())
        self.assertLess(self.on.grown(), _MEGABYTES)

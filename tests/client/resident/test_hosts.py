"""Names of resources for browsers, and the one port that serves them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.hosts import (
    SECRET_BYTES,
    SharedPort,
    host_name,
    reserve_ipv6,
    secret,
)
from svc.client.resident.local import TcpPorts
from svc.interfaces.kinds import LISTING
from tests.client.memory import Listening

KEY = bytes(range(32))


class Held:
    """A port of ``::1`` that is held."""

    def __init__(self, number: int, all_held: list[int]) -> None:
        self.number, self.all_held = number, all_held
        all_held.append(number)

    def close(self) -> None:
        self.all_held.remove(self.number)


class HostTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.taken: set[int] = set()
        self.held: list[int] = []

    def reserve(self, number: int) -> Any:
        if number in self.taken:
            raise OSError(errno.EADDRINUSE, "taken")
        return Held(number, self.held)

    def shared(self) -> SharedPort:
        """One that is not open yet."""
        return SharedPort(
            key=KEY, cluster="c1.example.test", seed="names of web for 1000", reserve=self.reserve
        )

    def test_names(self) -> None:
        """The same after every start, another one for each resource, cluster and installation."""
        name = host_name(KEY, "c1.example.test", "board")
        self.assertRegex(name, r"\Aboard-[a-z2-7]{16}\.localhost\Z")
        self.assertEqual(name, host_name(KEY, "c1.example.test", "board"))
        others = {
            name.partition("-")[2],
            host_name(KEY, "c1.example.test", "wiki").partition("-")[2],
            host_name(KEY, "c2.example.test", "board").partition("-")[2],
            host_name(bytes(32), "c1.example.test", "board").partition("-")[2],
        }
        self.assertEqual(len(others), 4)
        label = host_name(KEY, "c1.example.test", "a" * 63).partition(".")[0]
        self.assertEqual(len(label), 63)

    def test_secret(self) -> None:
        """It is made once, for its owner alone."""
        directory = Path(self.mktemp())
        directory.mkdir(mode=0o700)
        first = secret(directory, os.urandom)
        self.assertEqual((len(first), secret(directory, bytes)), (SECRET_BYTES, first))
        (path,) = directory.iterdir()
        self.assertEqual(path.stat().st_mode & 0o077, 0)

    def test_port(self) -> None:
        """It is open once for all names, and where the port of IPv6 is held as well."""
        shared, listening = self.shared(), Listening()
        ports = TcpPorts(listening.tcp, lambda address, port: None, 1000)
        self.assertEqual((shared.add("board"), shared.listing), ("", ""))
        self.successResultOf(_deferred(shared.open(ports, None)))
        first = shared.number
        self.assertEqual(self.held, [first])
        url = shared.add("board")
        self.assertEqual(url, f"http://{host_name(KEY, 'c1.example.test', 'board')}:{first}/")
        self.assertRegex(shared.listing, rf"\Ahttp://svc-[a-z2-7]{{16}}\.localhost:{first}/\Z")
        self.assertNotIn(host_name(KEY, "c1.example.test", "svc"), shared.listing)
        listed = {shared.listing[7:-1]: LISTING}
        self.assertEqual(shared.names, {**listed, url[7:-1]: "board"})
        shared.remove("board")
        self.assertEqual(shared.names, listed)
        self.taken.add(first)
        other = self.shared()
        self.successResultOf(_deferred(other.open(ports, None)))
        self.assertEqual(other.number, first + 1)
        self.successResultOf(_deferred(shared.close()))
        self.assertEqual(self.held, [first + 1])
        self.assertEqual((shared.names, shared.listing), ({}, ""))

    def test_no_port(self) -> None:
        """A port of another user is reported, and nothing of IPv6 stays held."""

        def nobody(address: str, number: int) -> Any:
            raise CannotListenError(address, number, OSError(errno.EADDRINUSE, "taken"))

        shared = self.shared()
        ports = TcpPorts(nobody, lambda address, port: 1001, 1000)
        self.successResultOf(_deferred(shared.open(ports, None)))
        self.assertEqual((shared.number, self.held), (0, []))
        self.assertIn("another user", shared.problem)

    def test_reserved(self) -> None:
        """Nobody else can listen there, and nobody is let in."""
        held = reserve_ipv6(0)
        if held is None:
            return  # no IPv6 here, so no browser goes there
        self.addCleanup(held.close)
        self.assertRaises(OSError, reserve_ipv6, held.getsockname()[1])


def _deferred(doing: Any) -> Any:
    return Deferred.fromCoroutine(doing)

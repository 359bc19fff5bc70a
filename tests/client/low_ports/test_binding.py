"""What the helper binds for whom: real sockets, and every question that it refuses."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from unittest import SkipTest

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.client.low_ports.binding import PortBinder
from svc.client.low_ports.helped import may_bind
from svc.client.low_ports.networks import UserNetworks
from svc.errors import SvcError
from tests.support.examples import examples

ADA, BOB = 1_000_000 + os.getpid(), 999_999
"""Each run of the tests has addresses of its own."""

NOBODY = 100_000
PORT = 1
"""tcpmux: nothing listens there."""


class BinderCase(SynchronousTestCase):
    """A machine with two users."""

    def setUp(self) -> None:
        directory = Path(self.mktemp())
        directory.mkdir()

        async def has_account(uid: int) -> bool:
            return uid in (ADA, BOB)

        self.binder = PortBinder(UserNetworks.load(directory), has_account)

    def answer(self, uid: int, question: dict[str, Any], given: int | None = None) -> Any:
        return self.successResultOf(
            Deferred.fromCoroutine(self.binder.answer(uid, question, given))
        )

    def network(self, uid: int) -> IPv4Network:
        return IPv4Network(self.answer(uid, {"ask": "network"})["network"])

    def refused(self, uid: int, question: dict[str, Any], given: int | None = None) -> SvcError:
        answered = Deferred.fromCoroutine(self.binder.answer(uid, question, given))
        error = self.failureResultOf(answered, SvcError).value
        assert isinstance(error, SvcError)
        return error

    def made(
        self,
        family: int = socket.AF_INET,
        kind: int = socket.SOCK_STREAM,
        proto: int = 0,
    ) -> socket.socket:
        try:
            made = socket.socket(family, kind, proto)
        except OSError:
            raise SkipTest(f"this kernel has no such socket: {family} {kind} {proto}") from None
        self.addCleanup(made.close)
        return made


class BindTests(BinderCase):
    """Where the tests may bind low ports themselves."""

    def setUp(self) -> None:
        super().setUp()
        if not may_bind(PORT):
            raise SkipTest("only a privileged user can bind ports below 1024")

    def bind(self, made: socket.socket, address: str, port: int = PORT) -> dict[str, Any]:
        return {"ask": "bind", "address": address, "port": port}

    def test_bound(self) -> None:
        """The very socket of the user is bound; the helper keeps nothing of it."""
        address = str(self.network(ADA)[5])
        made = self.made()
        open_before = len(os.listdir("/proc/self/fd"))
        self.assertEqual(self.answer(ADA, self.bind(made, address), made.fileno()), {"bound": True})
        self.assertEqual(len(os.listdir("/proc/self/fd")), open_before)
        self.assertEqual(made.getsockname(), (address, PORT))
        made.listen()
        with socket.create_connection((address, PORT), 10) as tool:
            peer, _ = made.accept()
            with peer:
                peer.sendall(b"x")
                self.assertEqual(tool.recv(1), b"x")

    def test_in_use(self) -> None:
        """Whoever listened there first keeps it, and a socket is bound once."""
        address = str(self.network(ADA)[7])
        first, second = self.made(), self.made()
        self.answer(ADA, self.bind(first, address), first.fileno())
        first.listen()
        refusal = self.refused(ADA, self.bind(second, address), second.fileno())
        self.assertEqual(refusal.reason, "address_in_use")
        other = str(self.network(ADA)[8])
        refusal = self.refused(ADA, self.bind(first, other), first.fileno())
        self.assertEqual(refusal.reason, "bind_refused")
        self.assertIn(other, refusal.text)

    def test_other_sockets(self) -> None:
        """A socket of another sort is refused and stays unbound."""
        address = str(self.network(ADA)[5])
        for family, kind, proto in (
            (socket.AF_INET, socket.SOCK_DGRAM, 0),
            (socket.AF_INET6, socket.SOCK_STREAM, 0),
            (socket.AF_UNIX, socket.SOCK_STREAM, 0),
        ):
            made = self.made(family, kind, proto)
            refusal = self.refused(ADA, self.bind(made, address), made.fileno())
            self.assertEqual(refusal.reason, "malformed")
            self.assertIn("not one of TCP over IPv4", refusal.text)
        with open(os.devnull, "rb") as file:
            question = {"ask": "bind", "address": address, "port": PORT}
            self.assertIn("is not a socket", self.refused(ADA, question, file.fileno()).text)
        self.assertIn("no socket came", self.refused(ADA, question).text)

    def test_another_tcp(self) -> None:
        """Multipath TCP is another protocol."""
        address = str(self.network(ADA)[5])
        made = self.made(proto=socket.IPPROTO_MPTCP if hasattr(socket, "IPPROTO_MPTCP") else 262)
        refusal = self.refused(ADA, self.bind(made, address), made.fileno())
        self.assertIn("not one of TCP over IPv4", refusal.text)


class OwnTests(BinderCase):
    """Whose an address is; the kernel is not asked for what is refused."""

    def setUp(self) -> None:
        super().setUp()
        self.socket = self.made()

    def asked(self, uid: int, address: object, port: object = 22) -> SvcError:
        question = {"ask": "bind", "address": address, "port": port}
        refusal = self.refused(uid, question, self.socket.fileno())
        self.assertEqual(self.socket.getsockname(), ("0.0.0.0", 0))
        return refusal

    @settings(deadline=None, max_examples=examples(50))
    @given(st.integers(0, 2**32 - 1))
    def test_addresses(self, number: int) -> None:
        """Nobody gets an address out of a network that is not the user's own."""
        own = self.network(ADA)
        address = str(IPv4Network((number, 32))[0])
        if IPv4Network(address).subnet_of(own):
            return
        self.assertEqual(self.asked(ADA, address).reason, "address_not_yours")

    def test_known_addresses(self) -> None:
        """Not the machine's own services, every address, nor another user's."""
        self.network(ADA)
        other = str(self.network(BOB)[5])
        for address in ("127.0.0.1", "127.0.0.53", "0.0.0.0", "255.255.255.255", "10.0.0.1", other):
            refusal = self.asked(ADA, address)
            self.assertEqual(refusal.reason, "address_not_yours")
            self.assertIn(f"{address} is no address of uid {ADA}, which has 127.", refusal.text)

    def test_before_the_network(self) -> None:
        """Who has no network has no address."""
        self.assertIn("has no network yet", self.asked(ADA, "127.64.0.1").text)

    def test_malformed(self) -> None:
        """What is no address or no port below 1024 is named."""
        own = str(self.network(ADA)[5])
        for address in (None, 1, "", "::1", "localhost", "127.1", f"{own}:22", "1" * 5000, [own]):
            self.assertIn("address:", self.asked(ADA, address).text)
        for port in (None, "22", 0, -1, 1024, 8080, 65536, 2**70, 22.0, True):
            self.assertIn("port:", self.asked(ADA, own, port).text)
        for question in ({}, {"ask": "all"}, {"ask": None}, {"ask": ["bind"]}):
            self.assertEqual(self.refused(ADA, question).reason, "malformed")

    def test_no_account(self) -> None:
        """A uid that the machine does not know, as of a user's namespaces, gets no network."""
        refusal = self.refused(NOBODY, {"ask": "network"})
        self.assertEqual(refusal.reason, "no_account")
        self.assertIn(str(NOBODY), refusal.text)

    def test_disk(self) -> None:
        """A network that cannot be written down is not given."""
        networks = self.binder.networks
        networks.path.parent.rmdir()
        refusal = self.refused(ADA, {"ask": "network"})
        self.assertEqual(refusal.reason, "networks_unwritten")
        self.assertIn(str(networks.path), refusal.text)

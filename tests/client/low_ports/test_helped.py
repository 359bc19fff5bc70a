"""The resident's side, over a real socket: what it does with the helper's answers, good and bad."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from unittest import SkipTest

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXServerEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory, Protocol
from twisted.protocols.basic import LineOnlyReceiver
from twisted.trial.unittest import TestCase

from svc.client.low_ports import helped
from svc.client.low_ports.binding import PortBinder
from svc.client.low_ports.helped import LowPorts, may_bind
from svc.client.low_ports.networks import UserNetworks
from svc.client.low_ports.service import BinderFactory, Questions
from svc.client.resident.local import TcpPorts
from svc.client.resident.peer_uid import listener_uid
from svc.runtime.services import BackgroundTasks

reactor: Any = _reactor
PORT = 2
"""Nothing listens there."""


class Greeting(Protocol):
    """Says a word and leaves."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"here")
        self.transport.loseConnection()


class LowPortsCase(TestCase):
    """A resident that may bind no low port, and something that listens at the helper's socket."""

    timeout = 60

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="svc-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = str(self.directory / "socket")
        self.ports = LowPorts(
            reactor=reactor, path=self.path, direct=self.direct, may_bind=lambda port: port > 1023
        )

    def direct(self, address: str, port: int) -> Any:
        return f"direct {address}:{port}"

    async def serve(self, factory: Any) -> None:
        port = await UNIXServerEndpoint(reactor, self.path).listen(factory)
        self.addCleanup(port.stopListening)

    async def listened(self, address: str, port: int = PORT) -> IListeningPort:
        endpoint = self.ports.endpoint(address, port)
        opened = await endpoint.listen(Factory.forProtocol(Greeting))
        self.addCleanup(opened.stopListening)
        return opened

    async def refused(self, address: str = "127.72.4.1", port: int = PORT) -> Any:
        try:
            await self.listened(address, port)
        except CannotListenError as error:
            return error.socketError
        return self.fail("it listens")


class HelpedTests(LowPortsCase):
    """With the helper itself, where the tests may bind low ports."""

    def setUp(self) -> None:
        super().setUp()
        if not may_bind(PORT):
            raise SkipTest("only a privileged user can bind ports below 1024")
        # Who runs these tests beside us has another network.
        networks = UserNetworks(self.directory / "networks.json", {os.getuid(): os.getpid() % 4096})
        self.tasks = BackgroundTasks()

        async def has_account(uid: int) -> bool:
            return True

        questions = Questions(PortBinder(networks, has_account), reactor, self.tasks.spawn)
        self.factory = BinderFactory(questions)

    async def test_listens(self) -> None:
        """The port is the resident's own: it accepts there, and the kernel names its user."""
        await self.serve(self.factory)
        network = await self.ports.network(PORT)
        assert network is not None
        address = str(network[9])
        opened = await self.listened(address)
        where: Any = opened.getHost()
        self.assertEqual((where.host, where.port), (address, PORT))
        self.assertEqual(listener_uid(address, PORT), os.getuid())
        heard = await self.heard(address)
        self.assertEqual(heard, b"here")

    async def heard(self, address: str) -> bytes:
        """What a tool hears there."""
        with socket.socket() as tool:
            tool.setblocking(False)
            self.assertEqual(tool.connect_ex((address, PORT)), errno.EINPROGRESS)
            while True:
                await turn()
                try:
                    return tool.recv(16)
                except OSError:
                    pass  # It is not connected yet, or nothing has come.

    async def test_in_use(self) -> None:
        """A port that is taken is told as any other: the next one is tried, or whose it is."""
        await self.serve(self.factory)
        network = await self.ports.network(PORT)
        assert network is not None
        address = str(network[10])
        await self.listened(address)
        why = await self.refused(address)
        self.assertEqual((type(why), why.errno), (OSError, errno.EADDRINUSE))
        opening = TcpPorts(self.ports.endpoint, lambda *_: os.getuid(), os.getuid())
        opened = await opening.open(address, iter([PORT, PORT + 1]), Factory.forProtocol(Greeting))
        assert opened.port is not None
        self.addCleanup(opened.port.stopListening)
        self.assertEqual(opened.number, PORT + 1)

    async def test_address_of_another(self) -> None:
        """An address out of the user's network is refused, and the network asked for again."""
        await self.serve(self.factory)
        before = await self.ports.network(PORT)
        self.factory._questions.helper.networks._given[os.getuid()] ^= 1
        assert before is not None
        why = await self.refused(str(before[11]))
        self.assertEqual(why.reason, "address_not_yours")
        self.assertNotIn(await self.ports.network(PORT), (None, before))


def turn() -> Deferred[None]:
    """The reactor's next turn."""
    done: Deferred[None] = Deferred()
    reactor.callLater(0, done.callback, None)
    return done


class Saying(LineOnlyReceiver):
    """Answers each question with the same line."""

    delimiter = b"\n"
    line: bytes | None = b""

    def lineReceived(self, line: bytes) -> None:
        if self.line is None:
            assert self.transport is not None
            self.transport.loseConnection()
        elif self.line:
            self.sendLine(self.line)


class OtherAnswerTests(LowPortsCase):
    """With something else at the socket, or nothing."""

    async def say(self, line: bytes | None) -> None:
        """Have this answered; None: the connection is closed, empty: nothing is said."""
        factory = Factory.forProtocol(type("Said", (Saying,), {"line": line}))
        await self.serve(factory)

    def lines(self) -> Iterator[bytes | None]:
        yield from (
            None,
            b"nonsense",
            b"[]",
            b"{}",
            b'{"network": 5}',
            b'{"network": "10.0.0.0/8"}',
        )
        yield from (b'{"network": "127.0.0.0/8"}', b'{"network": "127.72.4.1/32"}')

    async def test_ports_of_everybody(self) -> None:
        """What needs no privilege is bound by the resident itself, and the helper not asked."""
        self.assertEqual(self.ports.endpoint("127.72.4.1", 1024), "direct 127.72.4.1:1024")
        self.assertIsNone(await self.ports.network(1024))
        self.ports.may_bind = lambda port: True
        self.assertEqual(self.ports.endpoint("127.72.4.1", 22), "direct 127.72.4.1:22")

    async def test_nobody(self) -> None:
        """Without a helper the text says where it was looked for and what to run."""
        self.assertIsNone(await self.ports.network(22))
        why = await self.refused()
        self.assertEqual(why.reason, "no_helper")
        for word in (self.path, "svc service install client-net", "client.native_port_offset"):
            self.assertIn(word, why.text)

    async def test_no_network(self) -> None:
        """An answer that names no network of ours gives none."""
        for number, line in enumerate(self.lines()):
            self.path = self.ports.path = str(self.directory / f"socket{number}")
            await self.say(line)
            self.assertIsNone(await self.ports.network(22), line)

    async def test_a_network(self) -> None:
        """It is asked once."""
        await self.say(b'{"network": "127.72.4.0/22"}')
        self.assertEqual(await self.ports.network(22), IPv4Network("127.72.4.0/22"))
        self.ports.path = "/nonexistent"
        self.assertEqual(await self.ports.network(22), IPv4Network("127.72.4.0/22"))

    async def test_full_network(self) -> None:
        """The helper is not asked for an address that is none of the user's."""
        await self.say(b'{"network": "127.72.4.0/22"}')
        await self.ports.network(22)
        why = await self.refused("127.72.8.1")
        self.assertEqual(why.reason, "network_full")
        self.assertIn("127.72.4.0/22", why.text)

    async def test_not_bound(self) -> None:
        """A socket that was not bound where it was asked is not listened on."""
        await self.say(b'{"bound": true}')
        self.assertEqual((await self.refused()).reason, "helper_failed")

    async def test_refusal(self) -> None:
        """A refusal is told in the helper's words."""
        await self.say(b'{"error": {"reason": "no_account", "text": "uid 5 has no account"}}')
        why = await self.refused()
        self.assertEqual(
            (why.reason, why.text), ("no_account", "svc-client-net: uid 5 has no account")
        )

    async def test_silent(self) -> None:
        """A helper that says nothing holds nobody up for long."""
        self.patch(helped, "ASK_SECS", 0.2)
        await self.say(b"")
        self.assertEqual((await self.refused()).reason, "deadline")

"""``limits.max_connections`` and ``limits.max_connections_per_address`` of a role's listeners."""

from __future__ import annotations

import os
import socket
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.compose.listeners.accept import AT_ONCE
from svc.compose.listeners.addresses import server_endpoint
from svc.compose.listeners.rpc import RpcListener, rpc_listener, rpc_server
from svc.config import Address, read_settings
from svc.model.principal import Role
from svc.pki.tls import ClientCertificates, server_context
from svc.runtime.context import Runtime
from tests.config.malformed import GOOD
from tests.pki.support import World
from tests.support.nothing import nothing

_HELLO = b"\x16\x03\x01\x00\x01\x01"
"""The beginning of a handshake, which a TLS layer waits to hear more of."""


class Knock(Protocol):
    """Says the first bytes of a handshake; keeps what it hears and when it ends."""

    transport: Any

    def __init__(self) -> None:
        self.heard = b""
        self.ended: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        self.transport.write(_HELLO)

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.ended.callback(None)


class ListenerTests(TestCase):
    """A public listener with TLS, on loopback."""

    timeout = 20

    async def listening(self, **limits: int) -> RpcListener:
        lines = "".join(f"limits.{name} = {value}\n" for name, value in limits.items())
        settings = read_settings(GOOD["proxy"] + "limits.drain_secs = 0\n" + lines, "proxy")
        world = World()
        runtime = Runtime(reactor=reactor, now=world.now, entropy=os.urandom, environ={})
        listener = rpc_listener(runtime, settings, "key", Address("127.0.0.1", 0))
        context = server_context(world.identity(Role.PROXY), ClientCertificates.OPTIONAL)
        listener.late.serve(
            rpc_server(runtime, settings, [], listener="key", admit=nothing), context
        )
        listener.privilegedStartService()
        await listener.startService()
        self.addCleanup(listener.stopService)
        return listener

    async def knock(self, listener: RpcListener) -> Knock:
        knock = Knock()
        port: Any = listener.listener.bound
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", port.port)
        await endpoint.connect(Factory.forProtocol(lambda: knock))
        return knock

    async def test_past_the_limit(self) -> None:
        """Past either limit a connection is closed with nothing said; one that ends makes room."""
        for limits in ({"max_connections": 2}, {"max_connections_per_address": 2}):
            listener = await self.listening(**limits)
            first, _second = await self.knock(listener), await self.knock(listener)
            refused = await self.knock(listener)
            await refused.ended
            self.assertEqual(refused.heard, b"")
            server = listener.late.server
            assert server is not None
            self.assertEqual((server.connection_limits.count, first.ended.called), (2, False))
            connections = list(server.connections)
            first.transport.loseConnection()
            await first.ended
            while server.connection_limits.count == 2:
                await self.turn()
            self.assertEqual(len(connections) - server.connection_limits.count, 1)
            third = await self.knock(listener)
            while server.connection_limits.count == 1:
                await self.turn()
            self.assertFalse(third.ended.called)

    def turn(self) -> Deferred[None]:
        """One turn of the reactor."""
        turned: Deferred[None] = Deferred()
        reactor.callLater(0, turned.callback, None)
        return turned


class QueueTests(SynchronousTestCase):
    """Connections that the process has not taken yet."""

    def test_room_for_all_who_come_back(self) -> None:
        """Every listener lets the system hold a thousand callers, over IPv4 and IPv6."""
        memory = MemoryReactorClock()
        for host in ("127.0.0.1", "localhost", "::1"):
            server_endpoint(memory, Address(host, 0)).listen(Factory())
        self.assertEqual([backlog for _, _, backlog, _ in memory.tcpServers], [1024] * 3)


class TurnsTests(TestCase):
    """Many connections that wait to be taken."""

    timeout = 20

    async def test_a_few_at_once(self) -> None:
        """Of hundreds that came at once a few are taken in each turn of the reactor."""
        turns = [0]
        seen = Deferred[None]()

        class Counted(Factory):
            def buildProtocol(self, addr: Any) -> None:
                turns[-1] += 1
                if sum(turns) == 300:
                    seen.callback(None)

        def turn() -> None:
            turns.append(0)
            if not seen.called:
                reactor.callLater(0, turn)

        port = await server_endpoint(reactor, Address("127.0.0.1", 0)).listen(Counted())
        self.addCleanup(port.stopListening)
        bound: Any = port.getHost()
        address = ("127.0.0.1", bound.port)
        doors = [socket.create_connection(address) for _ in range(300)]
        for door in doors:
            self.addCleanup(door.close)
        turn()
        await seen
        self.assertEqual(sum(turns), 300)
        self.assertLessEqual(max(turns), AT_ONCE + 20)

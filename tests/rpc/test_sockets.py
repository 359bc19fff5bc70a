"""Our own ends over real sockets: unix peers, and what is no HTTP/2."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from google.protobuf.wrappers_pb2 import StringValue
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import (
    TCP4ClientEndpoint,
    TCP4ServerEndpoint,
    UNIXClientEndpoint,
    UNIXServerEndpoint,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from svc.interfaces.rpc import RpcService, unary
from svc.rpc.client.channel import dial
from svc.rpc.server.server import RpcServerFactory
from tests.support.nothing import nothing


class Shout(Protocol):
    """Says something and waits for the end."""

    transport: Any

    def __init__(self, words: bytes) -> None:
        self.words = words
        self.ended: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        self.transport.write(self.words)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.ended.callback(None)


class SocketTests(TestCase):
    timeout = 20

    async def who(self, request: Any, call: Any) -> Any:
        return StringValue(value=f"{call.peer.uid} {call.peer.pid} {call.peer.tls}")

    async def listen(self, endpoint: Any) -> Any:
        self.told: list[str] = []
        factory = RpcServerFactory(
            [RpcService("t.T", {"Who": unary(StringValue, self.who)})],
            reactor,
            plaintext=True,
            on_problem=lambda what, detail: self.told.append(what),
            admit=nothing,
        )
        port = await endpoint.listen(factory)
        self.addCleanup(port.stopListening)
        self.addCleanup(lambda: Deferred.fromCoroutine(factory.drain(0)))
        return port

    async def test_unix_peer(self) -> None:
        """The kernel says whose process calls over a unix socket."""
        path = os.path.join(self.mktemp(), "s")
        os.makedirs(os.path.dirname(path))
        await self.listen(UNIXServerEndpoint(reactor, path))
        channel = await dial(UNIXClientEndpoint(reactor, path), reactor, plaintext=True)
        answer = await channel.unary("/t.T/Who", StringValue(), StringValue, timeout=10)
        self.assertEqual(answer.value, f"{os.getuid()} {os.getpid()} False")
        await channel.close()

    async def test_not_http2(self) -> None:
        """HTTP/1.1 and an upgrade to h2c are closed, and other callers are served."""
        port = await self.listen(TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1"))
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", port.getHost().port)
        upgrade = (
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 9\r\n\r\n"
        )
        for words in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", upgrade + b"x" * 9):
            shout = Shout(words)
            await endpoint.connect(Factory.forProtocol(partial(lambda given: given, shout)))
            await shout.ended
        self.assertEqual(self.told, ["protocol_error", "protocol_error"])
        channel = await dial(endpoint, reactor, plaintext=True)
        answer = await channel.unary("/t.T/Who", StringValue(), StringValue, timeout=10)
        self.assertEqual(answer.value, "None None False")
        await channel.close()

    def test_stopped_while_connecting(self) -> None:
        """Stopped before anybody answered, dialling is cancelled: it is not as if nobody were."""
        endpoint = TCP4ClientEndpoint(MemoryReactorClock(), "127.0.0.1", 1)
        dialling = Deferred.fromCoroutine(dial(endpoint, Clock(), plaintext=True))
        dialling.cancel()
        self.failureResultOf(dialling, CancelledError)

"""A client and a server of ours on memory transports under one Clock."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.test.iosim import FakeTransport, IOPump, connect

from svc.interfaces.rpc import RpcService
from svc.rpc.client.channel import ClientConnection, RpcChannel
from svc.rpc.keepalive import Keepalive
from svc.rpc.server.server import RpcServerFactory
from svc.wire.limits import WireLimits
from tests.support.nothing import nothing

_T = TypeVar("_T")


class Pair:
    """Both ends of one connection; nothing moves but in :meth:`turn`."""

    def __init__(
        self,
        services: Iterable[RpcService],
        *,
        limits: WireLimits | None = None,
        keepalive: Keepalive | None = None,
        clock: Clock | None = None,
        **server: Any,
    ) -> None:
        self.clock = clock or Clock()
        self.told: list[tuple[str, str]] = []
        self.factory = RpcServerFactory(
            services,
            self.clock,
            limits=limits or WireLimits(),
            plaintext=True,
            on_problem=self.tell,
            **{"admit": nothing, **server},
        )
        protocol = self.factory.buildProtocol(None)
        assert protocol is not None
        self.server = protocol
        self.client = ClientConnection(
            self.clock,
            WireLimits(),
            plaintext=True,
            keepalive=keepalive,
            on_problem=self.tell,
        )
        self.server_side = FakeTransport(self.server, True)
        self.client_side = FakeTransport(self.client, False)
        self.pump: IOPump = connect(self.server, self.server_side, self.client, self.client_side)
        self.turn()
        self.channel = RpcChannel(self.client, authority="gateway")

    def tell(self, what: str, detail: str) -> None:
        self.told.append((what, detail))

    def turn(self, times: int = 30) -> None:
        """Let both ends write and read until nothing moves."""
        for _ in range(times):
            self.clock.advance(0)
            self.pump.pump()

    def settle(self, coroutine: Coroutine[Any, Any, _T], times: int = 60) -> list[Any]:
        """What *coroutine* gave, or its Failure; empty while it waits."""
        results: list[Any] = []
        Deferred.fromCoroutine(coroutine).addBoth(results.append)
        self.turn(times)
        return results

"""gRPC's interoperability cases: grpcio and grpc-js call a gateway's Proxy, and we call theirs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from svc.config import Address
from tests.interop.cases import Cases
from tests.interop.stage import ada, call_gateway, node, stock_server
from tests.system.side import closed, side_of

CASES = (
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "custom_metadata",
    "status_code_and_message",
    "special_status_message",
    "unimplemented_method",
    "unimplemented_service",
    "cancel_after_begin",
    "cancel_after_first_response",
    "timeout_on_sleeping_server",
)
"""Those that every pair plays.

So does everyone 1,000 calls at once: with grpcio large ones, with grpc-js, which takes 64 KiB at a
time over a whole connection, such as are a tenth as long.
"""


class StockClientTests(TestCase):
    """The listener is the one that composition builds from what ``svc init`` wrote."""

    def assert_ok(self, words: Sequence[str], *more: str) -> None:
        """A stock client finds every case as gRPC describes it."""
        cases = (*CASES, *more)
        self.assertEqual(call_gateway(words, cases), dict.fromkeys(cases, "ok"))

    def test_grpcio(self) -> None:
        """A grpcio client; it is told, too, that nothing compressed is taken, and to ping less."""
        words = [sys.executable, "-m", "tests.interop.stock_client"]
        compressed = ("client_compressed_unary", "client_compressed_streaming")
        self.assert_ok(words, "concurrent_large_unary", "too_many_pings", *compressed)

    def test_grpc_js(self) -> None:
        """A grpc-js client likewise."""
        self.assert_ok(node("client.js"), "concurrent_unary", "client_compressed_unary")


class StockServerTests(TestCase):
    """The channel is the one that a person's commands dial a Proxy with."""

    timeout = 120

    async def played(self, port: int, names: Iterable[str]) -> dict[str, str]:
        """What our channel saw of each case."""
        channel = await side_of(ada()).dial(Address("127.0.0.1", port))
        self.addCleanup(closed, channel)
        cases, told = Cases(channel), {}
        for name in names:
            try:
                await getattr(cases, name)()
            except Exception as wrong:
                told[name] = f"{type(wrong).__name__}: {wrong}"
            else:
                told[name] = "ok"
        return told

    def assert_ok(self, name: str, words: Sequence[str], *more: str) -> Deferred[None]:
        """Our channel finds every case as gRPC describes it."""
        cases = (*CASES, *more)
        playing = Deferred.fromCoroutine(self.played(stock_server(name, words), cases))
        return playing.addCallback(self.assertEqual, dict.fromkeys(cases, "ok"))

    def test_grpcio(self) -> Deferred[None]:
        """A grpcio server, which compresses an answer whatever its caller takes."""
        words = [sys.executable, "-m", "tests.interop.stock_server"]
        return self.assert_ok("grpcio", words, "concurrent_large_unary", "server_compressed_unary")

    def test_grpc_js(self) -> Deferred[None]:
        """A grpc-js server."""
        return self.assert_ok("grpc_js", node("server.js"), "concurrent_unary")

"""Our server, called by grpcio over real sockets."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import grpc
from cryptography import x509
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.threads import deferToThread
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import TestCase

from svc.errors import Denied, SvcError
from svc.interfaces.rpc import RpcService, streaming, unary
from svc.rpc.server.server import RpcServerFactory
from tests.rpc.certificates import TestCA
from tests.support.nothing import nothing
from tests.support.proof import proves

LARGE_REQUEST, LARGE_RESPONSE = 271_828, 314_159
TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"


def raw(data: bytes) -> bytes:
    return data


class GrpcioClientTests(TestCase):
    timeout = 30

    async def setUp(self) -> None:  # type: ignore[override]
        self.cancelled: Deferred[SvcError] = Deferred()
        self.service = RpcService(
            "test.Interop",
            {
                "Large": unary(BytesValue, self.large),
                "Who": unary(StringValue, self.who),
                "Refuse": unary(StringValue, self.refuse),
                "Collect": streaming(self.collect),
                "Spread": streaming(self.spread),
                "Both": streaming(self.both),
                "Hang": streaming(self.hang),
            },
        )
        self.factory = RpcServerFactory([self.service], reactor, plaintext=True, admit=nothing)
        await self.listen(self.factory)

    async def listen(self, factory: Any) -> None:
        endpoint = TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1")
        port = await endpoint.listen(factory)
        self.addCleanup(port.stopListening)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.factory.drain(0)))
        self.address = f"127.0.0.1:{port.getHost().port}"

    # -- what is served

    async def large(self, request: Any, call: Any) -> Any:
        self.assertEqual(len(request.value), LARGE_REQUEST)
        return BytesValue(value=b"\0" * LARGE_RESPONSE)

    async def who(self, request: Any, call: Any) -> Any:
        metadata = ",".join(f"{key}={call.metadata[key]!r}" for key in sorted(call.metadata))
        chain = call.peer.chain
        serial = x509.load_der_x509_certificate(chain[0]).serial_number if chain else 0
        return StringValue(value=f"{metadata} {serial} {len(call.peer.chain)}")

    async def refuse(self, request: Any, call: Any) -> StringValue:
        raise Denied(TEXT, reason="not_today", details={"decision_id": "d1"})

    async def collect(self, call: Any) -> None:
        total = 0
        while (message := await call.receive()) is not None:
            total += len(message)
        await call.send(b"%d" % total)

    async def spread(self, call: Any) -> None:
        request = await call.receive()
        for size in request.split(b","):
            await call.send(b"y" * int(size))

    async def both(self, call: Any) -> None:
        while (message := await call.receive()) is not None:
            await call.send(message)

    async def hang(self, call: Any) -> None:
        call.on_cancel(self.cancelled.callback)
        await Deferred()

    # -- grpcio, in a thread

    def call(self, function: Any, credentials: Any = None) -> Any:
        def run() -> Any:
            options = [("grpc.max_receive_message_length", 8 << 20)]
            if credentials is None:
                channel = grpc.insecure_channel(self.address, options)
            else:
                channel = grpc.secure_channel(self.address, credentials, options)
            with channel:
                return function(channel)

        return deferToThread(run)

    async def refusal(self, function: Any, credentials: Any = None) -> Any:
        try:
            await self.call(function, credentials)
        except grpc.RpcError as error:
            return error
        raise AssertionError("not refused")

    @staticmethod
    def unary(
        channel: Any, method: Any, request: Any, response_type: Any = StringValue, **options: Any
    ) -> Any:
        options.setdefault("timeout", 10)
        stub = channel.unary_unary(
            f"/test.Interop/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response_type.FromString,
        )
        return stub(request, **options)

    async def test_large_unary(self) -> None:
        """A large unary call, as in gRPC's interoperability cases."""
        answer = await self.call(
            lambda channel: self.unary(
                channel, "Large", BytesValue(value=b"\0" * LARGE_REQUEST), BytesValue
            )
        )
        self.assertEqual(len(answer.value), LARGE_RESPONSE)

    async def test_client_streaming(self) -> None:
        """Many messages up, one down."""
        sizes = [27182, 8, 1828, 45904, 0, 1]

        def run(channel: Any) -> Any:
            stub = channel.stream_unary("/test.Interop/Collect", raw, raw)
            return stub(iter([b"x" * size for size in sizes]), timeout=10)

        self.assertEqual(await self.call(run), b"%d" % sum(sizes))

    async def test_server_streaming(self) -> None:
        """One message up, many down."""

        def run(channel: Any) -> Any:
            stub = channel.unary_stream("/test.Interop/Spread", raw, raw)
            return [len(message) for message in stub(b"31415,9,2653,58979,3000000", timeout=10)]

        self.assertEqual(await self.call(run), [31415, 9, 2653, 58979, 3_000_000])

    async def test_ping_pong(self) -> None:
        """Messages go to and fro on one call."""

        def run(channel: Any) -> Any:
            stub = channel.stream_stream("/test.Interop/Both", raw, raw)
            requests = [b"x" * size for size in (27182, 8, 1828, 45904)]
            return [len(message) for message in stub(iter(requests), timeout=10)]

        self.assertEqual(await self.call(run), [27182, 8, 1828, 45904])

    async def test_empty_stream(self) -> None:
        """A call without any message ends well."""

        def run(channel: Any) -> Any:
            stub = channel.stream_stream("/test.Interop/Both", raw, raw)
            return list(stub(iter([]), timeout=10))

        self.assertEqual(await self.call(run), [])

    async def test_custom_metadata(self) -> None:
        """Text and binary metadata arrive as they were sent."""
        metadata = [("x-name", "value one"), ("x-raw-bin", b"\x00\xab\xff")]
        answer = await self.call(
            lambda channel: self.unary(channel, "Who", StringValue(), metadata=metadata)
        )
        self.assertIn("x-name='value one',x-raw-bin=b'\\x00\\xab\\xff'", answer.value)

    @proves("G-OPEN-06")
    async def test_status_message_and_details(self) -> None:
        """Status code, Unicode message and ErrorInfo arrive."""
        error = await self.refusal(lambda channel: self.unary(channel, "Refuse", StringValue()))
        self.assertEqual(error.code(), grpc.StatusCode.PERMISSION_DENIED)
        self.assertEqual(error.details(), TEXT)
        trailers = {pair.key: pair.value for pair in error.trailing_metadata()}
        status = Status.FromString(trailers["grpc-status-details-bin"])
        info = ErrorInfo()
        self.assertTrue(status.details[0].Unpack(info))
        self.assertEqual((info.reason, info.domain), ("not_today", "svc"))
        self.assertEqual(dict(info.metadata), {"decision_id": "d1"})

    async def test_unimplemented(self) -> None:
        """Unknown methods and unknown services are UNIMPLEMENTED."""
        for path in ("/test.Interop/Nothing", "/test.Nothing/Who", "/test.Interop/Who/", "//a/b"):

            def run(channel: Any, path: Any = path) -> Any:
                return channel.unary_unary(path, raw, raw)(b"", timeout=10)

            error = await self.refusal(run)
            self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED, path)

    async def test_cancel_after_begin(self) -> None:
        """A call cancelled by its caller is cancelled here."""

        def wait_then_cancel(channel: Any) -> Any:
            stub = channel.stream_stream("/test.Interop/Both", raw, raw)

            waiting = Event()

            def requests() -> Any:
                yield b"one"
                waiting.wait(5)

            begun = stub(requests())
            next(begun)
            begun.cancel()
            waiting.set()
            return begun.code()

        self.assertEqual(await self.call(wait_then_cancel), grpc.StatusCode.CANCELLED)

    async def test_timeout(self) -> None:
        """A caller's short deadline ends the call on both sides."""

        def run(channel: Any) -> Any:
            # Before the time runs: what is to end on both sides has to arrive within it.
            grpc.channel_ready_future(channel).result(10)
            stub = channel.stream_stream("/test.Interop/Hang", raw, raw)
            return list(stub(iter([b"x"]), timeout=1))

        error = await self.refusal(run)
        self.assertEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertIsInstance(await self.cancelled, SvcError)

    async def test_timeout_of_a_millisecond(self) -> None:
        """A deadline that is over before the call arrives."""

        def run(channel: Any) -> Any:
            return list(
                channel.stream_stream("/test.Interop/Hang", raw, raw)(iter([]), timeout=0.001)
            )

        error = await self.refusal(run)
        self.assertEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    async def test_compressed(self) -> None:
        """A compressed message is refused as such."""

        def run(channel: Any) -> Any:
            stub = channel.unary_unary("/test.Interop/Who", raw, raw)
            return stub(
                b"\x0a\x80\x20" + b"a" * 4096, compression=grpc.Compression.Gzip, timeout=10
            )

        error = await self.refusal(run)
        self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED)

    @proves("X-32")
    async def test_optional_client_certificates(self) -> None:
        """One TLS 1.3 listener serves callers with and without a certificate."""
        ours, foreign = TestCA("ours"), TestCA("foreign")
        options = ours.server_options(ours.leaf("spiffe://c.example/proxy/x"))
        self.factory = RpcServerFactory([self.service], reactor, admit=nothing)
        await self.listen(TLSMemoryBIOFactory(options, False, self.factory))
        person = ours.leaf("spiffe://c.example/user/x")
        stranger = foreign.leaf("spiffe://c.example/user/x")
        who = partial(self.unary, method="Who", request=StringValue())

        anonymous = grpc.ssl_channel_credentials(ours.pem)
        self.assertTrue((await self.call(who, anonymous)).value.endswith(" 0 0"))
        known = grpc.ssl_channel_credentials(ours.pem, person.key, person.certificate)
        serial = person.both.serialNumber()
        self.assertTrue((await self.call(who, known)).value.endswith(f" {serial} 2"))
        unknown = grpc.ssl_channel_credentials(ours.pem, stranger.key, stranger.certificate)
        error = await self.refusal(who, unknown)
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)

    async def test_plaintext_is_never_a_fallback(self) -> None:
        """A listener meant for TLS serves nothing in plaintext."""
        self.factory = RpcServerFactory([self.service], reactor, admit=nothing)
        await self.listen(self.factory)
        error = await self.refusal(lambda channel: self.unary(channel, "Who", StringValue()))
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)

"""Our channel, calling a grpcio server over real sockets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import grpc
from cryptography import x509
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from svc.errors import Fault, SvcError
from svc.rpc.client.channel import dial
from tests.rpc.certificates import TestCA

LARGE_REQUEST, LARGE_RESPONSE = 271_828, 314_159
TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"


class Served(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The methods of the grpcio side, by name."""

    def service(self, details: Any) -> Any:
        method = details.method.rsplit("/", 1)[1]
        if method in ("Large", "Who", "Refuse", "Hang"):
            return grpc.unary_unary_rpc_method_handler(getattr(self, method.lower()))
        if method == "Both":
            return grpc.stream_stream_rpc_method_handler(self.both)
        return None

    def large(self, request: Any, context: Any) -> Any:
        assert len(BytesValue.FromString(request).value) == LARGE_REQUEST
        return BytesValue(value=b"\0" * LARGE_RESPONSE).SerializeToString()

    def who(self, request: Any, context: Any) -> Any:
        metadata = {
            key: value for key, value in context.invocation_metadata() if key.startswith("x-")
        }
        identities = context.peer_identities() or []
        return StringValue(value=f"{sorted(metadata.items())} {identities}").SerializeToString()

    def refuse(self, request: Any, context: Any) -> None:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, TEXT)

    def hang(self, request: Any, context: Any) -> Any:
        over = Event()
        context.add_callback(over.set)
        over.wait(5)
        return b""

    def both(self, requests: Any, context: Any) -> Any:
        yield from requests


class GrpcioServerTests(TestCase):
    timeout = 30

    async def serve(self, credentials: Any = None) -> Any:
        self.pool = ThreadPoolExecutor(4)
        options = [("grpc.max_receive_message_length", 8 << 20)]
        server = grpc.server(self.pool, [Served()], options=options)
        if credentials is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        self.addCleanup(lambda: deferToThread(lambda: server.stop(None).wait()))
        return TCP4ClientEndpoint(reactor, "127.0.0.1", port)

    async def plain(self) -> Any:
        channel = await dial(await self.serve(), reactor, plaintext=True)
        self.addCleanup(lambda: Deferred.fromCoroutine(channel.close()))
        return channel

    async def refusal(self, awaitable: Any) -> SvcError:
        try:
            await awaitable
        except SvcError as refusal:
            return refusal
        raise AssertionError("not refused")

    async def test_large_unary(self) -> None:
        """A large unary call."""
        channel = await self.plain()
        request = BytesValue(value=b"\0" * LARGE_REQUEST)
        answer = await channel.unary("/t.T/Large", request, BytesValue, timeout=10)
        self.assertEqual(len(answer.value), LARGE_RESPONSE)

    async def test_metadata(self) -> None:
        """Text and binary metadata arrive."""
        channel = await self.plain()
        answer = await channel.unary(
            "/t.T/Who",
            StringValue(),
            StringValue,
            timeout=10,
            metadata=[("x-name", "value one"), ("x-raw-bin", b"\x00\xab\xff")],
        )
        self.assertIn("[('x-name', 'value one'), ('x-raw-bin', b'\\x00\\xab\\xff')]", answer.value)

    async def test_status(self) -> None:
        """Status code and Unicode message arrive, the code's name as the reason."""
        channel = await self.plain()
        call = channel.unary("/t.T/Refuse", StringValue(), StringValue, timeout=10)
        refusal = await self.refusal(call)
        self.assertEqual(refusal.fault, Fault.DENIED)
        self.assertEqual((refusal.text, refusal.reason), (TEXT, "permission_denied"))

    async def test_unimplemented(self) -> None:
        """A method the server lacks."""
        channel = await self.plain()
        call = channel.unary("/t.T/Nothing", StringValue(), StringValue, timeout=10)
        self.assertEqual((await self.refusal(call)).fault, Fault.UNIMPLEMENTED)

    async def test_deadline(self) -> None:
        """A deadline ends the call, and the connection serves the next."""
        channel = await self.plain()
        call = channel.unary("/t.T/Hang", StringValue(), StringValue, timeout=0.05)
        self.assertEqual((await self.refusal(call)).fault, Fault.DEADLINE)
        answer = await channel.unary("/t.T/Who", StringValue(), StringValue, timeout=10)
        self.assertTrue(answer.value)

    async def test_both_ways(self) -> None:
        """Messages go to and fro, and the end of ours ends the call."""
        channel = await self.plain()
        stream = channel.stream("/t.T/Both", timeout=10)
        for size in (27182, 8, 1828, 45904, 0, 3_000_000):
            sending = Deferred.fromCoroutine(stream.send(b"x" * size))
            self.assertEqual(len(await stream.receive()), size)
            await sending
        stream.end()
        self.assertIsNone(await stream.receive())
        await stream.closed

    async def test_mutual_tls(self) -> None:
        """Both certificates are checked; the channel knows the server's."""
        ca = TestCA("ours")
        leaf, person = ca.leaf("spiffe://c/authority/x"), ca.leaf("spiffe://c/user/y")
        credentials = grpc.ssl_server_credentials([(leaf.key, leaf.certificate)], ca.pem, True)
        endpoint = await self.serve(credentials)
        options = optionsForClientTLS(
            "localhost",
            trustRoot=Certificate.loadPEM(ca.pem),
            clientCertificate=person.both,
            acceptableProtocols=[b"h2"],
        )
        channel = await dial(wrapClientTLS(options, endpoint), reactor, authority="localhost")
        self.addCleanup(lambda: Deferred.fromCoroutine(channel.close()))
        answer = await channel.unary("/t.T/Who", StringValue(), StringValue, timeout=10)
        self.assertIn("localhost", answer.value)
        shown = x509.load_der_x509_certificate(channel.peer.chain[0])
        self.assertEqual(shown.serial_number, leaf.both.serialNumber())
        self.assertEqual(len(channel.peer.chain), 2)

    async def test_server_without_h2(self) -> None:
        """A TLS server that does not choose h2 is not spoken to."""
        ca = TestCA("ours")
        leaf = ca.leaf("spiffe://c/authority/x")
        credentials = grpc.ssl_server_credentials([(leaf.key, leaf.certificate)])
        endpoint = await self.serve(credentials)
        options = optionsForClientTLS("localhost", trustRoot=Certificate.loadPEM(ca.pem))
        refusal = await self.refusal(dial(wrapClientTLS(options, endpoint), reactor))
        self.assertEqual(refusal.fault, Fault.UNAVAILABLE)

    async def test_foreign_server(self) -> None:
        """A server of another CA is not spoken to, and the refusal says why."""
        ca, foreign = TestCA("ours"), TestCA("foreign")
        leaf = foreign.leaf("spiffe://c/authority/x")
        endpoint = await self.serve(grpc.ssl_server_credentials([(leaf.key, leaf.certificate)]))
        options = optionsForClientTLS(
            "localhost", trustRoot=Certificate.loadPEM(ca.pem), acceptableProtocols=[b"h2"]
        )
        refusal = await self.refusal(dial(wrapClientTLS(options, endpoint), reactor))
        self.assertEqual(refusal.reason, "handshake_failed")
        self.assertIn("certificate verify failed", refusal.text)

    async def test_nobody_there(self) -> None:
        """Dialling where nobody listens is UNAVAILABLE."""
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", 1)
        refusal = await self.refusal(dial(endpoint, reactor, plaintext=True))
        self.assertEqual((refusal.fault, refusal.reason), (Fault.UNAVAILABLE, "cannot_connect"))

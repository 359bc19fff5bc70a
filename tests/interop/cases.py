"""gRPC's interoperability cases as our channel calls them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, gatherResults

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcChannel
from tests.interop import testing_pb2 as pb

SERVICE = "/grpc.testing.TestService/"
TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
SENT, ANSWERED = (27182, 8, 1828, 45904), (31415, 9, 2653, 58979)
ECHOED: dict[str, str | bytes] = {
    "x-grpc-test-echo-initial": "test_initial_metadata_value",
    "x-grpc-test-echo-trailing-bin": b"\xab\xab\xab",
}
SECONDS = 20.0


def payload(size: int) -> Any:
    return pb.Payload(body=bytes(size))


LARGE = {"response_size": 314159, "payload": payload(271828)}


def asking(*sizes: int, sent: int = 0) -> Any:
    parameters = [pb.ResponseParameters(size=size) for size in sizes]
    return pb.StreamingOutputCallRequest(response_parameters=parameters, payload=payload(sent))


class Cases:
    """One method a case; each raises where the case does not hold."""

    def __init__(self, channel: IRpcChannel) -> None:
        self.channel = channel

    async def unary(self, method: str, request: Any, answer: Any = pb.SimpleResponse) -> Any:
        return await self.channel.unary(method, request, answer, timeout=SECONDS)

    async def large(self, **more: Any) -> None:
        request = pb.SimpleRequest(**LARGE, **more)
        answer = await self.unary(SERVICE + "UnaryCall", request)
        assert answer.payload.body == bytes(314159)

    async def refused(self, call: Any) -> SvcError:
        try:
            await call
        except SvcError as refusal:
            return refusal
        raise AssertionError("not refused")

    async def said(self, stream: Any, *requests: Any) -> list[int]:
        """The sizes of all answers to *requests*."""
        for request in requests:
            await stream.send(request.SerializeToString())
        stream.end()
        sizes = []
        while (message := await stream.receive()) is not None:
            sizes.append(len(pb.StreamingOutputCallResponse.FromString(message).payload.body))
        return sizes

    def duplex(self, **more: Any) -> Any:
        return self.channel.stream(SERVICE + "FullDuplexCall", **{"timeout": SECONDS, **more})

    async def empty_unary(self) -> None:
        assert await self.unary(SERVICE + "EmptyCall", pb.Empty(), pb.Empty) == pb.Empty()

    async def large_unary(self) -> None:
        await self.large()

    async def client_streaming(self) -> None:
        stream = self.channel.stream(SERVICE + "StreamingInputCall", timeout=SECONDS)
        for size in SENT:
            one = pb.StreamingInputCallRequest(payload=payload(size))
            await stream.send(one.SerializeToString())
        stream.end()
        answer = pb.StreamingInputCallResponse.FromString(await stream.receive() or b"")
        assert answer.aggregated_payload_size == 74922
        assert await stream.receive() is None

    async def server_streaming(self) -> None:
        stream = self.channel.stream(SERVICE + "StreamingOutputCall", timeout=SECONDS)
        assert await self.said(stream, asking(*ANSWERED)) == list(ANSWERED)

    async def ping_pong(self) -> None:
        stream = self.duplex()
        for sent, wanted in zip(SENT, ANSWERED, strict=True):
            await stream.send(asking(wanted, sent=sent).SerializeToString())
            message = await stream.receive()
            answer = pb.StreamingOutputCallResponse.FromString(message or b"")
            assert len(answer.payload.body) == wanted
        stream.end()
        assert await stream.receive() is None

    async def empty_stream(self) -> None:
        assert await self.said(self.duplex()) == []

    async def custom_metadata(self) -> None:
        request = pb.SimpleRequest(**LARGE)
        one = self.channel.stream(
            SERVICE + "UnaryCall", timeout=SECONDS, metadata=list(ECHOED.items())
        )
        assert len(await self.said(one, request)) == 1
        self._echoed(one)
        many = self.duplex(metadata=list(ECHOED.items()))
        assert await self.said(many, asking(314159, sent=271828)) == [314159]
        self._echoed(many)

    def _echoed(self, stream: Any) -> None:
        (initial, text), (trailing, octets) = ECHOED.items()
        assert stream.initial_metadata[initial] == text
        assert stream.trailing_metadata[trailing] == octets

    async def _status(self, text: str) -> None:
        status = pb.EchoStatus(code=2, message=text)
        request = pb.SimpleRequest(response_status=status)
        refusal = await self.refused(self.unary(SERVICE + "UnaryCall", request))
        assert (refusal.fault, refusal.text) == (Fault.UNKNOWN, text), refusal
        one = pb.StreamingOutputCallRequest(response_status=status)
        refusal = await self.refused(self.said(self.duplex(), one))
        assert (refusal.fault, refusal.text) == (Fault.UNKNOWN, text), refusal

    async def status_code_and_message(self) -> None:
        await self._status("test status message")

    async def special_status_message(self) -> None:
        await self._status(TEXT)

    async def unimplemented_method(self) -> None:
        call = self.unary(SERVICE + "UnimplementedCall", pb.Empty(), pb.Empty)
        assert (await self.refused(call)).fault is Fault.UNIMPLEMENTED

    async def unimplemented_service(self) -> None:
        method = "/grpc.testing.UnimplementedService/UnimplementedCall"
        call = self.unary(method, pb.Empty(), pb.Empty)
        assert (await self.refused(call)).fault is Fault.UNIMPLEMENTED

    async def cancel_after_begin(self) -> None:
        stream = self.channel.stream(SERVICE + "StreamingInputCall", timeout=SECONDS)
        stream.cancel()
        assert (await self.refused(stream.receive())).fault is Fault.CANCELLED

    async def cancel_after_first_response(self) -> None:
        stream = self.duplex()
        await stream.send(asking(31415, sent=27182).SerializeToString())
        assert await stream.receive() is not None
        stream.cancel()
        assert (await self.refused(stream.receive())).fault is Fault.CANCELLED

    async def timeout_on_sleeping_server(self) -> None:
        stream = self.duplex(timeout=0.001)
        await stream.send(asking(sent=27182).SerializeToString())
        assert (await self.refused(stream.receive())).fault is Fault.DEADLINE

    async def concurrent_large_unary(self) -> None:
        await self._at_once(**LARGE)

    async def concurrent_unary(self) -> None:
        """The same number of calls, each a tenth as long."""
        await self._at_once(response_size=31416, payload=payload(27183))

    async def _at_once(self, **asked: Any) -> None:
        request = pb.SimpleRequest(**asked)

        async def one() -> None:
            answer = await self.channel.unary(
                SERVICE + "UnaryCall", request, pb.SimpleResponse, timeout=60
            )
            assert len(answer.payload.body) == request.response_size

        calls = [Deferred.fromCoroutine(one()) for _ in range(1000)]
        await gatherResults(calls, consumeErrors=True)

    async def server_compressed_unary(self) -> None:
        """For a server that compresses whatever the caller says it takes."""
        request = pb.SimpleRequest(**LARGE, response_compressed=pb.BoolValue(value=True))
        refusal = await self.refused(self.unary(SERVICE + "UnaryCall", request))
        assert (refusal.fault, refusal.reason) == (Fault.INTERNAL, "compressed"), refusal
        await self.large(response_compressed=pb.BoolValue(value=False))

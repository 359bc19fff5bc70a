"""gRPC's interoperability cases as grpcio calls them; a program that knows nothing of ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc

from tests.interop import testing_pb2 as pb

SERVICE = "/grpc.testing.TestService/"
TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
SENT, ANSWERED = (27182, 8, 1828, 45904), (31415, 9, 2653, 58979)
INITIAL = ("x-grpc-test-echo-initial", "test_initial_metadata_value")
TRAILING = ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab")
SECONDS = 20.0


def payload(size: int) -> Any:
    return pb.Payload(body=bytes(size))


LARGE = {"response_size": 314159, "payload": payload(271828)}


class Cases:
    """One method a case; each raises where the case does not hold."""

    def __init__(self, asked: dict[str, Any], *options: tuple[str, Any]) -> None:
        self.asked = asked
        self.channel = channel_of(asked, *options)

    def unary(self, method: str, request: Any, answer: Any = pb.SimpleResponse) -> Any:
        return self.channel.unary_unary(
            method if method.startswith("/") else SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )

    def large(self, **more: Any) -> Any:
        request = pb.SimpleRequest(**LARGE, **more)
        return self.unary("UnaryCall", request)(request, timeout=SECONDS)

    def duplex(self, requests: Any, **more: Any) -> Any:
        call = self.channel.stream_stream(
            SERVICE + "FullDuplexCall",
            pb.StreamingOutputCallRequest.SerializeToString,
            pb.StreamingOutputCallResponse.FromString,
        )
        return call(requests, **{"timeout": SECONDS, **more})

    def collect(self, requests: Any, **more: Any) -> Any:
        call = self.channel.stream_unary(
            SERVICE + "StreamingInputCall",
            pb.StreamingInputCallRequest.SerializeToString,
            pb.StreamingInputCallResponse.FromString,
        )
        return call(requests, timeout=SECONDS, **more)

    def refused(self, call: Any) -> Any:
        try:
            call()
        except grpc.RpcError as error:
            return error
        raise AssertionError("not refused")

    def empty_unary(self) -> None:
        assert self.unary("EmptyCall", pb.Empty(), pb.Empty)(pb.Empty(), timeout=SECONDS) == (
            pb.Empty()
        )

    def large_unary(self) -> None:
        assert self.large().payload.body == bytes(314159)

    def client_streaming(self) -> None:
        requests = (pb.StreamingInputCallRequest(payload=payload(size)) for size in SENT)
        assert self.collect(requests).aggregated_payload_size == 74922

    def server_streaming(self) -> None:
        call = self.channel.unary_stream(
            SERVICE + "StreamingOutputCall",
            pb.StreamingOutputCallRequest.SerializeToString,
            pb.StreamingOutputCallResponse.FromString,
        )
        request = pb.StreamingOutputCallRequest(
            response_parameters=[pb.ResponseParameters(size=size) for size in ANSWERED]
        )
        assert tuple(len(one.payload.body) for one in call(request, timeout=SECONDS)) == ANSWERED

    def ping_pong(self) -> None:
        requests: SimpleQueue[Any] = SimpleQueue()
        call = self.duplex(iter(requests.get, None))
        for sent, wanted in zip(SENT, ANSWERED, strict=True):
            size = [pb.ResponseParameters(size=wanted)]
            requests.put(
                pb.StreamingOutputCallRequest(response_parameters=size, payload=payload(sent))
            )
            assert len(next(call).payload.body) == wanted
        requests.put(None)
        assert list(call) == []

    def empty_stream(self) -> None:
        assert list(self.duplex(iter(()))) == []

    def custom_metadata(self) -> None:
        request = pb.SimpleRequest(**LARGE)
        _, call = self.unary("UnaryCall", request).with_call(
            request, timeout=SECONDS, metadata=[INITIAL, TRAILING]
        )
        self._echoed(call)
        one = pb.StreamingOutputCallRequest(
            response_parameters=[pb.ResponseParameters(size=314159)], payload=payload(271828)
        )
        stream = self.duplex(iter([one]), metadata=[INITIAL, TRAILING])
        assert len(list(stream)) == 1
        self._echoed(stream)

    def _echoed(self, call: Any) -> None:
        assert INITIAL in [tuple(pair) for pair in call.initial_metadata()]
        assert TRAILING in [tuple(pair) for pair in call.trailing_metadata()]

    def _status(self, text: str) -> None:
        status = pb.EchoStatus(code=2, message=text)
        request = pb.SimpleRequest(response_status=status)
        error = self.refused(lambda: self.unary("UnaryCall", request)(request, timeout=SECONDS))
        assert (error.code(), error.details()) == (grpc.StatusCode.UNKNOWN, text)
        one = pb.StreamingOutputCallRequest(response_status=status)
        error = self.refused(lambda: list(self.duplex(iter([one]))))
        assert (error.code(), error.details()) == (grpc.StatusCode.UNKNOWN, text)

    def status_code_and_message(self) -> None:
        self._status("test status message")

    def special_status_message(self) -> None:
        self._status(TEXT)

    def _unimplemented(self, method: str) -> None:
        call = self.unary(method, pb.Empty(), pb.Empty)
        error = self.refused(lambda: call(pb.Empty(), timeout=SECONDS))
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED

    def unimplemented_method(self) -> None:
        self._unimplemented("UnimplementedCall")

    def unimplemented_service(self) -> None:
        self._unimplemented("/grpc.testing.UnimplementedService/UnimplementedCall")

    def cancel_after_begin(self) -> None:
        # Its half stays open: a call that had ended first could not be cancelled.
        requests: SimpleQueue[Any] = SimpleQueue()
        call = self.channel.stream_unary(
            SERVICE + "StreamingInputCall",
            pb.StreamingInputCallRequest.SerializeToString,
            pb.StreamingInputCallResponse.FromString,
        ).future(iter(requests.get, None), timeout=SECONDS)
        call.cancel()
        requests.put(None)
        assert call.cancelled() and call.code() == grpc.StatusCode.CANCELLED

    def cancel_after_first_response(self) -> None:
        requests: SimpleQueue[Any] = SimpleQueue()
        size = [pb.ResponseParameters(size=31415)]
        requests.put(
            pb.StreamingOutputCallRequest(response_parameters=size, payload=payload(27182))
        )
        call = self.duplex(iter(requests.get, None))
        assert len(next(call).payload.body) == 31415
        call.cancel()
        requests.put(None)
        assert call.code() == grpc.StatusCode.CANCELLED

    def timeout_on_sleeping_server(self) -> None:
        requests: SimpleQueue[Any] = SimpleQueue()
        requests.put(pb.StreamingOutputCallRequest(payload=payload(27182)))
        call = self.duplex(iter(requests.get, None), timeout=0.001)
        error = self.refused(lambda: list(call))
        requests.put(None)
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED

    def concurrent_large_unary(self) -> None:
        request = pb.SimpleRequest(**LARGE)
        call = self.unary("UnaryCall", request)
        begun = [call.future(request, timeout=50) for _ in range(1000)]
        assert all(len(one.result().payload.body) == 314159 for one in begun)

    def client_compressed_unary(self) -> None:
        probe = self.refused(lambda: self.large(expect_compressed=pb.BoolValue(value=True)))
        assert probe.code() == grpc.StatusCode.INVALID_ARGUMENT
        request = pb.SimpleRequest(**LARGE, expect_compressed=pb.BoolValue(value=True))
        call = self.unary("UnaryCall", request)
        self._not_taken(lambda: call(request, timeout=SECONDS, compression=grpc.Compression.Gzip))
        plain = self.large(expect_compressed=pb.BoolValue(value=False))
        assert len(plain.payload.body) == 314159

    def client_compressed_streaming(self) -> None:
        one = pb.StreamingInputCallRequest(
            payload=payload(27182), expect_compressed=pb.BoolValue(value=True)
        )
        probe = self.refused(lambda: self.collect(iter([one])))
        assert probe.code() == grpc.StatusCode.INVALID_ARGUMENT
        self._not_taken(lambda: self.collect(iter([one]), compression=grpc.Compression.Gzip))

    def _not_taken(self, call: Any) -> None:
        error = self.refused(call)
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
        assert "gzip" in error.details(), error.details()
        assert "identity" in error.details(), error.details()

    def server_compressed_unary(self) -> None:
        assert len(self.large(response_compressed=pb.BoolValue(value=True)).payload.body) == 314159

    def across_a_drain(self) -> None:
        """A call that is open when the server begins to stop; says on stdout when it is."""
        requests: SimpleQueue[Any] = SimpleQueue()
        requests.put(_asking(1))
        call = self.duplex(iter(requests.get, None), timeout=60)
        assert len(next(call).payload.body) == 1
        sys.stdout.write("open\n")
        sys.stdout.flush()
        while not self._is_refused():
            pass
        requests.put(_asking(300_000))
        assert len(next(call).payload.body) == 300_000
        requests.put(None)
        assert list(call) == []

    def _is_refused(self) -> bool:
        try:
            self.unary("EmptyCall", pb.Empty(), pb.Empty)(pb.Empty(), timeout=SECONDS)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            return True
        return False

    def too_many_pings(self) -> None:
        """A keepalive that the server does not permit: GOAWAY says so and calls are broken off."""
        eager = Cases(
            self.asked,
            ("grpc.keepalive_time_ms", 20),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
        )
        requests: SimpleQueue[Any] = SimpleQueue()
        call = eager.duplex(iter(requests.get, None))
        error = self.refused(lambda: next(call))
        requests.put(None)
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        assert "too_many_pings" in error.details(), error.details()


def _asking(size: int) -> Any:
    parameters = [pb.ResponseParameters(size=size)]
    return pb.StreamingOutputCallRequest(response_parameters=parameters, payload=payload(size))


def channel_of(asked: dict[str, Any], *more: tuple[str, Any]) -> grpc.Channel:
    root, key, chain = (Path(asked[name]).read_bytes() for name in ("root", "key", "chain"))
    options = (("grpc.ssl_target_name_override", "localhost"), *more)
    credentials = grpc.ssl_channel_credentials(root, key, chain)
    return grpc.secure_channel(asked["address"], credentials, options=options)


def run(cases: Cases, name: str) -> str:
    try:
        getattr(cases, name)()
    except (AssertionError, grpc.RpcError) as wrong:
        return f"{type(wrong).__name__}: {wrong}"
    return "ok"


def main() -> None:
    asked = json.load(sys.stdin)
    cases = Cases(asked)
    with cases.channel:
        json.dump({name: run(cases, name) for name in asked["cases"]}, sys.stdout)


if __name__ == "__main__":
    main()

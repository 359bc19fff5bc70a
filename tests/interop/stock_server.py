"""gRPC's test service on a grpcio server, with mutual TLS; a program that knows nothing of ours."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from tests.interop import testing_pb2 as pb

ECHO_INITIAL, ECHO_TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"


def payload(size: int) -> Any:
    return pb.Payload(body=bytes(size))


def echo(context: Any) -> None:
    asked = dict(context.invocation_metadata())
    if ECHO_INITIAL in asked:
        context.send_initial_metadata([(ECHO_INITIAL, asked[ECHO_INITIAL])])
    if ECHO_TRAILING in asked:
        context.set_trailing_metadata([(ECHO_TRAILING, asked[ECHO_TRAILING])])


def check(request: Any, context: Any) -> None:
    if request.HasField("response_status"):
        code = next(one for one in grpc.StatusCode if one.value[0] == request.response_status.code)
        context.abort(code, request.response_status.message)


def empty(request: Any, context: Any) -> Any:
    return pb.Empty()


def unary(request: Any, context: Any) -> Any:
    echo(context)
    check(request, context)
    if request.response_compressed.value:
        context.set_compression(grpc.Compression.Gzip)
    return pb.SimpleResponse(payload=payload(request.response_size))


def collect(requests: Any, context: Any) -> Any:
    total = sum(len(request.payload.body) for request in requests)
    return pb.StreamingInputCallResponse(aggregated_payload_size=total)


def answers(request: Any, context: Any) -> Any:
    check(request, context)
    for one in request.response_parameters:
        yield pb.StreamingOutputCallResponse(payload=payload(one.size))


def duplex(requests: Any, context: Any) -> Any:
    echo(context)
    for request in requests:
        yield from answers(request, context)


def methods() -> Any:
    asked, answered = pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse
    rows = (
        ("EmptyCall", grpc.unary_unary_rpc_method_handler, empty, pb.Empty, pb.Empty),
        (
            "UnaryCall",
            grpc.unary_unary_rpc_method_handler,
            unary,
            pb.SimpleRequest,
            pb.SimpleResponse,
        ),
        (
            "StreamingInputCall",
            grpc.stream_unary_rpc_method_handler,
            collect,
            pb.StreamingInputCallRequest,
            pb.StreamingInputCallResponse,
        ),
        ("StreamingOutputCall", grpc.unary_stream_rpc_method_handler, answers, asked, answered),
        ("FullDuplexCall", grpc.stream_stream_rpc_method_handler, duplex, asked, answered),
    )
    served = {
        name: make(serve, request.FromString, answer.SerializeToString)
        for name, make, serve, request, answer in rows
    }
    return grpc.method_handlers_generic_handler("grpc.testing.TestService", served)


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text("ascii"))
    root, key, chain = (Path(asked[name]).read_bytes() for name in ("root", "key", "chain"))
    server = grpc.server(ThreadPoolExecutor(8), [methods()])
    credentials = grpc.ssl_server_credentials([(key, chain)], root, True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    main()

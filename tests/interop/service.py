"""gRPC's test service on our server: what the stock clients call."""

from __future__ import annotations

from typing import Any

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, streaming, unary
from svc.rpc.status import refusal_of
from svc.wire.status import Code, Status
from tests.interop import testing_pb2 as pb

ECHO_INITIAL, ECHO_TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"


def test_service() -> RpcService:
    """As gRPC's page describes it, without what needs a compressed answer."""
    return RpcService(
        "grpc.testing.TestService",
        {
            "EmptyCall": unary(pb.Empty, _empty),
            "UnaryCall": unary(pb.SimpleRequest, _unary),
            "StreamingInputCall": streaming(_collect),
            "StreamingOutputCall": streaming(_spread),
            "FullDuplexCall": streaming(_duplex),
        },
    )


def _echo(call: IRpcCall) -> None:
    initial, trailing = call.metadata.get(ECHO_INITIAL), call.metadata.get(ECHO_TRAILING)
    call.answer_with(
        initial=[] if initial is None else [(ECHO_INITIAL, initial)],
        trailing=[] if trailing is None else [(ECHO_TRAILING, trailing)],
    )


def _payload(size: int) -> Any:
    return pb.Payload(body=bytes(size))


def _check(request: Any) -> None:
    """Refuse as asked; nothing compressed ever comes here."""
    if request.HasField("response_status"):
        status = request.response_status
        raise refusal_of(Status(Code(status.code), status.message))


def _check_plain(request: Any) -> None:
    if request.expect_compressed.value:
        raise SvcError("the message was not compressed", reason="plain", fault=Fault.INVALID)


async def _empty(request: Any, call: IRpcCall) -> Any:
    return pb.Empty()


async def _unary(request: Any, call: IRpcCall) -> Any:
    _echo(call)
    _check(request)
    _check_plain(request)
    return pb.SimpleResponse(payload=_payload(request.response_size))


async def _collect(call: IRpcCall) -> None:
    total = 0
    while (message := await call.receive()) is not None:
        request = pb.StreamingInputCallRequest.FromString(message)
        _check_plain(request)
        total += len(request.payload.body)
    answer = pb.StreamingInputCallResponse(aggregated_payload_size=total)
    await call.send(answer.SerializeToString())


async def _spread(call: IRpcCall) -> None:
    await _answer(call, await call.receive())


async def _duplex(call: IRpcCall) -> None:
    _echo(call)
    while (message := await call.receive()) is not None:
        await _answer(call, message)


async def _answer(call: IRpcCall, message: bytes | None) -> None:
    request = pb.StreamingOutputCallRequest.FromString(message or b"")
    _check(request)
    for each in request.response_parameters:
        answer = pb.StreamingOutputCallResponse(payload=_payload(each.size))
        await call.send(answer.SerializeToString())

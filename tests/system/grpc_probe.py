"""A stock gRPC client as a program of its own: calls as stdin says, answers as JSON.

It knows nothing of ours: requests are raw bytes, answers raw bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import grpc

SECONDS = 10.0


def probe(asked: dict[str, Any]) -> list[Any]:
    """Each call's answer in hex, or the word of its status; for ``opens`` all that is told."""
    with channel_of(asked) as channel:
        metadata = [(key, value) for key, value in asked.get("metadata", ())]
        told: list[Any] = [_called(channel, one, metadata) for one in asked.get("methods", ())]
        told += [_refused(channel, bytes.fromhex(one)) for one in asked.get("opens", ())]
    return told


def channel_of(asked: dict[str, Any]) -> grpc.Channel:
    """Plaintext where no root is named."""
    address = str(asked["address"])
    if "root" not in asked:
        return grpc.insecure_channel(address)
    pair = [Path(path).read_bytes() for path in asked.get("pair", ())]
    credentials = grpc.ssl_channel_credentials(Path(asked["root"]).read_bytes(), *pair)
    name = (("grpc.ssl_target_name_override", asked.get("name", "localhost")),)
    return grpc.secure_channel(address, credentials, options=name)


def _called(channel: grpc.Channel, method: str, metadata: list[tuple[str, str]]) -> str:
    try:
        if method.endswith("/Watch"):
            stream = channel.unary_stream(method)(b"", timeout=SECONDS)
            first: bytes = next(stream)
            stream.cancel()
            return first.hex()
        call = channel.unary_unary(method)
        answer: bytes = call(b"", timeout=SECONDS, metadata=metadata)
    except grpc.RpcError as error:
        return str(error.code().name)
    return answer.hex()


def _refused(channel: grpc.Channel, message: bytes) -> dict[str, Any]:
    """Everything a client sees of a session that does not open, bytes in hex."""
    call = channel.stream_stream("/gate.v1.Session/Open")(iter([message]), timeout=SECONDS)
    try:
        return {"opened": bytes(next(call)).hex()}
    except grpc.RpcError:
        return {
            "code": call.code().name,
            "details": call.details(),
            "head": [(key, _hex(value)) for key, value in call.initial_metadata()],
            "trailers": [(key, _hex(value)) for key, value in call.trailing_metadata()],
        }
    finally:
        call.cancel()


def _hex(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else value).hex()


if __name__ == "__main__":
    json.dump([probe(each) for each in json.load(sys.stdin)], sys.stdout)

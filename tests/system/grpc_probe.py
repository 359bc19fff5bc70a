"""A stock gRPC client as a program of its own: calls as stdin says, answers as JSON.

It knows nothing of ours: requests are the empty message, answers raw bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import grpc

SECONDS = 10.0


def probe(asked: dict[str, Any]) -> list[str]:
    """Each call's answer in hex, or the word of its status."""
    address, told = str(asked["address"]), []
    root = asked.get("root")
    if root is None:
        channel = grpc.insecure_channel(address)
    else:
        pair = [Path(path).read_bytes() for path in asked.get("pair", ())]
        credentials = grpc.ssl_channel_credentials(Path(root).read_bytes(), *pair)
        name = (("grpc.ssl_target_name_override", asked.get("name", "localhost")),)
        channel = grpc.secure_channel(address, credentials, options=name)
    with channel:
        for method in asked["methods"]:
            told.append(_called(channel, method))
    return told


def _called(channel: grpc.Channel, method: str) -> str:
    try:
        if method.endswith("/Watch"):
            stream = channel.unary_stream(method)(b"", timeout=SECONDS)
            first: bytes = next(stream)
            stream.cancel()
            return first.hex()
        answer: bytes = channel.unary_unary(method)(b"", timeout=SECONDS)
    except grpc.RpcError as error:
        return str(error.code().name)
    return answer.hex()


if __name__ == "__main__":
    json.dump([probe(each) for each in json.load(sys.stdin)], sys.stdout)

"""Programs: a gRPC server of ``grpc.aio``, one composed as our public listener is, and a caller.

``serve-aio STATE`` and ``serve-ours STATE CONFIG`` serve with the identity that
lies in STATE, print their port and go on until they are killed.  ``call ASKED``
calls as its JSON says and prints the result as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

CHECK = "/grpc.health.v1.Health/Check"
DOWN, UP = "/bench.Streams/Down", "/bench.Streams/Up"
SERVING = b"\x08\x01"
_OPTIONS = (("grpc.ssl_target_name_override", "localhost"),)
_PROBE_PAUSE = 0.002


def main() -> None:
    """Be the program that the words say."""
    what, *words = sys.argv[1:]
    if what == "serve-aio":
        asyncio.run(_serve_aio(Path(words[0])))
    elif what == "serve-ours":
        _serve_ours(Path(words[0]), Path(words[1]))
    else:
        json.dump(asyncio.run(_call(json.loads(words[0]))), sys.stdout)


# The server of grpc.aio


async def _serve_aio(state: Path) -> None:
    key, chain, root = _identity(state)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(_check)}
            ),
            grpc.method_handlers_generic_handler(
                "bench.Streams",
                {
                    "Down": grpc.unary_stream_rpc_method_handler(_down),
                    "Up": grpc.stream_unary_rpc_method_handler(_up),
                },
            ),
        )
    )
    credentials = grpc.ssl_server_credentials(((key, chain),), root, True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def _check(request: bytes, context: Any) -> bytes:
    from svc.proto.gate.v1 import health_pb2 as pb

    # The same work on the message as ours has.
    pb.HealthCheckRequest.FromString(request)
    return pb.HealthCheckResponse(status=pb.HealthCheckResponse.SERVING).SerializeToString()


async def _down(request: bytes, context: Any) -> AsyncIterator[bytes]:
    count, size = map(int, request.split())
    message = bytes(size)
    for _ in range(count):
        yield message


async def _up(requests: AsyncIterator[bytes], context: Any) -> bytes:
    count = 0
    async for _ in requests:
        count += 1
    return b"%d" % count


# Ours


def _serve_ours(state: Path, config: Path) -> None:
    """What composition puts behind a Proxy's public listener, with streams to measure."""
    from twisted.internet import reactor as installed

    from svc.compose.listeners.rpc import LateFactory, rpc_server
    from svc.config import load_settings
    from svc.interfaces.rpc import RpcService, streaming
    from svc.pki.identity import TransportIdentity
    from svc.pki.identity_store import IdentityStore
    from svc.pki.tls import ClientCertificates, server_context
    from svc.runtime.context import Runtime

    reactor: Any = installed
    reactor.seconds = time.monotonic
    runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ={})
    settings = load_settings(str(config), "proxy", {})
    identity = TransportIdentity.load(IdentityStore(state), time.time)
    late = LateFactory(reactor, settings.limits.max_handshakes)
    service = RpcService("bench.Streams", {"Down": streaming(_give), "Up": streaming(_take)})
    server = rpc_server(
        runtime, settings, [service], lambda *_: None, listener="endpoints.public_listen"
    )
    late.serve(server, server_context(identity, ClientCertificates.OPTIONAL))
    late.open()
    port = reactor.listenTCP(0, late, interface="127.0.0.1")
    print(port.getHost().port, flush=True)
    reactor.run()


async def _give(call: Any) -> None:
    count, size = map(int, (await call.receive()).split())
    message = bytes(size)
    for _ in range(count):
        await call.send(message)


async def _take(call: Any) -> None:
    count = 0
    while await call.receive() is not None:
        count += 1
    await call.send(b"%d" % count)


# The caller


async def _call(asked: dict[str, Any]) -> Any:
    key, chain, root = _identity(Path(asked["person"]), Path(asked["proxy"]))
    credentials = grpc.ssl_channel_credentials(root, key, chain)
    async with grpc.aio.secure_channel(asked["address"], credentials, _OPTIONS) as channel:
        await channel.unary_unary(asked["first"])(b"0 0" if asked["first"] == DOWN else b"")
        what = {"unary": _unary, "probe": _probe, "down": _read, "up": _write}[asked["what"]]
        return await what(channel, asked)


async def _unary(channel: Any, asked: dict[str, Any]) -> float:
    """Calls a second with so many in flight."""
    check = channel.unary_unary(CHECK)
    began = time.perf_counter()
    end = began + asked["seconds"]
    count = 0

    async def one_after_another() -> None:
        nonlocal count
        while time.perf_counter() < end:
            if await check(b"") != SERVING:
                raise AssertionError("the answer is another")
            count += 1

    await asyncio.gather(*(one_after_another() for _ in range(asked["in_flight"])))
    return count / (time.perf_counter() - began)


async def _probe(channel: Any, asked: dict[str, Any]) -> list[float]:
    """Milliseconds of calls, one after another, in order of size."""
    check = channel.unary_unary(CHECK)
    took = []
    end = time.perf_counter() + asked["seconds"]
    while time.perf_counter() < end:
        began = time.perf_counter()
        await check(b"")
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(_PROBE_PAUSE)
    return sorted(took)


async def _read(channel: Any, asked: dict[str, Any]) -> float:
    """Messages a second of one stream towards us."""
    began = time.perf_counter()
    count = 0
    async for _ in channel.unary_stream(DOWN)(b"%d %d" % (asked["count"], asked["size"])):
        count += 1
    if count != asked["count"]:
        raise AssertionError(f"{count} messages came")
    return count / (time.perf_counter() - began)


async def _write(channel: Any, asked: dict[str, Any]) -> float:
    """Messages a second of one stream towards the server."""
    message = bytes(asked["size"])

    async def messages() -> AsyncIterator[bytes]:
        for _ in range(asked["count"]):
            yield message

    began = time.perf_counter()
    answer = await channel.stream_unary(UP)(messages())
    count: int = asked["count"]
    if int(answer) != count:
        raise AssertionError(f"{answer!r} messages came")
    return count / (time.perf_counter() - began)


def _identity(state: Path, trust: Path | None = None) -> tuple[bytes, bytes, bytes]:
    """Key, chain and root of an identity on disk."""
    current = state / "identity" / "current"
    chain = b"".join((current / name).read_bytes() for name in ("leaf.pem", "chain.pem"))
    root = ((trust or state) / "trust" / "root.pem").read_bytes()
    return (current / "key.pem").read_bytes(), chain, root


if __name__ == "__main__":
    main()

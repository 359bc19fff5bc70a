"""gRPC over TLS: a stock caller in its own process, on our public listener and on ``grpc.aio``.

Each figure comes twice: by the clock, which the caller may bound as much as the
server, and by the CPU time that the server's process used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from attrs import frozen

from contrib.bench import grpc_ends as ends
from contrib.bench.machine import cpu_seconds
from contrib.bench.ours import Ours
from contrib.bench.rows import Goal, Row, less_is_better, more_is_better
from svc.testing.settings import PROXY

_ROUNDS = 3
_SECONDS = 2.0
_IN_FLIGHT = 64
_MESSAGES = 10_000
_MESSAGE_BYTES = 1024
_UNARY = Goal(ratio=1.3)


@frozen
class Server:
    """A gRPC server: its address and process."""

    address: str
    pid: int


@contextmanager
def serving(*words: str) -> Iterator[Server]:
    """One of the servers of ``grpc_ends``, killed however the block ends."""
    command = [sys.executable, "-m", "contrib.bench.grpc_ends", *words]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(f"127.0.0.1:{int(process.stdout.readline())}", process.pid)
    finally:
        process.kill()
        process.wait()


def unary_rows(ours: Ours) -> list[Row]:
    """Health/Check on the public listener of the Proxy itself."""
    with serving("serve-aio", str(ours.proxy_state)) as peer:
        here = Server(":".join(map(str, ours.public)), ours.proxy_pid)
        asked = {"what": "unary", "seconds": _SECONDS, "in_flight": _IN_FLIGHT}
        name = f"gRPC unary, {_IN_FLIGHT} in flight, public listener"
        return _compared(ours, name, "calls", here, peer, asked, _UNARY)


def streaming_rows(ours: Ours) -> list[Row]:
    """Streams of small messages, on a listener composed as the public one and with its identity."""
    state = str(ours.proxy_state)
    config = str(ours.gateway.files.config(PROXY))
    with serving("serve-aio", state) as peer, serving("serve-ours", state, config) as here:
        found = []
        for what, side in (("down", "server"), ("up", "client")):
            asked = {"what": what, "count": _MESSAGES, "size": _MESSAGE_BYTES}
            name = f"gRPC {side} streaming, 1 KiB, composed listener"
            found += _compared(ours, name, "messages", here, peer, asked, Goal())
        return found


def lag_rows(ours: Ours, load: Any) -> list[Row]:
    """How late the Proxy's reactor is while it carries a session at full speed.

    Seen from outside: a call waits for the reactor's turn.  The same call on an
    idle ``grpc.aio`` server beside the same load says what the machine adds.

    Args:
        load: Carries bytes through the gateway for some seconds; called in a thread.
    """
    with serving("serve-aio", str(ours.proxy_state)) as peer:
        here = Server(":".join(map(str, ours.public)), ours.proxy_pid)
        asked = {"what": "probe", "seconds": _SECONDS}
        took = []
        for server in (here, peer):
            thread = Thread(target=load)
            thread.start()
            took.append(_called(ours, server, asked))
            thread.join()
    (mine, theirs), name = took, "a call on the Proxy beside a full session"
    idle = "idle grpc.aio beside it"
    return [
        less_is_better(f"{name}, p50", _at(mine, 0.5), "ms", idle, _at(theirs, 0.5)),
        less_is_better(f"{name}, p99", _at(mine, 0.99), "ms", idle, _at(theirs, 0.99)),
        less_is_better(f"{name}, max", mine[-1], "ms", idle, theirs[-1]),
    ]


def _compared(
    ours: Ours, name: str, unit: str, here: Server, peer: Server, asked: dict[str, Any], goal: Goal
) -> list[Row]:
    """Best of a few rounds in turns: by the clock, and by the server's CPU time."""
    mine, theirs = [], []
    for _ in range(_ROUNDS):
        mine.append(_measured(ours, here, asked))
        theirs.append(_measured(ours, peer, asked))
    (rate, computed), (peer_rate, peer_computed) = _best(mine), _best(theirs)
    return [
        more_is_better(name, rate, f"{unit}/s", "grpc.aio", peer_rate, goal),
        more_is_better(
            f"{name}, by CPU", computed, f"{unit}/s of CPU", "grpc.aio", peer_computed, goal
        ),
    ]


def _measured(ours: Ours, server: Server, asked: dict[str, Any]) -> tuple[float, float]:
    """What a second brings, and what a second of the server's CPU time does."""
    began = cpu_seconds(server.pid)
    rate: float = _called(ours, server, asked)
    used = cpu_seconds(server.pid) - began
    seconds = asked.get("seconds") or asked["count"] / rate
    return rate, rate * seconds / used


def _called(ours: Ours, server: Server, asked: dict[str, Any]) -> Any:
    first = ends.CHECK if asked["what"] in ("unary", "probe") else ends.UP
    words = json.dumps(
        {
            **asked, "first": first, "address": server.address,
            "person": str(ours.person_state), "proxy": str(ours.proxy_state),
        }
    )  # fmt: skip
    command = [sys.executable, "-m", "contrib.bench.grpc_ends", "call", words]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return json.loads(ran.stdout)


def _best(measured: list[tuple[float, float]]) -> tuple[float, float]:
    rates, computed = zip(*measured, strict=True)
    return max(rates), max(computed)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

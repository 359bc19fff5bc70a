"""gRPC over TLS: a stock caller in its own process, on our public listener and on ``grpc.aio``.

Each figure comes twice: by the clock, which the caller may bound as much as the
server, and by the CPU time that the server's process used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any

from attrs import frozen

from contrib.bench import grpc_ends as ends
from contrib.bench.inside import Lag, lag, p99_row
from contrib.bench.machine import cpu_seconds
from contrib.bench.ours import Ours
from contrib.bench.rows import Goal, Row, less_is_better, more_is_better
from svc.testing.gateway.settings import CONNECTOR, PROXY

_ROUNDS = 3
_SECONDS = 2.0
_LAG_SECS = 10.0
"""A hundred timers of a reactor: fewer have no 99th of a hundred."""
_IN_FLIGHT = 64
_MESSAGES = 10_000
_MESSAGE_BYTES = 1024
_UNARY = Goal(ratio=1.3)
_never = Event()


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


def lag_rows(ways: Mapping[str, Ours], load: Callable[[Ours], object]) -> list[Row]:
    """How late a reactor is while it carries a session at full speed.

    From outside: a call on the Proxy waits for the reactor's turn, and the same call on an
    idle ``grpc.aio`` server beside the same load says what the machine adds.  From inside:
    the roles' own measure, beside the same at rest.

    Args:
        ways: A gateway for each way that a session's bytes go; the first is asked from outside.
        load: Carries bytes through a gateway for some seconds; called in a thread.
    """
    found: list[Row] = []
    for way, ours in ways.items():
        roles = {role: (Lag(), Lag()) for role in (PROXY, CONNECTOR)}
        with ExitStack() as measuring:
            for role, (_, quiet) in roles.items():
                measuring.enter_context(lag(ours.gateway, role, quiet))
            _never.wait(_LAG_SECS)
        with ExitStack() as measuring:
            for role, (beside, _) in roles.items():
                measuring.enter_context(lag(ours.gateway, role, beside))
            if found:
                _while_loaded(ours, load, lambda: _never.wait(_LAG_SECS))
            else:
                found += _outside_rows(ours, load)
        found += [
            p99_row(f"the {role}'s reactor beside a full session, {way}", beside, "at rest", quiet)
            for role, (beside, quiet) in roles.items()
        ]
    return found


def _outside_rows(ours: Ours, load: Callable[[Ours], object]) -> list[Row]:
    with serving("serve-aio", str(ours.proxy_state)) as peer:
        here = Server(":".join(map(str, ours.public)), ours.proxy_pid)
        asked = {"what": "probe", "seconds": _LAG_SECS}
        mine = _while_loaded(ours, load, lambda: _called(ours, here, asked))
        theirs = _while_loaded(ours, load, lambda: _called(ours, peer, asked))
    name, idle = "a call on the Proxy beside a full session", "idle grpc.aio beside it"
    return [
        less_is_better(f"{name}, p50", _at(mine, 0.5), "ms", idle, _at(theirs, 0.5)),
        less_is_better(f"{name}, p99", _at(mine, 0.99), "ms", idle, _at(theirs, 0.99)),
        less_is_better(f"{name}, max", mine[-1], "ms", idle, theirs[-1]),
    ]


def _while_loaded(ours: Ours, load: Callable[[Ours], object], call: Callable[[], Any]) -> Any:
    """What *call* returns while sessions at full speed follow one another."""
    done = Event()

    def work() -> None:
        while not done.is_set():
            load(ours)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            return call()
        finally:
            done.set()
            working.result()


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
            **asked,
            "first": first,
            "address": server.address,
            "person": str(ours.person_state),
            "proxy": str(ours.proxy_state),
        }
    )
    command = [sys.executable, "-m", "contrib.bench.grpc_ends", "call", words]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return json.loads(ran.stdout)


def _best(measured: list[tuple[float, float]]) -> tuple[float, float]:
    rates, computed = zip(*measured, strict=True)
    return max(rates), max(computed)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

"""Many idle sessions and tunnels held on one Proxy: memory, CPU at rest, an opening meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from threading import Event

from attrs import frozen

from contrib.bench import ours
from contrib.bench.ends import held, round_trip, start_sink
from contrib.bench.machine import cpu_seconds
from contrib.bench.memory import Growth, connectors, settled_memory
from contrib.bench.rows import Goal, Row, less_is_better
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import PROXY

_ALONE_SECS = 10.0
_OPENINGS, _WARM = 50, 10
_EVERY_SECS = 0.1
_STEP = 100
"""Connectors that join at a time."""

_ONE_OF_EACH = {"limits.max_connections_per_address": 8192, "limits.max_streams": 16_384}
"""In use they would be of many people and Connectors; here all of them are one's."""

_SESSION, _TUNNEL = Goal(value=40), Goal(value=60)
_AT_REST, _OPENING = Goal(value=2), Goal(value=20)


@frozen
class Held:
    """What is held, and for how long.

    Attributes:
        seconds: Of rest, in which nothing is asked of the Proxy.
    """

    sessions: int = 10_000
    tunnels: int = 2_000
    seconds: float = 600.0


@frozen
class _Calm:
    """A Proxy that nobody asks for anything.

    Attributes:
        share: Of a core, in per cent.
        opening: Median milliseconds of sessions that are opened one by one after the rest.
    """

    share: float
    opening: float


def rows(directory: Path, wanted: Held) -> list[Row]:
    """Tunnels of Connectors, and sessions of one person beside them; the peer is the Proxy before.

    The Proxy is started again once the Connectors have joined: their joining is not in its memory.
    """
    sink = start_sink()
    try:
        with (
            ours.gateway({"hold": sink.port}, settings=_ONE_OF_EACH) as running,
            ExitStack() as kept,
        ):
            place, there = running.ports["hold"], directory / "held"
            alone = _calm(running.proxy_pid, place, _ALONE_SECS)
            with connectors(running, there) as add:
                _grow(add, wanted.tunnels)
            pid = running.gateway.restart(PROXY).pid
            running.gateway.await_tunnels(1)
            until("a session", lambda: _opens(place))
            empty = settled_memory([pid])[pid]
            _grow(kept.enter_context(connectors(running, there)), wanted.tunnels)
            full = settled_memory([pid])[pid]
            session = Growth([pid], lambda: held(place), kept).of(wanted.sessions)[pid]
            beside = _calm(pid, place, wanted.seconds)
            whole, tunnel = settled_memory([pid])[pid], (full - empty) / wanted.tunnels
            return _rows(wanted, alone, beside, [session, tunnel, empty / 1024, whole / 1024])
    finally:
        sink.end()


def _grow(add: Callable[[int], None], count: int) -> None:
    for at in range(0, count, _STEP):
        add(min(_STEP, count - at))


def _opens(place: tuple[str, int]) -> bool:
    with suppress(OSError, AssertionError):
        round_trip(place)
        return True
    return False


def _rows(wanted: Held, alone: _Calm, beside: _Calm, memory: Sequence[float]) -> list[Row]:
    session, tunnel, empty, whole = memory
    many = f"{wanted.sessions} sessions and {wanted.tunnels} tunnels held {wanted.seconds:.0f} s"
    return [
        less_is_better(f"{PROXY} with {many}", whole, "MiB", "without", empty),
        less_is_better("each session of them", session, "KiB", "its goal", 40, _SESSION),
        less_is_better("each tunnel of them", tunnel, "KiB", "its goal", 60, _TUNNEL),
        less_is_better(
            "CPU at rest beside them", beside.share, "% of a core", "without", alone.share, _AT_REST
        ),
        less_is_better(
            "opening beside them, p50", beside.opening, "ms", "without", alone.opening, _OPENING
        ),
    ]


def _calm(pid: int, place: tuple[str, int], seconds: float) -> _Calm:
    still = Event()
    used, began = cpu_seconds(pid), time.monotonic()
    still.wait(seconds)
    share = 100 * (cpu_seconds(pid) - used) / (time.monotonic() - began)
    taken = []
    for _ in range(_WARM + _OPENINGS):
        taken.append(round_trip(place))
        still.wait(_EVERY_SECS)
    return _Calm(share=share, opening=median(taken[_WARM:]))

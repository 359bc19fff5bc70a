"""What callers who stall before HTTP/2 cost those who do not, and how soon they are gone."""

from __future__ import annotations

import select
import socket
import time

from contrib.bench.ends import round_trip
from contrib.bench.ours import Ours
from contrib.bench.rows import Goal, Row, less_is_better

_SILENT = 1000
_SOURCES = 8
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a TLS handshake, whose rest never comes."""

_PATIENCE = 60.0
_WITHIN_A_SECOND, _WITHIN_TEN = Goal(value=1000.0), Goal(value=10.0)
_HANDSHAKE_SECS = 8.0
"""The default of ``limits.handshake_secs``, which the bench leaves alone."""


def rows(ours: Ours) -> list[Row]:
    """Opening a session beside a thousand stalled handshakes, and when the last of these ends."""
    alone = sorted(round_trip(ours.sink) for _ in range(50))
    host, _, port = ours.gateway.public.rpartition(":")
    began = time.perf_counter()
    silent = [_stalled(number, host, int(port)) for number in range(_SILENT)]
    beside, latest = _until_closed(ours, silent)
    name = f"opening beside {_SILENT} stalled handshakes"
    return [
        less_is_better(f"{name}, p50", _middle(beside), "ms", "alone, p50", _middle(alone)),
        less_is_better(
            f"{name}, max", max(beside), "ms", "alone, max", alone[-1], _WITHIN_A_SECOND
        ),
        less_is_better(
            "the last stalled handshake is closed after",
            latest - began,
            "s",
            "limits.handshake_secs",
            _HANDSHAKE_SECS,
            _WITHIN_TEN,
        ),
    ]


def _stalled(number: int, host: str, port: int) -> socket.socket:
    """One caller, silent at once or after its first words."""
    source = f"127.0.0.{2 + number % _SOURCES}"
    door = socket.create_connection((host, port), 20, (source, 0))
    if number % 2:
        door.sendall(_HELLO)
    return door


def _until_closed(ours: Ours, silent: list[socket.socket]) -> tuple[list[float], float]:
    """What sessions take to open meanwhile, and when the last of these connections ended."""
    poll = select.poll()
    left = {door.fileno(): door for door in silent}
    for handle in left:
        poll.register(handle, select.POLLIN)
    beside: list[float] = []
    end = time.perf_counter() + _PATIENCE
    while left:
        if time.perf_counter() > end:
            raise AssertionError(f"{len(left)} stalled handshakes are still open")
        for handle, _ in poll.poll(0):
            poll.unregister(handle)
            left.pop(handle).close()
        beside.append(round_trip(ours.sink))
    return beside, time.perf_counter()


def _middle(figures: list[float]) -> float:
    return sorted(figures)[len(figures) // 2]

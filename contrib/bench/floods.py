"""What one person's denied requests, sent as fast as a client can, cost another person's opens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from contrib.bench.ends import round_trip
from contrib.bench.ours import POLICY
from contrib.bench.rows import Goal, Row, less_is_better, more_is_better
from svc.config.keys import KEYS
from svc.testing.gateway.flood import answers, start_flood
from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, until
from svc.testing.gateway.settings import GatewayTarget

_ROUNDS = 4
_OPENS = 150
_WITHIN = Goal(ratio=0.5)
_TOO_MANY = "too_many_requests"
_AS_SHIPPED = {
    key.path: key.default for key in KEYS if key.path.startswith(("limits.denials", "limits.asks"))
}
"""The opens of who is measured are not to be refused, however fast the machine."""

_IN_FLIGHT = 900
"""Calls over the one connection: far more than are answered in a turn."""


def rows(sink_port: int) -> list[Row]:
    """Opens alone and beside a flood, in turns, by the denials that a person has as shipped."""
    target = GatewayTarget("sink", f"127.0.0.1:{sink_port}")
    gateway = make_gateway([target], policy=POLICY, numbers=_AS_SHIPPED)
    alone: list[float] = []
    beside: list[float] = []
    answered: list[float] = []
    try:
        ann, eve = gateway.add_person("ann", "bench"), gateway.add_person("eve")
        ann.up("sink")
        sink = ann.endpoint("sink")
        for _ in range(30):  # warm
            round_trip(sink)
        for _ in range(_ROUNDS):
            alone += _opens(sink)
            with flooding(eve) as flood:
                before, began = answers(flood).total(), time.perf_counter()
                beside += _opens(sink)
                answered.append((answers(flood).total() - before) / (time.perf_counter() - began))
    finally:
        gateway.end()
    name = "opening beside a flood of denied requests"
    alone.sort()
    beside.sort()
    return [
        less_is_better(f"{name}, p50", _at(beside, 0.5), "ms", "alone, p50", _at(alone, 0.5)),
        less_is_better(
            f"{name}, p99", _at(beside, 0.99), "ms", "alone, p99", _at(alone, 0.99), _WITHIN
        ),
        more_is_better(
            "denied requests answered beside it",
            sum(answered) / _ROUNDS,
            "/s",
            "in flight",
            _IN_FLIGHT,
        ),
    ]


@contextmanager
def flooding(person: GatewayPerson) -> Iterator[Child]:
    """A flood in its stride, for as long as the block runs.

    Its first calls come before it is read slowly, and for these it is left unread for seconds: what
    costs others is what comes after.
    """
    flood = start_flood(person, "sink", "--at-once", str(_IN_FLIGHT))
    try:
        until("a flood in its stride", lambda: answers(flood)[_TOO_MANY] > _IN_FLIGHT + 200)
        yield flood
    finally:
        flood.end()


def _opens(sink: tuple[str, int]) -> list[float]:
    return [round_trip(sink) for _ in range(_OPENS)]


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

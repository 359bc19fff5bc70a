"""How late a role's reactor was, by its own measure: the histogram that each role shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import inf

from attrs import define, field

from contrib.bench.rows import Goal, Row, less_is_better
from svc.testing.gateway.gateway import Gateway

GOAL = Goal(value=50.0)
"""Milliseconds that the p99 may be."""

_BUCKET = re.compile(r'svc_reactor_lag_seconds_bucket\{.*le="([^"]+)"')


@define
class Lag:
    """What was counted while a block ran, by the upper bounds of the buckets, in seconds."""

    counts: dict[float, float] = field(factory=dict)

    def add(self, before: dict[float, float], after: dict[float, float]) -> None:
        """What came between two scrapes."""
        for bound, count in after.items():
            self.counts[bound] = self.counts.get(bound, 0.0) + count - before[bound]

    def at(self, share: float) -> float:
        """Milliseconds that this share of the timers was late at most.

        Taken from the middle of a bucket as Prometheus does; of what is above all
        bounds no more is known than that.
        """
        bounds = [(0.0, 0.0), *sorted(self.counts.items())]
        rank = share * bounds[-1][1]
        for (lower, below), (upper, count) in pairwise(bounds):
            if count >= rank and count > below:
                if upper == inf:
                    return lower * 1000
                return (lower + (upper - lower) * (rank - below) / (count - below)) * 1000
        raise AssertionError("no timer came: the process was not asked for long enough")


def p99_row(name: str, beside: Lag, peer: str, alone: Lag) -> Row:
    """The row of one role's reactor."""
    at = (beside.at(0.99), alone.at(0.99))
    return less_is_better(f"{name}, p99 by its own measure", at[0], "ms", peer, at[1], GOAL)


@contextmanager
def lag(gateway: Gateway, role: str, into: Lag) -> Iterator[None]:
    """Add to *into* what the role counts while the block runs.

    Timers that are due come before a scrape is answered: a hold in which the block ends counts.
    """
    before = _buckets(gateway, role)
    yield
    into.add(before, _buckets(gateway, role))


def _buckets(gateway: Gateway, role: str) -> dict[float, float]:
    found = {}
    for name, count in gateway.metrics(role).items():
        bucket = _BUCKET.match(name)
        if bucket is not None:
            found[float(bucket[1])] = count
    return found

"""The numbers behind ``/metrics``.

One object for a process, built from the table of series for the roles that run
in it.  Rooms never see it: compose hands them bound children as callables.
A child costs one attribute and one addition to move.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import cast

from attrs import define, field
from prometheus_client import Metric, generate_latest
from prometheus_client.registry import CollectorRegistry
from twisted.logger import Logger

from svc.telemetry.series import OTHER, SERIES, MetricSeries, SeriesKind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_log = Logger(namespace="svc_telemetry")
Sample = tuple[str, dict[str, str], float]


@define(eq=False)
class Counter:
    """A number that only grows."""

    value: float = 0

    def inc(self, by: float = 1) -> None:
        """Add; a negative amount is a mistake of the caller and refused."""
        if by < 0:
            raise ValueError("a counter only grows")
        self.value += by

    def samples(self, name: str) -> Iterator[Sample]:
        """Its one sample."""
        yield name, {}, self.value


@define(eq=False)
class Gauge:
    """A number that is set, or read from a callable at each scrape."""

    value: float = 0
    _source: Callable[[], float | None] | None = None

    def set(self, value: float) -> None:
        """Say what it is now."""
        self.value = value

    def inc(self, by: float = 1) -> None:
        """Add."""
        self.value += by

    def dec(self, by: float = 1) -> None:
        """Take away."""
        self.value -= by

    def read(self, source: Callable[[], float | None]) -> None:
        """Ask *source* at each scrape from now on; it must not block.  None means no sample."""
        self._source = source

    def samples(self, name: str) -> Iterator[Sample]:
        """Its sample, if it has one now."""
        try:
            value = self.value if self._source is None else self._source()
        except Exception:  # one broken reading must not hide every other series
            _log.failure("a gauge could not be read", series=name)
            return
        if value is not None:
            yield name, {}, value


@define(eq=False)
class Histogram:
    """Observations counted by their size."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def samples(self, name: str) -> Iterator[Sample]:
        """Cumulative buckets, then count and sum."""
        count = 0
        for bound, here in zip((*self.bounds, inf), self.counts, strict=True):
            count += here
            yield f"{name}_bucket", {"le": "+Inf" if bound == inf else repr(float(bound))}, count
        yield f"{name}_count", {}, count
        yield f"{name}_sum", {}, self.total


Child = Counter | Gauge | Histogram


class Metrics:
    """The series of the roles of this process.

    Args:
        roles: ``authority``, ``proxy``, ``connector``: which run here.
        deployment: The configuration's ``profile``; a label on every sample.
        strict: Whether an unknown label value raises (in tests) or is folded
            into ``other`` or, where there is no such value, logged and not counted.
    """

    def __init__(
        self, roles: Iterable[str], deployment: str | None = None, *, strict: bool = False
    ) -> None:
        running = frozenset(roles)
        self._series = {each.name: each for each in SERIES if running.intersection(each.roles)}
        self._known = frozenset(each.name for each in SERIES)
        self._deployment = deployment
        self._strict = strict
        self._children: dict[str, dict[tuple[str, ...], Child]] = {
            name: {} for name in self._series
        }
        for each in self._series.values():
            if not each.labels and not each.absent:
                self._children[each.name][()] = _child(each)

    def counter(self, name: str, **labels: str) -> Counter:
        """The counter of these label values; keep it, do not ask again on a hot path."""
        return cast(Counter, self._bound(name, SeriesKind.COUNTER, labels))

    def gauge(self, name: str, **labels: str) -> Gauge:
        """The gauge of these label values; its sample exists from now on."""
        return cast(Gauge, self._bound(name, SeriesKind.GAUGE, labels))

    def histogram(self, name: str, **labels: str) -> Histogram:
        """The histogram of these label values."""
        return cast(Histogram, self._bound(name, SeriesKind.HISTOGRAM, labels))

    def forget(self, name: str) -> None:
        """Show no sample of this series until it is used again."""
        self._children[name].clear()

    def allow(self, name: str, **values: Sequence[str]) -> None:
        """Fix the values of labels that are known only once plug-ins are loaded."""
        series = self._series[name]
        if name in self._series and not any(series.labels[label] for label in values):
            labels = {**series.labels, **{each: tuple(found) for each, found in values.items()}}
            self._series[name] = MetricSeries(
                name=series.name,
                kind=series.kind,
                help=series.help,
                roles=series.roles,
                labels=labels,
                buckets=series.buckets,
                absent=series.absent,
                later=series.later,
            )

    def _bound(self, name: str, kind: SeriesKind, labels: dict[str, str]) -> Child:
        series = self._series.get(name)
        if series is None and name in self._known:
            return _UNSEEN[kind]()  # another role's: it may be moved, and is not shown
        if series is None or series.kind is not kind or series.labels.keys() != labels.keys():
            raise ValueError(f"{name}: no such {kind.value} with these labels")
        values = self._values(series, labels)
        if values is None:
            return _UNSEEN[kind]()
        children = self._children[name]
        child = children.get(values)
        if child is None:
            child = children[values] = _child(series)
        return child

    def _values(self, series: MetricSeries, labels: dict[str, str]) -> tuple[str, ...] | None:
        values = []
        for label, allowed in series.labels.items():
            value = labels[label]
            if value not in allowed:
                if self._strict:
                    raise ValueError(f"{series.name}: {label}={value!r} is not allowed")
                if OTHER not in allowed:
                    _log.error("unknown label value", series=series.name, label=label)
                    return None
                value = OTHER
            values.append(value)
        return tuple(values)

    def collect(self) -> Iterator[Metric]:
        """The families with at least one sample, as prometheus_client knows them."""
        for series in self._series.values():
            family = Metric(series.name.removesuffix("_total"), series.help, series.kind.value)
            for values, child in self._children[series.name].items():
                labels = dict(zip(series.labels, values, strict=True))
                if self._deployment is not None:
                    labels["deployment"] = self._deployment
                for name, more, value in child.samples(series.name):
                    family.add_sample(name, {**labels, **more}, value)
            if family.samples:
                yield family

    def text(self) -> bytes:
        """The exposition, format 0.0.4."""
        return generate_latest(cast(CollectorRegistry, self))


def _child(series: MetricSeries) -> Child:
    if series.kind is SeriesKind.COUNTER:
        return Counter()
    if series.kind is SeriesKind.GAUGE:
        return Gauge()
    return Histogram(series.buckets)


_UNSEEN: dict[SeriesKind, Callable[[], Child]] = {
    SeriesKind.COUNTER: Counter,
    SeriesKind.GAUGE: Gauge,
    SeriesKind.HISTOGRAM: lambda: Histogram(()),
}

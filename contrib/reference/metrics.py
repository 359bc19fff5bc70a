"""The page of the metrics, from the table of series."""

from __future__ import annotations

from collections.abc import Iterator

from svc.telemetry.series import SERIES, MetricSeries

_HEAD = """\
# Metrics

Made from `svc/telemetry/series.py` by `python -m contrib.reference`; do not edit.

`GET /metrics` on `telemetry.metrics_listen` shows the series of the roles that run in the process,
in the Prometheus text format 0.0.4. With `profile` set every sample carries the label
`deployment`. No label holds a resource id, a node id, a fingerprint or anything a caller chooses.
A series with labels, or one marked *absent*, has no sample before its first event. A series marked
*later* is declared and not moved by this build.
"""


def markdown() -> str:
    """The page."""
    return "\n".join([_HEAD, *_rows(), ""])


def _rows() -> Iterator[str]:
    yield "| Series | Type | Roles | Labels | Meaning |"
    yield "|---|---|---|---|---|"
    for each in SERIES:
        labels = "; ".join(f"`{name}`: {_values(values)}" for name, values in each.labels.items())
        yield (
            f"| `{each.name}` | {each.kind.value} | {', '.join(each.roles)} | {labels or 'none'} "
            f"| {each.help}{_buckets(each)}{_mark(each)} |"
        )


def _values(values: tuple[str, ...]) -> str:
    return ", ".join(f"`{value}`" for value in values) if values else "fixed at build time"


def _buckets(series: MetricSeries) -> str:
    if not series.buckets:
        return ""
    return f" Buckets: {', '.join(format(bound, 'g') for bound in series.buckets)} s."


def _mark(series: MetricSeries) -> str:
    return " *Later.*" if series.later else " *Absent.*" if series.absent else ""

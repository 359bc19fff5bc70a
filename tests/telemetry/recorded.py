"""Traces whose spans a test reads."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

from svc.telemetry.spans import make_traces


class Recorded:
    """A role's traces, and the spans that have ended.

    Attributes:
        traces: What the rooms are given.
    """

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(
            resource=Resource({}), sampler=ParentBased(ALWAYS_ON), shutdown_on_exit=False
        )
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = make_traces(provider.get_tracer("svc"))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """In the order of their ends."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name."""
        return [span for span in self.spans if span.name == name]


def parent_of(span: ReadableSpan) -> str:
    """Trace and span id of its parent, as a ``traceparent`` has them; empty for a root."""
    found = span.parent
    return "" if found is None else f"{found.trace_id:032x}-{found.span_id:016x}"


def self_of(span: ReadableSpan) -> str:
    """Its own, likewise."""
    own = span.get_span_context()
    assert own is not None
    return f"{own.trace_id:032x}-{own.span_id:016x}"

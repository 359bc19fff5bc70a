"""Trace spans around served calls and around an open, passed on in headers.

Only the facts document 1 names become attributes, and nothing of an error but
its sort becomes a status: no text, no id of a person, no body.  What a peer
sends as a parent is believed only as far as it is well formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer
from twisted.internet.defer import CancelledError

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import Metadata, MetadataValue
from svc.interfaces.tracing import Traces
from svc.telemetry.tracing import context_of, traceparent

UNTRACED = frozenset(
    {
        "/gate.v1.Control/RegisterConnector",
        "/gate.v1.Control/Snapshot",
        "/gate.v1.Health/Check",
        "/gate.v1.Relay/Open",
        "/gate.v1.Session/List",
        "/gate.v1.Session/Open",
        "/gate.v1.Tunnel/Carry",
        "/gate.v1.Tunnel/Register",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
    }
)
"""No span by themselves: calls that stand for hours, and probes that come every second.

``Session/Open`` makes one of its own, which ends when the session is open.
"""

_OURS = frozenset(
    {
        Fault.UNIMPLEMENTED,
        Fault.UNAVAILABLE,
        Fault.DEADLINE,
        Fault.DATA_LOSS,
        Fault.UNKNOWN,
        Fault.INTERNAL,
    }
)
"""Faults that are an error of the server; a refusal of the caller is an answer."""

_UNTRACED_CALL = nullcontext()


class RecordedSpan:
    """A :class:`svc.interfaces.tracing.Span` that is recorded, or not sampled.

    As a context manager it ends with what became of the block.
    """

    def __init__(self, span: OtelSpan) -> None:
        self._span = span
        self._token = contexts.attach(trace.set_span_in_context(span))
        self._is_over = False

    @property
    def traceparent(self) -> str:
        """See :class:`svc.interfaces.tracing.Span`."""
        return traceparent(trace.set_span_in_context(self._span)).get("traceparent", "")

    def note(
        self, *, action: str = "", resource: str = "", decision: str = "", session_uid: str = ""
    ) -> None:
        """See :class:`svc.interfaces.tracing.Note`."""
        if not self._is_over:
            _describe(self._span, action, resource, decision, session_uid)

    def __enter__(self) -> RecordedSpan:
        return self

    def __exit__(self, sort: object, error: BaseException | None, traceback: object) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """See :class:`svc.interfaces.tracing.Span`."""
        if self._is_over:
            return
        self._is_over = True
        word = _failed(error)
        if word:
            self._span.set_status(Status(StatusCode.ERROR, word))
        contexts.detach(self._token)
        self._span.end()


def make_traces(tracer: Tracer) -> Traces:
    """What a role's rooms are given where a collector is configured.

    Everything in it is synchronous, blocks for nothing and raises nothing.
    """

    def spans(name: str, headers: Mapping[str, MetadataValue]) -> RecordedSpan:
        return RecordedSpan(tracer.start_span(name, context_of(headers), kind=SpanKind.SERVER))

    def traced(
        method: str, metadata: Mapping[str, MetadataValue]
    ) -> AbstractContextManager[object]:
        return _UNTRACED_CALL if method in UNTRACED else spans(method.lstrip("/"), metadata)

    return Traces(
        traced=traced, headers=_headers, spans=spans, note=_note_current, trace_id=_current_trace
    )


def _headers() -> Metadata:
    return tuple(traceparent().items())


def _note_current(
    *, action: str = "", resource: str = "", decision: str = "", session_uid: str = ""
) -> None:
    _describe(trace.get_current_span(), action, resource, decision, session_uid)


def _current_trace() -> str:
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else ""


def _describe(span: OtelSpan, action: str, resource: str, decision: str, session_uid: str) -> None:
    facts = {
        "action": action,
        "resource": resource,
        "decision": decision,
        "session_uid": session_uid,
    }
    span.set_attributes({name: fact for name, fact in facts.items() if fact})


def _failed(error: BaseException | None) -> str:
    """The sort of a failure; empty where there is none, or it is an answer."""
    if error is None or isinstance(error, CancelledError):
        return ""
    if not isinstance(error, Exception):
        return ""
    fault = error.fault if isinstance(error, SvcError) else Fault.INTERNAL
    return fault.value if fault in _OURS else ""

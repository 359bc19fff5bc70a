"""Exports spans if a collector is configured; otherwise does nothing.

Export happens in a thread of the SDK with a bounded queue that drops, so a
collector that hangs never holds back a decision.  The SDK is imported only
when an endpoint is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import define, field
from opentelemetry import context as contexts
from opentelemetry.trace import NoOpTracer, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.config.forms import parse_otel_endpoint
from svc.errors import ConfigError, SvcError
from svc.runtime.services import AsyncService, bounded
from svc.runtime.threads import in_pool

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

BATCH = 64
QUEUE = 2048
EVERY_SECS = 1.0
EXPORT_SECS = 2.0
TRACEPARENT_BYTES = 512
_propagator = TraceContextTextMapPropagator()
_log = Logger(namespace="svc_telemetry")


def check_endpoint(url: str) -> str:
    """The URL to post spans to.

    Raises:
        ConfigError: naming the key; never with the URL, which may hold a credential.
    """
    try:
        return parse_otel_endpoint(url)
    except ValueError as error:
        raise ConfigError("telemetry.otel_endpoint", str(error)) from None


def traceparent(context: Context | None = None) -> dict[str, str]:
    """The W3C headers of the current span, or of a context's; empty without a span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, context)
    return carrier


def context_of(headers: Mapping[str, str | bytes]) -> Context:
    """The context an incoming call names; a malformed or oversized one is an empty context.

    Neither ``tracestate`` nor ``baggage`` is read: what they hold is a stranger's text, which
    would go on to the collector, and the parser logs what it cannot read.
    """
    value = headers.get("traceparent")
    kept = isinstance(value, str) and 0 < len(value) <= TRACEPARENT_BYTES
    carrier = {"traceparent": str(value)} if kept else {}
    return _propagator.extract(carrier, context=contexts.Context())


@define(slots=False, eq=False)
class Tracing(AsyncService):
    """A role's tracer, and the service that flushes it on stop.

    ``tracer`` may be used before the start and after the stop.
    """

    tracer: Tracer
    _reactor: IReactorTime
    _shutdown: Callable[[], None] | None = field(default=None)

    @property
    def is_on(self) -> bool:
        """Whether anything is exported."""
        return self._shutdown is not None

    def abandon(self) -> None:
        """End it after a refused start: nothing was traced, so nothing is sent."""
        if self._shutdown is not None:
            self._shutdown()

    async def stop(self) -> None:
        """Send what is queued, for two seconds at most; never fails."""
        if self._shutdown is None:
            return
        ending = in_pool(self._reactor)(self._shutdown)
        try:
            await bounded(self._reactor, EXPORT_SECS, ending, "trace export")
        except SvcError as error:
            _log.warn("spans were left unsent", reason=error.reason)


def make_tracer(
    reactor: IReactorTime,
    role: str,
    profile: str | None,
    endpoint: str | None,
    *,
    exporter: Callable[[str], SpanExporter] | None = None,
) -> Tracing:
    """The tracing of one role.

    Args:
        reactor: For the end; its thread pool runs the last flush.
        role: ``service.name`` is ``svc-<role>``.
        profile: Put on the resource when set.
        endpoint: The configured collector; None or empty gives the no-op tracer.
        exporter: Makes the exporter for a URL; the OTLP one by default.

    Raises:
        ConfigError: when the endpoint is not well formed.
    """
    if not endpoint:
        return Tracing(NoOpTracer(), reactor)
    url = check_endpoint(endpoint)
    provider = _provider(role, profile, (exporter or _otlp)(url))
    return Tracing(provider.get_tracer("svc"), reactor, provider.shutdown)


def _provider(role: str, profile: str | None, exporter: SpanExporter) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    facts = {"service.name": f"svc-{role}", **({} if profile is None else {"profile": profile})}
    provider = TracerProvider(
        resource=Resource(facts),
        sampler=ParentBased(TraceIdRatioBased(1.0)),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=QUEUE,
            schedule_delay_millis=EVERY_SECS * 1000,
            max_export_batch_size=BATCH,
            export_timeout_millis=EXPORT_SECS * 1000,
        )
    )
    return provider


def _otlp(url: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from svc.telemetry.collector import collector_session

    return OTLPSpanExporter(endpoint=url, timeout=EXPORT_SECS, session=collector_session())

"""Traces: off unless asked for, and never in the way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import Event

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracer
from twisted.internet import defer
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.telemetry.tracing import BATCH, QUEUE, context_of, make_tracer, traceparent
from tests.support.proof import proves

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Kept(SpanExporter):
    """An exporter that keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep them."""
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS


def given(exporter: SpanExporter, url: str) -> SpanExporter:
    """The exporter for any URL."""
    return exporter


class Hung(SpanExporter):
    """An exporter whose collector does not answer until the test says so."""

    def __init__(self) -> None:
        self.go, self.sizes = Event(), list[int]()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait, then note how many came."""
        self.go.wait(60)
        self.sizes.append(len(spans))
        return SpanExportResult.SUCCESS


class InlinePool(ThreadPool):
    """A pool that runs what it is given at once, in the caller's thread."""

    def callInThreadWithCallback(self, onResult, func, *args, **kw):  # type: ignore[no-untyped-def]
        """Run now."""
        result = func(*args, **kw)
        if onResult is not None:
            onResult(True, result)


class Reactor(MemoryReactorClock):
    """A reactor in memory with that pool."""

    def getThreadPool(self) -> ThreadPool:
        """The inline pool."""
        return InlinePool()

    def callFromThread(self, callable: object, *args: object, **kw: object) -> None:
        """Run now."""
        callable(*args, **kw)  # type: ignore[operator]


class TracingTests(SynchronousTestCase):
    """Making a tracer, and carrying its context."""

    @proves("G-CFG-03")
    def test_off_by_default(self) -> None:
        """Without an endpoint there is nothing to export and nothing to end."""
        for endpoint in (None, ""):
            tracing = make_tracer(Clock(), "proxy", None, endpoint)
            self.assertIsInstance(tracing.tracer, NoOpTracer)
            with tracing.tracer.start_as_current_span("open"):
                self.assertEqual(traceparent(), {})
            tracing.startService()
            self.successResultOf(tracing.stopService())

    @proves("G-CFG-04", "G-OPEN-54")
    def test_malformed_endpoint(self) -> None:
        """A malformed endpoint is refused at the start, without being repeated."""
        for url in ("not a url", "ftp://h:4318", "http://", "http://u:hunter2canary@h"):
            error = self.assertRaises(ConfigError, make_tracer, Clock(), "proxy", None, url)
            self.assertEqual(error.where, "telemetry.otel_endpoint")
            self.assertNotIn("canary", error.text)

    @proves("G-OPEN-54", "G-CFG-05", "G-OPEN-76")
    def test_spans_are_flushed_on_stop(self) -> None:
        """Spans carry service name and profile, and are sent at the latest on the stop."""
        kept, urls = Kept(), []

        def exporter(url: str) -> SpanExporter:
            urls.append(url)
            return kept

        reactor = Reactor()
        tracing = make_tracer(reactor, "proxy", "blue", "http://c:4318", exporter=exporter)
        tracing.startService()
        with tracing.tracer.start_as_current_span("open"):
            pass
        self.successResultOf(tracing.stopService())
        self.assertEqual(urls, ["http://c:4318/v1/traces"])
        (span,) = kept.spans
        self.assertEqual(span.resource.attributes["service.name"], "svc-proxy")
        self.assertEqual(span.resource.attributes["profile"], "blue")
        self.assertEqual(reactor.getDelayedCalls(), [])

    @proves("G-OPEN-54")
    def test_the_parent_decides(self) -> None:
        """A span is sampled as its parent is; one without a parent is sampled."""
        for flags, count in (("-00", 0), ("-01", 1), (None, 1)):
            kept = Kept()
            tracing = make_tracer(
                Reactor(), "proxy", None, "http://c", exporter=partial(given, kept)
            )
            headers = {} if flags is None else {"traceparent": PARENT[:-3] + flags}
            with tracing.tracer.start_as_current_span("open", context=context_of(headers)):
                pass
            self.successResultOf(tracing.stopService())
            self.assertEqual(len(kept.spans), count, flags)

    @proves("G-OPEN-54")
    def test_a_collector_that_hangs(self) -> None:
        """Spans end at once whatever the collector does; few are sent at a time, the rest drop."""
        hung = Hung()
        tracing = make_tracer(Reactor(), "proxy", None, "http://c", exporter=lambda url: hung)
        with self.assertLogs("opentelemetry", "WARNING"):  # that it drops
            for _ in range(2 * QUEUE):
                tracing.tracer.start_span("open").end()
        self.assertEqual(hung.sizes, [])
        hung.go.set()
        self.successResultOf(tracing.stopService())
        self.assertLessEqual(max(hung.sizes), BATCH)
        self.assertGreaterEqual(sum(hung.sizes), QUEUE)
        self.assertLessEqual(sum(hung.sizes), QUEUE + BATCH)

    def test_context_travels(self) -> None:
        """A call's parent becomes the span's parent, and the next call names the same trace."""
        tracing = make_tracer(Reactor(), "proxy", None, "http://c", exporter=lambda url: Kept())
        self.addCleanup(tracing._shutdown or (lambda: None))
        context = context_of({"traceparent": PARENT})
        with tracing.tracer.start_as_current_span("open", context=context):
            sent = traceparent()["traceparent"]
        self.assertEqual(sent.split("-")[1], PARENT.split("-")[1])
        self.assertNotEqual(sent.split("-")[2], PARENT.split("-")[2])

    def test_bad_context_is_dropped(self) -> None:
        """A malformed or oversized context is as none; the call is served all the same."""
        for headers in (
            {},
            {"traceparent": "x"},
            {"traceparent": PARENT + "x" * 1000},
            {"traceparent": PARENT.replace("0af", "\x00af")},
        ):
            span = trace.get_current_span(context_of(headers))
            self.assertFalse(span.get_span_context().is_valid)

    def test_span_follows_a_coroutine(self) -> None:
        """A span stays current across an await and does not leak to others."""
        tracing = make_tracer(Reactor(), "proxy", None, "http://c", exporter=lambda url: Kept())
        self.addCleanup(tracing._shutdown or (lambda: None))
        gate: defer.Deferred[None] = defer.Deferred()
        seen: list[dict[str, str]] = []

        async def work() -> None:
            with tracing.tracer.start_as_current_span("open"):
                seen.append(traceparent())
                await gate
                seen.append(traceparent())

        done = defer.Deferred.fromCoroutine(work())
        self.assertEqual(traceparent(), {})
        gate.callback(None)
        self.successResultOf(done)
        self.assertEqual(seen[0], seen[1])

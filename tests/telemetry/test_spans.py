"""Spans around calls: whose child each is, what it says, and what it never says."""

from __future__ import annotations

from typing import Any

from google.protobuf.wrappers_pb2 import StringValue
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Denied, Fault, SvcError, Unavailable
from svc.interfaces.rpc import RpcService, unary
from svc.interfaces.tracing import NO_TRACES
from svc.rpc.client.channel import RpcChannel
from svc.telemetry.spans import UNTRACED
from svc.telemetry.tracing import context_of
from tests.rpc.memory import Pair
from tests.support.proof import proves
from tests.telemetry.recorded import Recorded, parent_of, self_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
BAD = (
    {"traceparent": ""},
    {"traceparent": "x"},
    {"traceparent": PARENT.upper()},
    {"traceparent": f"{PARENT},{PARENT}"},
    {"traceparent": f"00-{'0' * 32}-{SPAN}-01"},
    {"traceparent": f"ff-{TRACE}-{SPAN}-01"},
    {"traceparent": PARENT + "-" + "x" * 4000},
    {"tracestate": "canary=" + "x" * 4000},
    {"baggage": "password=canary"},
)


class ServedTests(SynchronousTestCase):
    """Two services of ours, the first of which calls the second."""

    def setUp(self) -> None:
        self.recorded = Recorded()
        self.traces = self.recorded.traces
        self.heard: list[dict[str, Any]] = []
        self.gate: Deferred[None] = Deferred()
        self.back = self._pair("Answer", self._answer)
        self.front = self._pair("Ask", self._ask)
        self.way = RpcChannel(self.back.client, authority="b", headers=self.traces.headers)

    def _pair(self, name: str, answer: Any) -> Pair:
        methods = {name: unary(StringValue, answer), "Fail": unary(StringValue, self._fail)}
        return Pair([RpcService("t.S", methods)], traced=self.traces.traced)

    async def _ask(self, request: StringValue, call: Any) -> StringValue:
        await self.gate
        self.traces.note(action="connect", resource="db1", decision="allow", session_uid="ab")
        return await self.way.unary("/t.S/Answer", request, StringValue, timeout=None)

    async def _answer(self, request: StringValue, call: Any) -> StringValue:
        self.heard.append(dict(call.metadata))
        return StringValue(value="answer")

    async def _fail(self, request: StringValue, call: Any) -> StringValue:
        raise self.error

    def ask(self, metadata: Any = ()) -> list[Any]:
        asked = self.front.channel.unary(
            "/t.S/Ask",
            StringValue(value="hunter2canary"),
            StringValue,
            timeout=None,
            metadata=metadata,
        )
        got: list[Any] = self.front.settle(asked)
        if not self.gate.called:
            self.gate.callback(None)
        for _ in range(8):
            self.back.turn(8)
            self.front.turn(8)
        return [getattr(one, "value", one) for one in got]

    @proves("G-TRC-06")
    def test_trace(self) -> None:
        """The second service's span is the child of the first's, also after it waited."""
        self.assertEqual(self.ask([("traceparent", PARENT)]), ["answer"])
        answer, ask = self.recorded.spans
        self.assertEqual((ask.name, answer.name), ("t.S/Ask", "t.S/Answer"))
        self.assertEqual(parent_of(ask), f"{TRACE}-{SPAN}")
        self.assertEqual(parent_of(answer), self_of(ask))
        self.assertEqual((ask.kind, answer.kind), (SpanKind.SERVER, SpanKind.SERVER))
        facts = {"action": "connect", "resource": "db1", "decision": "allow", "session_uid": "ab"}
        self.assertEqual(dict(ask.attributes or {}), facts)
        self.assertEqual(dict(answer.attributes or {}), {})
        self.assertFalse(trace.get_current_span().get_span_context().is_valid)

    def test_bad_parents(self) -> None:
        """A malformed or oversized parent is dropped: the call is served under a trace of its own.

        Nothing else of what the peer sent goes on to the next service.
        """
        for number, headers in enumerate(BAD):
            self.assertEqual(self.ask(list(headers.items())), ["answer"], headers)
            answer, ask = self.recorded.spans[2 * number :]
            self.assertEqual(parent_of(ask), "", headers)
            self.assertEqual(parent_of(answer), self_of(ask))
            self.assertEqual(set(self.heard[-1]), {"traceparent"})

    def test_strangers_words_stay(self) -> None:
        """With a good parent too, a peer's tracestate and baggage are not passed on."""
        more = [("tracestate", "canary=1"), ("baggage", "canary=1")]
        self.assertEqual(self.ask([("traceparent", PARENT), *more]), ["answer"])
        self.assertEqual(set(self.heard[-1]), {"traceparent"})
        self.assertNotIn("canary", "".join(span.to_json() for span in self.recorded.spans))

    def test_unsampled(self) -> None:
        """A parent that is not sampled yields no span here, and travels on as such."""
        self.assertEqual(self.ask([("traceparent", PARENT[:-1] + "0")]), ["answer"])
        self.assertEqual(self.recorded.spans, ())
        self.assertRegex(self.heard[-1]["traceparent"], f"^00-{TRACE}-.*-00$")

    @proves("G-TRC-07")
    def test_failures(self) -> None:
        """A failure shows by its sort alone; a refusal of the caller is no error."""
        for error, code, word in (
            (Unavailable("hunter2canary", reason="away"), StatusCode.ERROR, "unavailable"),
            (RuntimeError("hunter2canary"), StatusCode.ERROR, "internal"),
            (Denied("hunter2canary"), StatusCode.UNSET, None),
            (SvcError("x", fault=Fault.NOT_FOUND), StatusCode.UNSET, None),
            (CancelledError(), StatusCode.UNSET, None),
        ):
            self.error = error
            asked = self.front.channel.unary("/t.S/Fail", StringValue(), StringValue, timeout=None)
            self.front.settle(asked)
            span = self.recorded.spans[-1]
            self.assertEqual((span.status.status_code, span.status.description), (code, word))
            self.assertEqual((span.events, dict(span.attributes or {})), ((), {}))
            self.assertNotIn("canary", span.to_json())
        self.flushLoggedErrors(RuntimeError)

    def test_off(self) -> None:
        """Where nobody collects there is no span, no hook and no header."""
        self.assertEqual((NO_TRACES.traced, NO_TRACES.headers), (None, None))
        one = NO_TRACES.spans("a", {})
        self.assertIs(one, NO_TRACES.spans("b", {"traceparent": PARENT}))
        self.assertEqual(one.traceparent, "")
        one.note(resource="db1")
        one.end()
        self.way = RpcChannel(self.back.client, authority="b")
        self.assertEqual(self.ask(), ["answer"])
        self.assertEqual(self.heard[-1], {})


class SpanTests(SynchronousTestCase):
    """A span that a room makes itself."""

    def test_ended_early(self) -> None:
        """What follows an end that came early is no part of the span, and changes nothing."""
        recorded = Recorded()
        span = recorded.traces.spans("open", {})
        self.assertTrue(trace.get_current_span().get_span_context().is_valid)
        span.note(resource="db1")
        span.end()
        self.assertFalse(trace.get_current_span().get_span_context().is_valid)
        span.end(RuntimeError())
        span.note(resource="db2")
        [only] = recorded.spans
        self.assertEqual(dict(only.attributes or {}), {"resource": "db1"})
        self.assertIs(only.status.status_code, StatusCode.UNSET)

    def test_its_header(self) -> None:
        """A span gives the header that names it as a parent, for what is no call."""
        recorded = Recorded()
        span = recorded.traces.spans("open", {"traceparent": PARENT})
        header = span.traceparent
        span.end()
        self.assertEqual(header, f"00-{self_of(recorded.spans[0])}-01")

    @settings(deadline=None)
    @given(st.text(max_size=700) | st.binary(max_size=80) | st.just(PARENT))
    def test_any_parent(self, value: Any) -> None:
        """Whatever stands there, no parent is made up and nothing fails."""
        found = trace.get_current_span(context_of({"traceparent": value})).get_span_context()
        self.assertEqual(found.is_valid, found.trace_id != 0)
        if found.is_valid:
            self.assertIn(f"{found.trace_id:032x}-{found.span_id:016x}", value)

    def test_long_calls_have_none(self) -> None:
        """Every call of ours that streams is known as one that makes no span of its length."""
        from svc.proto.gate.v1 import (
            control_pb2,
            health_pb2,
            relay_pb2,
            session_pb2,
            tunnel_pb2,
        )

        for module in (control_pb2, health_pb2, relay_pb2, session_pb2, tunnel_pb2):
            for service in module.DESCRIPTOR.services_by_name.values():
                for method in service.methods:
                    name = f"/{service.full_name}/{method.name}"
                    if method.client_streaming or method.server_streaming:
                        self.assertIn(name, UNTRACED)
        recorded = Recorded()
        assert recorded.traces.traced is not None
        for name in UNTRACED:
            with recorded.traces.traced(name, {"traceparent": PARENT}):
                self.assertFalse(trace.get_current_span().get_span_context().is_valid)
        self.assertEqual(recorded.spans, ())

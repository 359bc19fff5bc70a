"""A trace collector in the test's own process: OTLP over plain HTTP, in threads.

It keeps every byte it was sent, and the spans in it; it can also refuse, or
take a request and never answer.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field, frozen
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.processes import TIMEOUT_SECS, until


@frozen
class Seen:
    """One span as it arrived.

    Attributes:
        of: The attributes of whoever sent it; ``attributes`` are the span's own.
        kind: OTLP's number: 2 is a server's.
        status: OTLP's number: 0 unset, 2 error; ``message`` goes with it.
    """

    name: str
    of: dict[str, str]
    attributes: dict[str, str]
    trace_id: str
    span_id: str
    parent: str
    kind: int
    status: int
    message: str
    events: int

    @property
    def service(self) -> str:
        """``service.name``."""
        return self.of.get("service.name", "")


@define(eq=False, slots=False)
class Collector:
    """A listener and what it was sent.

    Attributes:
        status: What each request is answered; 0: it is never answered.
        posts: Path, content type and body of each request.
        connections: How many were accepted.
        hung: How many requests were taken and not answered.
        port: Where it listens on loopback.
    """

    status: int = 200
    posts: list[tuple[str, str, bytes]] = field(factory=list)
    connections: int = 0
    hung: int = 0
    released: threading.Event = field(factory=threading.Event)
    port: int = field(factory=lambda: free_ports()[0], init=False)
    _server: ThreadingHTTPServer | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.listen()

    def listen(self) -> None:
        """Begin, or after :meth:`close` begin again on the same port."""
        self.released.clear()
        self._server = server = ThreadingHTTPServer(("127.0.0.1", self.port), _request_of(self))
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    @property
    def url(self) -> str:
        """What a configuration names."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Listen no more; requests that were never answered are cut.  Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            self.released.set()
            server.shutdown()
            server.server_close()

    @property
    def dump(self) -> bytes:
        """All that came."""
        return b"\n".join(body for _, _, body in list(self.posts))

    @property
    def spans(self) -> list[Seen]:
        """Every span that came."""
        return [span for _, _, body in list(self.posts) for span in spans_of(body)]

    def of_session(self, uid: str) -> list[Seen]:
        """The spans of one session."""
        return [span for span in self.spans if span.attributes.get("session_uid") == uid]

    def await_spans(self, what: str, count: int, look: Any) -> list[Seen]:
        """Wait until so many spans are such that *look* is true of each."""

        def found() -> list[Seen] | None:
            such = [span for span in self.spans if look(span)]
            return such if len(such) >= count else None

        return until(what, found, TIMEOUT_SECS)


def spans_of(body: bytes) -> list[Seen]:
    """The spans of one request."""
    message = ExportTraceServiceRequest.FromString(body)
    return [
        Seen(
            name=span.name,
            of=_facts(resource.resource.attributes),
            attributes=_facts(span.attributes),
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            kind=span.kind,
            status=span.status.code,
            message=span.status.message,
            events=len(span.events),
        )
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _facts(attributes: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in attributes}


def _request_of(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Request(BaseHTTPRequestHandler):
        """One connection of an exporter."""

        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            """Count it."""
            collector.connections += 1
            super().setup()

        def do_POST(self) -> None:
            """Keep the body; answer, refuse, or say nothing."""
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status = collector.status
            if not status:
                collector.hung += 1
                collector.released.wait()
                self.close_connection = True
                return
            collector.posts.append((self.path, self.headers.get("Content-Type", ""), body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Request

"""``GET /healthz``, ``/readyz`` and ``/metrics`` over plain HTTP, and what a role publishes.

The method is looked at first: whatever is not GET is 405 on every path, HEAD
and OPTIONS included.  A path is one of those, byte for byte, or 404.  No
answer echoes anything of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from twisted.internet.interfaces import IDelayedCall, IReactorTime, ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web import http
from twisted.web.http import HTTPChannel
from twisted.web.resource import IResource, Resource
from twisted.web.server import Request, Site
from zope.interface import implementer

from svc.telemetry.metrics import CONTENT_TYPE

REQUEST_SECS = 10
MAX_HEADERS = 64
MAX_HEADER_BYTES = 8192
MAX_BODY = 65_536
PATHS = (b"/healthz", b"/readyz", b"/metrics")
_PLAIN = b"text/plain; charset=utf-8"


class TelemetryRequest(Request):
    """A request whose body is thrown away as it comes; no one here reads one."""

    _thrown = 0

    def process(self) -> None:
        """Answer; ``*`` is a path like any other that is not ours."""
        if self.uri == b"*":
            self.uri = self.path = b"/*"
        Request.process(self)

    def handleContentChunk(self, data: bytes) -> None:
        """Count, keep nothing; past the limit the connection is cut."""
        self._thrown += len(data)
        if self._thrown > MAX_BODY:
            cast(TelemetryChannel, self.channel).cut()


class TelemetryChannel(HTTPChannel):
    """One connection: each request must be whole within a fixed time, bytes or no bytes.

    Twisted's own idle timeout stays off: it begins again at every byte, and it
    writes a log line that any caller can provoke.
    """

    maxHeaders = MAX_HEADERS
    totalHeadersSize = MAX_HEADER_BYTES
    requestFactory = TelemetryRequest
    request_secs: float = REQUEST_SECS
    _deadline: IDelayedCall | None = None

    def connectionMade(self) -> None:
        """Begin to wait for the first request."""
        HTTPChannel.connectionMade(self)
        self._await_request()

    def allContentReceived(self) -> None:
        """The request is whole: its answer takes the time it takes."""
        self._clear()
        HTTPChannel.allContentReceived(self)

    def requestDone(self, request: Request) -> None:
        """Begin to wait for the next request of this connection."""
        if self.persistent:
            self._await_request()
        HTTPChannel.requestDone(self, request)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Leave no timer behind."""
        self._clear()
        HTTPChannel.connectionLost(self, reason)

    def _await_request(self) -> None:
        self._clear()
        later = cast(Callable[..., IDelayedCall], self.callLater)
        self._deadline = later(self.request_secs, self.cut)

    def cut(self) -> None:
        """End the connection without another word, here or in the log."""
        self._clear()
        cast(ITCPTransport, self.transport).abortConnection()

    def _clear(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline.active():
            deadline.cancel()


class TelemetrySite(Site):
    """The factory; it keeps no access log and says nothing of its start."""

    protocol = TelemetryChannel  # type: ignore[assignment]  # HTTP/1.1 only
    noisy = False

    def log(self, request: http.Request) -> None:
        """Scrapes are not news."""


Documents = Mapping[bytes, Callable[[], bytes]]
"""Further paths, and what makes the JSON that each of them answers with."""


@implementer(IResource)
class MethodGuard(Resource):
    """Looks at method and path before anything else does."""

    isLeaf = True

    def __init__(self, inside: IResource, documents: Documents) -> None:
        Resource.__init__(self)
        self._inside = inside
        self._documents = documents

    def render(self, request: Request) -> object:
        """Answer 405 or 404, or let the application inside answer."""
        request.responseHeaders.removeHeader("server")
        request.setHeader("content-type", _PLAIN)
        if request.method != b"GET":
            request.setResponseCode(405)
            request.setHeader("allow", "GET")
            return b"" if request.method == b"HEAD" else b"method not allowed\n"
        document = self._documents.get(request.path)
        if document is not None:
            request.setHeader("content-type", "application/json")
            return _sized(request, document())
        if request.path not in PATHS:
            request.setResponseCode(404)
            return b"not found\n"
        return self._inside.render(request)


def telemetry_resource(
    missing: Callable[[], Sequence[str]],
    metrics: Callable[[], bytes],
    lacking: Callable[[], Sequence[str]],
    documents: Documents = MappingProxyType({}),
) -> Resource:
    """The web resource of the listener.

    Args:
        documents: What the role publishes besides.
        missing: The words of the readiness conditions not met; empty when ready.
        metrics: The exposition.
        lacking: What the role cannot do now, ready or not: told in the body, a line each.
    """
    # Its import makes the process's reactor, which importing a room of ours must not do.
    from klein import Klein

    app = Klein()

    @app.route("/healthz")
    def healthz(request: Request) -> bytes:
        """The process is alive; nothing is checked."""
        return _sized(request, b"ok\n")

    @app.route("/readyz")
    def readyz(request: Request) -> bytes:
        """Ready, or what is missing."""
        words = missing()
        if words:
            request.setResponseCode(503)
        first = f"not ready: {', '.join(words)}" if words else "ready"
        lines = [first, *(f"lacking: {what}" for what in lacking())]
        return _sized(request, "".join(f"{line}\n" for line in lines).encode())

    @app.route("/metrics")
    def exposition(request: Request) -> bytes:
        """All series."""
        request.setHeader("content-type", CONTENT_TYPE)
        return _sized(request, metrics())

    return MethodGuard(app.resource(), documents)


def _sized(request: Request, body: bytes) -> bytes:
    """Say the length, so that the answer is not cut into chunks."""
    request.setHeader("content-length", str(len(body)))
    return body


def telemetry_site(
    clock: IReactorTime,
    missing: Callable[[], Sequence[str]],
    metrics: Callable[[], bytes],
    lacking: Callable[[], Sequence[str]],
    documents: Documents = MappingProxyType({}),
) -> TelemetrySite:
    """The factory to listen with; see :func:`telemetry_resource`."""
    resource = telemetry_resource(missing, metrics, lacking, documents)
    return TelemetrySite(  # type: ignore[no-untyped-call]
        resource, requestFactory=TelemetryRequest, timeout=None, reactor=clock
    )

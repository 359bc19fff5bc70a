"""Takes the browser's return from the identity provider: one path, one request, on loopback.

The laptop does nothing with what it brings but pass it on; Authority judges it
(rule R35).  A request that is not of this sign-in is refused and changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from html import escape
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.web import http
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from svc.errors import SvcError
from svc.runtime.services import bounded

CALLBACK_PATH = b"/callback"
_HOST = "127.0.0.1"
_MAX_QUERY = 8192
_HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"connection", b"close"),
)


_ANSWER_SECS = 1.0
"""How long the browser may take to read how it ended."""


class _Quiet(Site):
    """Writes no line of a request: its query is a credential until Authority has used it."""

    noisy = False
    displayTracebacks = False

    def log(self, request: Any) -> None:
        """Nothing."""


class _Connections(WrappingFactory[Any]):
    """Knows when the last connection is gone."""

    noisy = False

    def __init__(self, site: Site) -> None:
        super().__init__(site)  # type: ignore[no-untyped-call]
        self._gone: Deferred[None] | None = None

    def gone(self) -> Deferred[None]:
        """Fires when none is open."""
        self._gone = Deferred()
        self._look()
        return self._gone

    def unregisterProtocol(self, p: ProtocolWrapper) -> None:
        """Called by Twisted when one is closed."""
        super().unregisterProtocol(p)  # type: ignore[no-untyped-call]
        self._look()

    def _look(self) -> None:
        if self._gone is not None and not self._gone.called and not self.protocols:
            self._gone.callback(None)


class LoopbackRedirect(Resource):
    """The listener of one sign-in.

    Attributes:
        query: Fires with the query of the browser's return.
    """

    isLeaf = True

    def __init__(self, reactor: Any) -> None:
        Resource.__init__(self)
        self.query: Deferred[str] = Deferred()
        self._reactor = reactor
        self._connections = _Connections(_Quiet(self, timeout=10))  # type: ignore[no-untyped-call]
        self._state = b""
        self._host = b""
        self._port: Any = None
        self._waiting: Request | None = None

    async def listen(self) -> int:
        """Listen on a free port of 127.0.0.1; which one it is."""
        endpoint = TCP4ServerEndpoint(self._reactor, 0, interface=_HOST)
        self._port = await endpoint.listen(self._connections)
        port = int(self._port.getHost().port)
        self._host = f"{_HOST}:{port}".encode("ascii")
        return port

    def expect(self, state: str) -> None:
        """Take the return of this sign-in from now on."""
        self._state = state.encode("ascii")

    def render(self, request: Request) -> Any:
        """Called by Twisted for each request."""
        if request.getHeader(b"host") != self._host:
            return _page(request, http.FORBIDDEN, "This address is not served here.")
        path, _, query = request.uri.partition(b"?")
        if path != CALLBACK_PATH or request.method != b"GET":
            return _page(request, http.NOT_FOUND, "There is nothing here.")
        if self._waiting is not None or self.query.called:
            return _page(request, http.GONE, "This sign-in has had its answer already.")
        states = request.args.get(b"state", [])
        if not self._state or states != [self._state] or len(query) > _MAX_QUERY:
            return _page(request, http.BAD_REQUEST, "This is not the answer to this sign-in.")
        self._waiting = request
        request.notifyFinish().addErrback(lambda _: self._gone())
        # The one request has come; what else connects is refused by the kernel.
        self._stop_listening()
        self.query.callback(query.decode("latin-1"))
        return NOT_DONE_YET

    def _gone(self) -> None:
        self._waiting = None

    async def close(self, words: str = "") -> None:
        """Show the browser how it ended, and listen no more."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.write(_page(waiting, http.OK, words))
            waiting.finish()
        self._stop_listening()
        with suppress(SvcError):
            gone = self._connections.gone()
            await bounded(self._reactor, _ANSWER_SECS, gone, "the browser")

    def _stop_listening(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            port.stopListening()


def ended_words(refusal: SvcError | None, name: str) -> str:
    """What the browser shows at the end."""
    if refusal is None:
        return f"You are signed in as {name}. You may close this window."
    return f"You are not signed in: {refusal.text}"


def _page(request: Request, code: int, words: str) -> bytes:
    request.setResponseCode(code)
    for name, value in _HEADERS:
        request.setHeader(name, value)
    text = f"<!doctype html><title>svc</title><p>{escape(words)}</p>"
    return text.encode("utf-8")

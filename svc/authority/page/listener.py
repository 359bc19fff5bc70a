"""HTTP for the page: whole requests within a time, small forms, few at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from svc.authority.page.pages import MAX_FORM, Answer, IncomingRequest, Pages
from svc.errors import SvcError
from svc.runtime.services import BackgroundTasks, bounded
from svc.telemetry.listener import TelemetryChannel, TelemetryRequest

IDLE_SECS = 60
MAX_HEADER_BYTES = 32_768
"""A token with many groups has up to 8 KiB, and browsers send cookies of their own."""

MOST_AT_ONCE = 64
ANSWER_SECS = 20.0

_log = Logger(namespace="svc_authority")


class PageRequest(TelemetryRequest):
    """A request whose body is a small form; what is larger cuts the connection."""

    form: bytes = b""
    most_form = MAX_FORM

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a small form."""
        if len(self.form) + len(data) > self.most_form:
            cast(PageChannel, self.channel).cut()
        else:
            self.form += data


class PageChannel(TelemetryChannel):
    """One connection of a Connector's."""

    totalHeadersSize = MAX_HEADER_BYTES
    requestFactory = PageRequest
    request_secs = IDLE_SECS


class PageSite(Site):
    """The factory; the gate has recorded every request already."""

    protocol = PageChannel  # type: ignore[assignment]  # HTTP/1.1 only
    noisy = False

    def log(self, request: object) -> None:
        """Nothing."""


class AnswersRequests(Protocol):
    """What makes the answers."""

    async def answer(self, ask: IncomingRequest, host: str) -> Answer:
        """See :meth:`Pages.answer`."""


class PageResource(Resource):
    """Answers every path; see :func:`page_site`."""

    isLeaf = True

    def __init__(
        self,
        *,
        pages: AnswersRequests,
        host: Callable[[], str],
        is_on: Callable[[], bool],
        clock: IReactorTime,
        tasks: BackgroundTasks,
    ) -> None:
        Resource.__init__(self)
        self._pages, self._host, self._is_on = pages, host, is_on
        self._clock, self._tasks = clock, tasks
        self._at_once = 0

    def render(self, request: Request) -> object:
        """Answer later; at once where too many wait."""
        request.responseHeaders.removeHeader("server")
        if not self._is_on():
            request.setResponseCode(503)
            return b"this Authority is not the leader, which alone answers; try again later\n"
        if self._at_once >= MOST_AT_ONCE:
            request.setResponseCode(503)
            request.setHeader("retry-after", "2")
            return b"too many requests at once; try again\n"
        self._at_once += 1
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)
        self._tasks.spawn("answer a page", self._answered(cast(PageRequest, request), gone))
        return NOT_DONE_YET

    async def _answered(self, request: PageRequest, gone: list[object]) -> None:
        try:
            making = self._pages.answer(_ask_of(request), self._host())
            answer = await bounded(self._clock, ANSWER_SECS, making, "a page")
        except SvcError as late:
            _log.warn("a page was not made in time", reason=late.reason)
            answer = Answer(503, b"the page was not made in time; try again\n")
        finally:
            self._at_once -= 1
        if not gone:
            _write(request, answer)


def page_site(
    *,
    pages: Pages,
    host: Callable[[], str],
    is_on: Callable[[], bool],
    clock: IReactorTime,
    tasks: BackgroundTasks,
) -> PageSite:
    """The factory to listen with.

    Args:
        host: The one ``Host`` that is answered.
        is_on: Whether this Authority leads.
    """
    resource = PageResource(pages=pages, host=host, is_on=is_on, clock=clock, tasks=tasks)
    return PageSite(  # type: ignore[no-untyped-call]
        resource, requestFactory=PageRequest, timeout=None, reactor=clock
    )


def _ask_of(request: PageRequest) -> IncomingRequest:
    def all_of(name: bytes) -> list[bytes]:
        return list(request.requestHeaders.getRawHeaders(name) or ())

    path, _, query = request.uri.decode("latin-1").partition("?")
    return IncomingRequest(
        method=request.method.decode("latin-1"),
        path=path,
        query=query,
        hosts=all_of(b"host"),
        tokens=all_of(b"svc-identity"),
        cookies=all_of(b"cookie"),
        origins=all_of(b"origin"),
        sites=all_of(b"sec-fetch-site"),
        types=all_of(b"content-type"),
        body=request.form,
    )


def _write(request: Any, answer: Answer) -> None:
    request.setResponseCode(answer.status)
    for name, value in answer.headers:
        request.responseHeaders.addRawHeader(name, value)
    request.setHeader("content-length", str(len(answer.body)))
    if request.method != b"HEAD":
        request.write(answer.body)
    request.finish()

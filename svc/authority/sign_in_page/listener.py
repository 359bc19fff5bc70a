"""HTTP for the sign-in page, which anybody reaches: few connections, each with little time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IAddress, IDelayedCall, IProtocol, IReactorTime
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory

from svc.authority.page.listener import (
    AnswersRequests,
    PageChannel,
    PageRequest,
    PageResource,
    PageSite,
)
from svc.authority.sign_in_page.pages import MAX_BODY
from svc.ratelimit.source import source_of
from svc.runtime.services import BackgroundTasks
from svc.telemetry.listener import MAX_HEADER_BYTES, REQUEST_SECS

MOST_CONNECTIONS, MOST_OF_SOURCE, MOST_SECS = 256, 32, 120.0


class SignInRequest(PageRequest):
    """A request whose body is what a browser brings."""

    most_form = MAX_BODY


class SignInChannel(PageChannel):
    """One connection of a browser; the handshake of TLS is within the time of its first request."""

    totalHeadersSize = MAX_HEADER_BYTES
    requestFactory = SignInRequest
    request_secs = REQUEST_SECS


class SignInSite(PageSite):
    """The factory."""

    protocol = SignInChannel  # HTTP/1.1 only


class FewConnections(WrappingFactory[Any]):
    """Holds so many connections at once, a share of them of one source, and none for long.

    A source is as for the shares of other listeners: see :func:`~svc.ratelimit.source.source_of`.
    """

    noisy = False

    def __init__(self, wrapped: Any, clock: IReactorTime) -> None:
        super().__init__(wrapped)  # type: ignore[no-untyped-call]
        self._clock = clock
        self._of: Counter[str] = Counter()
        self._ends: dict[ProtocolWrapper, IDelayedCall] = {}

    def buildProtocol(self, addr: IAddress | None) -> IProtocol | None:
        """Called by Twisted for each; None closes it."""
        if len(self._ends) >= MOST_CONNECTIONS or self._of[_source(addr)] >= MOST_OF_SOURCE:
            return None
        built: IProtocol | None = super().buildProtocol(addr)
        return built

    def registerProtocol(self, p: ProtocolWrapper) -> None:
        """Called by Twisted when one is open."""
        super().registerProtocol(p)  # type: ignore[no-untyped-call]
        self._of[_source(p.getPeer())] += 1
        # Also one whose browser never says that it has heard the end.
        self._ends[p] = self._clock.callLater(MOST_SECS, p.abortConnection)

    def unregisterProtocol(self, p: ProtocolWrapper) -> None:
        """Called by Twisted when one is closed."""
        super().unregisterProtocol(p)  # type: ignore[no-untyped-call]
        end, source = self._ends.pop(p), _source(p.getPeer())
        if end.active():
            end.cancel()
        self._of[source] -= 1
        if not self._of[source]:
            del self._of[source]


def sign_in_site(
    *,
    pages: AnswersRequests,
    host: str,
    is_on: Callable[[], bool],
    clock: IReactorTime,
    tasks: BackgroundTasks,
) -> SignInSite:
    """The factory of what is inside TLS.

    Args:
        host: The one ``Host`` that is answered.
        is_on: Whether this Authority leads.
    """
    resource = PageResource(pages=pages, host=lambda: host, is_on=is_on, clock=clock, tasks=tasks)
    return SignInSite(  # type: ignore[no-untyped-call]
        resource, requestFactory=SignInRequest, timeout=None, reactor=clock
    )


def _source(address: object) -> str:
    return source_of(str(getattr(address, "host", "")))

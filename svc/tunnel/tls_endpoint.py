"""Opens a stream and the TLS inside it, whose first flights travel with what opens the stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory, Protocol

from svc.errors import Fault, SvcError
from svc.rpc.endpoint import AwaitedEndpoint
from svc.rpc.tls import Begin
from svc.tunnel.tls import SessionTls


class SessionTlsEndpoint(AwaitedEndpoint):
    """A stream endpoint with TLS inside it.

    It is connected with the protocol once the handshake is done, so whoever
    waits for it never speaks to anyone but the expected peer.

    Args:
        below: Where the stream comes from.
        begin: As of :class:`SessionTls`; whether we are server or client is its matter.
        seconds: For the handshake, once the stream stands.
        early: Takes our first flight, to be sent with what opens the
            stream; without it that flight waits until the stream stands.
        heard: What the client has said before there is a stream, where we are
            the server.
        holds_last: As of :class:`SessionTls`.
    """

    def __init__(
        self,
        below: AwaitedEndpoint,
        begin: Begin,
        clock: IReactorTime,
        seconds: float,
        early: Callable[[bytes], object] | None = None,
        *,
        heard: bytes = b"",
        holds_last: bool = False,
    ) -> None:
        self._below = below
        self._begin = begin
        self._clock = clock
        self._seconds = seconds
        self._early = early
        self._heard = heard
        self._holds_last = holds_last

    async def connected(self, factory: IProtocolFactory) -> IProtocol:
        """Open the stream and shake hands; fails with SvcError ``handshake_failed``."""
        wrapping = Factory.forProtocol(Protocol)
        wrapping.noisy = False
        begun: SessionTls | None = None
        if self._early is not None:
            begun = self._wrap(factory, None)
            if begun is not None:
                self._early(begun.first_flight(self._heard))
                self._heard = b""
        build = partial(self._wrap, factory) if begun is None else lambda _: begun
        wrapping.buildProtocol = build  # type: ignore[method-assign]
        tls: Any = await self._below.connected(wrapping)  # it is what was built: a SessionTls
        if not tls.secured.called:
            tls.secured.addTimeout(self._seconds, self._clock)
        try:
            secured: IProtocol = await tls.secured
            return secured
        except CancelledError:
            raise  # whoever waited stopped it; the peer refused nothing
        except Exception as error:
            raise SvcError(
                "the TLS handshake inside the session failed",
                reason="handshake_failed",
                fault=Fault.UNAUTHENTICATED,
            ) from error

    def _wrap(self, factory: IProtocolFactory, address: IAddress | None) -> SessionTls | None:
        inner = factory.buildProtocol(address)  # type: ignore[arg-type]  # those here look at none
        if inner is None:
            return None
        return SessionTls(
            self._begin,
            inner,
            holds_last=self._holds_last,
            soon=None if self._holds_last else partial(self._clock.callLater, 0),
        )

"""TLS for gRPC on a listener: begun by the first bytes that come.

OpenSSL is asked for a connection only then: whoever says nothing, or turns out to be no concern of
TLS, has cost none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IAddress, IProtocolFactory
from zope.interface import implementer

from svc.ratelimit.places import Places
from svc.ratelimit.source import source_of
from svc.rpc.peer import host_of
from svc.rpc.tls import Begin, TlsTransport

MAX_HANDSHAKES = 512
"""Under way at once on a listener; one that waits for its caller takes some 60 KiB."""


class TlsServer(TlsTransport):
    """The listener's side.

    Args:
        begin: See :class:`svc.rpc.tls.TlsTransport`.
        inner: Likewise; its ``fail`` is called with a reason word where it is broken off.
        under_way: The handshakes of the listener; ours is one from the first bytes on.
        seconds: Of the steady clock that tells which handshake is the oldest.
        source: Whom the caller's address stands for; empty for a caller without one.
    """

    def __init__(
        self,
        begin: Begin,
        inner: Any,
        under_way: Places,
        seconds: Callable[[], float],
        source: str = "",
    ) -> None:
        super().__init__(begin, inner)
        self._seconds = seconds
        self._under_way = under_way
        self._source = source

    def _is_beginning(self) -> None:
        self._under_way.take(self, self._source, self._break_off, self._seconds())

    def _is_settled(self) -> None:
        self._under_way.leave(self, self._source)

    def _break_off(self) -> None:
        """Others want to shake hands, and this one is the oldest of its source."""
        self.inner.fail("too_many_handshakes")


@implementer(IProtocolFactory)
class TlsServerFactory:
    """Puts TLS below what another factory makes.

    Args:
        begin: See :class:`TlsServer`.
        inner: What is served over TLS; its protocols take ``handshakeCompleted``.
        seconds: See :class:`TlsServer`.
        most_handshakes: How many handshakes may be under way at once.
    """

    def __init__(
        self,
        begin: Begin,
        inner: IProtocolFactory,
        seconds: Callable[[], float],
        most_handshakes: int = MAX_HANDSHAKES,
    ) -> None:
        self._begin = begin
        self._seconds = seconds
        self._inner = inner
        self.under_way = Places(most_handshakes)

    def doStart(self) -> None:
        self._inner.doStart()

    def doStop(self) -> None:
        self._inner.doStop()

    def buildProtocol(self, addr: IAddress) -> TlsServer | None:
        """One connection; None where the factory above refuses it."""
        inner = self._inner.buildProtocol(addr)
        if inner is None:
            return None
        return TlsServer(
            begin=self._begin,
            inner=inner,
            under_way=self.under_way,
            seconds=self._seconds,
            source=source_of(host_of(addr)),
        )

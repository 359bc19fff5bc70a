"""Endpoints whose connections are byte streams over calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from zope.interface import implementer

from svc.rpc.call import MessageEnd
from svc.rpc.stream import StreamTransport


@implementer(IStreamClientEndpoint)
class AwaitedEndpoint(ABC):
    """An endpoint that is also awaited: by one above it, without a Deferred and a task of its own.

    A session opens through four of them.
    """

    @abstractmethod
    async def connected(self, factory: IProtocolFactory) -> IProtocol:
        """Connect what *factory* builds; what that was."""

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See :meth:`connected`."""
        return Deferred.fromCoroutine(self.connected(protocolFactory))


@define(eq=False)
class StreamClientEndpoint(AwaitedEndpoint):
    """Connects a protocol to the byte stream that *opened* gives.

    So TLS inside a stream is ``TlsEndpoint(context.begin, StreamClientEndpoint(opened))``.

    Args:
        opened: ``async def () -> call or stream`` past its ``open`` messages; raises SvcError.

    Attributes:
        make: The transport of a call; asked once the call is open.
        transport: Of the newest stream; None before the first.
        end: Its call.
    """

    opened: Callable[[], Awaitable[MessageEnd]]
    make: Callable[[MessageEnd], StreamTransport] = StreamTransport
    transport: StreamTransport | None = field(default=None, init=False)
    end: MessageEnd | None = field(default=None, init=False)

    def open_no_more(self) -> None:
        """Open no other stream: *opened* says so where it leads back here.

        It is forgotten then; otherwise what a session held would wait for a garbage collection.
        """
        self.opened = _no_other

    async def connected(self, factory: Any) -> IProtocol:
        """Open the stream, then connect what the factory builds."""
        factory.doStart()
        try:
            end = self.end = await self.opened()
            transport = self.transport = self.make(end)
            protocol = factory.buildProtocol(transport.getPeer())
            if protocol is None:
                transport.abortConnection()
                raise Refused()
        except BaseException:
            factory.doStop()
            raise
        transport.closed.addBoth(lambda _over: factory.doStop())
        transport.start(protocol)
        return protocol  # type: ignore[no-any-return]


async def _no_other() -> MessageEnd:
    raise RuntimeError("this endpoint was for one stream, which was opened")

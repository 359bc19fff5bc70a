"""A word with the target before a session's own bytes: how a dialer holds it to a ceiling."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.policies import ProtocolWrapper
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Malformed, SvcError

MAX_ANSWER = 4096


@implementer(IStreamClientEndpoint)
@frozen(kw_only=True)
class PreludeEndpoint:
    """Says one line to the target, and connects only where that gives the answer expected.

    Attributes:
        below: Reaches the target, by TCP or by TLS over it.
        line: Said first, as it is.
        answer: The line that must come back, with its end.
        what: What the line asks for, for the refusal: it never tells the target's own words.
    """

    below: IStreamClientEndpoint
    line: bytes
    answer: bytes
    what: str

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint."""
        return Deferred.fromCoroutine(self._connect(protocolFactory))

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        prelude = _Prelude(self.line)
        await self.below.connect(Factory.forProtocol(lambda: prelude))
        transport = prelude.transport
        try:
            said, after = await prelude.answered
            if said != self.answer:
                raise SvcError(f"the target refused {self.what}", reason="target_refused")
            protocol: Any = factory.buildProtocol(transport.getPeer())
            # Whatever stood between makes nothing of the bytes once it has connected.
            name = "wrappedProtocol" if isinstance(transport, ProtocolWrapper) else "protocol"
            setattr(transport, name, protocol)
            protocol.makeConnection(transport)
        except BaseException:
            transport.abortConnection()
            raise
        if after:
            protocol.dataReceived(after)
        return protocol  # type: ignore[no-any-return]


class _Prelude(Protocol):
    """Hears one line."""

    transport: Any

    def __init__(self, line: bytes) -> None:
        self.answered: Deferred[tuple[bytes, bytes]] = Deferred()
        self._line = line
        self._heard = b""

    def connectionMade(self) -> None:
        self.transport.write(self._line)

    def dataReceived(self, data: bytes) -> None:
        if self.answered.called:
            return
        self._heard += data
        said, end, after = self._heard.partition(b"\n")
        if end:
            self.answered.callback((said + end, after))
        elif len(self._heard) > MAX_ANSWER:
            self.answered.errback(Malformed("the target answers without an end of line"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.answered.called:
            self.answered.errback(reason)

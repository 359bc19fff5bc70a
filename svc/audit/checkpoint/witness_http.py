"""A witness over HTTPS: POSTs each head, and takes any 2xx as confirmation."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from attrs import define
from service_identity import VerificationError
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import FileBodyProducer
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent
from zope.interface import implementer

from svc.errors import SvcError, Unavailable
from svc.interfaces.audit import IHeadSink
from svc.runtime.dial_failure import dial_failure

MAX_ANSWER = 65_536
_REASON = "witness_unavailable"


class _DiscardedBody(Protocol):
    """Throws the answer's body away; one that does not end is cut."""

    transport: Any

    def __init__(self) -> None:
        self.ended: Deferred[None] = Deferred(lambda _: self._cut())
        self._length = 0

    def dataReceived(self, data: bytes) -> None:
        self._length += len(data)
        if self._length > MAX_ANSWER:
            self._cut()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.ended.called:
            self.ended.callback(None)

    def _cut(self) -> None:
        if self.transport is not None:
            self.transport.abortConnection()


def _words(failed: BaseException) -> str:
    """What broke the exchange; Twisted keeps the causes of a broken request in a list."""
    for cause in getattr(failed, "reasons", ()):
        return _words(cause.value)
    if isinstance(failed, VerificationError):
        return "the server's certificate is for another host"
    return dial_failure(failed)


@implementer(IHeadSink)
@define
class HttpSink:
    """One URL.

    Attributes:
        name: The URL, without credentials.
        agent: Follows no redirect; judges the server's certificate.
    """

    name: str
    agent: IAgent

    async def put(self, line: bytes) -> None:
        headers = Headers({b"content-type": [b"application/json"], b"user-agent": [b"svc"]})
        body = FileBodyProducer(BytesIO(line + b"\n"))
        try:
            answer = await self.agent.request(b"POST", self.name.encode("ascii"), headers, body)
            thrown = _DiscardedBody()
            answer.deliverBody(thrown)
            await thrown.ended
        except (SvcError, CancelledError):
            raise
        except Exception as failed:
            text = f"{self.name}: {_words(failed)}"
            raise Unavailable(text[:300], reason=_REASON) from None
        if not 200 <= answer.code < 300:
            raise Unavailable(f"{self.name}: answered {answer.code}", reason=_REASON)

    def close(self) -> None:
        """See :class:`IHeadSink`."""

"""At the Connector: the connection to a target, which gets requests as it may and is told by whom.

Where a target is told who makes each request, a request waits for the token; nothing more is read
from the person until then.  Without a token it is answered here, after the answers before it, and
the connection ends.  So it is with a request of an operation that the session's grant leaves out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener, IProtocol, IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Denied, Malformed, SvcError
from svc.interfaces.kinds import Identify
from svc.kinds.web.answers import json_answer, plain, refused_form, without_body
from svc.kinds.web.head import HttpRequest
from svc.kinds.web.identity import FIELD, NOBODY, named_by
from svc.kinds.web.localized import AnswerRewriter
from svc.kinds.web.rewrite import RequestRewriter
from svc.lanes.bulk import BulkWriter
from svc.model.session.identity import DENIED, UNAVAILABLE

_log = Logger(namespace="svc_connector")

Permits = Callable[[HttpRequest], bool]
Refuse = Callable[[SvcError, HttpRequest], bytes]

EXCLUDED = "operation_not_granted"
_EXCLUDED = (
    "when this connection was opened, the policy allowed no such request on it; connect again if "
    "it does now"
)


@implementer(IPushProducer)
@define(eq=False)
class PausedProducer:
    """A producer that two may pause: the transport it writes to, and who waits for a token."""

    producer: Any
    _by_transport: bool = field(default=False, init=False)
    _by_us: bool = field(default=False, init=False)

    def pauseProducing(self) -> None:
        """The transport has enough."""
        self._by_transport = True
        self.producer.pauseProducing()

    def resumeProducing(self) -> None:
        """The transport takes more."""
        self._by_transport = False
        if not self._by_us:
            self.producer.resumeProducing()

    def stopProducing(self) -> None:
        """The transport is gone."""
        self.producer.stopProducing()

    def hold(self) -> None:
        """A token is waited for."""
        self._by_us = True
        self.producer.pauseProducing()

    def release(self) -> None:
        """It is there."""
        self._by_us = False
        if not self._by_transport:
            self.producer.resumeProducing()


@implementer(IHandshakeListener)
class TargetConnection(ProtocolWrapper):
    """A connection to the target that writes requests as the target may get them.

    Args:
        identify: Gives the token of a request; None: the target is told nothing.
        permits: Whether a request may reach the target at all; None: each.
        refuse: Makes the answer to one that does not.

    Attributes:
        secured: Fires when the target has proved itself; fails where the connection was lost.
    """

    transport: Any
    _out: BulkWriter

    def __init__(
        self,
        factory: Any,
        wrapped: IProtocol,
        rewriter: RequestRewriter,
        identify: Identify | None = None,
        permits: Permits | None = None,
        refuse: Refuse | None = None,
    ) -> None:
        super().__init__(factory, wrapped)
        self.secured: Deferred[None] = Deferred()
        self._rewriter = rewriter
        self._identify = identify
        self._permits = permits
        self._refuse = refusal if refuse is None else refuse
        self._answers = AnswerRewriter(rewriter.host, rewriter.asked)
        self._parts: deque[Iterator[HttpRequest | bytes]] = deque()
        self._waits_for: Deferred[bytes] | None = None
        self._last_words: bytes = b""
        self._producer: PausedProducer | None = None
        self._end = ""
        self._is_lost = False

    def makeConnection(self, transport: Any) -> None:
        """A request goes out in the turn in which it came."""
        self._out = BulkWriter(transport)
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    # From the person

    def handshakeCompleted(self) -> None:
        """TLS stands, and the certificate is good."""
        self.secured.callback(None)

    def write(self, data: bytes) -> None:
        """Write requests; what is none ends the session."""
        if self._last_words:
            return
        if self._identify is None and self._permits is None:
            self._write(self._rewriter.feed(data))
            return
        self._parts.append(self._rewriter.parts(data))
        self._go_on()

    def writeSequence(self, data: Any) -> None:
        """As :meth:`write`."""
        self.write(b"".join(data))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Whoever writes here is paused for a token too."""
        self._producer = PausedProducer(producer)
        self._out.registerProducer(self._producer, streaming)

    def unregisterProducer(self) -> None:
        """It writes no more."""
        self._producer = None
        self._out.unregisterProducer()

    def loseConnection(self) -> None:
        """Close, once what waits has gone."""
        self._end_with("loseConnection")

    def loseWriteConnection(self) -> None:
        """End this direction, once what waits has gone."""
        self._end_with("loseWriteConnection")

    def abortConnection(self) -> None:
        """End at once."""
        self._out.abortConnection()

    def _end_with(self, end: str) -> None:
        if self._waits_for is not None or self._last_words:
            self._end = end
        else:
            getattr(self._out, end)()

    def _go_on(self) -> None:
        """Write what has come, up to a request that must wait."""
        while self._parts and self._waits_for is None and not self._last_words:
            part = next(self._parts[0], None)
            if part is None:
                self._parts.popleft()
            elif isinstance(part, HttpRequest):
                self._head(part)
            else:
                self._write(part)
        if self._end and self._waits_for is None and not self._last_words:
            end, self._end = self._end, ""
            getattr(self._out, end)()

    def _head(self, head: HttpRequest) -> None:
        if self._permits is not None and not self._permits(head):
            _log.warn("a request passed the Proxy that the grant does not allow", reason=EXCLUDED)
            self._answer(Denied(_EXCLUDED, reason=EXCLUDED), head)
        elif self._identify is None:
            self._write(self._rewriter.head(head))
        else:
            self._ask(head)

    def _ask(self, head: HttpRequest) -> None:
        asking = Deferred.fromCoroutine(self._identified(head))
        if asking.called:
            asking.addBoth(self._take, head)
            return
        self._waits_for = asking
        if self._producer is not None:
            self._producer.hold()
        asking.addBoth(self._told_later, head)

    def _told_later(self, outcome: bytes | Failure, head: HttpRequest) -> None:
        self._waits_for = None
        if self._is_lost:
            return
        self._take(outcome, head)
        try:
            self._go_on()
        except Malformed:
            self._out.abortConnection()
            return
        # Last: what is read from now on comes after all that waited.
        if self._producer is not None and self._waits_for is None:
            self._producer.release()

    async def _identified(self, head: HttpRequest) -> bytes:
        named = named_by(head.headers)
        if named == NOBODY:
            raise Denied("no request may be made as this person", reason=DENIED)
        assert self._identify is not None
        return await self._identify(named or "")

    def _take(self, outcome: bytes | Failure, head: HttpRequest) -> None:
        """A request goes to the target with its token, or is answered here."""
        if isinstance(outcome, bytes):
            self._write(self._rewriter.head(head, ((FIELD, outcome),)))
            return
        error = outcome.value
        if not isinstance(error, SvcError):
            _log.failure("a request's identity could not be learnt", outcome)
            error = SvcError("who makes the request could not be learnt", reason=UNAVAILABLE)
        self._answer(error, head)

    def _answer(self, error: SvcError, head: HttpRequest) -> None:
        """The request goes nowhere: its answer is the last on this connection."""
        self._last_words = self._refuse(error, head)
        self._parts.clear()
        self._say_last()

    def _write(self, data: bytes) -> None:
        if data:
            self._out.write(data)

    # From the target

    def dataReceived(self, data: bytes) -> None:
        """Pass answers on; to an upgrade, one that is none ends the session."""
        try:
            self._rewriter.answered(data)
        except Malformed:
            self._out.abortConnection()
            return
        out = self._answers.feed(data)
        if out:
            super().dataReceived(out)  # type: ignore[no-untyped-call]
        if self._last_words:
            self._say_last()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The target is gone, maybe before it had proved itself."""
        self._is_lost = True
        self._out.close()
        waiting, self._waits_for = self._waits_for, None
        if waiting is not None:
            waiting.cancel()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        if not self.secured.called:
            self.secured.errback(reason)

    def _say_last(self) -> None:
        """Answer the request that goes nowhere, once those before it are answered."""
        if self._answers.is_between and len(self._rewriter.asked) == 1:
            self._rewriter.asked.clear()
            super().dataReceived(self._last_words)  # type: ignore[no-untyped-call]
            # Over TLS a close waits for whoever may still write.
            if self._producer is not None:
                self.unregisterProducer()
            self._out.loseConnection()


def refusal(error: SvcError, head: HttpRequest, session_uid: str = "") -> bytes:
    """The answer to a request that the target does not get."""
    status = "403 Forbidden" if error.fault is Denied.fault else "503 Service Unavailable"
    answer = json_answer(status, refused_form(error.reason, plain(error.text), session_uid))
    return without_body(answer) if head.method == b"HEAD" else answer

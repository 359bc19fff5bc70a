"""Two channels joined: what comes on one goes out on the other, as fast as that one takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.conch.ssh.connection import EXTENDED_DATA_STDERR, OPEN_CONNECT_FAILED
from twisted.internet.defer import Deferred

from svc.kinds.ssh.conch import QUIET, SSHChannel
from svc.kinds.ssh.connection import (
    MOST_PACKET,
    WINDOW,
    Answers,
    FlowConnection,
    no,
    yes,
)

Requested = tuple[Deferred[bytes], Callable[[], object] | None]
"""The answer to a request, and what is to be done once it was given."""

FROM_TARGET = frozenset({b"exit-status", b"exit-signal", b"xon-xoff", b"eow@openssh.com"})
"""Requests of a session that go from the target to the client."""


class JoinedChannel(SSHChannel):  # type: ignore[misc]
    """One of two.

    Args:
        kind: Of the channel, as it is opened.
        passes: Requests that the other one is sent; all others are answered with no.

    Attributes:
        other: The one across.
    """

    conn: FlowConnection
    other: JoinedChannel
    _log = QUIET

    def __init__(self, kind: bytes, passes: frozenset[bytes] = frozenset()) -> None:
        super().__init__(WINDOW, MOST_PACKET)
        self.name = kind
        self.passes = passes
        self.answers = Answers(lambda is_yes, _: self.conn.answer_request(self, is_yes))
        self._ends = False
        self._is_awaited = False
        self._onward: Callable[[], object] | None = None
        # What waits for a window.  Conch has bytes here, of which it copies all at each change.
        self.buf, self.extBuf = bytearray(), bytearray()
        self._confirmed: Callable[[], object] | None = None
        self._failed: Callable[[str, int], object] | None = None

    # Opening

    def joined_with(self, other: JoinedChannel, conn: FlowConnection, data: bytes) -> JoinedChannel:
        """Be opened onward as *other*, on *conn*, with this data of the channel's kind."""
        self.other, other.other = other, self
        other.conn = conn
        self._onward = lambda: conn.openChannel(other, data)
        return self

    def open_onward(
        self, confirmed: Callable[[], object], failed: Callable[[str, int], object]
    ) -> None:
        """Open the other one; exactly one of the two is called, unless a connection is lost."""
        self._confirmed, self._failed = confirmed, failed
        assert self._onward is not None
        self._onward()

    def channelOpen(self, specificData: bytes) -> None:
        """We were opened onward."""
        opener = self.other
        if opener.conn.transport is not None and opener._confirmed is not None:
            opener._confirmed()
            opener.began()

    def began(self) -> None:
        """Both are open."""

    def openFailed(self, reason: Any) -> None:
        """The peer does not open it."""
        opener: JoinedChannel = self.other
        told: tuple[Any, ...] = getattr(reason, "args", ())
        text = told[0] if told else b"the target refused"
        code = told[1] if len(told) > 1 and isinstance(told[1], int) else OPEN_CONNECT_FAILED
        if opener.conn.transport is not None and opener._failed is not None:
            said = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
            opener._failed(said, code)

    # Bytes

    def dataReceived(self, data: bytes) -> None:
        """Pass on."""
        self.other.give(data)

    def extReceived(self, dataType: int, data: bytes) -> None:
        """Likewise, stderr."""
        if not self.other.localClosed and dataType == EXTENDED_DATA_STDERR:
            self.other.writeExtended(dataType, data)
        self.other.flowed()

    def give(self, data: bytes) -> None:
        """Send bytes that came on the other one."""
        if not self.localClosed:
            self.write(data)
        self.flowed()

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the window opens; a peer that has closed takes none."""
        if self.remoteClosed:
            return
        if self.buf or len(data) > min(self.remoteWindowLeft, self.remoteMaxPacket):
            self.buf += data
            self._send_waiting()
        else:
            self.remoteWindowLeft -= len(data)
            self.conn.sendData(self, data)

    def writeExtended(self, dataType: int, data: bytes) -> None:
        """Likewise, stderr; there is nothing else."""
        if self.remoteClosed:
            return
        self.extBuf += data
        self._send_waiting()

    def _send_waiting(self) -> None:
        while (self.buf or self.extBuf) and self.remoteWindowLeft:
            waiting = self.buf or self.extBuf
            piece = bytes(waiting[: min(self.remoteWindowLeft, self.remoteMaxPacket)])
            del waiting[: len(piece)]
            self.remoteWindowLeft -= len(piece)
            if waiting is self.buf:
                self.conn.sendData(self, piece)
            else:
                self.conn.sendExtendedData(self, EXTENDED_DATA_STDERR, piece)
        if self.closing:
            self.loseConnection()

    def flowed(self) -> None:
        """Let more come on the other one, once all has left that it sent."""
        if not self.buf and not self.extBuf and not self._is_awaited:
            self._is_awaited = True
            self.conn.outflow.once_open(self._more)

    def _more(self) -> None:
        self._is_awaited = False
        if self.buf or self.extBuf:
            return  # more came meanwhile, and waits for a window
        if self.other.id is not None and self.other.conn.transport is not None:
            self.other.take_more()

    def take_more(self) -> None:
        """All that came on this one has gone."""
        self.conn.reopen(self)

    def addWindowBytes(self, data: int) -> None:
        """The peer takes more."""
        self.remoteWindowLeft += data
        self._send_waiting()
        self.flowed()
        self._end_if_empty()

    def eofReceived(self) -> None:
        """No more comes on this one."""
        self.other.end()

    def end(self) -> None:
        """Send the end of the bytes once they have gone."""
        self._ends = True
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        if self._ends and not self.buf and not self.extBuf and not self.localClosed:
            self._ends = False
            self.conn.sendEOF(self)

    # The end

    def closeReceived(self) -> None:
        """The peer has closed it: so is the other one, once its bytes have gone."""
        self._close_other()
        self.conn.sendClose(self)

    def closed(self) -> None:
        """It is over."""
        self._close_other()

    def _close_other(self) -> None:
        other = self.other
        if other.id is not None and not other.localClosed and other.conn.transport is not None:
            other.loseConnection()

    # Requests

    def requested(self, kind: bytes, data: bytes, wants_answer: bool) -> Requested:
        """The peer asks for something in this channel."""
        if kind not in self.passes:
            return no(), None
        return self.pass_request(kind, data, wants_answer), None

    def pass_request(self, kind: bytes, data: bytes, wants_answer: bool) -> Deferred[bytes]:
        """Ask the other one's peer for it."""
        other = self.other
        if other.localClosed or other not in other.conn.channelsToRemoteChannel:
            return no()
        answer = other.conn.sendRequest(other, kind, data, wantReply=wants_answer)
        if answer is None:
            return yes()
        return answer.addCallback(lambda _: b"")  # type: ignore[no-any-return]

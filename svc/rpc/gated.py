"""The transports of a gated session: at its two ends, which tag and verify, and at its Proxy.

See ADR 35.  Whatever an end did not tag ends the session there, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IDelayedCall, IProtocol, IReactorTime

from svc.errors import Fault, SvcError
from svc.model.session.ending import CUT_SHORT, ENDINGS, PEER_SILENT, SessionOver
from svc.model.session.frames import MAX_FRAME_DATA, FrameTagger, TaggedKind
from svc.model.session.gated import GatedReceiver, GateNote
from svc.rpc.call import MessageEnd
from svc.rpc.client.channel import ClientStream
from svc.rpc.frames import (
    end_frame,
    is_end,
    note_part,
    parse_frame,
    parse_gated,
    parse_tagged,
    read_end,
    tagged_head,
)
from svc.rpc.stream import LEAVE_SECS, StreamTransport
from svc.wire.machine import Part

HEARTBEAT_SECS = 30.0
SILENCE_SECS = 90.0
"""An end that hears nothing for so long, while it reads, ends the session."""


@frozen
class GatedEnds:
    """What one end of a gated session makes its transport of.

    Attributes:
        tagger: Of the direction it writes.
        receiver: Of the direction it reads.
        clock: For heartbeats and silence.
        on_cancel: Called when the other end asks to stop what is done now.
    """

    tagger: FrameTagger
    receiver: GatedReceiver
    clock: IReactorTime
    on_cancel: Callable[[], object] = lambda: None

    def transport(self, end: MessageEnd) -> TaggedStream:
        """The transport over this call."""
        return TaggedStream(end, self)


class TaggedStream(StreamTransport):
    """One end: tags what it writes, and verifies what it reads before it is passed on."""

    def __init__(self, end: MessageEnd, ends: GatedEnds) -> None:
        super().__init__(end)
        self._ends = ends
        self._heard_at = ends.clock.seconds()
        self._next_beat: IDelayedCall | None = None
        self._silence: IDelayedCall | None = None
        self._cancel_waits = False

    def start(self, protocol: IProtocol) -> None:
        """As any transport; heartbeats begin."""
        clock = self._ends.clock
        self._heard_at = clock.seconds()
        self._next_beat = clock.callLater(HEARTBEAT_SECS, self._beat)
        self._silence = clock.callLater(SILENCE_SECS, self._listen)
        super().start(protocol)

    def resumeProducing(self) -> None:
        """Read again: only from now on is silence the other end's."""
        self._heard_at = self._ends.clock.seconds()
        super().resumeProducing()

    def cancel(self) -> None:
        """Ask the other end to stop what it does now; the session goes on.

        While nothing can be sent, once: what waits must not grow with each call.
        """
        if self._is_over or (self._end.is_full and self._cancel_waits):
            return
        self._flush()
        self._cancel_waits = self._end.is_full
        self._send_tagged(self._ends.tagger.urgent(TaggedKind.CANCEL))

    # -- inside

    def _beat(self) -> None:
        self._next_beat = self._ends.clock.callLater(HEARTBEAT_SECS, self._beat)
        if not self._end.is_full:
            self._send_tagged(self._ends.tagger.urgent(TaggedKind.HEARTBEAT))

    def _listen(self) -> None:
        clock = self._ends.clock
        if self._is_paused:
            self._heard_at = clock.seconds()
        left = self._heard_at + SILENCE_SECS - clock.seconds()
        if left > 0:
            self._silence = clock.callLater(left, self._listen)
            return
        self._silence = None
        self._broken_by(_ended_here(PEER_SILENT))

    def _received(self, message: bytes | memoryview) -> None:
        receiver = self._ends.receiver
        note, frame = parse_gated(message)
        if note is not None:
            receiver.note(note)
        if frame is not None:
            receiver.frame(frame)
            self._heard_at = self._ends.clock.seconds()
        data = receiver.released()
        if data and not self.disconnecting and self._protocol is not None:
            self._protocol.dataReceived(data)
        if note is not None and note.closes:
            self._closed_by_proxy()
        if frame is None:
            return
        if frame.kind is TaggedKind.EOF:
            receiver.end()
            self._peer_wrote_all()
        elif frame.kind is TaggedKind.CANCEL:
            self._ends.on_cancel()

    def _closed_by_proxy(self) -> None:
        if self._read_ended:
            return
        # Whoever ended first, and is not read any more, misses nothing.
        if not (self._ends.receiver.may_be_closed or self.disconnecting or self._write_ended):
            raise _ended_here(CUT_SHORT)
        self._peer_wrote_all()

    @property
    def is_last_ours(self) -> bool:
        """Whether what was read last are words that this end made of an edit, and no peer's."""
        return self._ends.receiver.may_be_closed

    def _ended(self) -> None:
        """The Proxy ended the call: in order only where the other end wrote all it had."""
        if self._read_ended or self.disconnecting or self._write_ended:
            super()._ended()
        else:
            raise _ended_here(CUT_SHORT)

    def _broken_by(self, refusal: SvcError) -> None:
        """The Proxy learns the reason, where it was found here."""
        if self._end.outcome is not None or not isinstance(self._end, ClientStream):
            super()._broken_by(refusal)
            return
        self.fault = refusal.reason if refusal.reason in ENDINGS else ""
        self._over(ConnectionLost(refusal.reason), refusal)
        over = self._last_word or SessionOver(self.fault)
        if over.reason:
            self._end.finish_with(end_frame(over), LEAVE_SECS)
        else:
            self._end.break_off(refusal)

    def _over(self, reason: Exception, refusal: SvcError | None) -> None:
        for call in (self._next_beat, self._silence):
            if call is not None and call.active():
                call.cancel()
        super()._over(reason, refusal)

    def _send_data(self, parts: list[Part], size: int) -> None:
        data = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        for start in range(0, size, MAX_FRAME_DATA):
            self._send_tagged(self._ends.tagger.data(data[start : start + MAX_FRAME_DATA]))

    def _say_eof(self) -> None:
        self._send_tagged(self._ends.tagger.eof())

    def _send_tagged(self, tagged: tuple[bytes, bytes]) -> None:
        tag, body = tagged
        self._send(tagged_head(body), [tag, body], len(tag) + len(body))


class PassingStream(StreamTransport):
    """One side of a gated session at its Proxy: passes frames on as they are, and says notes.

    The notes of one turn become one where they can: whoever receives them then passes on at once
    what a person's tool has sent at once.
    """

    def __init__(self, end: MessageEnd) -> None:
        super().__init__(end)
        self._unsaid: tuple[GateNote, Part | None] | None = None

    def pass_on(self, message: Part) -> None:
        """Pass on a frame as it came."""
        if not self._is_over:
            if self._unsaid is not None:
                self._flush()
            self._send(b"", [message], len(message))
            self._pace()

    def note(self, note: GateNote, message: Part | None = None) -> None:
        """Say this in this turn, and pass on the frame that it is about, if there is one."""
        if self._is_over:
            return
        if self._unsaid is not None:
            joined = self._unsaid[0].joined(note) if message is None else None
            if joined is not None:
                self._unsaid = joined, self._unsaid[1]
                return
            self._flush()
        self._unsaid = note, message
        self._flush_asked = True
        self._end.before_writing(self._flush)

    def say(self) -> None:
        """Say at once what waits for the end of this turn: the call ends in it."""
        self._flush()

    def _flush(self) -> None:
        unsaid, self._unsaid, self._flush_asked = self._unsaid, None, False
        if unsaid is not None and not self._is_over:
            note, message = unsaid
            parts: list[Part] = [] if message is None else [message]
            self._send(note_part(note), parts, sum(map(len, parts)))
            self._pace()

    def _received(self, message: bytes | memoryview) -> None:
        # Kept while its bytes wait: the connection's buffer is not.
        whole = bytes(message)
        if is_end(whole):
            self.reported_end = self.reported_end or read_end(parse_frame(whole)[1])
        elif self._protocol is not None and not self.disconnecting:
            self._protocol.frame_received(parse_tagged(whole), whole)

    def _say_eof(self) -> None:
        """Nothing: only the other end can."""


def _ended_here(reason: str) -> SvcError:
    return SvcError(f"the session was ended: {ENDINGS[reason]}", reason=reason, fault=Fault.ABORTED)

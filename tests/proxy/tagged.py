"""The ends of a gated session as a test speaks for them: what they tag and what they verify."""

from __future__ import annotations

from collections.abc import Mapping

from svc.model.session.edits import MakeEdit, StreamEdits
from svc.model.session.frames import FrameChecker, FrameTagger, TaggedKind
from svc.model.session.gated import GatedReceiver
from svc.model.session.ranges import RequestChain
from svc.rpc.frames import parse_gated, tagged_head

REQUESTS, ANSWERS = bytes(32), bytes(31) + b"\1"
"""Keys; the Proxy has neither."""


def message(tagged: tuple[bytes, bytes]) -> bytes:
    """A tagged frame as a message of the stream."""
    tag, body = tagged
    return tagged_head(body) + tag + body


class SendingEnd:
    """What one end says, as messages."""

    def __init__(self, key: bytes) -> None:
        self.tagger = FrameTagger(key)

    def data(self, data: bytes) -> bytes:
        """Bytes."""
        return message(self.tagger.data(data))

    def eof(self) -> bytes:
        """It writes no more."""
        return message(self.tagger.eof())

    def urgent(self, kind: TaggedKind) -> bytes:
        """A heartbeat or a cancel."""
        return message(self.tagger.urgent(kind))


class ReceivingEnd:
    """What one end makes of the messages that it gets."""

    def __init__(
        self,
        key: bytes,
        edits: Mapping[str, MakeEdit] | None = None,
        chain: RequestChain | None = None,
    ) -> None:
        self.receiver = GatedReceiver(FrameChecker(key), StreamEdits(edits or {}), chain)
        self.heard = b""
        self.is_closed = False
        self.urgent: list[TaggedKind] = []

    def take(self, message: bytes) -> None:
        """The next message; raises what would end the session."""
        note, frame = parse_gated(message)
        if note is not None:
            self.receiver.note(note)
            self.is_closed = self.is_closed or note.closes
        if frame is not None:
            self.receiver.frame(frame)
            if frame.kind.is_urgent:
                self.urgent.append(frame.kind)
        self.heard += self.receiver.released()
        if frame is not None and frame.kind is TaggedKind.EOF:
            self.receiver.end()

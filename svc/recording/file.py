"""The file of a recording: a first line, a header that anybody may read, sealed frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from attrs import define, field, frozen
from google.protobuf.message import DecodeError

from svc.errors import Malformed
from svc.messages.gated import SIGNED_GRANT
from svc.messages.session import decode_grant
from svc.model.recording import is_reason
from svc.model.session.grant import RECORDING_KEY_BYTES, Grant
from svc.model.signing import Signed
from svc.proto.gate.v1 import recording_pb2 as pb
from svc.recording.sealing import (
    END,
    MOST_SEALED,
    Frame,
    FrameChain,
    chain_of,
    framed,
    next_frame,
    open_frame,
)

MAGIC = b"svc-recording-v1\n"
MOST_HEADER = 1 << 17
_AT_ONCE = 1 << 18
_MOST_UNRECORDED = 1 << 60

Read = Callable[[int, int], bytes]
"""``read(offset, size)``: at most that many bytes of a file; blocks."""


@frozen
class RecordingHeader:
    """What a recording is of.

    Attributes:
        signed: The grant of the session, as Authority signed it; unverified as it is read.
        key: The public key that the frames are sealed to.
    """

    signed: Signed
    channel: int
    key: bytes
    began_ms: int
    grant: Grant = field(init=False)

    @grant.default
    def _read(self) -> Grant:
        return decode_grant(self.signed.payload)

    def written(self) -> bytes:
        """As a file has it, without its length."""
        return pb.RecordingHeader(
            grant=SIGNED_GRANT.written(self.signed),
            channel=self.channel,
            key=self.key,
            began_ms=self.began_ms,
        ).SerializeToString()

    def chain(self) -> FrameChain:
        """Of the frames that follow it."""
        return chain_of(bytes.fromhex(self.grant.session_uid), self.channel, self.written())


@frozen
class RecordingEnd:
    """How a recording ended, as its Connector says inside it.

    Attributes:
        reason: Why it was cut short; empty: it is complete.
        unrecorded: Bytes that were left out on purpose.
    """

    reason: str = ""
    unrecorded: int = 0

    def frame(self) -> Frame:
        """The last frame."""
        said = {"reason": self.reason, "unrecorded": self.unrecorded}
        return Frame(END, json.dumps(said).encode("ascii"))


def beginning(header: RecordingHeader) -> bytes:
    """What a file begins with."""
    return MAGIC + framed(header.written())


def read_header(data: bytes) -> tuple[RecordingHeader, int]:
    """The header in the beginning of a file, and where the frames begin.

    Raises:
        Malformed: it has none.
    """
    if not data.startswith(MAGIC):
        raise Malformed("recording: the file does not begin as one")
    found = next_frame(data, len(MAGIC), MOST_HEADER)
    if found is None:
        raise Malformed("recording: the file has no whole header")
    try:
        message = pb.RecordingHeader.FromString(found)
    except DecodeError:
        raise Malformed("recording: the file has no header") from None
    if len(message.key) != RECORDING_KEY_BYTES:
        raise Malformed("recording: the header names no key")
    header = RecordingHeader(
        signed=SIGNED_GRANT.read(message.grant),
        channel=message.channel,
        key=message.key,
        began_ms=message.began_ms,
    )
    if header.written() != found:
        raise Malformed("recording: the header is not in its one form")
    return header, len(MAGIC) + 4 + len(found)


@define
class OpenedRecording:
    """Reads what was recorded, a frame at a time.

    Attributes:
        opening: Gives the private key of a public one; raises SvcError where it is not here.
        at: Where in the file the next frame begins.
        end: How it ended; None: the file says nothing so far.
    """

    read: Read
    opening: Callable[[bytes], bytes]
    header: RecordingHeader = field(init=False)
    at: int = field(init=False)
    end: RecordingEnd | None = field(default=None, init=False)
    _chain: FrameChain = field(init=False)
    _key: bytes = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.header, self.at = read_header(self.read(0, len(MAGIC) + 4 + MOST_HEADER))
        self._chain = self.header.chain()
        self._key = self.opening(self.header.key)

    def skip_to(self, offset: int) -> None:
        """Go on at the frame that begins at *offset*; those before are not opened.

        Raises:
            Malformed: none begins there.
        """
        while self.at < offset:
            data, used = self.read(self.at, _AT_ONCE), 0
            while self.at < offset and (sealed := next_frame(data, used, MOST_SEALED)) is not None:
                used += 4 + len(sealed)
                self.at += 4 + len(sealed)
                self._chain.passed(sealed)
            if not used:
                break
        if self.at != offset:
            raise Malformed("recording: no frame begins there")

    def parts(self) -> Iterator[bytes]:
        """What was recorded; a last frame that is not whole is left out.

        Raises:
            Malformed: a frame is not the one that belongs there.
        """
        while data := self.read(self.at, _AT_ONCE):
            used = 0
            while (sealed := next_frame(data, used, MOST_SEALED)) is not None:
                used += 4 + len(sealed)
                if self.end is not None:
                    raise Malformed("recording: the file goes on behind its end")
                frame = open_frame(self._key, self._chain, sealed)
                self.at += 4 + len(sealed)
                if frame.kind == END:
                    self.end = _end(frame.data)
                else:
                    yield frame.data
            if not used:
                return


def _end(data: bytes) -> RecordingEnd:
    try:
        said = json.loads(data)
        end = RecordingEnd(said["reason"], said["unrecorded"])
        if (
            isinstance(end.reason, str)
            and is_reason(end.reason)
            and type(end.unrecorded) is int
            and 0 <= end.unrecorded <= _MOST_UNRECORDED
        ):
            return end
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise Malformed("recording: the last frame says no end")

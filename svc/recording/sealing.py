r"""Frames of a recording, each sealed by itself to the public key of a cluster.

A frame is a libsodium sealed box (X25519, XSalsa20-Poly1305): the key that sealed it is thrown
away at once, so nobody but the owner of the private key can open it again, the Connector that
sealed it included.  Inside, each frame says which frame of which recording it is, and the hash of
all before it: none can be left out, repeated, or moved.
"""

from __future__ import annotations

import struct
from hashlib import sha256

from attrs import define, frozen

from svc.errors import Malformed

MOST_DATA = 1 << 16
"""Bytes in one frame."""

DATA, END = 0, 1
"""What a frame holds: a part of what is recorded; or how the recording ended."""

_HEAD = struct.Struct("!16sII32sB")
_LENGTH = struct.Struct("!I")
_OVERHEAD = 48
MOST_SEALED = MOST_DATA + _HEAD.size + _OVERHEAD


@frozen
class Frame:
    """What a frame holds.

    Attributes:
        kind: ``DATA`` or ``END``.
    """

    kind: int
    data: bytes


@define
class FrameChain:
    """Where in a recording one is.

    Attributes:
        uid: Of the session, 16 bytes.
        head: Over all before.
        n: Frames so far.
    """

    uid: bytes
    channel: int
    head: bytes
    n: int = 0

    def passed(self, sealed: bytes) -> None:
        """The next frame is this one."""
        self.head = sha256(self.head + sealed).digest()
        self.n += 1


def chain_of(uid: bytes, channel: int, header: bytes) -> FrameChain:
    """Of a recording whose file begins with this header."""
    return FrameChain(uid, channel, sha256(b"svc-recording-v1\0" + header).digest())


def seal(key: bytes, chain: FrameChain, frame: Frame) -> bytes:
    """The next frame of a recording, as it stands in the file.

    Args:
        key: The public key.
    """
    from nacl.public import PublicKey, SealedBox

    head = _HEAD.pack(chain.uid, chain.channel, chain.n, chain.head, frame.kind)
    sealed: bytes = SealedBox(PublicKey(key)).encrypt(head + frame.data)
    chain.passed(sealed)
    return framed(sealed)


def open_frame(key: bytes, chain: FrameChain, sealed: bytes) -> Frame:
    """What the next frame of a recording holds.

    Args:
        key: The private key.

    Raises:
        Malformed: it is not the next frame of this recording, or not for this key.
    """
    from nacl.exceptions import CryptoError
    from nacl.public import PrivateKey, SealedBox

    try:
        plain: bytes = SealedBox(PrivateKey(key)).decrypt(sealed)
    except CryptoError:
        raise Malformed("recording: a frame does not open with this cluster's key") from None
    if len(plain) < _HEAD.size:
        raise Malformed("recording: a frame is too short")
    *place, kind = _HEAD.unpack_from(plain)
    if place != [chain.uid, chain.channel, chain.n, chain.head] or kind not in (DATA, END):
        raise Malformed("recording: a frame is not the one that follows here")
    chain.passed(sealed)
    return Frame(kind, plain[_HEAD.size :])


def public_key(key: bytes) -> bytes:
    """The public key of a private one."""
    from nacl.public import PrivateKey

    return bytes(PrivateKey(key).public_key)


def framed(data: bytes) -> bytes:
    """With its length before it."""
    return _LENGTH.pack(len(data)) + data


def next_frame(data: bytes, at: int, most: int) -> bytes | None:
    """The frame that begins at *at*; None: it is not whole.

    Raises:
        Malformed: it is longer than a frame can be.
    """
    begin = at + _LENGTH.size
    if len(data) < begin:
        return None
    size = _LENGTH.unpack_from(data, at)[0]
    if not 0 < size <= most:
        raise Malformed("recording: a frame of no possible size")
    return data[begin : begin + size] if len(data) >= begin + size else None

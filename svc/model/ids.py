"""Ids: random ids, node ids, resource ids, event ids.

An id is opaque: no code reads meaning out of one, but for the sort that an agent's
begins with (ADR 48).  Random bytes are passed in (``entropy``), so tests name what they see.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from struct import Struct

from attrs import define, field

Entropy = Callable[[int], bytes]
"""``entropy(n)`` gives n random bytes: the one source of randomness."""

RANDOM_ID_BYTES = 16
_AT_ONCE = 128
_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_RANDOM_ID = re.compile(r"[0-9a-f]{32}\Z")
_MEMBER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}\Z")
_AGENT = "agent-"
_OPAQUE_ID = re.compile(r"[a-z2-7]{26}\Z")


@define(eq=False)
class DrawnAhead:
    """Entropy for pieces of one size, many of which are drawn at once.

    Several threads may share it: no piece is given twice.  A process that forks may not: both would
    be given the same.

    Attributes:
        entropy: Draws them, and pieces of other sizes.
        size: Bytes of a piece.
    """

    entropy: Entropy
    size: int
    _pieces: deque[bytes] = field(factory=deque, init=False, repr=False)
    _pieces_of: Struct = field(init=False, repr=False)

    @_pieces_of.default
    def _each_of_its_size(self) -> Struct:
        return Struct(f"{self.size}s" * _AT_ONCE)

    def __call__(self, size: int) -> bytes:
        """So many random bytes."""
        if size != self.size:
            return self.entropy(size)
        try:
            return self._pieces.popleft()
        except IndexError:
            first: bytes
            first, *more = self._pieces_of.unpack(self.entropy(_AT_ONCE * size))
            self._pieces.extend(more)
            return first


def random_id(entropy: Entropy) -> str:
    """A session uid or decision id: 128 random bits as 32 hex digits."""
    return entropy(RANDOM_ID_BYTES).hex()


def is_random_id(text: str) -> bool:
    """Whether *text* is of the form that :func:`random_id` gives."""
    return _RANDOM_ID.match(text) is not None


def person_id(entropy: Entropy) -> str:
    """An opaque id for a person: 128 random bits in base32."""
    return _base32(entropy(RANDOM_ID_BYTES))


def agent_id(entropy: Entropy) -> str:
    """An id for an agent, which nothing else's id has the form of."""
    return _AGENT + person_id(entropy)


def is_agent_id(text: str) -> bool:
    """Whether *text* is of the form of an agent's id."""
    return text.startswith(_AGENT) and is_opaque_id(text.removeprefix(_AGENT))


def is_caller_id(text: str) -> bool:
    """Whether *text* is of the form of the id of somebody who opens sessions."""
    return is_opaque_id(text) or is_agent_id(text)


def node_id(public_key_info: bytes) -> str:
    """The id of the node that holds this key.

    Args:
        public_key_info: The DER SubjectPublicKeyInfo of the node's first
            identity key.
    """
    return _base32(sha256(public_key_info).digest())


def is_opaque_id(text: str) -> bool:
    """Whether *text* is of the form of a node's or person's id."""
    return _OPAQUE_ID.match(text) is not None


def is_resource_id(text: str) -> bool:
    """Whether *text* can name a resource: one DNS label, lower case."""
    return _DNS_LABEL.match(text) is not None


def is_member_name(text: str) -> bool:
    """Whether *text* can name a node, a person or a group."""
    return _MEMBER_NAME.match(text) is not None


def is_cluster_name(text: str) -> bool:
    """Whether *text* can name a cluster: a lower-case DNS name of at most 253 bytes."""
    return 0 < len(text) <= 253 and all(_DNS_LABEL.match(part) for part in text.split("."))


def event_id(unix_time: float, entropy: Entropy) -> str:
    """A UUIDv7 (RFC 9562 section 5.7): 48 bits of milliseconds, then randomness."""
    milliseconds = int(unix_time * 1000) & ((1 << 48) - 1)
    tail = bytearray(entropy(10))
    tail[0] = 0x70 | (tail[0] & 0x0F)
    tail[2] = 0x80 | (tail[2] & 0x3F)
    text = (milliseconds.to_bytes(6, "big") + bytes(tail)).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _base32(data: bytes) -> str:
    return b32encode(data).decode("ascii").lower().rstrip("=")[:26]

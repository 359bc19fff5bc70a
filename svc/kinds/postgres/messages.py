"""Messages of PostgreSQL's protocol 3, as far as both ends of a session and its gate need them.

Pure.  A message is a byte that tells its kind, four bytes of length that count themselves, and a
body.  The first one of a connection has no such byte.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from svc.errors import Malformed

HEAD = 5
"""Bytes before a message's body."""

LONGEST_NAME = 63
"""Bytes that PostgreSQL compares of the name of a statement or a portal."""

DENIED_WORD = b"svc_denied_"
"""What stands in the place of a denied text, with the decision's id: no statement begins so."""

LONGEST_NAMES = 2048
"""Bytes that the names at the beginning of a message may take."""

DECIDED = frozenset(b"QFPBE")
"""The requests that ask the server for something; the others carry them."""

LONGEST_TEXT = 64 * 1024
"""A longer Query or Parse is not held; nobody reads its text."""

LONGEST_END = 128

head_at = struct.Struct(">Bi").unpack_from
"""``head_at(held, at)``: a message's kind and length, which as PostgreSQL reads it may be negative:
:func:`check_length`."""

_ENDS = re.compile(
    rb"\s*(?:commit|end|abort|rollback)(?:\s+(?:work|transaction))?\s*;?\s*"
    rb"|\s*rollback(?:\s+(?:work|transaction))?\s+to(?:\s+savepoint)?"
    rb"\s+(?:[a-z_][a-z0-9_]*|\"[a-z0-9_ .-]+\")\s*;?\s*",
    re.IGNORECASE,
)

SYNTAX_ERROR, DENIED_CODE = b"42601", b"42501"
EXTENDED, EXECUTES, LONG = "extended", "executes", "long"
"""Why a request has no text that can be asked for: its parameters come apart from it, it runs what
it does not show, or nobody would read it."""


def ends_transaction(text: bytes) -> bool:
    """Whether a text does nothing but end a transaction, in the plain words that all can read.

    It needs no decision: whoever began a transaction can leave it, whatever policy says by then.
    """
    return len(text) <= LONGEST_END and _ENDS.fullmatch(text) is not None


def message(kind: bytes, body: bytes) -> bytes:
    """One message."""
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def size_of(held: bytes, at: int = 0) -> int:
    """The whole size of the message that begins at *at*; its head must be there.

    Raises:
        Malformed: it can have no such length.
    """
    length: int = head_at(held, at)[1]
    if length < 4:
        check_length(length)
    return length + 1


def check_length(length: int) -> None:
    """Return if a message may have this length.

    Raises:
        Malformed: it is shorter than the length itself, or negative as PostgreSQL reads it.
    """
    if length < 4:
        raise Malformed("a message of the PostgreSQL protocol has an impossible length")


def text_at(body: bytes, at: int = 0) -> tuple[bytes, int]:
    """The text that ends with NUL, and where what follows it begins.

    Raises:
        Malformed: it does not end.
    """
    end = body.find(b"\0", at)
    if end < 0:
        raise Malformed("a text in the PostgreSQL protocol has no end")
    return body[at:end], end + 1


def name_at(body: bytes, at: int = 0) -> tuple[bytes, int]:
    """The name of a statement or a portal, and where what follows it begins.

    Raises:
        Malformed: it does not end, or the server would take another name for the same.
    """
    end = body.find(b"\0", at)
    if at <= end <= at + LONGEST_NAME:
        return body[at:end], end + 1
    name, after = text_at(body, at)
    if len(name) > LONGEST_NAME:
        raise Malformed(
            f"the name of a prepared statement or portal is longer than {LONGEST_NAME} bytes"
        )
    return name, after


def fields_of(body: bytes) -> dict[bytes, bytes]:
    """The fields of an ErrorResponse or a NoticeResponse; of one that is twice, the last."""
    return {part[:1]: part[1:] for part in body.split(b"\0") if part}


def error_message(fields: Mapping[bytes, bytes]) -> bytes:
    """An ErrorResponse; what is no field's to hold is left out of each."""
    parts = (kind + value.replace(b"\0", b" ") + b"\0" for kind, value in fields.items() if value)
    return message(b"E", b"".join(parts) + b"\0")


def fatal(code: str, text: str, detail: str = "", hint: str = "") -> bytes:
    """The ErrorResponse that ends a session."""
    fields = {"S": "FATAL", "V": "FATAL", "C": code, "M": text, "D": detail, "H": hint}
    return error_message(
        {name.encode(): " ".join(value.split()).encode() for name, value in fields.items()}
    )


def startup_message(settings: Mapping[str, str]) -> bytes:
    """The first message of a session, protocol 3.0."""
    pairs = b"".join(
        name.encode() + b"\0" + value.encode() + b"\0" for name, value in settings.items()
    )
    body = (3 << 16).to_bytes(4, "big") + pairs + b"\0"
    return (len(body) + 4).to_bytes(4, "big") + body


def denied_word(body: bytes) -> bytes:
    """The word of a denial that an ErrorResponse complains of; empty: it tells of something else.

    Both the gate and the person's end look: neither has to believe the other.
    """
    fields = fields_of(body)
    if fields.get(b"C") != SYNTAX_ERROR:
        return b""
    said = fields.get(b"M", b"")
    at = said.find(DENIED_WORD)
    return said[at : at + len(DENIED_WORD) + 32] if at >= 0 else b""

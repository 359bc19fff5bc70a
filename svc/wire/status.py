"""gRPC status on the wire: codes, trailers, and what a reset means.

Knows numbers and bytes only; what a status means to the house is ``svc.rpc.status``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from urllib.parse import quote_from_bytes, unquote_to_bytes

from attrs import frozen

from svc.wire.headers import Headers, decode_binary, encode_binary

_WORDS = frozenset({b"grpc-message", b"grpc-status-details-bin"})
"""The fields that say more of a status."""

_UNESCAPED = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_MAX_MESSAGE = 2048


class Code(IntEnum):
    """The gRPC status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


@frozen
class Status:
    """How a call ended: its code, a sentence, and a serialised ``google.rpc.Status`` or nothing."""

    code: Code
    message: str = ""
    details: bytes = b""


OK = Status(Code.OK)

_OF_HTTP = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    429: Code.UNAVAILABLE,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
}
_OF_RESET = {
    0x7: Code.UNAVAILABLE,
    0x8: Code.CANCELLED,
    0xB: Code.RESOURCE_EXHAUSTED,
    0xC: Code.PERMISSION_DENIED,
}


def trailers(status: Status) -> Headers:
    """The header fields that end a call with *status*."""
    fields = [(b"grpc-status", b"%d" % status.code)]
    if status.message:
        raw = status.message[:_MAX_MESSAGE].encode("utf-8", "replace")
        fields.append((b"grpc-message", quote_from_bytes(raw, safe=_UNESCAPED).encode("ascii")))
    if status.details:
        fields.append((b"grpc-status-details-bin", encode_binary(status.details)))
    return fields


def parse_trailers(fields: Mapping[bytes, bytes]) -> Status:
    """The status in *fields*; what no gRPC server would send becomes ``UNKNOWN``."""
    raw = fields.get(b"grpc-status")
    if raw == b"0" and _WORDS.isdisjoint(fields):
        return OK
    if raw is None:
        return Status(_http_code(fields), "the answer has no grpc-status")
    message = unquote_to_bytes(fields.get(b"grpc-message", b"")).decode("utf-8", "replace")
    if len(raw) > 2 or not raw.isdigit() or int(raw) > Code.UNAUTHENTICATED:
        return Status(Code.UNKNOWN, message)
    try:
        details = decode_binary(fields.get(b"grpc-status-details-bin", b""))
    except ValueError:
        details = b""
    return Status(Code(int(raw)), message, details)


def status_of_reset(error_code: int) -> Status:
    """What a stream's reset with this HTTP/2 error code means to its caller."""
    return Status(_OF_RESET.get(error_code, Code.INTERNAL), "the call was reset by the peer")


def _http_code(fields: Mapping[bytes, bytes]) -> Code:
    raw = fields.get(b":status", b"200")
    return _OF_HTTP.get(int(raw) if len(raw) == 3 and raw.isdigit() else 0, Code.UNKNOWN)

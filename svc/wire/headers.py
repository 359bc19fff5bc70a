"""The header fields of a call: request head, metadata, grpc-timeout.

Routing and admission must see one and the same method name, so it is checked here, once,
and nothing later looks at ``:path``.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from attrs import frozen

from svc.errors import Malformed

Headers = list[tuple[bytes, bytes]]
MetadataValue = str | bytes

_PATH = re.compile(
    rb"/[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*/[A-Za-z_][A-Za-z0-9_]*\Z"
)
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])\Z")
_KEY = re.compile(r"[a-z0-9_.-]+\Z")
_TEXT = re.compile(r"[\x20-\x7e]*\Z")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_ENCODING = re.compile(rb"[a-z0-9_.-]{1,32}\Z")
_SCHEMES = (b"http", b"https")
_GRPC = (b"application/grpc", b"application/grpc+proto")
_OURS = frozenset({b"te", b"content-type", b"user-agent", b"host", b"content-length"})
_RESPONSE: Headers = [
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity"),
]


class NotGrpc(Exception):
    """The request is not gRPC; it is answered with this HTTP status alone."""

    def __init__(self, http_status: int) -> None:
        super().__init__(http_status)
        self.http_status = http_status


@frozen
class RequestHead:
    """A call's beginning as its server sees it.

    Attributes:
        method: ``/package.Service/Method``; empty where ``:path`` is not of that form.
        timeout: Seconds the caller gives; None without end.
        metadata: The caller's own fields; ``-bin`` as bytes.
        encoding: How messages with a Compressed-Flag are compressed; empty where it is not said.
    """

    method: str
    timeout: float | None
    metadata: Mapping[str, MetadataValue]
    encoding: str = ""


def request_headers(
    method: str,
    *,
    scheme: str,
    authority: str,
    timeout: float | None,
    metadata: Iterable[tuple[str, MetadataValue]],
) -> Headers:
    """The header fields that begin a call.

    Raises:
        Malformed: for a metadata name or value that cannot travel.
    """
    own = _own_fields(method, scheme, authority, timeout)
    return [*own, *encode_metadata(metadata)] if metadata else [*own]


@lru_cache(maxsize=64)
def _own_fields(
    method: str, scheme: str, authority: str, timeout: float | None
) -> tuple[tuple[bytes, bytes], ...]:
    """Those beside the metadata; a process makes the same few calls again and again."""
    fields: Headers = [
        (b":method", b"POST"),
        (b":scheme", scheme.encode("ascii")),
        (b":path", method.encode("ascii")),
        (b":authority", authority.encode("ascii")),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"grpc-accept-encoding", b"identity"),
    ]
    if timeout is not None:
        fields.append((b"grpc-timeout", encode_timeout(timeout)))
    return tuple(fields)


def parse_request(fields: Iterable[tuple[bytes, bytes]]) -> RequestHead:
    """The head of a call.

    A caller without ``te: trailers`` is served: nothing here depends on what stands between us.

    Raises:
        NotGrpc: when the method, the scheme or the content type is not gRPC's.
        Malformed: for a broken ``grpc-timeout`` or ``-bin`` value.
    """
    pseudo: dict[bytes, bytes] = {}
    own: list[tuple[bytes, bytes]] = []
    for name, value in fields:
        if name.startswith((b":", b"grpc-")) or name in _OURS:
            pseudo.setdefault(name, value)
        else:
            own.append((name, value))
    if pseudo.get(b":method") != b"POST":
        raise NotGrpc(405)
    if pseudo.get(b":scheme") not in _SCHEMES:
        raise NotGrpc(400)
    if not _is_grpc(pseudo.get(b"content-type", b"")):
        raise NotGrpc(415)
    path = pseudo.get(b":path", b"")
    raw_timeout = pseudo.get(b"grpc-timeout")
    return RequestHead(
        method=path.decode("ascii") if _PATH.match(path) else "",
        timeout=None if raw_timeout is None else decode_timeout(raw_timeout),
        # One head may stand for many calls (``heads``), so nobody changes it.
        metadata=MappingProxyType(_decode_metadata(own)),
        encoding=_encoding(pseudo.get(b"grpc-encoding", b"")),
    )


def parse_metadata(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, MetadataValue]:
    """The peer's own fields in an answer.

    Raises:
        Malformed: for a broken ``-bin`` value.
    """
    return _decode_metadata(
        [
            (name, value)
            for name, value in fields
            if not name.startswith((b":", b"grpc-")) and name not in _OURS
        ]
    )


def response_headers(metadata: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The header fields before a call's first answer, with *metadata* of the server's own."""
    return [*_RESPONSE, *metadata]


def http_refusal(http_status: int) -> Headers:
    """The whole answer to what is not gRPC."""
    return [(b":status", b"%d" % http_status), (b"content-length", b"0")]


def encode_timeout(seconds: float) -> bytes:
    """``grpc-timeout``: at most 8 digits, in the finest unit that holds it, never rounded to 0."""
    if seconds <= 0:
        return b"0n"
    for unit in (b"n", b"u", b"m", b"S", b"M", b"H"):
        count = int(seconds / _SECONDS[unit])
        if count < 100_000_000:
            return b"%d%b" % (max(count, 1), unit)
    return b"99999999H"


def decode_timeout(raw: bytes) -> float:
    """Seconds of a ``grpc-timeout``.

    Raises:
        Malformed: where it is not 1 to 8 digits and a unit.
    """
    found = _TIMEOUT.match(raw)
    if found is None:
        raise Malformed("grpc-timeout: it must be 1 to 8 digits and one of H M S m u n")
    return int(found[1]) * _SECONDS[found[2]]


def encode_binary(value: bytes) -> bytes:
    """A ``-bin`` value: base64 without padding."""
    return b64encode(value).rstrip(b"=")


def decode_binary(raw: bytes) -> bytes:
    """The bytes of a ``-bin`` value, padded or not.

    Raises:
        ValueError: where it is not base64.
    """
    bare = raw.rstrip(b"=")
    return b64decode(bare + b"=" * (-len(bare) % 4), validate=True)


def _encoding(raw: bytes) -> str:
    """The word as it may be told to anybody."""
    if not raw:
        return ""
    return raw.decode("ascii") if _ENCODING.match(raw) else "an unknown encoding"


def _is_grpc(content_type: bytes) -> bool:
    # Of messages in another coding (+json) nothing here could be read.
    return content_type.partition(b";")[0].rstrip() in _GRPC


def encode_metadata(metadata: Iterable[tuple[str, MetadataValue]]) -> Headers:
    """Metadata as header fields.

    Raises:
        Malformed: for a name or value that cannot travel.
    """
    fields: Headers = []
    for name, value in metadata:
        if not _KEY.match(name) or name.startswith("grpc-"):
            raise Malformed(
                "metadata: a name may contain only lower-case letters, digits and _ . -"
            )
        if name.endswith("-bin") != isinstance(value, bytes):
            raise Malformed("metadata: a name ends in -bin if and only if its value is bytes")
        if isinstance(value, bytes):
            fields.append((name.encode("ascii"), encode_binary(value)))
        elif _TEXT.match(value):
            fields.append((name.encode("ascii"), value.strip().encode("ascii")))
        else:
            raise Malformed("metadata: a text value is not printable ASCII")
    return fields


def _decode_metadata(own: Headers) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for raw_name, raw_value in own:
        name = raw_name.decode("latin-1")
        if name.endswith("-bin"):
            if name not in metadata:
                metadata[name] = _binary_or_refusal(raw_value)
            continue
        text = raw_value.decode("latin-1")
        before = metadata.get(name)
        metadata[name] = f"{before},{text}" if isinstance(before, str) else text
    return metadata


def _binary_or_refusal(raw: bytes) -> bytes:
    try:
        return decode_binary(raw.split(b",", 1)[0])
    except ValueError:
        raise Malformed("metadata: a -bin value is not base64") from None

"""Heads of requests and answers: one strict reading, at the gate and at the Connector alike.

A head that two programs could read differently is refused, never repaired:
whoever decides a request must see exactly what the target will.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from attrs import field, frozen

from svc.errors import Malformed

MAX_HEAD = 64 * 1024
MAX_HEADERS = 128
MAX_TARGET = 8 * 1024
MAX_PATH = 2048

HEAD_END = re.compile(rb"\n(?:(?<=\r\n\r\n)|(?<!\r\n))")
"""The end of a head, or a line feed that ends nothing: both end the reading of it.

It begins with the line feed, which a search finds ten times as fast as either of two beginnings.
"""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"([^ ]+) ([^ ]+) HTTP/([0-9]\.[0-9])")
_METHOD = re.compile(rb"[A-Z][A-Z\-]{0,19}\Z")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?\Z")
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t\x20-\x7e\x80-\xff]*)\Z")
_TARGET = re.compile(rb"[\x21-\x7e]+\Z")
_PLAIN_TARGET = re.compile(
    rb"(?=/)((?:/(?!\.{1,2}(?:[/?]|\Z))[A-Za-z0-9_.~!$&'()*+,:=\-]+)*/?)(?:\?[!\"$-~]*)?\Z"
)
"""A path in which nothing is encoded, with no segment that is empty or of dots, and any query."""

_ENCODED = re.compile(rb"%(?![0-9A-Fa-f]{2})")
HOST = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._\-]{1,253})(?::([0-9]{1,5}))?\Z")
_MEDIA_TYPE = re.compile(rb"(" + _TOKEN + rb"/" + _TOKEN + rb")[ \t]*(?:;.*)?\Z")
_LENGTH = re.compile(rb"[0-9]{1,15}\Z")
_WEBSOCKET_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NO_METHODS = frozenset({b"CONNECT", b"TRACE"})

WEBSOCKET, SPDY = b"websocket", b"spdy/3.1"

Protocols = frozenset[bytes]
"""Those that requests of a kind may ask to switch to; what else is asked for is not heard."""

SWITCHING = 101

WEBSOCKETS: Protocols = frozenset({WEBSOCKET})


class BadHead(Malformed):
    """A head that is not taken; ``reason`` is a word of :data:`svc.kinds.web.words.BAD_HEADS`."""


Header = tuple[bytes, bytes]
_NO_WORDS: frozenset[bytes] = frozenset()
_LONGEST_SHARED = 40


_shared_lower = lru_cache(256)(bytes.lower)
"""A name in lower case: the usual ones are the same object in all heads."""


@frozen
class Headers:
    """The header fields of one head, in their order, each as it was written."""

    fields: tuple[Header, ...]
    _last: Mapping[bytes, bytes] = field(init=False, eq=False, repr=False)

    @_last.default
    def _by_name(self) -> Mapping[bytes, bytes]:
        return {
            _shared_lower(name) if len(name) <= _LONGEST_SHARED else name.lower(): value
            for name, value in self.fields
        }

    def has_none_of(self, names: frozenset[bytes]) -> bool:
        """Whether no field has any of these names, which are in lower case."""
        return names.isdisjoint(self._last)

    def has(self, name: bytes) -> bool:
        """Whether there is a field of this name, which is in lower case."""
        return name in self._last

    def all(self, name: bytes) -> list[bytes]:
        """The values under this name, which is in lower case."""
        last = self._last.get(name)
        if last is None:
            return []
        if len(self._last) == len(self.fields):
            return [last]
        return [value for word, value in self.fields if word.lower() == name]

    def one(self, name: bytes) -> bytes:
        """The only value under this name; empty where there is none, or several."""
        found = self.all(name)
        return found[0] if len(found) == 1 else b""

    def words(self, name: bytes) -> frozenset[bytes]:
        """The members of the lists under this name, in lower case."""
        if name not in self._last:
            return _NO_WORDS
        joined = b",".join(self.all(name)).lower()
        return frozenset(word.strip() for word in joined.split(b",")) - {b""}


@frozen
class Body:
    """How the length of a body is told.

    Attributes:
        length: In bytes; None: in chunks, or up to the end of the stream.
    """

    length: int | None = 0
    is_chunked: bool = False


_NO_BODY, _TO_THE_END = Body(), Body(length=None)


@frozen
class HttpRequest:
    """A request's head.

    Attributes:
        target: The path with its query, exactly as it is passed on.
        path: What the target will make of it: decoded once, without the query.
        version: ``1.1`` or ``1.0``.
        media_type: Of its body, without parameters, in lower case; empty where none is told.
        protocol: The one that it asks to switch to; empty: none, or one that is not taken here.
        is_last: Whether the client takes no further answer on this connection.
        upgrades: Whether it asks to go on with another protocol.
    """

    method: bytes
    target: bytes
    path: str
    version: bytes
    host: str
    headers: Headers
    body: Body
    media_type: str
    protocol: bytes = b""
    is_last: bool = field(init=False)
    upgrades: bool = field(init=False)

    @is_last.default
    def _says_so(self) -> bool:
        return self.version == b"1.0" or b"close" in self.headers.words(b"connection")

    @upgrades.default
    def _has_protocol(self) -> bool:
        return bool(self.protocol)

    @property
    def websocket_key(self) -> bytes:
        """What the opening of a WebSocket must prove to have read; empty: it asks for none."""
        return self.headers.one(b"sec-websocket-key") if self.protocol == WEBSOCKET else b""

    @property
    def facts(self) -> Mapping[str, str | bool]:
        """What policies read of it."""
        told: dict[str, str | bool] = {
            "method": self.method.decode("ascii"),
            "path": self.path,
            "upgrade": self.upgrades,
        }
        if self.host:
            told["host"] = self.host
        if self.media_type:
            told["content_type"] = self.media_type
        return told


@frozen
class HttpAnswer:
    """An answer's head."""

    status: int
    version: bytes
    headers: Headers

    @property
    def is_interim(self) -> bool:
        """Whether another head follows: 101 is the last of its kind."""
        return 100 <= self.status < 200 and self.status != SWITCHING

    def body_for(self, method: bytes) -> Body:
        """The body that follows, given what was asked.

        Raises:
            BadHead: its length is told in two ways, or in a way that is not known.
        """
        body = _body(self.headers, self.version, _TO_THE_END)
        has_none = self.status < 200 or self.status in (204, 304) or method == b"HEAD"
        return _NO_BODY if has_none else body


def read_request(raw: bytes, protocols: Protocols = WEBSOCKETS) -> HttpRequest:
    """The head of a request.

    Args:
        raw: Up to and with the empty line, or the line feed that spoils it.
        protocols: Those that it may ask to switch to.

    Raises:
        BadHead: it is not taken.
    """
    first, *fields = _lines(raw)
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise BadHead("the request line is not METHOD, PATH and HTTP/1.1", reason="request_line")
    method, target, version = line.groups()
    if version not in (b"1.1", b"1.0"):
        raise BadHead("only HTTP/1.1 and HTTP/1.0 are spoken here", reason="http_version")
    if not _METHOD.match(method) or method in _NO_METHODS:
        raise BadHead("this method is not taken", reason="method")
    headers = Headers(tuple(map(_header, fields)))
    body = _body(headers, version, _NO_BODY)
    head = HttpRequest(
        method=method,
        target=target,
        path=_path(target, method),
        version=version,
        host=_host(headers, version),
        headers=headers,
        body=body,
        media_type=_media_type(headers),
        protocol=_protocol(method, version, headers, protocols),
    )
    if head.protocol == WEBSOCKET and not _opens_websocket(head):
        raise BadHead("a WebSocket is not asked for as RFC 6455 says", reason="websocket")
    if head.upgrades and head.body.length != 0:
        raise BadHead("a request for another protocol has a body", reason="upgrade")
    return head


last_request = lru_cache(maxsize=1)(read_request)
"""As :func:`read_request`, and gives what it gave last where the same head is read again.

A Connector reads each head twice in one turn: to find its decision, and to write it anew.
"""


def _protocol(method: bytes, version: bytes, headers: Headers, taken: Protocols) -> bytes:
    asked = headers.words(b"upgrade")
    if not asked:
        return b""
    is_asked = version == b"1.1" and len(asked) == 1 and b"upgrade" in headers.words(b"connection")
    protocol = min(asked) if is_asked else b""
    if protocol == WEBSOCKET and method != b"GET":
        return b""
    return protocol if protocol in taken else b""


def _opens_websocket(head: HttpRequest) -> bool:
    is_asked = head.headers.one(b"sec-websocket-version") == b"13" and head.body.length == 0
    return is_asked and _WEBSOCKET_KEY.match(head.websocket_key) is not None


def read_answer(raw: bytes) -> HttpAnswer:
    """The head of an answer; raises as :func:`read_request`."""
    first, *fields = _lines(raw)
    line = _STATUS_LINE.match(first)
    if line is None:
        raise BadHead("the status line is not of HTTP/1.1", reason="status_line")
    headers = Headers(tuple(map(_header, fields)))
    return HttpAnswer(status=int(line[2]), version=b"1." + line[1], headers=headers)


def _lines(raw: bytes) -> list[bytes]:
    if not raw.endswith(b"\r\n\r\n"):
        raise BadHead("a line ends in a bare line feed", reason="bare_lf")
    lines = raw[:-4].split(b"\r\n")
    if len(lines) > MAX_HEADERS:
        raise BadHead(f"more than {MAX_HEADERS} lines in a head", reason="too_many_headers")
    return lines


def _header(line: bytes) -> Header:
    found = _HEADER.match(line)
    if found is not None:
        return found[1], found[2].rstrip(b" \t")
    if line[:1] in (b" ", b"\t"):
        raise BadHead("a header field is folded over two lines", reason="folded_header")
    raise BadHead("a header field is malformed", reason="header")


def _path(target: bytes, method: bytes) -> str:
    plain = _PLAIN_TARGET.match(target)
    if plain is not None and plain.end(1) <= MAX_PATH and 0 < len(target) <= MAX_TARGET:
        return plain[1].decode("ascii")
    return decoded_path(target, method)


def decoded_path(target: bytes, method: bytes) -> str:
    """The path of any target; one with nothing encoded in it is read at one look instead.

    Raises:
        BadHead: it could be taken for another path.
    """
    if target == b"*" and method == b"OPTIONS":
        return "*"
    if target[:1] != b"/":
        raise BadHead("the request names more than a path", reason="absolute_form")
    if len(target) > MAX_TARGET:
        raise BadHead(f"path and query are longer than {MAX_TARGET} bytes", reason="path_too_long")
    if not _TARGET.match(target) or b"#" in target:
        raise BadHead("the path holds a character that must be encoded", reason="path_character")
    path = target.partition(b"?")[0]
    _check_encoding(path)
    decoded = unquote_to_bytes(path)
    try:
        text = decoded.decode("utf-8")
    except UnicodeDecodeError:
        raise BadHead("the path is not UTF-8", reason="path_encoding") from None
    _check_path(text)
    return text


def _check_encoding(path: bytes) -> None:
    if _ENCODED.search(path):
        raise BadHead("a % in the path begins no encoded byte", reason="path_encoding")
    lower = path.lower()
    if b"%2f" in lower or b"%5c" in lower or b"\\" in path:
        raise BadHead("the path holds an encoded slash, or a backslash", reason="encoded_slash")
    if b"%25" in lower:
        raise BadHead("the path is encoded twice", reason="encoded_twice")


def _check_path(path: str) -> None:
    if len(path) > MAX_PATH:
        raise BadHead(f"the path is longer than {MAX_PATH} characters", reason="path_too_long")
    if _CONTROL.search(path):
        raise BadHead("the path holds a control character", reason="path_character")
    if path.count("@") > 1:
        raise BadHead("the path holds several @", reason="several_at")
    segments = path.split("/")[1:]
    # What stands after a semicolon is a parameter to some servers, which find another path then.
    if ";" in path:
        raise BadHead("the path holds a semicolon", reason="path_parameter")
    if "." in segments or ".." in segments:
        raise BadHead("the path holds a dot segment", reason="dot_segment")
    if "" in segments[:-1]:
        raise BadHead("the path holds an empty segment", reason="empty_segment")


def _host(headers: Headers, version: bytes) -> str:
    found = headers.all(b"host")
    if not found and version == b"1.0":
        return ""
    if len(found) != 1:
        raise BadHead("there is not exactly one Host", reason="host")
    host = HOST.match(found[0])
    if host is None or int(host[2] or 0) > 65535:
        raise BadHead("Host is not a name with, or without, a port", reason="host")
    return host[1].decode("ascii").lower()


def _media_type(headers: Headers) -> str:
    found = headers.all(b"content-type")
    if not found:
        return ""
    media_type = _MEDIA_TYPE.match(found[0])
    if len(found) != 1 or media_type is None or len(media_type[1]) > 127:
        raise BadHead("Content-Type is not one media type", reason="content_type")
    return media_type[1].decode("ascii").lower()


def _body(headers: Headers, version: bytes, otherwise: Body) -> Body:
    lengths, codings = headers.all(b"content-length"), headers.all(b"transfer-encoding")
    if not lengths and not codings:
        return otherwise
    if codings and lengths:
        raise BadHead("Content-Length and Transfer-Encoding together", reason="two_lengths")
    if codings:
        if [coding.lower() for coding in codings] != [b"chunked"] or version == b"1.0":
            raise BadHead("a transfer coding that is not known", reason="transfer_encoding")
        return Body(length=None, is_chunked=True)
    if len(lengths) > 1:
        raise BadHead("Content-Length stands there several times", reason="two_lengths")
    if not _LENGTH.match(lengths[0]):
        raise BadHead("Content-Length is no number", reason="content_length")
    return Body(length=int(lengths[0]))

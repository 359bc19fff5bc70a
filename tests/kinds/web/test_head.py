"""Heads: what can be read in two ways is refused, with the reason; the rest is read exactly."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.web.head import (
    HEAD_END,
    BadHead,
    Body,
    decoded_path,
    last_request,
    read_answer,
    read_request,
)
from tests.kinds.web.inputs import REFUSED, TAKEN

WEBSOCKET = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
SEGMENTS = st.text(string.ascii_letters + string.digits + "-_~!$&'()*+,=:", min_size=1, max_size=9)


def request(*fields: bytes, line: bytes = b"GET / HTTP/1.1") -> bytes:
    """A request's head with these fields."""
    return b"\r\n".join((line, b"Host: a", *fields, b"", b""))


class RequestTests(SynchronousTestCase):
    def test_refused(self) -> None:
        """Each of the inputs is refused for its own reason."""
        for what, (raw, reason) in REFUSED.items():
            if reason != "head_too_long":  # of the gate's limit
                end = HEAD_END.search(raw)
                assert end is not None, what
                found = self.assertRaises(BadHead, read_request, raw[: end.end()])
                self.assertEqual(found.reason, reason, what)

    def test_taken(self) -> None:
        """What has one reading is taken, and policies read the path as the target will."""
        for what, (raw, path) in TAKEN.items():
            self.assertEqual(read_request(raw).path, path, what)

    @given(st.text("/.a~%2?;:@=#\\", max_size=9).map(str.encode))
    def test_paths_at_one_look(self, target: bytes) -> None:
        """A path that nothing is encoded in is read as any other is, or refused as any other."""

        def read() -> str:
            return read_request(request(line=b"GET /" + target + b" HTTP/1.1")).path

        try:
            path = decoded_path(b"/" + target, b"GET")
        except BadHead as fault:
            self.assertEqual(self.assertRaises(BadHead, read).reason, fault.reason)
        else:
            self.assertEqual(read(), path)

    @given(st.text("\r\na", max_size=12).map(str.encode), st.integers(0, 4))
    def test_the_end_of_a_head(self, data: bytes, searched: int) -> None:
        """An empty line, or the first line feed that ends no line; the first of them counts."""
        ends = (
            at + 1
            for at in range(searched, len(data))
            if data[at : at + 1] == b"\n"
            and (data[:at][-1:] != b"\r" or data[: at + 1].endswith(b"\r\n\r\n"))
        )
        found = HEAD_END.search(data, searched)
        self.assertEqual(found and found.end(), next(ends, None))

    def test_the_last_one_read(self) -> None:
        """It is remembered with the protocols that it was read for, and what is refused never."""
        raw = request(b"Connection: Upgrade", b"Upgrade: SPDY/3.1")
        self.assertEqual(last_request(raw, frozenset()).protocol, b"")
        self.assertEqual(last_request(raw, frozenset({b"spdy/3.1"})).protocol, b"spdy/3.1")
        for _ in range(2):
            self.assertRaises(BadHead, last_request, b"GET /\n", frozenset())

    def test_facts(self) -> None:
        """Method, path, host and media type, in the one form that policies compare."""
        raw = request(b"content-TYPE: Text/Html; charset=x", line=b"POST /A?q=1 HTTP/1.1")
        head = read_request(raw.replace(b"Host: a", b"HOST:  Big.Example:80 "))
        self.assertEqual(
            head.facts,
            {
                "method": "POST",
                "path": "/A",
                "host": "big.example",
                "content_type": "text/html",
                "upgrade": False,
            },
        )
        self.assertEqual(head.target, b"/A?q=1")
        self.assertEqual(
            read_request(b"GET / HTTP/1.0\r\n\r\n").facts,
            {"method": "GET", "path": "/", "upgrade": False},
        )

    def test_the_last(self) -> None:
        """A client that says close, or speaks HTTP/1.0, sends no other request."""
        for raw, is_last in (
            (request(), False),
            (request(b"Connection: keep-alive"), False),
            (request(b"Connection: x, Close"), True),
            (request(line=b"GET / HTTP/1.0"), True),
        ):
            self.assertEqual(read_request(raw).is_last, is_last)

    def test_upgrades(self) -> None:
        """Only to a WebSocket, and only said in full."""
        asks = b"Upgrade: websocket\r\n" + WEBSOCKET
        for raw, upgrades in (
            (request(asks, b"Connection: keep-alive, Upgrade"), True),
            (request(asks), False),
            (request(b"Upgrade: h2c", b"Connection: Upgrade"), False),
            (request(b"Upgrade: websocket, h2c", b"Connection: Upgrade"), False),
            (request(asks, b"Connection: Upgrade", line=b"POST / HTTP/1.1"), False),
            (request(asks, b"Connection: Upgrade", line=b"GET / HTTP/1.0"), False),
        ):
            self.assertEqual(read_request(raw).upgrades, upgrades, raw)
        opens = request(asks, b"Connection: Upgrade")
        for before, after in (
            (b"-Version: 13", b"-Version: 8"),
            (b"-Version: 13", b"-Name: 13"),
            (b"ZQ==", b"ZQ="),
            (b"Sec-WebSocket-Key", b"X-Key"),
            (b"Host: a\r\n", b"Host: a\r\nContent-Length: 1\r\n"),
        ):
            self.assertIn(before, opens)
            found = self.assertRaises(BadHead, read_request, opens.replace(before, after))
            self.assertEqual(found.reason, "websocket")

    @given(st.lists(SEGMENTS, min_size=1, max_size=5), st.randoms(use_true_random=False))
    def test_however_it_is_encoded(self, segments: list[str], random: object) -> None:
        """A path has one reading: encoding some of its letters changes nothing that decides."""
        path = "/" + "/".join(segments)
        written = "".join(
            f"%{ord(each):02x}"
            if each != "/" and random.random() < 0.3  # type: ignore[attr-defined]
            else each
            for each in path
        )
        head = read_request(request(line=f"GET {written} HTTP/1.1".encode()))
        self.assertEqual((head.path, head.target), (path, written.encode()))

    @given(st.binary(max_size=200))
    def test_any_bytes(self, raw: bytes) -> None:
        """Whatever comes is read or refused, and never anything else."""
        for head in (raw, request(raw), request(line=raw), request(line=b"GET /" + raw)):
            try:
                read_request(head)
            except BadHead as fault:
                self.assertTrue(fault.reason.isidentifier())


class AnswerTests(SynchronousTestCase):
    def test_bodies(self) -> None:
        """How the body's end is told, and for which answers there is none."""
        for raw, method, body in (
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"GET", Body(length=3)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"HEAD", Body()),
            (b"HTTP/1.1 200\r\n\r\n", b"GET", Body(length=None)),
            (b"HTTP/1.1 204 No\r\n\r\n", b"GET", Body()),
            (b"HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\n", b"GET", Body()),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"GET",
                Body(length=None, is_chunked=True),
            ),
        ):
            self.assertEqual(read_answer(raw).body_for(method), body, raw)

    def test_refused(self) -> None:
        """An answer that could be two is none."""
        for raw in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX: 1\nHTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX: 1\rY: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\n\r\n",
            b"HTTP/1.1 20 OK\r\n\r\n",
            b"HTTP/2 200 OK\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n\r\n",
        ):
            self.assertRaises(BadHead, lambda raw=raw: read_answer(raw).body_for(b"GET"))

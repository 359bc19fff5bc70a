"""Answers as the person gets them: redirects and cookies of the application stay with it."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.web.head import read_answer
from svc.kinds.web.localized import AnswerRewriter, localized

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
MOVED = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://app.example/a\r\n\r\n"
HERE = MOVED.replace(b"http://app.example", b"")


def head(*fields: bytes, host: bytes = b"app.example") -> bytes:
    """What becomes of a head with these fields."""
    raw = b"\r\n".join((b"HTTP/1.1 302 Found", *fields, b"", b""))
    return localized(raw, read_answer(raw), host).partition(b"\r\n")[2].removesuffix(b"\r\n\r\n")


class HeadTests(SynchronousTestCase):
    def test_redirects(self) -> None:
        """One to the application's own name is one to the same path; any other stays."""
        for location, becomes in (
            (b"http://app.example/a?b#c", b"/a?b#c"),
            (b"HTTPS://APP.example:443/a", b"/a"),
            (b"//app.example/a", b"/a"),
            (b"http://app.example", b"/"),
            (b"http://app.example?a", b"/?a"),
            (b"http://app.example:8080/a", None),
            (b"http://app.example.other/a", None),
            (b"http://app.example@other.example/a", None),
            (b"https://sign-in.example/?to=http://app.example/a", None),
            (b"/a", None),
            (b"a/b", None),
        ):
            wanted = location if becomes is None else becomes
            self.assertEqual(head(b"Location: " + location), b"Location: " + wanted)
        self.assertEqual(
            head(b"Location: http://app.example:8080/a", host=b"app.example:8080"), b"Location: /a"
        )

    def test_another_site_behind_the_path(self) -> None:
        """A path that begins with two slashes would be another site's."""
        self.assertEqual(
            head(b"Location: http://app.example//other.example/a"),
            b"Location: /.//other.example/a",
        )

    def test_cookies(self) -> None:
        """For the application's own domain they are the host's; wider ones are dropped."""
        for cookie, becomes in (
            (b"a=1; Path=/; HttpOnly", b"a=1; Path=/; HttpOnly"),
            (b"a=1; Domain=app.example; Path=/", b"a=1; Path=/"),
            (b"a=1;domain = .APP.example", b"a=1"),
            (b"a=1; Domain=", b"a=1"),
        ):
            self.assertEqual(head(b"Set-Cookie: " + cookie), b"Set-Cookie: " + becomes)
        for cookie in (b"a=1; Domain=example", b"a=1; Domain=app.example; Domain=localhost"):
            self.assertEqual(head(b"X: 1", b"Set-Cookie: " + cookie), b"X: 1")

    def test_the_rest(self) -> None:
        """All other fields pass as they were written."""
        fields = b"X-A:1\r\nx-b:   2  \r\nEmpty:"
        self.assertEqual(head(fields), fields)


class RewriterTests(SynchronousTestCase):
    def written(self, methods: list[bytes], *pieces: bytes) -> bytes:
        """What the person gets of these."""
        rewriter = AnswerRewriter(b"app.example", deque(methods))
        return b"".join(rewriter.feed(piece) for piece in pieces)

    @given(st.lists(st.integers(1, 40), max_size=30))
    def test_any_pieces(self, sizes: list[int]) -> None:
        """However answers arrive, each is changed where it must be, and its body is not."""
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
        chunked %= (len(MOVED), MOVED)
        nothing = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
        interim = b"HTTP/1.1 103 Early\r\n\r\n"
        whole = OK + MOVED + chunked + nothing + interim + MOVED
        pieces, at = [], 0
        for size in sizes:
            pieces.append(whole[at : at + size])
            at += size
        methods = [b"GET", b"GET", b"GET", b"HEAD", b"GET"]
        got = self.written(methods, *pieces, whole[at:])
        self.assertEqual(got, OK + HERE + chunked + nothing + interim + HERE)

    def test_what_is_no_answer(self) -> None:
        """It passes as it is, with all that follows: the gate refuses it."""
        bad = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n" + MOVED
        for said in (
            bad,
            b"SSH-2.0-x\n" + MOVED,
            b"x" * 70_000,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n" + MOVED,
            b"HTTP/1.1 101 Switching\r\n\r\n" + MOVED,
        ):
            self.assertEqual(self.written([b"GET"], said), said)
        self.assertEqual(self.written([], MOVED), MOVED)
        self.assertEqual(self.written([b"GET"], OK, MOVED), OK + MOVED)

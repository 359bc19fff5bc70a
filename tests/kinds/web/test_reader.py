"""Where each request begins, as the Connector reads it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.web.reader import WebRequests

HOST = b" HTTP/1.1\r\nHost: a\r\n"
GET = b"GET /" + HOST + b"\r\n"
POST = b"POST /" + HOST + b"Content-Length: 5\r\n\r\nabcde"
CHUNKS = b"POST /" + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n"
UNSURE = b"POST /" + HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"


class WebRequestsTests(SynchronousTestCase):
    @given(st.lists(st.sampled_from([GET, POST, CHUNKS])), st.integers(1, 50))
    def test_every_head(self, requests: list[bytes], step: int) -> None:
        """However the bytes come, each head is one to its end, and no body holds one."""
        data, reader, starts = b"".join(requests), WebRequests(), []
        for at in range(0, len(data), step):
            starts += reader.feed(data[at : at + step], lambda offset: False)
        found = []
        for n, one in enumerate(requests):
            start = len(b"".join(requests[:n]))
            end = start + one.index(b"\r\n\r\n") + 4
            if start // step != (end - 1) // step:  # its end shows later
                found.append((start, True, 0))
            found.append((start, True, end))
        self.assertEqual(starts, found)

    def test_a_body_that_may_not_come(self) -> None:
        """After a denied request with Expect nobody can tell where the next one begins."""
        data = UNSURE + b"abcde" + GET
        self.assertEqual(len(WebRequests().feed(data, lambda offset: False)), 2)
        self.assertEqual(len(WebRequests().feed(data, lambda offset: True)), 1)

    def test_no_request(self) -> None:
        """What is none ends the session."""
        self.assertRaises(Malformed, WebRequests().feed, b"nonsense\r\n\r\n", lambda offset: False)

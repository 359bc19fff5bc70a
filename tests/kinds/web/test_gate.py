"""The gate in memory: requests decided one by one, answers in their order, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.web.gate import MOST_DROPPED
from svc.kinds.web.turns import MOST_OWED
from svc.kinds.web.websocket import closing_frame
from svc.testing.contracts.kind import KindContract
from svc.testing.gating import PlayedSession
from tests.kinds.web.inputs import BAD_ANSWERS, BAD_CHUNKS, REFUSED, TAKEN

GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)


def may(action: str, context: Mapping[str, Any]) -> bool:
    """The policy: nothing is posted, and /admin is closed."""
    return context["method"] != "POST" and not context["path"].startswith("/admin")


def posted(body: bytes, *fields: bytes) -> bytes:
    """A POST, which the policy denies."""
    told = b"Content-Length: %d" % len(body)
    return b"\r\n".join((b"POST /x HTTP/1.1", b"Host: a", told, *fields, b"", body))


def put(body: bytes) -> bytes:
    """A request with a body in chunks, which it allows."""
    head = b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + body


def statuses(heard: bytes) -> list[int]:
    """Of the answers in these bytes, whose bodies hold no line that begins like one."""
    lines = heard.replace(b"hiHTTP", b"hi\nHTTP").split(b"\n")
    return [int(line.split(b" ")[1]) for line in lines if line.startswith(b"HTTP/1.1 ")]


class WebTests(KindContract, SynchronousTestCase):
    """The contract of kinds, and the gate."""

    word = "web"
    good_table = {"address": "app.example:8080", "host": "app.example"}

    def played(self, *said: bytes) -> PlayedSession:
        """A session in which the person has said so much."""
        played = PlayedSession(self.kind, may)
        for piece in said:
            played.person_says(piece)
        return played

    def test_allowed(self) -> None:
        """A request and its answer pass byte by byte."""
        request = posted(b"body").replace(b"POST", b"PUT")
        played = self.played(request)
        self.assertEqual(played.target_heard, request)
        played.target_says(OK)
        self.assertEqual((played.person_heard, played.is_over), (OK, False))

    def test_named(self) -> None:
        """A request that names somebody is decided with the name, however the field is spelled."""
        for fields in (
            (b"svc-identity: bob",),
            (b"Svc_Identity: bob",),
            (b"svc-identity: bob", b"svc-identity: bob"),
            (b"svc-identity: \xffbob",),
        ):
            head = (b"GET /a HTTP/1.1", b"Host: a", *fields, b"", b"")
            played = self.played(b"\r\n".join(head))
            self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [403]))
            self.assertIn(b'"reason": "identity_denied"', played.person_heard)
            self.assertEqual(played.records[0].reason, "identity_denied")
        played = self.played(GET % b"/admin")
        self.assertEqual(played.records[0].reason, "denied")

    def test_a_person_who_does_not_read(self) -> None:
        """What is answered here waits for its reader: no further request is decided meanwhile."""
        played = self.played(GET % b"/admin")
        played.person_reads(False)
        played.person_says(GET % b"/admin" * 3)
        self.assertEqual(statuses(played.person_heard), [403, 403])
        played.person_reads(True)
        self.assertEqual(statuses(played.person_heard), [403] * 4)
        self.assertEqual(len(played.records), 4)

    def test_decided_once(self) -> None:
        """What is asked again in the same second is decided once, each is recorded, and another
        policy decides it again.
        """
        seen: list[str] = []

        def seeing(action: str, context: Mapping[str, Any]) -> bool:
            seen.append(context["path"])
            return may(action, context)

        played = PlayedSession(self.kind, seeing)
        for fields in (b"", b"Accept: a\r\n", b""):
            played.person_says(GET.replace(b"\r\n\r\n", b"\r\n" + fields + b"\r\n") % b"/a")
            played.target_says(OK)
        self.assertEqual((seen, len(played.records)), (["/a"], 3))
        self.assertEqual(len({record.decision_id for record in played.records}), 3)
        played.version += 1
        played.person_says(GET % b"/a")
        self.assertEqual((seen, len(played.records)), (["/a", "/a"], 4))
        for _ in range(2):
            played.person_says(GET % b"/admin")
        self.assertEqual(seen[2:].count("/admin"), 2)

    def test_denied(self) -> None:
        """A denied request never reaches the target, and the connection lives on."""
        played = self.played(posted(b"secret"), GET % b"/a")
        self.assertEqual(played.target_heard, GET % b"/a")
        head, _, body = played.person_heard.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 403 Forbidden\r\n"))
        self.assertNotIn(b"Connection: close", head)
        told = json.loads(body)["error"]
        self.assertEqual((told["reason"], told["policies"]), ("denied", ["played"]))
        self.assertEqual(told["decision_id"], played.records[0].decision_id)
        played.target_says(OK)
        self.assertTrue(played.person_heard.endswith(OK))

    def test_exact_text(self) -> None:
        """What can be asked for is method and target; of a body or a stream it says that."""
        played = PlayedSession(
            self.kind, lambda action, context: action == "view" or "approved_request" in context
        )
        played.requestable = frozenset({"played"})
        for said in (GET % b"/a?b=%41", posted(b"secret"), put(b"0\r\n\r\n")):
            played.person_says(said)
        self.assertEqual(
            played.exact,
            [b"GET /a?b=%41", b"POST /x\n(with any body)", b"PUT /x\n(with any body)"],
        )

    def test_in_their_order(self) -> None:
        """Among requests that were sent together, each answer stands where its request does."""
        played = self.played(
            GET % b"/a" + posted(b"x") + GET % b"/b" + GET % b"/admin" + GET % b"/admin/b"
        )
        self.assertEqual(played.target_heard, GET % b"/a" + GET % b"/b")
        self.assertEqual(played.person_heard, b"")
        played.target_says(OK[:-1])
        self.assertEqual(statuses(played.person_heard), [200])
        played.target_says(OK[-1:])
        self.assertEqual(statuses(played.person_heard), [200, 403])
        played.target_says(OK)
        self.assertEqual(statuses(played.person_heard), [200, 403, 200, 403, 403])

    @given(
        st.lists(st.sampled_from([b"/a", b"/admin", b"/b", b"POST"]), max_size=9),
        st.randoms(use_true_random=False),
    )
    def test_any_order(self, asked: list[bytes], random: Any) -> None:
        """However requests and answers arrive, they are as many and in the same order."""
        played = self.played()
        said = b"".join(posted(b"x") if each == b"POST" else GET % each for each in asked)
        passed = [each for each in asked if each in (b"/a", b"/b")]
        answered = 0
        while said or answered < len(passed):
            if said and random.random() < 0.7:
                size = random.randint(1, len(said))
                played.person_says(said[:size])
                said = said[size:]
            elif played.target_heard.count(b"GET ") > answered:
                played.target_says(OK)
                answered += 1
        self.assertEqual(played.target_heard, b"".join(GET % each for each in passed))
        self.assertEqual(
            statuses(played.person_heard), [200 if each in passed else 403 for each in asked]
        )
        played.person_ends()
        self.assertEqual((played.is_over, played.failure), (True, None))

    def test_pages(self) -> None:
        """A browser that goes somewhere gets a page; HEAD gets no body at all."""
        page = self.played(b"GET /admin HTTP/1.1\r\nHost: a\r\nsec-fetch-mode: Navigate\r\n\r\n")
        self.assertIn(b"Content-Type: text/html", page.person_heard)
        self.assertIn(b"<code>svc why ", page.person_heard)
        head = self.played(b"HEAD /admin HTTP/1.1\r\nHost: a\r\n\r\n", GET % b"/admin")
        _, second, _ = head.person_heard.split(b"\r\n\r\n")
        self.assertTrue(second.startswith(b"HTTP/1.1 403"))

    def test_refused(self) -> None:
        """What can be read in two ways gets 400 with the reason, and the target nothing of it."""
        for what, (raw, reason) in REFUSED.items():
            played = self.played(GET % b"/a", raw)
            self.assertEqual(played.target_heard, GET % b"/a", what)
            self.assertEqual(played.person_heard, b"", what)
            played.target_says(OK)
            self.assertEqual(statuses(played.person_heard), [200, 400], what)
            self.assertIn(
                f'{{"error": {{"reason": "{reason}", '.encode(), played.person_heard, what
            )
            self.assertIn(b"Connection: close\r\n", played.person_heard)
            played.person_says(GET % b"/b")
            self.assertEqual(played.target_heard, GET % b"/a", what)
            played.person_ends()
            self.assertEqual((played.is_over, played.failure), (True, None), what)
            self.assertEqual(len(played.records), 1)

    def test_taken(self) -> None:
        """What has one reading passes as it is."""
        for what, (raw, path) in TAKEN.items():
            played = self.played(raw)
            self.assertEqual(played.target_heard, b"" if path == "/admin" else raw, what)

    def test_bad_chunks(self) -> None:
        """A body whose end is doubtful ends the connection, with 400 unless an answer has begun."""
        for what, body in BAD_CHUNKS.items():
            played = self.played(put(body))
            self.assertEqual(statuses(played.person_heard), [400], what)
            played.person_ends()
            self.assertEqual((played.is_over, played.failure), (True, None), what)
            begun = self.played(put(b""))
            begun.target_says(OK[:-1])
            begun.person_says(body)
            assert begun.failure is not None, what
            self.assertTrue(begun.failure.check(Malformed), what)

    def test_the_last_request(self) -> None:
        """After a request that says so, nothing more is read, and the end is said."""
        last = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        played = self.played(last + GET % b"/b")
        self.assertEqual(played.target_heard, last)
        played.target_says(OK)
        self.assertEqual((played.person_heard, played.is_over), (OK, False))
        played.person_ends()
        self.assertEqual((played.is_over, played.failure), (True, None))
        self.assertEqual(len(played.records), 1)

    def test_a_person_who_leaves(self) -> None:
        """The target hears it before it has answered, and may answer all the same."""
        last = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        for asked in (GET % b"/a", last):
            played = self.played(asked)
            self.assertFalse(played.is_asked_no_more)
            played.person_ends()
            self.assertEqual((played.is_asked_no_more, played.is_over), (True, False))
            played.target_says(OK)
            self.assertEqual((played.person_heard, played.is_over), (OK, True))
            self.assertIsNone(played.failure)
        played = self.played(GET % b"/a", GET % b"/admin")
        played.person_ends()
        played.target_says(OK)
        self.assertEqual(statuses(played.person_heard), [200, 403])

    def test_a_target_that_closes(self) -> None:
        """The person hears the target's own end of a complete answer, which no Proxy can make."""
        last = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        closing = OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        for asked, answer in ((last, OK), (GET % b"/a", closing)):
            played = self.played(asked)
            played.target_says(answer)
            self.assertEqual((played.person_heard, played.is_answered), (answer, False))
            played.target_ends()
            said = played.is_over, played.failure, played.is_answered
            self.assertEqual(said, (True, None, True))

    def test_a_denied_body(self) -> None:
        """It is dropped to its end; one too long, or doubtful by Expect, ends the connection."""
        body = b"x" * 200_000
        played = self.played(posted(body)[:-100_000], body[-100_000:], GET % b"/a")
        self.assertEqual(played.target_heard, GET % b"/a")
        waits = self.played(posted(b"x", b"Expect: 100-continue")[:-1])
        self.assertIn(b"Connection: close\r\n", waits.person_heard)
        long = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (MOST_DROPPED + 1)
        played = self.played(long, b"x" * 100_000)
        self.assertIn(b"Connection: close\r\n", played.person_heard)
        self.assertEqual(played.target_heard, b"")
        bad = self.played(put(b"xyz\r\n").replace(b"PUT", b"POST"))
        self.assertEqual((statuses(bad.person_heard), bad.target_heard), ([403], b""))
        assert bad.failure is not None

    def test_interim_answers(self) -> None:
        """Several heads may come before an answer, but not any number."""
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        played = self.played(posted(b"", b"Expect: 100-continue").replace(b"POST", b"PUT"))
        played.target_says(interim + interim + OK)
        self.assertEqual(played.person_heard, interim + interim + OK)
        played = self.played(GET % b"/a")
        played.target_says(interim * 99)
        assert played.failure is not None
        self.assertTrue(played.failure.check(Malformed))

    def test_an_early_answer(self) -> None:
        """A target may answer before the body has come; the next request waits for its end."""
        played = self.played(put(b"3\r\nabc\r\n"))
        played.target_says(OK)
        self.assertEqual(played.person_heard, OK)
        played.person_says(b"0\r\n\r\n" + GET % b"/admin")
        self.assertEqual(statuses(played.person_heard), [200, 403])

    def test_bodies_of_answers(self) -> None:
        """HEAD, 204 and 304 have none, whatever they say; others end where they say."""
        for method, answer in (
            (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
            (b"GET", b"HTTP/1.1 204 No\r\n\r\n"),
            (b"GET", b"HTTP/1.1 304 Same\r\nContent-Length: 99\r\n\r\n"),
            (
                b"GET",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nT: 1\r\n\r\n",
            ),
        ):
            played = self.played((GET % b"/a").replace(b"GET", method) + GET % b"/admin")
            played.target_says(answer)
            self.assertTrue(played.person_heard.startswith(answer + b"HTTP/1.1 403"), answer)

    def test_to_the_end(self) -> None:
        """An answer without a length ends with the stream, and so does the connection."""
        answer = b"HTTP/1.1 200 OK\r\n\r\nsome"
        played = self.played(GET % b"/a")
        played.target_says(answer)
        played.target_ends()
        self.assertEqual((played.person_heard, played.is_over), (answer, True))
        self.assertIsNone(played.failure)

    def test_a_split_answer(self) -> None:
        """An answer that could be two is replaced, and the connection ends."""
        for what, answer in BAD_ANSWERS.items():
            played = self.played(GET % b"/a" + GET % b"/b")
            played.target_says(answer + OK)
            self.assertEqual(statuses(played.person_heard), [502], what)
            self.assertEqual((played.is_over, played.failure), (True, None), what)
            self.assertNotIn(b"\r\n\r\nhi", played.person_heard, what)

    def test_an_answer_that_nobody_asked_for(self) -> None:
        """It ends the session: the next request must not get it."""
        for said in (b"", GET % b"/admin"):
            played = self.played(said)
            played.target_says(OK)
            assert played.failure is not None
            self.assertTrue(played.failure.check(Malformed))
            self.assertNotIn(b"200", played.person_heard)

    def test_a_target_that_leaves(self) -> None:
        """Its end is the connection's end, at once."""
        played = self.played(GET % b"/a")
        played.target_says(OK)
        played.target_ends()
        self.assertEqual((played.is_over, played.failure), (True, None))

    def websocket(self, *after: bytes) -> PlayedSession:
        """A session in which a WebSocket was opened, and the target said so much on it."""
        played = self.played(UPGRADE)
        self.assertEqual(played.target_heard, UPGRADE)
        played.target_says(SWITCHED)
        for piece in after:
            played.target_says(piece)
        return played

    def test_a_websocket(self) -> None:
        """It is decided when it opens; then bytes pass both ways as they are."""
        played = self.websocket(b"\x81\x02hi")
        played.person_says(b"\x81\x82maskxy")
        self.assertEqual(played.target_heard, UPGRADE + b"\x81\x82maskxy")
        self.assertEqual(played.person_heard, SWITCHED + b"\x81\x02hi")
        (record,) = played.records
        assert record.request is not None
        self.assertIs(record.request.context["upgrade"], True)
        played.target_ends()
        self.assertEqual((played.is_over, played.failure), (True, None))

    def test_the_end_of_a_websocket(self) -> None:
        """The target hears that the person writes no more, and may still say its last word."""
        played = self.websocket()
        self.assertFalse(played.is_asked_no_more)
        played.person_ends()
        self.assertEqual((played.is_asked_no_more, played.is_over), (True, False))
        played.target_says(b"\x88\x00")
        self.assertEqual(played.person_heard, SWITCHED + b"\x88\x00")
        played.target_ends()
        self.assertEqual((played.is_over, played.failure), (True, None))

    def test_a_denied_websocket(self) -> None:
        """It is answered as any other request."""
        played = self.played(UPGRADE.replace(b"/ws", b"/admin"))
        self.assertEqual((statuses(played.person_heard), played.target_heard), ([403], b""))

    def test_early_frames(self) -> None:
        """What is sent before the target has answered waits, and is dropped where it refuses."""
        for answer, heard in ((SWITCHED, UPGRADE + b"\x81\x00"), (OK, UPGRADE)):
            played = self.played(UPGRADE, b"\x81\x00")
            self.assertEqual(played.target_heard, UPGRADE)
            played.target_says(answer)
            self.assertEqual((played.target_heard, played.person_heard), (heard, answer))

    def test_a_false_switch(self) -> None:
        """A 101 that nobody asked for, or that proves nothing, is none (CVE-2018-1002105)."""
        for said, answer in (
            (GET % b"/a", SWITCHED),
            (UPGRADE, SWITCHED.replace(b"s3pP", b"s3pQ")),
            (UPGRADE, SWITCHED.replace(b"websocket", b"h2c")),
        ):
            played = self.played(said, GET % b"/b")
            played.target_says(answer + GET % b"/c")
            self.assertEqual(statuses(played.person_heard), [502])
            self.assertEqual((played.is_over, played.failure), (True, None))

    def test_not_the_first(self) -> None:
        """A WebSocket has a connection of its own."""
        played = self.played(GET % b"/a", UPGRADE)
        played.target_says(OK)
        self.assertEqual(
            (statuses(played.person_heard), played.target_heard), ([200, 400], GET % b"/a")
        )

    def test_a_changed_policy(self) -> None:
        """It ends a WebSocket with 1008 and the reason, between two frames."""
        close = closing_frame(1008, "the policy no longer allows it (policy_changed)")
        played = self.websocket(b"\x81\x02hi")
        played.policy_changes(may)
        self.assertFalse(played.is_over)
        played.policy_changes(lambda action, context: False)
        self.assertTrue(played.is_over)
        self.assertEqual(played.person_heard, SWITCHED + b"\x81\x02hi" + close)
        amid = self.websocket(b"\x81\x02h")
        amid.policy_changes(lambda action, context: False)
        self.assertEqual((amid.is_over, amid.person_heard), (True, SWITCHED + b"\x81\x02h"))

    def test_a_changed_policy_for_requests(self) -> None:
        """One that waits is told; a stream is cut off; what has been answered concerns nobody."""
        events = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
        for answer, told in ((b"", [403]), (events, [200])):
            played = self.played(GET % b"/a")
            played.target_says(answer)
            played.policy_changes(lambda action, context: False)
            self.assertTrue(played.is_over)
            self.assertEqual(statuses(played.person_heard), told)
        played = self.played(GET % b"/a")
        played.target_says(OK)
        played.policy_changes(lambda action, context: False)
        self.assertFalse(played.is_over)

    def test_pipelined(self) -> None:
        """No more requests are read than a fixed number that wait for their answers."""
        played = self.played(GET % b"/a" * (MOST_OWED + 9))
        self.assertEqual(played.target_heard, GET % b"/a" * MOST_OWED)
        played.target_says(OK * MOST_OWED)
        self.assertEqual(played.target_heard, GET % b"/a" * (MOST_OWED + 9))

    @given(st.binary(max_size=300), st.binary(max_size=300))
    def test_any_bytes(self, said: bytes, answered: bytes) -> None:
        """Whatever either side sends is served or refused, and breaks nothing."""
        played = self.played(GET % b"/a", said)
        played.target_says(answered)
        played.target_says(OK)
        if played.failure is not None:
            self.assertTrue(played.failure.check(Malformed), played.failure)

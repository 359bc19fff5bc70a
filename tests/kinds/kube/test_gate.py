"""The gate in memory: API requests decided by their own words, and denials that kubectl reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SpoolFull, SvcError
from svc.policy.kind_terms import kind_terms
from svc.testing.contracts.kind import KindContract
from svc.testing.gating import PlayedSession
from tests.kinds.web.test_gate import OK, SWITCHED, statuses

PODS = b"/api/v1/namespaces/shop/pods"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
SPDY = (
    b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n"
)
SPDY_SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
)
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
REVIEWS = b"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def request(method: bytes, target: bytes, fields: bytes = b"") -> bytes:
    """One without a body."""
    return b"%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (method, target, fields)


def may(action: str, context: Mapping[str, Any]) -> bool:
    """The policy: nothing is deleted, and no secret is read."""
    is_secret = context.get("api_resource") == "secrets"
    return action == "k8sAccess" and context["verb"] != "delete" and not is_secret


class KubeTests(KindContract, SynchronousTestCase):
    """The contract of kinds, and the gate."""

    word = "kube"

    def setUp(self) -> None:
        token = Path(self.mktemp()).resolve()
        token.write_text("secret.token", "ascii")
        token.chmod(0o600)
        self.good_table = {
            "address": "10.0.0.1:6443",
            "token_file": str(token),
            "user_prefix": "svc:",
            "groups": ["people"],
            "person_groups": {"a" * 26: ["oncall"]},
            "uid": True,
            "extra": {"example.com/gateway": ["shop"]},
        }

    def played(self, *said: bytes) -> PlayedSession:
        """A session in which the person has said so much."""
        played = PlayedSession(self.kind, may)
        for piece in said:
            played.person_says(piece)
        return played

    def test_denied(self) -> None:
        """A denied request gets a Status that says Forbidden, and the connection lives on."""
        played = self.played(request(b"DELETE", PODS + b"/a"), request(b"GET", PODS))
        self.assertEqual(played.target_heard, request(b"GET", PODS))
        head, _, body = played.person_heard.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 403 Forbidden\r\n"))
        self.assertNotIn(b"Connection: close", head)
        told = json.loads(body)
        self.assertEqual(
            (told["kind"], told["apiVersion"], told["status"], told["reason"], told["code"]),
            ("Status", "v1", "Failure", "Forbidden", 403),
        )
        self.assertEqual([one["message"] for one in told["details"]["causes"]], ["played"])
        self.assertIn(f"svc why {played.records[0].decision_id}", told["message"])
        played.target_says(OK)
        self.assertTrue(played.person_heard.endswith(OK))

    def test_by_subresource(self) -> None:
        """An exec is no read though it is a GET; it is denied before anything is opened."""
        played = self.played(request(b"GET", PODS + b"/a/exec?command=ls", UPGRADE))
        self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [403]))

    def test_a_stream_of_another_api(self) -> None:
        """A console that some API offers by WebSocket leads around the gate; a log does not."""
        console = (
            b"/apis/subresources.kubevirt.io/v1/namespaces/x/virtualmachineinstances/vm/console"
        )
        for target, action in ((console, "k8sEscape"), (PODS + b"/a/log?follow=1", "k8sAccess")):
            asked: list[str] = []

            def allows(action: str, _context: Mapping[str, Any], asked: list[str] = asked) -> bool:
                asked.append(action)
                return False

            PlayedSession(self.kind, allows).person_says(request(b"GET", target, UPGRADE))
            self.assertEqual(set(asked), {action})

    def test_spdy(self) -> None:
        """It is decided by its subresource, and is denied as the WebSocket was."""
        played = self.played(request(b"POST", PODS + b"/a/exec", SPDY))
        self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [403]))
        self.assertEqual(len(played.records), 1)
        told = played.records[0].request
        assert told is not None
        self.assertEqual((told.action, told.context["opaque_upgrade"]), ("k8sExec", True))

    def test_spdy_for_another_purpose(self) -> None:
        """Whatever else asks for SPDY leads around the gate."""
        for target in (PODS, PODS + b"?watch=1", PODS + b"/a/log", b"/version"):
            asked: list[str] = []

            def allows(action: str, _context: Mapping[str, Any], asked: list[str] = asked) -> bool:
                asked.append(action)
                return False

            PlayedSession(self.kind, allows).person_says(request(b"GET", target, SPDY))
            self.assertEqual(asked, ["k8sEscape"])

    def test_after_the_switch(self) -> None:
        """Nothing that follows a request for another protocol passes before the target's 101."""
        for asked, switched in (
            (request(b"GET", PODS + b"/a/exec", UPGRADE), SWITCHED),
            (request(b"POST", PODS + b"/a/exec", SPDY), SPDY_SWITCHED),
        ):
            played = PlayedSession(self.kind, lambda action, context: True)
            played.person_says(asked + b"early")
            self.assertEqual(played.target_heard, asked)
            played.target_says(switched)
            played.person_says(b" late")
            self.assertEqual(played.target_heard, asked + b"early late")
            played.target_says(b"answer")
            self.assertEqual(played.person_heard, switched + b"answer")

    def test_a_switch_that_fails(self) -> None:
        """An answer that is no valid 101 leaves no connection on which another request could go."""
        bad = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
        for asked, other in (
            (request(b"GET", PODS + b"/a/exec", UPGRADE), SPDY_SWITCHED),
            (request(b"POST", PODS + b"/a/exec", SPDY), SWITCHED),
        ):
            for answer in (bad, other, b"HTTP/1.1 101 Switching Protocols\r\n\r\n", OK):
                played = PlayedSession(self.kind, lambda action, context: True)
                played.person_says(asked)
                played.target_says(answer)
                played.person_says(request(b"GET", b"/api/v1/namespaces/kube-system/secrets"))
                self.assertEqual(played.target_heard, asked, answer)
                played.person_ends()
                self.assertTrue(played.is_over, answer)

    def test_an_exec(self) -> None:
        """What is allowed is opened; when it no longer is, the error channel has a Status."""
        for spoken in (b"v4", b"v5"):
            played = PlayedSession(self.kind, lambda action, context: True)
            asked = request(b"GET", PODS + b"/a/exec?command=ls", UPGRADE)
            played.person_says(asked)
            self.assertEqual(played.target_heard, asked)
            field = b"Sec-WebSocket-Protocol: %s.channel.k8s.io\r\n\r\n" % spoken
            switched = SWITCHED.removesuffix(b"\r\n") + field
            played.target_says(switched + b"\x82\x03\x01hi")
            played.policy_changes(lambda action, context: action != "k8sExec")
            said = played.person_heard.removeprefix(switched + b"\x82\x03\x01hi")
            self.assertEqual(said[:2] + said[4:5], b"\x82\x7e\x03")
            told = json.loads(said[5:-4])
            self.assertEqual((told["reason"], told["code"]), ("Forbidden", 403))
            self.assertIn("policy_changed", told["message"])
            self.assertEqual(said[-4:], b"\x88\x02\x03\xe8")

    def test_a_stream_without_a_status(self) -> None:
        """One whose protocol has none is closed with the reason, as is one amid a message."""
        v5 = SWITCHED.removesuffix(b"\r\n") + b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
        for switched in (SWITCHED, v5 + b"\x02\x03\x01hi"):
            played = PlayedSession(self.kind, lambda action, context: True)
            played.person_says(request(b"GET", PODS + b"/a/exec", UPGRADE))
            played.target_says(switched)
            played.policy_changes(lambda action, context: action != "k8sExec")
            self.assertTrue(played.person_heard.startswith(switched + b"\x88"))
            self.assertIn(b"policy_changed", played.person_heard)

    def test_the_end_of_spdy(self) -> None:
        """Its stream of errors gets a Status, at the end of a frame and not amid one."""
        frame = b"\0\0\0\x05\0\0\0\x02hi"
        for answered, is_told in ((frame, True), (frame + frame[:9], False)):
            played = PlayedSession(self.kind, lambda action, context: True)
            played.person_says(request(b"POST", PODS + b"/a/exec", SPDY))
            played.target_says(SPDY_SWITCHED + answered)
            played.policy_changes(lambda action, context: action != "k8sExec")
            said = played.person_heard.removeprefix(SPDY_SWITCHED + answered)
            if is_told:
                self.assertEqual(said[:5], b"\0\0\0\x01\x01")
                self.assertEqual(int.from_bytes(said[5:8], "big"), len(said) - 8)
                self.assertIn("policy_changed", json.loads(said[8:])["message"])
            else:
                self.assertEqual(said, b"")
            self.assertTrue(played.is_over)

    def watched(self, answer: bytes) -> PlayedSession:
        """A watch that was broken off after this much of its answer."""
        played = self.played(request(b"GET", PODS + b"?watch=1"))
        played.target_says(answer)
        played.policy_changes(lambda action, context: context.get("verb") != "watch")
        self.assertTrue(played.is_over)
        return played

    def test_a_watch(self) -> None:
        """A watch that is no longer allowed ends with an event that says why."""
        for answer in (EVENTS, EVENTS + b"4\r\n{}\r\n\r\n", EVENTS + b"2\r\n{}\r\n1\r\n\n\r\n"):
            said = self.watched(answer).person_heard.removeprefix(answer)
            size, _, rest = said.partition(b"\r\n")
            event, end = rest[: int(size, 16)], rest[int(size, 16) :]
            told = json.loads(event)
            self.assertEqual((told["type"], told["object"]["kind"]), ("ERROR", "Status"))
            self.assertEqual((told["object"]["code"], told["object"]["reason"]), (403, "Forbidden"))
            self.assertIn("policy_changed", told["object"]["message"])
            self.assertEqual((event[-1:], end), (b"\n", b"\r\n0\r\n\r\n"))

    def test_a_watch_that_cannot_be_told(self) -> None:
        """Amid an event, or in another form, it is cut off and nothing is added."""
        protobuf = EVENTS.replace(b"application/json", b"application/vnd.kubernetes.protobuf")
        packed = EVENTS.replace(b"Transfer", b"Content-Encoding: gzip\r\nTransfer")
        for answer in (
            EVENTS + b"4\r\n{",
            EVENTS + b"2\r\n{}\r\n",
            EVENTS + b"2\r\n{\n",
            EVENTS + b"0\r\n",
            protobuf,
            packed,
            EVENTS.replace(b"Transfer-Encoding: chunked", b"Content-Length: 9"),
        ):
            self.assertEqual(self.watched(answer).person_heard, answer)

    def reviewed(self, body: bytes, head: bytes = b"Content-Type: application/json\r\n") -> Any:
        """A session in which this review has come."""
        length = b"Content-Length: %d\r\n" % len(body)
        return self.played(request(b"POST", REVIEWS, head + length) + body)

    def test_a_review(self) -> None:
        """What the policy would deny it answers by itself; of all else the cluster tells."""
        for about, is_asked in (
            ({"verb": "list", "resource": "pods", "namespace": "shop"}, True),
            ({"verb": "delete", "resource": "pods"}, False),
            ({"verb": "list", "resource": "secrets"}, False),
            ({"verb": "create", "resource": "pods", "subresource": "exec"}, False),
            ({"verb": "*", "resource": "*"}, False),
        ):
            body = json.dumps({"spec": {"resourceAttributes": about}}).encode()
            played = self.reviewed(body)
            self.assertEqual(played.target_heard.endswith(body), is_asked, about)
            self.assertEqual(played.target_heard == b"", not is_asked, about)
            (record,) = played.records
            if is_asked:
                self.assertEqual((played.person_heard, record.decision), (b"", "allow"))
                continue
            self.assertEqual((record.decision, record.reason), ("deny", "answered_here"))
            self.assertEqual(statuses(played.person_heard), [201])
            told = json.loads(played.person_heard.partition(b"\r\n\r\n")[2])
            self.assertEqual(told["kind"], "SelfSubjectAccessReview")
            self.assertIs(told["status"]["allowed"], False)
            played.person_says(request(b"GET", PODS))
            self.assertEqual(played.target_heard, request(b"GET", PODS))

    def test_a_review_without_a_policy(self) -> None:
        """While no decision is possible the answer is a denial, and the connection lives on."""

        def stale(action: str, context: Mapping[str, Any]) -> bool:
            raise SvcError("no fresh policy", reason="policy_stale")

        played = PlayedSession(self.kind, stale)
        body = b'{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}'
        length = b"Content-Length: %d\r\n" % len(body)
        played.person_says(request(b"POST", REVIEWS, length) + body)
        self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [403]))
        self.assertIsNone(played.failure)

    def test_a_review_that_cannot_be_recorded(self) -> None:
        """It is denied, and nothing passes on that connection any more."""
        played = PlayedSession(self.kind, lambda action, context: False)
        played.unrecordable = SpoolFull("the queue is full", retry_after=1.0)
        body = b'{"spec":{"resourceAttributes":{"verb":"delete","resource":"pods"}}}'
        length = b"Content-Length: %d\r\n" % len(body)
        played.person_says(request(b"POST", REVIEWS, length) + body + request(b"GET", PODS))
        self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [403]))
        self.assertEqual(played.records, [])

    def test_a_review_that_is_none(self) -> None:
        """What cannot be read is refused, and so is what comes in a form of unknown length."""
        for body in (
            b"",
            b"{}",
            b"[]",
            b'{"spec":{"resourceAttributes":{"verb":1}}}',
            b"k8s\0\xff",
        ):
            played = self.reviewed(body)
            self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [400]))
        for field in (b"Transfer-Encoding: chunked\r\n", b"Content-Length: 65537\r\n"):
            played = self.played(request(b"POST", REVIEWS, field))
            self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [400]))

    def test_refused(self) -> None:
        """What cannot be placed is answered with a Status too."""
        for said in (
            request(b"GET", PODS + b"?watch=0;watch=1"),
            request(b"GET", b"/api/v1/watch"),
        ):
            played = self.played(said)
            head, _, body = played.person_heard.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 400 Bad Request\r\n"), said)
            self.assertEqual(json.loads(body)["reason"], "BadRequest")
            self.assertEqual((played.target_heard, played.records), (b"", []))

    def test_guarded(self) -> None:
        """What leads around the gate is not in the group of ordinary use."""
        groups = {action.name: action.groups for action in kind_terms(self.kind.terms).actions}
        self.assertEqual(groups["k8sEscape"], ())
        self.assertEqual(groups["k8sExec"], ("use",))

"""The gate in memory: API requests decided by their own words, and denials that kubectl reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.policy.kind_terms import kind_terms
from svc.testing.contracts.kind import KindContract
from svc.testing.gating import PlayedSession
from tests.kinds.web.test_gate import OK, SWITCHED, statuses

PODS = b"/api/v1/namespaces/shop/pods"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


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
        spdy = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        played = self.played(request(b"POST", PODS + b"/a/exec", spdy))
        self.assertEqual((played.target_heard, statuses(played.person_heard)), (b"", [403]))
        self.assertEqual(len(played.records), 1)

    def test_an_exec(self) -> None:
        """What is allowed is opened, and ends when the policy no longer allows it."""
        played = PlayedSession(self.kind, lambda action, context: True)
        asked = request(b"GET", PODS + b"/a/exec?command=ls", UPGRADE)
        played.person_says(asked)
        self.assertEqual(played.target_heard, asked)
        played.target_says(SWITCHED)
        played.policy_changes(lambda action, context: action != "k8sExec")
        self.assertTrue(played.person_heard.startswith(SWITCHED + b"\x88"))
        self.assertIn(b"policy_changed", played.person_heard)

    def test_a_watch(self) -> None:
        """A watch that is no longer allowed is broken off."""
        played = self.played(request(b"GET", PODS + b"?watch=1"))
        played.target_says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
        played.policy_changes(lambda action, context: context.get("verb") != "watch")
        self.assertTrue(played.is_over)

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

"""The local endpoint: for tools and not for browsers, and found by a kubeconfig."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.client.resident.published.described import describe, forget
from svc.errors import Denied, SvcError
from svc.interfaces.kinds import ICheckedEndpoint, IDescribedEndpoint, INamedEndpoint
from svc.kinds.kube.kubeconfig import FIRST_LINE, kubeconfig
from svc.kinds.kube.local import LOCAL
from svc.kinds.web.words import ENDED, EVENTS, FORM, REASON, WEBSOCKET
from svc.model.policy.requested import COMMAND_OPTIONS
from svc.model.session.edits import SESSION_UID, Edit, StreamEdits

ADDRESS = "127.1.2.3:16443"


class LocalTests(SynchronousTestCase):
    def test_interfaces(self) -> None:
        """It checks and is described, and has no name for browsers."""
        verifyObject(ICheckedEndpoint, LOCAL)
        verifyObject(IDescribedEndpoint, LOCAL)
        self.assertFalse(INamedEndpoint.providedBy(LOCAL))

    def test_whether_to_try_again(self) -> None:
        """A Status of what nobody decided against is ServiceUnavailable, as is its close."""
        for reason, line, code in (
            ("policy_changed", "Forbidden", 1008),
            ("tunnel_transport_error", "ServiceUnavailable", 1013),
        ):
            values = {REASON: reason, FORM: EVENTS}
            event = StreamEdits(LOCAL.edits).announce(
                Edit(offset=0, size=0, name=ENDED, values=values)
            )
            status = json.loads(event.split(b"\r\n")[1])["object"]
            self.assertEqual(
                (status["reason"], status["code"]), (line, 403 if line == "Forbidden" else 503)
            )
            values = {REASON: reason, FORM: WEBSOCKET}
            frame = StreamEdits(LOCAL.edits).announce(
                Edit(offset=0, size=0, name=ENDED, values=values)
            )
            self.assertEqual((frame[0], int.from_bytes(frame[2:4], "big")), (0x88, code))

    def test_an_end(self) -> None:
        """Whoever waits when the connection is ended is told what to type to see why."""
        values = {REASON: "policy_changed", SESSION_UID: "5" * 32, COMMAND_OPTIONS: " --dir b"}
        edit = Edit(offset=0, size=0, name=ENDED, values=values)
        said = StreamEdits(LOCAL.edits).announce(edit).decode()
        self.assertIn(f"(policy_changed); to see why: svc why {'5' * 32} --dir b", said)

    def test_browsers(self) -> None:
        """What a page has sent is refused, on the port and on the socket."""
        for field in (
            b"Origin: http://127.1.2.3:16443",
            b"Cookie: a=b",
            b"Sec-Fetch-Site: none",
            b"sec-fetch-mode: navigate",
        ):
            for names in ({ADDRESS: "k"}, None):
                check = LOCAL.check(names, "k")
                said = b"GET /api HTTP/1.1\r\nHost: 127.1.2.3:16443\r\n" + field + b"\r\n\r\n"
                refusal = self.assertRaises(SvcError, check.heard, said)
                self.assertEqual((refusal.reason, check.resource), ("cross_site", ""))
                self.assertTrue(check.refused(refusal).startswith(b"HTTP/1.1 403 "))

    def test_the_origin_of_a_tool(self) -> None:
        """A WebSocket of a program may name the address itself as its origin, and no page can."""
        upgrade = (
            b"Connection: Upgrade",
            b"Upgrade: websocket",
            b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )
        own = b"Origin: http://127.1.2.3:16443"
        for fields, passes in (
            ((*upgrade, own), True),
            ((*upgrade, own, b"User-Agent: python"), True),
            ((own,), False),
            ((*upgrade, b"Origin: https://127.1.2.3:16443"), False),
            ((*upgrade, b"Origin: http://evil.example"), False),
            ((*upgrade, b"Origin: null"), False),
            ((*upgrade, own, own), False),
            ((*upgrade, own, b"Origin: http://evil.example"), False),
            ((*upgrade, own, b"Cookie: a=b"), False),
            ((*upgrade, own, b"Sec-Fetch-Mode: websocket"), False),
            ((*upgrade, own, b"User-Agent: Mozilla/5.0 (X11)"), False),
        ):
            check = LOCAL.check({ADDRESS: "k"}, "k")
            head = (b"GET /api HTTP/1.1", b"Host: 127.1.2.3:16443", *fields, b"", b"")
            if passes:
                check.heard(b"\r\n".join(head))
            else:
                refusal = self.assertRaises(SvcError, check.heard, b"\r\n".join(head))
                self.assertEqual(refusal.reason, "cross_site", fields)

    def test_tools(self) -> None:
        """A tool names the address, and no other."""
        for host, passes in ((ADDRESS, True), ("other:16443", False)):
            check = LOCAL.check({ADDRESS: "k"}, "k")
            said = f"GET /api HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            if passes:
                check.heard(said)
                self.assertEqual(check.resource, "k")
            else:
                self.assertRaises(SvcError, check.heard, said)

    def test_a_session_that_does_not_open(self) -> None:
        """A tool reads why as from the API server."""
        check = LOCAL.check(None, "k")
        denied = Denied("not allowed", details={"policies": "shut,late", "decision_id": "d" * 32})
        for error, code, reason in (
            (denied, 403, "Forbidden"),
            (SvcError("no Connector", reason="no_connector"), 503, "ServiceUnavailable"),
        ):
            head, _, body = check.refused(error).partition(b"\r\n\r\n")
            told = json.loads(body)
            self.assertTrue(head.startswith(b"HTTP/1.1 %d " % code))
            self.assertEqual((told["kind"], told["reason"], told["code"]), ("Status", reason, code))
        told = json.loads(check.refused(denied).partition(b"\r\n\r\n")[2])
        self.assertEqual([one["message"] for one in told["details"]["causes"]], ["shut", "late"])
        self.assertIn("svc why " + "d" * 32, told["message"])
        asked = {"decision_id": "d" * 32, "request": "svc request k", COMMAND_OPTIONS: " --dir b"}
        answer = check.refused(Denied("no", details=asked))
        said = json.loads(answer.partition(b"\r\n\r\n")[2])["message"]
        self.assertIn("svc request k --dir b; to see why: svc why " + "d" * 32 + " --dir b", said)

    def test_several_clusters(self) -> None:
        """A context for each, in the order of their names; none is in use by itself."""
        said = kubeconfig({"prod": ADDRESS, "dev": "127.9.9.9:1"}).decode("ascii")
        self.assertTrue(said.startswith(FIRST_LINE))
        self.assertLess(said.index('"svc-dev"'), said.index('"svc-prod"'))
        self.assertEqual(said.count("    cluster: "), 2)
        self.assertNotIn("current-context", said)
        self.assertIn("contexts: []", kubeconfig({}).decode("ascii"))

    def test_kubeconfig(self) -> None:
        """It names the address and no credential, is the person's alone, and goes again."""
        state = Path(self.mktemp())
        state.mkdir()
        path = state / "kube" / "prod.yaml"
        named = {"cluster": "acme", "resource": "prod"}
        self.assertEqual(describe(state, LOCAL, **named, address=ADDRESS), "")
        self.assertEqual(
            (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777), (0o600, 0o700)
        )
        said = path.read_text("ascii")
        self.assertIn(f'server: "http://{ADDRESS}"\n', said)
        self.assertIn("user: {}\n", said)
        written = path.stat().st_ino
        describe(state, LOCAL, **named, address=ADDRESS)
        self.assertEqual(path.stat().st_ino, written)
        describe(state, LOCAL, **named, address="127.9.9.9:1")
        self.assertIn("127.9.9.9:1", path.read_text("ascii"))
        forget(state, LOCAL, "prod")
        forget(state, LOCAL, "prod")
        self.assertFalse(path.exists())
        path.mkdir()
        problem = describe(state, LOCAL, **named, address=ADDRESS)
        self.assertIn(str(path), problem)
        forget(state, LOCAL, "prod")

"""The answers that are worded at the person's machine: they take nothing away of the target's."""

from __future__ import annotations

from itertools import product

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.web.local import LOCAL
from svc.kinds.web.words import (
    BAD_ANSWER,
    DECISION,
    DENIED,
    ENDED,
    FORM,
    PAGE,
    REASON,
    REFUSED,
    REQUEST,
    WEBSOCKET,
)
from svc.model.policy.requested import COMMAND_OPTIONS
from svc.model.session.edits import SESSION_UID, Edit, StreamEdits

POLICY = b"Content-Security-Policy: x\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + POLICY + b"\r\nhi"


def received(edit: Edit) -> bytes:
    """What a person's program gets of an answer that the Proxy wants edited."""
    edits = StreamEdits(LOCAL.edits)
    return edits.announce(edit) + edits.apply(ANSWER)


class InsertionTests(SynchronousTestCase):
    def test_nothing_is_replaced(self) -> None:
        """A Proxy cannot remove a header, or any other bytes, of an answer by any of the edits."""
        self.assertEqual(set(LOCAL.edits), {DENIED, REFUSED, BAD_ANSWER, ENDED})
        for name, values in product(LOCAL.edits, ({}, {FORM: WEBSOCKET})):
            edit = Edit(offset=ANSWER.index(POLICY), size=len(POLICY), name=name, values=values)
            self.assertRaises(Malformed, received, edit)

    def test_whether_to_try_again(self) -> None:
        """An end that nobody decided on says that another try may help."""
        for reason, code, status in (
            ("policy_changed", 1008, b"403 Forbidden"),
            ("grant_ended", 1008, b"403 Forbidden"),
            ("tunnel_transport_error", 1013, b"503 Service Unavailable"),
            ("draining", 1013, b"503 Service Unavailable"),
            ("invented", 1008, b"403 Forbidden"),
        ):
            values = {REASON: reason, FORM: WEBSOCKET}
            frame = StreamEdits(LOCAL.edits).announce(
                Edit(offset=0, size=0, name=ENDED, values=values)
            )
            self.assertEqual((frame[0], int.from_bytes(frame[2:4], "big")), (0x88, code), reason)
            said = StreamEdits(LOCAL.edits).announce(
                Edit(offset=0, size=0, name=ENDED, values={REASON: reason})
            )
            self.assertTrue(said.startswith(b"HTTP/1.1 " + status), reason)

    def test_of_whom(self) -> None:
        """Commands end with the options by which they use the identity that was denied."""
        values = {DECISION: "d" * 32, REQUEST: "svc request board", COMMAND_OPTIONS: " --dir '<b>'"}
        for form, told in (
            ("", [f"svc why {'d' * 32} --dir '<b>'", "svc request board --dir '<b>'"]),
            (
                PAGE,
                [f"svc why {'d' * 32} --dir &#x27;&lt;b", "svc request board --dir &#x27;&lt;b"],
            ),
        ):
            edit = Edit(offset=0, size=0, name=DENIED, values={FORM: form, **values})
            said = StreamEdits(LOCAL.edits).announce(edit).decode()
            for command in told:
                self.assertIn(command, said)

    def test_an_end(self) -> None:
        """Whoever waits when the connection is ended is told what to type to see why."""
        values = {REASON: "policy_changed", SESSION_UID: "5" * 32, COMMAND_OPTIONS: " --dir b"}
        edit = Edit(offset=0, size=0, name=ENDED, values=values)
        said = StreamEdits(LOCAL.edits).announce(edit).decode()
        self.assertIn(f"svc why {'5' * 32} --dir b", said)

    def test_inserted(self) -> None:
        """Between answers each of them is one more."""
        for name in LOCAL.edits:
            edits = StreamEdits(LOCAL.edits)
            passed = edits.apply(ANSWER) + edits.announce(Edit(len(ANSWER), 0, name))
            self.assertTrue(passed.startswith(ANSWER + b"HTTP/1.1 "), name)

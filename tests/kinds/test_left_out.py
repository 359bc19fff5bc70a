"""What a Proxy that was taken over may leave out of a web or PostgreSQL session: whole requests."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.drop_ins import KindSide, load_kinds
from svc.errors import Malformed
from svc.interfaces.kinds import request_reader
from svc.model.session.edits import Edit, StreamEdits
from svc.model.session.frames import FrameChecker, FrameTagger, read_tagged
from svc.model.session.gated import GatedReceiver, GateNote
from svc.model.session.ranges import RangeDecision, RequestChain
from tests.kinds.postgres.talk import SYNC, bind, execute, parse, query

KEY = bytes(32)
KINDS = load_kinds(["postgres", "web"], *KindSide).by_name

DELETE = b"DELETE /items/42 HTTP/1.1\r\nHost: a\r\n\r\n"
HIDDEN = b"DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (5 + len(HIDDEN))


class LeftOutTests(SynchronousTestCase):
    def received(self, kind: str, data: bytes, *notes: GateNote) -> bytes:
        dialer = KINDS[kind].dialer
        chain = RequestChain("1" * 32, request_reader(dialer))
        receiver = GatedReceiver(FrameChecker(KEY), StreamEdits(dialer.edits), chain)
        receiver.frame(read_tagged(b"".join(FrameTagger(KEY).data(data))))
        heard = b""
        for note in notes:
            receiver.note(note)
            heard += receiver.released()
        return heard

    def refused(self, kind: str, data: bytes, *notes: GateNote) -> str:
        error = self.assertRaises(Malformed, self.received, kind, data, *notes)
        return str(error.reason)

    def test_a_part_of_a_path(self) -> None:
        """``/items/42`` does not become ``/items``, allowed or denied."""
        at = DELETE.index(b"/42")
        for decisions in (
            (RangeDecision(1, 0, len(DELETE), allowed=True),),
            (
                RangeDecision(1, 0, at, allowed=True),
                RangeDecision(2, at, 3, allowed=False),
            ),
        ):
            note = GateNote(len(DELETE), decisions, (Edit(at, 3, "drop"),))
            self.assertEqual(self.refused("web", DELETE, note), "decision_refused")

    def test_a_body_does_not_become_a_request(self) -> None:
        """The head and the beginning of a body are left out; its rest would be a request."""
        data, size = POST + b"abcde" + HIDDEN, len(POST) + 5
        denied = RangeDecision(1, 0, len(POST), allowed=False)
        hidden = RangeDecision(2, size, len(HIDDEN), allowed=True)
        for decisions in ((denied,), (denied, hidden)):
            note = GateNote(len(data), decisions, (Edit(0, size, "drop"),))
            self.assertEqual(self.refused("web", data, note), "decision_refused")
        note = GateNote(len(data), (denied,), (Edit(0, len(data), "drop"),))
        self.assertEqual(self.received("web", data, note), b"")

    def test_undecided(self) -> None:
        """Neither a head nor a statement passes without a decision."""
        for kind, data in (
            ("web", DELETE),
            ("postgres", query("DROP TABLE a")),
            ("postgres", parse("", "SELECT 1")),
            ("postgres", bind("", "s")),
            ("postgres", execute()),
        ):
            reason = self.refused(kind, data, GateNote(len(data)))
            self.assertEqual(reason, "decision_missing")

    def test_statements_are_not_composed(self) -> None:
        """Neither of a statement's bytes nor of a batch's messages."""
        asked = query("DELETE FROM a WHERE id = 1")
        allowed = RangeDecision(1, 0, len(asked), allowed=True)
        note = GateNote(len(asked), (allowed,), (Edit(18, 13, "drop"),))
        self.assertEqual(self.refused("postgres", asked, note), "decision_refused")
        first, rest = query("BEGIN"), query("DELETE FROM a") + SYNC
        note = GateNote(
            len(first + rest),
            (RangeDecision(1, len(first), len(rest) - len(SYNC), allowed=True),),
            (Edit(0, len(first), "drop"),),
        )
        self.assertEqual(self.refused("postgres", first + rest, note), "decision_refused")

"""The words of a session's end, and what of a peer's is shown."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.messages.session import read_explanation
from svc.model.session.ending import ENDINGS, SessionOver, grant_ending
from svc.model.session.tunnels import Miss
from svc.proto.gate.v1 import session_pb2 as pb
from svc.proto.gate.v1.stream_pb2 import StreamEnd, StreamFrame, StreamSignal
from svc.rpc.frames import FrameKind, end_frame, parse_frame, read_end
from svc.tunnel.refusals import CONNECTOR_WORDS

DECISION = "d0" * 16
ENDED = "2026-11-24T08:07:03Z"


class EndingsTests(SynchronousTestCase):
    def test_travels(self) -> None:
        """Every word and the decision id arrive as they were sent."""
        for word in ENDINGS:
            over = SessionOver(word, DECISION)
            kind, payload = parse_frame(end_frame(over))
            self.assertEqual((kind, read_end(payload)), (FrameKind.END, over))

    def test_a_peers_own_text(self) -> None:
        """Text of a peer's own is neither a reason nor a decision id."""
        end = StreamEnd(reason="\x1b]0;owned\x07", decision_id="\x1b[2J" + "0" * 28)
        _, payload = parse_frame(StreamFrame(end=end).SerializeToString())
        self.assertEqual(read_end(payload), SessionOver("not_told"))

    def test_of_an_explanation(self) -> None:
        """The reason that `svc why` shows is one of the words, too."""
        told = read_explanation(
            pb.SessionWhyResponse(session_ended=ENDED, session_reason="\x1b[31mred")
        )
        self.assertEqual(told.session_reason, "not_told")

    def test_of_a_session_that_goes_on(self) -> None:
        """A session that has not ended has no reason, whatever the peer says."""
        told = read_explanation(pb.SessionWhyResponse(session_reason="denied"))
        self.assertEqual(told.session_reason, "")

    def test_of_a_session_that_was_not_opened(self) -> None:
        """Whatever a Connector or a Proxy does not open a session for has its sentence."""
        words = {*CONNECTOR_WORDS, *(miss.value for miss in Miss), "open_deadline"}
        for word in words:
            told = read_explanation(pb.SessionWhyResponse(session_ended=ENDED, session_reason=word))
            self.assertEqual(told.session_reason, word)

    def test_a_signal_is_passed_over(self) -> None:
        """A signal is no frame that a stream of today acts on."""
        frame = StreamFrame(signal=StreamSignal(cancel={}))
        self.assertEqual(parse_frame(frame.SerializeToString()), (FrameKind.EMPTY, b""))

    def test_grant(self) -> None:
        """A grant that goes up to its certificate's end ends with the certificate."""
        self.assertEqual(grant_ending(100_000, 100.0), "certificate_ended")
        self.assertEqual(grant_ending(99_999, 100.0), "grant_ended")

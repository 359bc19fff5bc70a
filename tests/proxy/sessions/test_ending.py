"""What a Connector says as it ends a session is found among the bytes that pass."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.model.session.ending import SessionOver
from svc.proxy.sessions.ending import EndFrameReader
from svc.rpc.frames import data_frame, end_frame


def message(frame: bytes) -> bytes:
    """A frame as gRPC sends it."""
    return b"\0" + len(frame).to_bytes(4, "big") + frame


END = message(end_frame(SessionOver("connector_stopping")))


class LastWordTests(SynchronousTestCase):
    def heard(self, data: bytes, size: int) -> str:
        """The reason after *data* in chunks of *size*."""
        last = EndFrameReader()
        for start in range(0, len(data), size):
            last.passed(data[start : start + size])
        return last.reason

    def test_in_any_chunks(self) -> None:
        """It is found behind short and long messages, however the bytes are cut up."""
        data = message(b"") + message(data_frame(b"x")) + message(data_frame(bytes(300))) + END
        for size in (1, 2, 5, 7, 64, len(data)):
            self.assertEqual(self.heard(data, size), "connector_stopping")

    def test_content_is_not_read(self) -> None:
        """Bytes of a session that look like an end are no end."""
        for content in (END, bytes(200) + END, END + bytes(200)):
            self.assertEqual(self.heard(message(data_frame(content)), 16), "")

    def test_believed_in_its_own_matters(self) -> None:
        """A Connector cannot say that the policy or a Proxy ended a session."""
        for word in ("policy_changed", "proxy_gone", "closed"):
            self.assertEqual(self.heard(message(end_frame(SessionOver(word))), 64), "broken")

    def test_a_tool_that_took_no_leave(self) -> None:
        """Where it ends the protocol, a Connector alone knows that the person's tool was killed."""
        self.assertEqual(self.heard(message(end_frame(SessionOver("cancelled"))), 64), "cancelled")

    def test_garbage(self) -> None:
        """A message that is no frame is passed over."""
        self.assertEqual(self.heard(message(b"\x2a\x05ab"), 64), "")

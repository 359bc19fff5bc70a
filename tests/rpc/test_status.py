"""Refusals as gRPC statuses, there and back."""

from __future__ import annotations

from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as RichStatus
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Fault, SvcError
from svc.rpc.status import DOMAIN, MAX_RETRY_SECS, refusal_of, status_of
from svc.wire.status import Code, Status

SECONDS = st.none() | st.floats(0, MAX_RETRY_SECS)


def told(*details: Message) -> SvcError:
    """What a peer's status with these details is read as."""
    rich = RichStatus(code=8, message="no")
    for one in details:
        rich.details.add().Pack(one)
    return refusal_of(Status(Code.RESOURCE_EXHAUSTED, "no", rich.SerializeToString()))


class StatusTests(SynchronousTestCase):
    @given(st.sampled_from(Fault), st.text(), st.sampled_from(("a", "b_c")), SECONDS)
    def test_there_and_back(
        self, fault: Fault, text: str, reason: str, retry_after: float | None
    ) -> None:
        """Fault, sentence, reason, details and when to ask again arrive as they were."""
        sent = SvcError(
            text, reason=reason, fault=fault, details={"k": text}, retry_after=retry_after
        )
        got = refusal_of(status_of(sent))
        self.assertEqual((got.fault, got.text), (fault, text or reason))
        self.assertEqual((got.reason, got.details), (reason, {"k": text}))
        if retry_after is None or got.retry_after is None:
            self.assertIs(got.retry_after, retry_after)
        else:
            self.assertAlmostEqual(got.retry_after, retry_after, 6)

    @given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
    def test_absurd_waits(self, seconds: int, nanos: int) -> None:
        """A peer's wait counts for an hour at most, and for nothing where it lies in the past."""
        again = RetryInfo()
        again.retry_delay.seconds, again.retry_delay.nanos = seconds, nanos
        wait = told(again).retry_after
        assert wait is not None
        self.assertGreaterEqual(wait, 0.0)
        self.assertLessEqual(wait, MAX_RETRY_SECS)

    def test_details_of_others(self) -> None:
        """An ErrorInfo of another domain is not ours; a RetryInfo is anybody's."""
        again = RetryInfo()
        again.retry_delay.seconds = 3
        foreign = ErrorInfo(reason="quota", domain="elsewhere.example")
        got = told(
            foreign,
            again,
            ErrorInfo(reason="first", domain=DOMAIN),
            ErrorInfo(reason="second", domain=DOMAIN),
        )
        self.assertEqual((got.reason, got.retry_after), ("first", 3.0))
        self.assertEqual(told(foreign).reason, "resource_exhausted")

    @given(st.binary())
    def test_unreadable(self, details: bytes) -> None:
        """Whatever bytes a peer calls details, its status is read."""
        got = refusal_of(Status(Code.RESOURCE_EXHAUSTED, "no", details))
        self.assertEqual((got.fault, got.text), (Fault.EXHAUSTED, "no"))

"""Tokens at the Connector: kept for a while, fetched over one connection, or not to be had."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.identity import MOST_KEPT, AuthorityIdentities, SessionIdentity
from svc.errors import Denied, Fault, SvcError, Unavailable, Unprocessed
from svc.messages.identity import TokenAsk
from svc.model.session.identity import CACHED_SECS
from svc.model.signing import Signed
from svc.proto.gate.v1 import identity_pb2 as pb
from svc.runtime.services import BackgroundTasks
from tests.authority.house import value_of

GRANT = Signed(b"grant", b"signature", (b"leaf",))


class KeptTests(SynchronousTestCase):
    """One session."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.asked: list[str] = []
        self.refusal: SvcError | None = None
        self.made = SessionIdentity(GRANT, self.ask, self.clock)

    async def ask(self, ask: TokenAsk) -> bytes:
        self.assertEqual(ask.grant, GRANT)
        self.asked.append(ask.named)
        if self.refusal is not None:
            raise self.refusal
        return b"%d" % len(self.asked)

    def token(self, named: str = "") -> bytes:
        return value_of(self.made.token(named))  # type: ignore[no-any-return]

    def test_kept(self) -> None:
        """One for each person who is named, for half a minute."""
        self.assertEqual([self.token(), self.token(), self.token("bob")], [b"1", b"1", b"2"])
        self.clock.advance(CACHED_SECS - 1)
        self.assertEqual([self.token(), self.token("bob")], [b"1", b"2"])
        self.clock.advance(1)
        self.assertEqual([self.token("bob"), self.token()], [b"3", b"4"])

    def test_refused(self) -> None:
        """A refusal is not kept, and neither is the token of before."""
        self.token()
        self.clock.advance(CACHED_SECS)
        self.refusal = Denied("no", reason="session_over")
        for _ in range(2):
            with self.assertRaises(Denied):
                self.token()
        self.assertEqual(len(self.asked), 3)

    def test_many(self) -> None:
        """Somebody who names everybody fills no memory."""
        for n in range(3 * MOST_KEPT):
            self.token(f"p{n}")
        self.assertLessEqual(len(self.made._kept), MOST_KEPT)


class Channel:
    """A connection to Authority whose answers the test gives."""

    def __init__(self, case: LaneTests) -> None:
        self.case = case
        self.is_closed = False

    async def unary(self, method: str, request: Any, *_: Any, timeout: float) -> Any:
        self.case.asked.append((self, request.named))
        answer = self.case.answers.pop(0) if self.case.answers else "a.b.c"
        if isinstance(answer, Deferred):
            answer = await answer
        if isinstance(answer, SvcError):
            raise answer
        return pb.IdentityResponse(token=answer)

    async def close(self) -> None:
        self.is_closed = True


class LaneTests(SynchronousTestCase):
    """Every session of a Connector."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.made: list[Channel] = []
        self.asked: list[tuple[Channel, str]] = []
        self.answers: list[Any] = []
        self.is_deaf = False
        tasks = BackgroundTasks()
        self.identities = AuthorityIdentities(self.dial, self.clock, tasks.spawn)

    async def dial(self) -> Any:
        if self.is_deaf:
            await Deferred()
        self.made.append(Channel(self))
        return self.made[-1]

    def ask(self, named: str = "") -> Any:
        return Deferred.fromCoroutine(self.identities.ask(TokenAsk(GRANT, named)))

    def test_one_connection(self) -> None:
        """Calls share a connection, which is closed when nobody asks, and made again in time."""
        for _ in range(3):
            self.assertEqual(self.successResultOf(self.ask()), b"a.b.c")
        self.assertEqual(len(self.made), 1)
        self.clock.advance(15)
        self.assertTrue(self.made[0].is_closed)
        for _ in range(6):
            self.successResultOf(self.ask())
            self.clock.advance(10)
        # It is over before the Proxy ends the lane.
        self.assertEqual(len(self.made), 3)
        value_of(self.identities.stop())
        self.assertTrue(all(one.is_closed for one in self.made))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_lane_that_ended(self) -> None:
        """A call that Authority never saw is made again, once, over another connection."""
        self.successResultOf(self.ask())
        self.answers = [Unprocessed("gone")]
        self.assertEqual(self.successResultOf(self.ask("bob")), b"a.b.c")
        self.assertEqual([one.is_closed for one in self.made], [True, False])
        self.answers = [Unprocessed("gone"), Unprocessed("gone")]
        self.assertEqual(self.failureResultOf(self.ask()).value.reason, "identity_unavailable")

    def test_refusals(self) -> None:
        """Authority's own are passed on; whatever else goes wrong has one word."""
        self.answers = [SvcError("no", reason="identity_denied", fault=Fault.DENIED)]
        self.assertEqual(self.failureResultOf(self.ask()).value.reason, "identity_denied")
        for failure in (Unavailable("down"), SvcError("bug"), "not a token"):
            self.answers = [failure]
            found = self.failureResultOf(self.ask(), Unavailable).value
            self.assertEqual(found.reason, "identity_unavailable")

    def test_silence(self) -> None:
        """Nobody waits for ever, neither for an answer nor for the connection."""
        self.answers = [Deferred()]
        asking = self.ask()
        self.clock.advance(10)
        self.assertEqual(self.failureResultOf(asking).value.reason, "identity_unavailable")
        value_of(self.identities.stop())
        self.is_deaf = True
        several = [self.ask(), self.ask()]
        self.clock.advance(10)
        for asking in several:
            self.assertEqual(self.failureResultOf(asking).value.reason, "identity_unavailable")

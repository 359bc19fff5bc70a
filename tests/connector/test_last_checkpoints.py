"""The last checkpoint of a session reaches Authority, though its Proxy is gone."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.last_checkpoints import (
    AGAIN_SECS,
    ANSWER_SECS,
    KEPT_SECS,
    MAX_KEPT,
    LastCheckpoints,
)
from svc.errors import Fault, SvcError
from svc.messages.gated import CheckpointAnswer, decode_checkpoint
from svc.model.session.checkpoint import SessionCheckpoint
from svc.model.signing import Signed
from svc.runtime.services import BackgroundTasks


class Link:
    """To a Proxy that takes checkpoints, or loses them, or says nothing."""

    def __init__(self, mood: str = "takes", proxy_id: str = "own") -> None:
        self.mood = mood
        self.proxy_id = proxy_id
        self.taken: list[str] = []

    async def checkpoint(self, signed: Signed) -> CheckpointAnswer:
        """See CheckpointLink."""
        if self.mood == "is silent":
            await Deferred()
        if self.mood == "is away":
            raise SvcError("Authority is not reached", reason="away", fault=Fault.UNAVAILABLE)
        if self.mood == "takes another" and not self.taken:
            self.mood = "takes"
            raise SvcError("not of this session", reason="refused", fault=Fault.DENIED)
        if self.mood == "is gone":
            raise SvcError("the connection is closed", reason="closed")
        self.taken.append(decode_checkpoint(signed.payload).session_uid)
        return CheckpointAnswer()


class LastCheckpointTests(SynchronousTestCase):
    """Of one Connector."""

    def setUp(self) -> None:
        """One Connector that signs."""
        self.clock = Clock()
        self.last = LastCheckpoints(
            lambda data: Signed(data, b"signature", ()), self.clock, BackgroundTasks()
        )

    def bring(self, link: Link, uid: str = "1" * 32) -> None:
        """The session is over."""
        one = SessionCheckpoint(
            cluster="c",
            session_uid=uid,
            connector_id="n",
            n=1,
            decisions=0,
            head=bytes(32),
            is_last=True,
        )
        self.bringing = Deferred.fromCoroutine(self.last.bring(one, link))
        self.bringing.addErrback(self.fail)

    def test_by_its_own_proxy(self) -> None:
        """It goes over the session's own connection, and no other."""
        own, other = Link(), Link(proxy_id="other")
        self.last.came(own)
        self.last.came(other)
        self.bring(own)
        self.assertEqual((len(own.taken), len(other.taken)), (1, 0))

    def test_by_another(self) -> None:
        """Where that is gone, or says nothing, another one takes it."""
        for mood, seconds in (("is gone", 0.0), ("is silent", ANSWER_SECS)):
            self.setUp()
            own, other = Link(mood), Link(proxy_id="other")
            self.last.came(other)
            self.bring(own)
            self.clock.advance(seconds)
            self.assertEqual(other.taken, ["1" * 32])
            self.successResultOf(Deferred.fromCoroutine(self.last.told()))

    def test_by_one_that_comes_later(self) -> None:
        """Where there is none, the same one takes it when it is back, once."""
        own = Link("is gone")
        self.last.came(own)
        self.bring(own)
        self.last.left(own)
        self.last.left(own)
        again, third = Link(), Link(proxy_id="third")
        self.clock.advance(KEPT_SECS - 1)
        self.last.came(again)
        self.last.came(third)
        self.assertEqual((again.taken, third.taken), (["1" * 32], []))

    def test_another_that_lies(self) -> None:
        """A Proxy that only says that it took it keeps it from nobody: others are asked too."""
        own, liar, other = Link("is gone"), Link(proxy_id="liar"), Link(proxy_id="other")
        self.last.came(liar)
        self.last.came(other)
        self.bring(own)
        self.assertEqual((len(liar.taken), len(other.taken)), (1, 1))
        self.successResultOf(Deferred.fromCoroutine(self.last.told()))

    def test_its_own_is_asked_when_it_is_back(self) -> None:
        """That of the session brings it itself, whoever says that it was taken; then it is over."""
        liar, back, third = Link(proxy_id="liar"), Link(), Link(proxy_id="third")
        self.last.came(liar)
        self.bring(Link("is gone"))
        self.clock.pump([AGAIN_SECS] * 3)
        self.assertEqual(len(liar.taken), 1, "it is not told again")
        self.last.came(back)
        self.last.came(third)
        self.assertEqual((len(back.taken), len(third.taken)), (1, 0))
        self.clock.pump([AGAIN_SECS] * 3)
        self.assertEqual((len(back.taken), len(liar.taken)), (1, 1))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_taken_ones_make_room(self) -> None:
        """Where too many are kept, one that another Proxy has taken goes first."""
        self.bring(Link("is gone"), "f" * 32)
        other = Link(proxy_id="other")
        self.last.came(other)
        self.last.left(other)
        for n in range(MAX_KEPT):
            self.bring(Link("is gone"), f"{n:032x}")
        back = Link()
        self.last.came(back)
        self.assertEqual(back.taken, [f"{n:032x}" for n in range(MAX_KEPT)])

    def test_by_one_that_came_meanwhile(self) -> None:
        """One that registers us while another keeps us waiting is asked after it."""
        own, back = Link("is silent"), Link()
        self.bring(own)
        self.last.came(back)
        self.clock.advance(ANSWER_SECS)
        self.assertEqual(back.taken, ["1" * 32])

    def test_that_came_while_another_was_asked(self) -> None:
        """So is one that comes while those kept are brought to a silent one."""
        for n in range(2):
            self.bring(Link("is gone"), f"{n:032x}")
        silent, back = Link("is silent"), Link()
        self.last.came(silent)
        self.last.came(back)
        self.last.left(silent)
        self.clock.advance(ANSWER_SECS)
        self.assertEqual(sorted(back.taken), [f"{n:032x}" for n in range(2)])

    def test_refused_for_now(self) -> None:
        """What Authority could not take is brought again by the same Proxy, until it is taken."""
        own = Link("is gone")
        self.last.came(own)
        self.bring(own)
        self.clock.pump([AGAIN_SECS] * 3)
        own.mood = "takes"
        self.clock.pump([AGAIN_SECS] * 3)
        self.assertEqual(own.taken, ["1" * 32])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_though_another_says_nothing(self) -> None:
        """One that Authority refused for good keeps none back, whatever another Proxy says."""
        for n in range(2):
            self.bring(Link("is gone"), f"{n:032x}")
        own, other = Link("is away"), Link("is away")
        self.last.came(own)
        self.last.came(other)
        own.mood = "takes another"
        self.clock.advance(AGAIN_SECS)
        self.assertEqual(own.taken, [f"{1:032x}"])

    def test_given_up(self) -> None:
        """It is not brought for ever, nor once the Connector has stopped."""
        own = Link("is gone")
        self.last.came(own)
        self.bring(own)
        self.clock.pump([AGAIN_SECS] * round(KEPT_SECS / AGAIN_SECS + 2))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.bring(own, "2" * 32)
        self.last.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_too_late(self) -> None:
        """What Authority waits for no more is not brought."""
        self.bring(Link("is gone"))
        self.clock.advance(KEPT_SECS + 1)
        late = Link()
        self.last.came(late)
        self.assertEqual(late.taken, [])

    def test_bounded(self) -> None:
        """Of more than a few thousand the oldest are forgotten."""
        for n in range(MAX_KEPT + 10):
            self.bring(Link("is gone"), f"{n:032x}")
        back = Link()
        self.last.came(back)
        self.assertEqual(back.taken, [f"{n:032x}" for n in range(10, MAX_KEPT + 10)])

    def test_told(self) -> None:
        """Who stops waits for what is on its way."""
        self.bring(Link("is silent"))
        told = Deferred.fromCoroutine(self.last.told())
        self.assertNoResult(told)
        self.clock.advance(ANSWER_SECS)
        self.successResultOf(told)

"""What drives a direction: it goes on where bytes come, and ends as any coroutine would."""

from __future__ import annotations

from contextvars import ContextVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.proxy.sessions.directions import BytesAwaited, served, until_both, until_either

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class DirectionTests(SynchronousTestCase):
    """Directions that wait for bytes and for other things."""

    def setUp(self) -> None:
        self.heard: list[str] = []
        self.bytes = BytesAwaited()
        self.other: Deferred[str] = Deferred()

    async def waits(self, count: int = 1) -> None:
        """For bytes, and again."""
        try:
            for _ in range(count):
                await self.bytes
                self.heard.append("bytes")
        except CancelledError:
            self.heard.append("cancelled")
            raise

    async def asks(self) -> None:
        """For what a Deferred gives."""
        try:
            self.heard.append(await self.other)
        except (ValueError, CancelledError) as error:
            self.heard.append(type(error).__name__)
            raise

    def test_goes_on(self) -> None:
        """The same wait serves again and again, and the end is told."""
        done = served(self.waits(3))
        for count in range(3):
            self.assertNoResult(done)
            self.assertEqual(len(self.heard), count)
            self.bytes.come()
        self.successResultOf(done)
        self.assertFalse(self.bytes.called)

    def test_others_await_it_too(self) -> None:
        """Bytes that a part of a direction awaits by itself come to it as well."""

        async def both() -> None:
            await Deferred.fromCoroutine(self.waits())
            self.heard.append("part")

        done = served(both())
        self.bytes.come()
        self.successResultOf(done)
        self.assertEqual(self.heard, ["bytes", "part"])

    def test_deferreds(self) -> None:
        """A Deferred's outcome arrives, be it there already, late or a failure."""
        done = served(self.asks())
        self.other.callback("late")
        self.successResultOf(done)
        self.other = Deferred()
        self.other.callback("there")
        self.successResultOf(served(self.asks()))
        self.other = Deferred()
        done = served(self.asks())
        self.other.errback(ValueError())
        self.failureResultOf(done, ValueError)
        self.assertEqual(self.heard, ["late", "there", "ValueError"])

    def test_cancelled(self) -> None:
        """Whatever a direction waits for, a cancel reaches it there."""
        for direction, word in ((self.waits(), "cancelled"), (self.asks(), "CancelledError")):
            done = served(direction)
            done.cancel()
            self.failureResultOf(done, CancelledError)
            self.assertEqual(self.heard.pop(), word)
        self.bytes.come()  # nobody waits any more
        self.assertEqual(self.heard, [])

    def test_cancelled_while_it_runs(self) -> None:
        """One that ends the other while that has led to it: the other waits for nothing more."""
        own, ready = BytesAwaited(), BytesAwaited()

        async def fails() -> None:
            await own
            raise Malformed("no")

        async def leads() -> None:
            try:
                await ready
                own.come()
                await self.bytes
            except CancelledError:
                self.heard.append("cancelled")
                raise

        serving = Deferred.fromCoroutine(until_both(fails(), leads()))
        ready.come()
        self.failureResultOf(serving, Malformed)
        self.assertEqual(self.heard, ["cancelled"])

    def test_either(self) -> None:
        """The end of one is the other's, which hears of it."""

        async def ends() -> None:
            await self.other

        serving = Deferred.fromCoroutine(until_either(ends(), self.waits()))
        self.other.callback("")
        self.successResultOf(serving)
        self.assertEqual(self.heard, ["cancelled"])

    def test_context(self) -> None:
        """A direction has the context in which it began, wherever it goes on."""

        async def tells() -> None:
            await self.bytes
            self.heard.append(WHO.get())

        token = WHO.set("somebody")
        done = served(tells())
        WHO.reset(token)
        self.bytes.come()
        self.successResultOf(done)
        self.assertEqual(self.heard, ["somebody"])

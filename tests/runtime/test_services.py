"""Services: order of start and stop, owned tasks, readiness, listeners, deadlines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamServerEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.errors import Fault, ListenRefused, SvcError
from svc.runtime.services import (
    AllReady,
    AsyncMultiService,
    AsyncService,
    BackgroundTasks,
    BoundPort,
    PeriodicTask,
    Readiness,
    bounded,
)
from tests.support.proof import proves


@define(slots=False, eq=False)
class Step(AsyncService):
    """A child that writes down what happens and waits to be let on."""

    label: str
    diary: list[str]
    starting: Deferred[None] = field(factory=lambda: succeed(None))
    stopping: Deferred[None] = field(factory=lambda: succeed(None))

    async def start(self) -> None:
        """Wait for the test's word, then be up."""
        self.diary.append(f"{self.label} starts")
        await self.starting
        self.diary.append(f"{self.label} is up")

    async def stop(self) -> None:
        """Wait for the test's word, then be down."""
        self.diary.append(f"{self.label} stops")
        await self.stopping
        self.diary.append(f"{self.label} is down")


def tree(*steps: Step) -> AsyncMultiService:
    """A parent of these children, in this order."""
    parent = AsyncMultiService()
    for step in steps:
        step.setServiceParent(parent)
    return parent


class TreeTests(SynchronousTestCase):
    """A role's services come up and go down in order."""

    def setUp(self) -> None:
        self.diary: list[str] = []

    def test_starts_in_order_and_awaits_each(self) -> None:
        """The second service starts only when the first is up."""
        gate: Deferred[None] = Deferred()
        root = tree(Step("store", self.diary, gate), Step("listener", self.diary))
        started = root.startService()
        self.assertEqual(self.diary, ["store starts"])
        self.assertNoResult(started)
        gate.callback(None)
        self.successResultOf(started)
        self.assertEqual(
            self.diary, ["store starts", "store is up", "listener starts", "listener is up"]
        )

    def test_stops_in_reverse_and_awaits_each(self) -> None:
        """The first service stops only when the second is down."""
        gate: Deferred[None] = Deferred()
        root = tree(Step("store", self.diary), Step("listener", self.diary, stopping=gate))
        self.successResultOf(root.startService())
        del self.diary[:]
        stopped = root.stopService()
        self.assertEqual(self.diary, ["listener stops"])
        gate.callback(None)
        self.successResultOf(stopped)
        self.assertEqual(
            self.diary, ["listener stops", "listener is down", "store stops", "store is down"]
        )

    def test_failed_start_stops_what_had_started(self) -> None:
        """When a service cannot start, those below it are stopped and the cause is told."""
        broken = fail(SvcError("no store"))
        root = tree(Step("identity", self.diary), Step("store", self.diary, broken))
        failure = self.failureResultOf(root.startService(), SvcError)
        self.assertEqual(failure.value.text, "no store")
        self.assertEqual(self.diary[-2:], ["identity stops", "identity is down"])
        self.assertFalse(root.running)

    def test_failed_stop_does_not_keep_the_others_up(self) -> None:
        """A service that fails to stop is logged and the rest still stop."""
        broken = fail(SvcError("stuck"))
        root = tree(Step("store", self.diary), Step("listener", self.diary, stopping=broken))
        self.successResultOf(root.startService())
        self.successResultOf(root.stopService())
        self.assertEqual(self.diary[-1], "store is down")
        self.assertEqual(len(self.flushLoggedErrors(SvcError)), 1)

    def test_stop_during_start(self) -> None:
        """A role told to stop while it starts stops what was up."""
        root = tree(Step("store", self.diary), Step("listener", self.diary, Deferred()))
        started = root.startService()
        self.successResultOf(root.stopService())
        self.failureResultOf(started, CancelledError)
        self.assertEqual(self.diary[-2:], ["store stops", "store is down"])

    def test_start_that_unwinds(self) -> None:
        """What a child does as its start is cancelled is over before those below it stop."""
        unwinding: Deferred[None] = Deferred()

        class Child(AsyncService):
            async def start(self) -> None:
                try:
                    await Deferred()
                finally:
                    await unwinding

        root = tree(Step("store", self.diary))
        Child().setServiceParent(root)
        started = root.startService()
        stopped = root.stopService()
        self.assertNoResult(stopped)
        self.assertEqual(self.diary, ["store starts", "store is up"])
        unwinding.callback(None)
        self.successResultOf(stopped)
        self.failureResultOf(started, CancelledError)
        self.assertEqual(self.diary[-2:], ["store stops", "store is down"])

    def test_restarts(self) -> None:
        """A stopped tree can start again."""
        root = tree(Step("store", self.diary))
        for _ in range(2):
            self.successResultOf(root.startService())
            self.successResultOf(root.stopService())
        self.assertEqual(self.diary.count("store is up"), 2)

    def test_no_child_while_running(self) -> None:
        """A child given to a running tree is refused, since nobody would await it."""
        root = tree()
        self.successResultOf(root.startService())
        with self.assertRaises(RuntimeError):
            Service().setServiceParent(root)


class BackgroundTaskTests(SynchronousTestCase):
    """Nothing runs that nobody owns."""

    def setUp(self) -> None:
        self.tasks = BackgroundTasks()
        self.tasks.startService()

    def test_failure_is_logged_under_its_name(self) -> None:
        """A task that fails is found in the log under the name it was given."""
        seen: list[object] = []

        async def breaks() -> None:
            raise SvcError("broken")

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            seen.append(event.get("what"))

        observer = cast(ILogObserver, observe)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.tasks.spawn("send heads", breaks())
        self.assertEqual(len(self.flushLoggedErrors(SvcError)), 1)
        self.assertEqual(seen, ["send heads"])

    def test_stop_cancels_and_waits(self) -> None:
        """Stopping cancels every task and waits until the last has cleaned up."""
        cleaning: Deferred[None] = Deferred()

        async def works() -> None:
            try:
                await Deferred()
            finally:
                await cleaning

        self.tasks.spawn("work", works())
        stopped = self.tasks.stopService()
        self.assertNoResult(stopped)
        cleaning.callback(None)
        self.successResultOf(stopped)

    def test_nothing_runs_after_the_stop(self) -> None:
        """A task offered to a stopped owner never runs."""
        ran: list[int] = []

        async def works() -> None:
            ran.append(1)

        self.successResultOf(self.tasks.stopService())
        self.tasks.spawn("late", works())
        self.assertEqual(ran, [])


class ReadinessTests(SynchronousTestCase):
    """A role is ready when each named condition is met."""

    @proves("G-RDY-10")
    def test_ready_when_all_are_met(self) -> None:
        """Every condition must be met, and each role's flag is its own."""
        proxy, connector = Readiness("listener", "control"), Readiness("serving")
        self.assertEqual(proxy.missing, ("listener", "control"))
        proxy.met("control")
        self.assertEqual((proxy.ready, proxy.missing), (False, ("listener",)))
        proxy.met("listener")
        self.assertTrue(proxy.ready)
        self.assertFalse(connector.ready)

    def test_lost(self) -> None:
        """A lost condition takes readiness away and is named."""
        ready = Readiness("store")
        ready.met("store")
        ready.lost("store")
        self.assertEqual(ready.missing, ("store",))

    @proves("G-RDY-04")
    def test_sticky_stays_ready(self) -> None:
        """A Proxy's or Connector's readiness never goes back."""
        ready = Readiness("control", sticky=True)
        ready.lost("control")
        self.assertFalse(ready.ready)
        ready.met("control")
        ready.lost("control")
        self.assertTrue(ready.ready)

    def test_unknown_name(self) -> None:
        """A condition nobody declared is a mistake, not a condition."""
        with self.assertRaises(KeyError):
            Readiness("store").met("stroe")

    def test_wait(self) -> None:
        """Who waits is told once, when all is met; a cancelled wait is forgotten."""
        ready = Readiness("store")
        first, second = ready.wait(), ready.wait()
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.assertNoResult(first)
        ready.met("store")
        self.successResultOf(first)
        self.successResultOf(ready.wait())

    @proves("G-OPEN-38")
    def test_all(self) -> None:
        """One process of three roles is ready when all three are, and names each word once."""
        parts = (Readiness("identity"), Readiness("identity", "store"))
        both = AllReady(parts)
        self.assertEqual(both.missing, ("identity", "store"))
        parts[0].met("identity")
        self.assertFalse(both.ready)
        parts[1].met("identity")
        parts[1].met("store")
        self.assertEqual((both.ready, both.missing), (True, ()))


class PeriodicTaskTests(SynchronousTestCase):
    """Something done again and again, never twice at once."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.runs: list[float] = []
        self.answer: Callable[[], Awaitable[None]] = lambda: succeed(None)

    async def run_once(self) -> None:
        """One run of the task under test."""
        self.runs.append(self.clock.seconds())
        await self.answer()

    def task(self, jitter: Callable[[float], float] | None = None) -> PeriodicTask:
        """A started task of five seconds, stopped after the test."""
        task = PeriodicTask(
            clock=self.clock, interval=5, call=self.run_once, what="probe", jitter=jitter
        )
        task.startService()

        def quiet() -> None:
            task.stopService()
            self.assertEqual(self.clock.getDelayedCalls(), [])

        self.addCleanup(quiet)
        return task

    def test_runs_at_once_and_each_interval(self) -> None:
        """The first run comes with the start, the next when the interval is over."""
        self.task()
        self.clock.pump([4, 1, 5])
        self.assertEqual(self.runs, [0, 5, 10])

    def test_hurried(self) -> None:
        """A run asked for comes at once, in the next one's place; never beside one under way."""
        task = self.task()
        self.clock.advance(2)
        task.hurry()
        self.clock.advance(0)
        self.assertEqual(self.runs, [0, 2])
        gate: Deferred[None] = Deferred()
        self.answer = lambda: gate
        self.clock.advance(5)
        task.hurry()
        self.assertEqual(self.runs, [0, 2, 7])
        gate.callback(None)

    def test_no_overlap(self) -> None:
        """A slow run holds back the next, which comes one interval after its end."""
        gate: Deferred[None] = Deferred()
        self.answer = lambda: gate
        self.task()
        self.clock.advance(12)
        self.assertEqual(self.runs, [0])
        self.answer = lambda: succeed(None)
        gate.callback(None)
        self.clock.advance(5)
        self.assertEqual(self.runs, [0, 17])

    def test_failure_is_logged_and_goes_on(self) -> None:
        """A run that fails is logged; the next one comes all the same."""
        self.answer = lambda: fail(SvcError("away"))
        self.task()
        self.clock.advance(5)
        self.assertEqual(len(self.flushLoggedErrors(SvcError)), 2)

    def test_jitter(self) -> None:
        """The wait is what jitter makes of the interval."""
        self.task(jitter=lambda seconds: seconds / 2)
        self.clock.advance(2.5)
        self.assertEqual(self.runs, [0, 2.5])

    def test_stop_waits_for_the_run(self) -> None:
        """Stopping cancels a run under way and waits for it to unwind."""
        cleaning: Deferred[None] = Deferred()

        async def slow() -> None:
            try:
                await Deferred()
            finally:
                await cleaning

        self.answer = slow
        stopped = self.task().stopService()
        self.assertNoResult(stopped)
        cleaning.callback(None)
        self.successResultOf(stopped)

    def test_later(self) -> None:
        """A task told so waits one interval before its first run."""
        task = PeriodicTask(
            clock=self.clock, interval=5, call=self.run_once, what="probe", at_once=False
        )
        task.startService()
        self.assertEqual(self.runs, [])
        task.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])


@implementer(IStreamServerEndpoint)
@define
class Occupied:
    """An endpoint whose address is taken."""

    error: Exception

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Refuse as the reactor does."""
        return fail(self.error)


class ListenerTests(SynchronousTestCase):
    """A port is bound before anything else runs, or the start ends."""

    def test_binds_early_and_closes(self) -> None:
        """The port is bound in the privileged start and given back on stop."""
        reactor = MemoryReactorClock()
        listener = BoundPort(
            key="endpoints.public_listen",
            address="127.0.0.1:0",
            endpoint=TCP4ServerEndpoint(reactor, 0),
            factory=Factory(),
        )
        self.assertIsNone(listener.bound)
        listener.privilegedStartService()
        listener.startService()
        self.assertEqual(len(reactor.tcpServers), 1)
        self.assertIsNotNone(listener.bound)
        self.successResultOf(listener.stopService())
        self.assertIsNone(listener.bound)

    def test_address_in_use(self) -> None:
        """An address in use ends the start with 1 and names key and address."""
        taken = CannotListenError("127.0.0.1", 7443, OSError(98, "Address already in use"))
        listener = BoundPort(
            key="endpoints.public_listen",
            address="127.0.0.1:7443",
            endpoint=Occupied(taken),
            factory=Factory(),
        )
        error = self.assertRaises(ListenRefused, listener.privilegedStartService)
        self.assertEqual(error.exit_code, 1)
        self.assertEqual(
            str(error),
            "endpoints.public_listen: cannot listen on 127.0.0.1:7443: address already in use; "
            "stop what listens there, or choose another port",
        )

    def test_other_failures_keep_their_form(self) -> None:
        """A mistake of ours is not dressed up as a refusal of the system."""
        listener = BoundPort(
            key="k", address="a", endpoint=Occupied(ZeroDivisionError()), factory=Factory()
        )
        self.assertRaises(ZeroDivisionError, listener.startService)


class DeadlineTests(SynchronousTestCase):
    """Nothing is awaited for ever."""

    def setUp(self) -> None:
        self.clock = Clock()

    def test_answers_in_time(self) -> None:
        """An answer in time is passed on and leaves no timer."""
        waiting: Deferred[str] = Deferred()
        result = Deferred.fromCoroutine(bounded(self.clock, 2, waiting, "store"))
        waiting.callback("here")
        self.assertEqual(self.successResultOf(result), "here")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_too_late(self) -> None:
        """After the deadline what was awaited is cancelled and the refusal names it."""
        cancelled: list[object] = []
        waiting: Deferred[str] = Deferred(cancelled.append)
        result = Deferred.fromCoroutine(bounded(self.clock, 2, waiting, "store"))
        self.clock.advance(2)
        error = self.failureResultOf(result, SvcError).value
        self.assertEqual((error.fault, error.reason), (Fault.DEADLINE, "deadline"))
        self.assertEqual(error.text, "store: no answer within 2 seconds")
        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancel_passes_through(self) -> None:
        """Cancelling the wait cancels what is awaited and leaves no timer."""
        cancelled: list[object] = []
        waiting: Deferred[str] = Deferred(cancelled.append)
        result = Deferred.fromCoroutine(bounded(self.clock, 2, waiting, "store"))
        result.cancel()
        self.failureResultOf(result, CancelledError)
        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_own_failure_is_kept(self) -> None:
        """A failure before the deadline is the caller's to see as it is."""
        result = Deferred.fromCoroutine(bounded(self.clock, 2, fail(KeyError("x")), "store"))
        self.failureResultOf(result, KeyError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

"""Services whose start and stop can be awaited, and common patterns of long-running code.

A role is a tree of services that start in order and stop in reverse, each awaited.  What runs
beside it is owned: a coroutine nobody awaits by :class:`BackgroundTasks`, something done again and
again is a :class:`PeriodicTask`, a bound port a :class:`BoundPort`.  Nothing here knows a role, a
metric or a log format, and nothing imports the reactor: clocks and endpoints are passed in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import Context
from types import CoroutineType
from typing import Any, TypeVar

from attrs import define, field
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IListeningPort,
    IProtocolFactory,
    IReactorTime,
    IStreamServerEndpoint,
)
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import Fault, ListenRefused, SvcError

_log = Logger(namespace="svc_service")
_T = TypeVar("_T")


def _log_failure(
    failure: Failure, sentence: str, what: str, expected: Callable[[], bool] = bool
) -> None:
    """Log under a name; a cancellation that the owner asked for is no failure."""
    if not (failure.check(CancelledError) and expected()):
        _log.failure(sentence, failure, what=what)


class AsyncService(Service):
    """A service whose start and stop are coroutines that its parent awaits.

    Subclasses override :meth:`start` and :meth:`stop`; nobody else calls them.
    """

    def startService(self) -> Deferred[None]:
        """Start; fires when :meth:`start` has returned."""
        Service.startService(self)
        return Deferred.fromCoroutine(self.start())

    def stopService(self) -> Deferred[None]:
        """Stop; fires when :meth:`stop` has returned."""
        Service.stopService(self)
        return Deferred.fromCoroutine(self.stop())

    async def start(self) -> None:
        """Begin to serve.  Raising ends the start of the whole tree."""

    async def stop(self) -> None:
        """End; called once, after a start that ended well."""


class AsyncMultiService(MultiService):
    """A tree of services: children start in the order added, each awaited.

    They stop in reverse, each awaited.  When a child fails to start, those
    that had started are stopped and the failure goes to the caller.  A child
    that fails to stop is logged and does not keep the others from stopping.
    """

    def __init__(self) -> None:
        MultiService.__init__(self)
        self._up: list[IService] = []
        self._starting: Deferred[None] | None = None

    def addService(self, service: IService) -> None:
        """Add a child; only before the start, because nobody would await a later one."""
        if self.running:
            raise RuntimeError("a child added while its parent runs would start unawaited")
        MultiService.addService(self, service)

    def startService(self) -> Deferred[None]:
        """Start the children; fires when the last has started."""
        Service.startService(self)
        self._starting = Deferred.fromCoroutine(self._start())
        return self._starting

    def stopService(self) -> Deferred[None]:
        """Stop the children in reverse; a start still under way is cancelled and waited for first.

        So what a child does as its start is cancelled still has those below it.
        """
        Service.stopService(self)
        return Deferred.fromCoroutine(self._stop())

    async def _start(self) -> None:
        try:
            for child in list(self):
                await maybeDeferred(child.startService)
                self._up.append(child)
        except BaseException:
            self.running = 0
            await self._stop_children()
            raise

    async def _stop(self) -> None:
        starting, self._starting = self._starting, None
        if starting is not None and not starting.called:
            ended: Deferred[None] = Deferred()
            starting.addBoth(_passed_on, ended)
            starting.cancel()
            await ended
        await self._stop_children()

    async def _stop_children(self) -> None:
        while self._up:
            child = self._up.pop()
            stopped = maybeDeferred(child.stopService)
            stopped.addErrback(_log_failure, "a service failed to stop", type(child).__name__)
            await stopped


class BackgroundTasks(Service):
    """Owns every coroutine that nobody awaits.

    A task that fails is logged under the name it was given; on stop every task
    is cancelled and waited for.
    """

    def __init__(self) -> None:
        # In the order in which they began; an empty set takes three times as much as a dict.
        self._tasks: dict[Deferred[Any], None] = {}
        self._stopped = False

    def spawn(self, what: str, coro: Coroutine[Any, Any, object]) -> None:
        """Run *coro* until it ends or this service stops.

        Args:
            what: A constant phrase that names the task in the log.
            coro: The coroutine; closed unrun when this service has stopped.
        """
        if self._stopped:
            coro.close()
            _log.debug("background task refused after the stop", what=what)
            return
        # In a context of its own: it is no part of the trace in which it happened to be spawned.
        task: Deferred[Any] = Context().run(Deferred.fromCoroutine, coro)
        self._tasks[task] = None
        task.addErrback(_log_failure, "background task failed", what, self._has_stopped)
        task.addBoth(self._forget, task)

    def _has_stopped(self) -> bool:
        return self._stopped

    def _forget(self, _result: object, task: Deferred[Any]) -> None:
        self._tasks.pop(task, None)

    def startService(self) -> None:
        """Accept tasks (they are accepted before the start as well)."""
        Service.startService(self)
        self._stopped = False

    def stopService(self) -> Deferred[Any]:
        """Cancel every task; fires when the last has ended."""
        Service.stopService(self)
        self._stopped = True
        done = DeferredList(list(self._tasks))
        for task in list(self._tasks):
            task.cancel()
        return done


def _passed_on(result: _T, ended: Deferred[None]) -> _T:
    ended.callback(None)
    return result


class Readiness:
    """A set of named conditions; ready while all are met.

    Args:
        names: The conditions, as words that may be shown to anyone (no ids).
        sticky: Once ready, stay ready whatever is lost later (Proxy and
            Connector: document 1, readiness flag).
    """

    def __init__(self, *names: str, sticky: bool = False) -> None:
        self._met = dict.fromkeys(names, False)
        self._sticky = sticky
        self._was_ready = not names
        self._waiting: list[Deferred[None]] = []

    def met(self, name: str) -> None:
        """Say that the condition holds.  Raises KeyError for a name not declared."""
        self._set(name, True)

    def lost(self, name: str) -> None:
        """Say that the condition holds no more.  Raises KeyError for a name not declared."""
        self._set(name, False)

    @property
    def ready(self) -> bool:
        """Whether work may be sent here."""
        return not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The conditions not met, in the order declared; empty when ready."""
        if self._sticky and self._was_ready:
            return ()
        return tuple(name for name, met in self._met.items() if not met)

    def wait(self) -> Deferred[None]:
        """Fires when ready: at once, or at the next time that all is met."""
        if self.ready:
            return succeed(None)
        waiting: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        return waiting

    def _set(self, name: str, met: bool) -> None:
        if name not in self._met:
            raise KeyError(name)
        self._met[name] = met
        if not self.ready:
            return
        self._was_ready = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)


class AllReady:
    """The readiness of several roles in one process: ready when every one is."""

    def __init__(self, parts: Iterable[Readiness | AllReady]) -> None:
        self._parts = tuple(parts)

    @property
    def ready(self) -> bool:
        """Whether every part is ready."""
        return all(part.ready for part in self._parts)

    @property
    def missing(self) -> tuple[str, ...]:
        """What the parts miss, each word once."""
        return tuple(dict.fromkeys(word for part in self._parts for word in part.missing))


@define(slots=False, eq=False)
class PeriodicTask(Service):
    """Runs an async callable again and again, never twice at once.

    The next run begins *interval* seconds after the last one ended.  A run
    that fails is logged and the next comes all the same.

    Args:
        clock: Where the time between runs is measured.
        interval: Seconds between the end of one run and the next.
        call: What to run.
        what: A constant phrase that names it in the log.
        jitter: Makes the time to wait out of *interval*; none by default.
        at_once: Whether the first run comes with the start or one interval later.
    """

    _clock: IReactorTime
    _interval: float
    _call: Callable[[], Awaitable[object]]
    _what: str
    _jitter: Callable[[float], float] | None = field(default=None, kw_only=True)
    _at_once: bool = field(default=True, kw_only=True)
    _next: IDelayedCall | None = field(default=None, init=False)
    _current: Deferred[None] | None = field(default=None, init=False)

    def startService(self) -> None:
        """Begin; does not wait for the first run."""
        Service.startService(self)
        if self._at_once:
            self._begin()
        else:
            self._schedule()

    def stopService(self) -> Deferred[None]:
        """Cancel what waits or runs; fires when a run under way has ended."""
        Service.stopService(self)
        if self._next is not None:
            self._next.cancel()
            self._next = None
        return cancel(self._current)

    def hurry(self) -> None:
        """Run now rather than when the next run is due; no effect while one runs."""
        if self._next is not None:
            self._next.reset(0)

    def _schedule(self) -> None:
        wait = self._interval if self._jitter is None else self._jitter(self._interval)
        self._next = self._clock.callLater(max(0.0, wait), self._begin)

    def _begin(self) -> None:
        self._next = None
        self._current = Deferred.fromCoroutine(self._run())
        self._current.addErrback(
            _log_failure, "periodic task failed", self._what, lambda: not self.running
        )
        self._current.addBoth(self._ended)

    async def _run(self) -> None:
        await self._call()

    def _ended(self, _: object) -> None:
        self._current = None
        if self.running:
            self._schedule()


@define(slots=False, eq=False)
class BoundPort(Service):
    """One bound port.

    It binds in ``privilegedStartService``, synchronously, so an address in use
    ends the start before anything else runs.

    Args:
        key: The dotted configuration key the address came from.
        address: The address as the operator wrote it.
        endpoint: What to listen on; its ``listen`` must answer at once, as
            TCP and UNIX endpoints do.
        factory: Makes the protocol of each connection.
    """

    _key: str
    _address: str
    _endpoint: IStreamServerEndpoint
    _factory: IProtocolFactory
    _port: IListeningPort | None = field(default=None, init=False)

    @property
    def bound(self) -> IAddress | None:
        """The address really bound (its port is known even if 0 was asked); None when not."""
        return None if self._port is None else self._port.getHost()

    def privilegedStartService(self) -> None:
        """Bind.  Raises ListenRefused naming key and address."""
        Service.privilegedStartService(self)
        self._bind()

    def startService(self) -> None:
        """Bind if nobody called ``privilegedStartService`` before."""
        self._bind()
        Service.startService(self)

    def stopService(self) -> Deferred[None]:
        """Accept no more; fires when the port is closed."""
        Service.stopService(self)
        port, self._port = self._port, None
        if port is None:
            return succeed(None)
        return maybeDeferred(port.stopListening).addCallback(lambda _: None)

    def _bind(self) -> None:
        if self._port is not None:
            return
        outcome: list[IListeningPort | Failure] = []
        self._endpoint.listen(self._factory).addBoth(outcome.append)
        if not outcome:
            raise ListenRefused(self._key, self._address, "the endpoint did not answer at once")
        if isinstance(outcome[0], Failure):
            raise _listen_refused(self._key, self._address, outcome[0])
        self._port = outcome[0]


def _listen_refused(key: str, address: str, failure: Failure) -> BaseException:
    """The refusal of a bind, in words; anything but an OS refusal is handed on as it is."""
    error: object = failure.value
    if isinstance(error, CannotListenError):
        error = error.socketError
    if not isinstance(error, OSError):
        return failure.value if failure.value is not None else RuntimeError(repr(failure))
    return ListenRefused(key, address, (error.strerror or type(error).__name__).lower())


def cancel(running: Deferred[Any] | None) -> Deferred[None]:
    """Cancel what runs, where anything does; fires once it has ended.  Called as services stop."""
    if running is None:
        return succeed(None)
    ended: Deferred[None] = Deferred()
    running.addBoth(lambda _: ended.callback(None))
    running.cancel()
    return ended


async def bounded(clock: IReactorTime, seconds: float, awaitable: Awaitable[_T], what: str) -> _T:
    """Await with a deadline.

    When the time is over *awaitable* is cancelled, its unwinding is awaited
    (so nothing of it goes on unowned), and the deadline is raised.

    Args:
        seconds: How long to wait, on *clock*; 0 or less cancels at the next turn.
        what: Names it in the refusal's text.

    Raises:
        SvcError: with ``Fault.DEADLINE`` and reason ``deadline``.
    """
    if isinstance(awaitable, Deferred):
        running: Deferred[_T] = awaitable
    elif isinstance(awaitable, CoroutineType):
        running = Deferred.fromCoroutine(awaitable)
    else:
        running = Deferred.fromCoroutine(_awaited(awaitable))
    if running.called and not running.paused:
        return await running  # it was there already: nothing is to be timed
    late: list[bool] = []

    def too_late() -> None:
        late.append(True)
        running.cancel()

    timer = clock.callLater(max(0.0, seconds), too_late)
    try:
        return await running
    finally:
        if late:
            text = f"{what}: no answer within {seconds:g} seconds"
            raise SvcError(text, fault=Fault.DEADLINE, reason="deadline")
        if timer.active():
            timer.cancel()


async def _awaited(awaitable: Awaitable[_T]) -> _T:
    return await awaitable

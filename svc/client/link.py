"""The connection to one of the configured Proxies, and the resource list it delivers.

Whoever opens a session asks for the channel and is refused at once while there
is none.  What the person may view stays known while the link is down.  Before
a certificate shown on the connection ends, another one takes its place; the
old one ends with its last session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import Denied, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel, IRpcStream
from svc.messages.session import (
    LIST_METHOD,
    Listed,
    Listing,
    decode_listing,
    encode_list_request,
)
from svc.messages.snapshot import REVOCATIONS
from svc.model.session.lacking import LACKING
from svc.rpc.client.channel import CANNOT_CONNECT
from svc.rpc.max_age import Freshness, Shown, close_when_idle
from svc.runtime.backoff import Backoff
from svc.runtime.services import BackgroundTasks, bounded, cancel

_log = Logger(namespace="svc_client")

_FIRST_WAIT = 0.2
_LONGEST_WAIT = 15.0
_FIRST_LISTING_SECS = 20.0
_MOVE_SECS = 10.0


@frozen
class ConfiguredProxy:
    """One configured Proxy.

    Attributes:
        address: As configured, for people.
        dial: Opens a channel, TLS done and the Proxy's certificate checked.
    """

    address: str
    dial: Callable[[], Awaitable[IRpcChannel]]


def not_reached(address: str, failed: SvcError, config: str) -> SvcError:
    """Why the Proxy at *address* was not reached, for a command.

    Args:
        config: The file that has the address.
    """
    text = f"{address}: {failed.text}"
    if failed.reason == CANNOT_CONNECT:
        text += f"; check that the Proxy runs, and its address in {config}"
    return SvcError(text, reason=failed.reason, fault=failed.fault)


def no_proxy(problem: str) -> Unavailable:
    """The refusal while no Proxy is connected, for this reason."""
    return Unavailable(f"cannot reach any Proxy: {problem}", reason="proxy_unreachable")


def merge(known: dict[str, Listed], listing: Listing) -> dict[str, Listed]:
    """What the person may view after a change; *known* is left as it was."""
    seen = {} if listing.complete else dict(known)
    for gone in listing.removed:
        seen.pop(gone, None)
    seen.update((one.id, one) for one in listing.upsert)
    return seen


async def list_once(channel: IRpcChannel, clock: IReactorTime) -> dict[str, Listed]:
    """What the person may view now.

    Raises:
        SvcError: the Proxy refused or was silent.
    """
    return merge({}, await first_listing(channel, clock))


async def first_listing(channel: IRpcChannel, clock: IReactorTime) -> Listing:
    """The whole list, as the Proxy first sends it.

    Raises:
        SvcError: the Proxy refused or was silent.
    """
    stream = channel.stream(LIST_METHOD)
    try:
        await stream.send(encode_list_request(b""))
        stream.end()
        return await _next(stream, clock, _FIRST_LISTING_SECS)
    finally:
        stream.cancel()


async def _next(stream: IRpcStream, clock: IReactorTime, seconds: float | None) -> Listing:
    coming = stream.receive()
    data = await (coming if seconds is None else bounded(clock, seconds, coming, "the Proxy"))
    if data is None:
        raise Unavailable("the Proxy closed the resource list", reason="list_ended")
    return decode_listing(data)


def _tell(waiting: Sequence[Deferred[None]]) -> None:
    """The list has come."""
    for each in waiting:
        if not each.called:
            each.callback(None)


@define(slots=False, eq=False)
class ProxyLink(Service):
    """Keeps the connection, and dials again for ever.

    Attributes:
        ways: The Proxies, tried in turn.
        listed: Told all that the person may view, after each change.
        jitter: Makes the wait out of the backoff's seconds.
        tasks: Owns the connections that are left.
        fresh: Says when the connection is to be made again.
        dial_secs: For a connection, TLS included.
        head: The greatest signed head of the audit log that is kept here; told to the Proxy.
        heads: Takes the signed heads that come with a list.
        unserved: Told the same as not served by anybody, once the connection is lost.
        resources: What the person may view, as last heard.
        problem: Why there is no connection; empty while there is one.
        denied: The refusal of a Proxy that accepts this person no longer; None otherwise.
        proxy: The address connected to; empty while there is none.
        lacking: Why that Proxy opens no session now, in words of ``LACKING``; empty where it does.
    """

    clock: IReactorTime
    ways: Sequence[ConfiguredProxy]
    listed: Callable[[dict[str, Listed]], object]
    jitter: Callable[[float], float]
    tasks: BackgroundTasks
    head: Callable[[], bytes]
    fresh: Freshness = field()
    dial_secs: float = 20.0
    heads: Callable[[tuple[bytes, ...]], Coroutine[Any, Any, object]] | None = None
    unserved: Callable[[dict[str, Listed]], object] = lambda _: None
    resources: dict[str, Listed] = field(factory=dict, init=False)
    problem: str = field(default="not connected yet", init=False)
    denied: Denied | None = field(default=None, init=False)
    proxy: str = field(default="", init=False)
    lacking: tuple[str, ...] = field(default=(), init=False)
    _channel: IRpcChannel | None = field(default=None, init=False)
    _list: IRpcStream | None = field(default=None, init=False)
    _moved: IRpcStream | None = field(default=None, init=False)
    _shown: Shown | None = field(default=None, init=False)
    _loop: Deferred[None] | None = field(default=None, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)
    _is_refreshing: bool = field(default=False, init=False)

    @fresh.default
    def _ageless(self) -> Freshness:
        return Freshness(self.clock)

    def startService(self) -> None:
        """Begin to dial; does not wait for the first connection."""
        Service.startService(self)
        self._loop = Deferred.fromCoroutine(self._run())
        self._loop.addErrback(self._over)

    def stopService(self) -> Deferred[None]:
        """Close the connection and dial no more."""
        Service.stopService(self)
        loop, self._loop = self._loop, None
        return cancel(loop)

    def channel(self) -> IRpcChannel:
        """The channel, now.

        Raises:
            Unavailable: ``proxy_unreachable``, with the last problem met.
            Denied: a Proxy answered, and accepts this person no longer.
        """
        if self._channel is None:
            raise self._unreachable()
        return self._channel

    def _unreachable(self) -> SvcError:
        if self.denied is not None:
            return self.denied
        return no_proxy(self.problem)

    def refreshed(self) -> Deferred[None]:
        """Ask for the list again; fires when it came, on this connection or the next.

        The caller bounds it in time.
        """
        waiting: Deferred[None] = Deferred(self._wait_no_more)
        self._waiting.append(waiting)
        if self._list is not None:
            self._is_refreshing = True
            self._list.cancel("refresh")
        return waiting

    def redial(self) -> None:
        """Dial again; sessions that are open on the old connection stay there."""
        if self._list is not None:
            self._list.cancel("redial")

    async def moved(self) -> None:
        """Leave a Proxy that accepts no further calls; returns once connected to another.

        Raises:
            Unavailable: none did in time.
        """
        coming: Deferred[None] = Deferred(self._wait_no_more)
        self._waiting.append(coming)
        self.redial()
        try:
            await bounded(self.clock, _MOVE_SECS, coming, "another Proxy")
        except SvcError:
            raise self._unreachable() from None

    async def _run(self) -> None:
        # The first dial counts as a failure before it.
        waits = Backoff(_FIRST_WAIT, _LONGEST_WAIT, self.jitter, failures=1)
        tried = 0
        while True:
            way = self.ways[tried % len(self.ways)]
            try:
                await self._connected(way)
            except CancelledError as e:
                if not self.running:
                    raise
                self._not_connected(way, e, waits)
            except Exception as e:
                if not self.running:
                    return  # a dial that is cancelled may end as one that failed
                self._not_connected(way, e, waits)
            finally:
                tried += 1
                self._tell_unserved()
                self.proxy, self.lacking = "", ()
                channel, self._channel = self._channel, None
                if channel is not None:
                    self.tasks.spawn(
                        "closing a connection to a Proxy", close_when_idle(channel, self.clock)
                    )
            await deferLater(self.clock, waits.next())

    def _not_connected(self, way: ConfiguredProxy, failed: Exception, waits: Backoff) -> None:
        """Say why the connection to a Proxy ended, or did not come about."""
        if self.proxy:
            waits.reset()
        if not isinstance(failed, SvcError):
            # Whatever it was: without the loop there would never be a connection again.
            self.problem = f"{way.address}: an internal error; see the log of svc up"
            _log.failure("no proxy connection", proxy=way.address, reason="internal")
            return
        self.problem = f"{way.address}: {failed.text}"
        if failed.reason in REVOCATIONS:
            self._tell_denied(Denied(REVOCATIONS[failed.reason], reason=failed.reason))
        _log.warn("no proxy connection", proxy=way.address, reason=failed.reason, error=failed.text)

    async def _connected(self, way: ConfiguredProxy) -> None:
        ours = self.fresh.ours
        channel = await bounded(self.clock, self.dial_secs, way.dial(), "the Proxy")
        self._channel, self._shown = channel, self.fresh.shown(ours, channel.peer)
        moving = Deferred.fromCoroutine(
            self.fresh.follow(lambda: self._shown, lambda: self._move(way))
        )
        moving.addErrback(self._over)
        try:
            await self._follow_on(way)
        finally:
            self._moved = self._shown = None
            moving.cancel()

    async def _follow_on(self, way: ConfiguredProxy) -> None:
        """Follow one list after another: asked again, or on the connection we moved to."""
        while True:
            try:
                await self._follow(way)
            except SvcError:
                if self._moved is None and not self._is_refreshing:
                    raise
            finally:
                self._list = None
            self._is_refreshing = False

    async def _follow(self, way: ConfiguredProxy) -> None:
        stream, self._moved = self._moved, None
        if stream is None:
            self._list = stream = self.channel().stream(LIST_METHOD)
            # A Proxy that cannot say what there is cannot open it either: only
            # after its first list is it the Proxy we stay with.
            self._take(await self._first(stream))
        self._list = stream
        if not self.proxy:
            self.proxy, self.problem, self.denied = way.address, "", None
            _log.info("proxy connected", proxy=way.address, resources=len(self.resources))
        while True:
            self._take(await _next(stream, self.clock, None))

    async def _first(self, stream: IRpcStream) -> Listing:
        await stream.send(encode_list_request(self.head()))
        stream.end()
        return await _next(stream, self.clock, _FIRST_LISTING_SECS)

    async def _move(self, way: ConfiguredProxy) -> None:
        """Have another connection to the same Proxy; the old one ends with its last session."""
        ours = self.fresh.ours
        try:
            channel = await bounded(self.clock, self.dial_secs, way.dial(), "the Proxy")
            try:
                shown = self.fresh.shown(ours, channel.peer, self._shown)
                stream = channel.stream(LIST_METHOD)
                listing = await self._first(stream)
            except BaseException:
                await channel.close()
                raise
        except CancelledError:
            raise
        except Exception:
            if self._shown is not None and self.fresh.has_ended(self._shown):
                self.redial()
            raise
        old, self._channel, self._shown, self._moved = self._channel, channel, shown, stream
        self._take(listing)
        if self._list is not None:
            self._list.cancel("moved")
        if old is not None:
            self.tasks.spawn("closing a connection to a Proxy", close_when_idle(old, self.clock))
        _log.info("reconnected to a Proxy", proxy=way.address)

    def _take(self, listing: Listing) -> None:
        if listing.complete or listing.upsert or listing.removed or listing.lacking != self.lacking:
            self.resources = merge(self.resources, listing)
            self._tell_lacking(listing.lacking)
            self.listed(self.resources)
        waiting: list[Deferred[None]] = []
        if listing.complete:
            waiting, self._waiting = self._waiting, []
        if listing.heads and self.heads is not None:
            self.tasks.spawn("audit heads", self._with_heads(listing.heads, waiting))
        else:
            _tell(waiting)

    def _wait_no_more(self, waiting: Deferred[None]) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    async def _with_heads(self, lines: tuple[bytes, ...], waiting: list[Deferred[None]]) -> None:
        """Whoever waits for the list waits for what is told with it."""
        assert self.heads is not None
        try:
            await self.heads(lines)
        finally:
            _tell(waiting)

    def _tell_unserved(self) -> None:
        """The Proxy has gone, if there was one; what is viewable stays known here."""
        if self.proxy and self.running:
            self.unserved({id: evolve(one, served=False) for id, one in self.resources.items()})

    def _tell_denied(self, denied: Denied) -> None:
        """Nothing will be listed: whoever waits for the list is told why."""
        self.denied = denied
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.errback(denied)

    def _tell_lacking(self, words: tuple[str, ...]) -> None:
        before, self.lacking = self.lacking, words
        for word in words:
            if word not in before:
                _log.warn("the Proxy cannot open sessions", reason=word, text=LACKING[word])
        if before and not words:
            _log.info("the Proxy can open sessions again")

    def _over(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            _log.failure("the task that keeps the Proxy connection has stopped", failure)

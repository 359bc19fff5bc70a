"""Connections to other Proxies: one to each, made when a session needs it.

What a session opens is checked where it arrives; here it is only known who is there: the Proxy
that the grant names, by its certificate, and nobody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.model.session.ending import PEER_PROXY_REFUSED, PEER_PROXY_UNREACHABLE
from svc.rpc.max_age import Freshness, Shown, close_when_idle
from svc.runtime.services import AsyncService, BackgroundTasks, bounded

_log = Logger(namespace="svc_proxy")

MAX_LINKS = 256
"""Proxies that one is connected to at once."""

_AGAIN_SECS = 60.0
"""How long a connection is used that shows nothing newer than the one before it."""


@frozen(eq=False)
class _Link:
    """One connection, and what it shows.

    Attributes:
        since: When it was made, or last found to be as good as any, in seconds of the clock.
    """

    address: str
    channel: IRpcChannel
    shown: Shown
    since: float


@define(slots=False, eq=False)
class PeerLinks(AsyncService):
    """The connections of one Proxy to others.

    Attributes:
        dial: Connects to an address over TLS; the other end is a Proxy of this cluster.
        proxy_at: The id of the Proxy at the other end of a connection.
        fresh: Says when a connection is to be made again.
        dial_secs: For a connection, TLS included.
    """

    dial: Callable[[str], Awaitable[IRpcChannel]]
    proxy_at: Callable[[IRpcChannel], str]
    clock: IReactorTime
    fresh: Freshness
    dial_secs: float
    tasks: BackgroundTasks = field(factory=BackgroundTasks)
    _links: dict[str, _Link] = field(factory=dict, init=False)
    _waiting: dict[str, list[Deferred[IRpcChannel]]] = field(factory=dict, init=False)

    async def channel(self, proxy_id: str, address: str) -> IRpcChannel:
        """A connection to this Proxy.

        Args:
            proxy_id: Who must be there.
            address: Where the Authority says that it is.

        Raises:
            SvcError: ``peer_proxy_unreachable``; ``peer_proxy_refused``: somebody else is there.
        """
        link = self._links.get(proxy_id)
        if link is not None and link.address == address and self._is_good(link):
            return link.channel
        waiting: Deferred[IRpcChannel] = Deferred()
        if (others := self._waiting.get(proxy_id)) is not None:
            others.append(waiting)
            return await waiting
        if link is None and len(self._links) + len(self._waiting) >= MAX_LINKS:
            self._drop_an_idle_one()
        self._waiting[proxy_id] = [waiting]
        self.tasks.spawn("dial another Proxy", self._dial(proxy_id, address))
        return await waiting

    async def stop(self) -> None:
        """End every connection."""
        await self.tasks.stopService()
        links, self._links = self._links, {}
        for link in links.values():
            await link.channel.close()

    async def _dial(self, proxy_id: str, address: str) -> None:
        """One dial for all who wait for it; whoever of them goes away leaves it to the others."""
        refusal = SvcError("this Proxy is stopping", reason=PEER_PROXY_UNREACHABLE)
        channel: IRpcChannel | None = None
        try:
            channel = await self._reached(proxy_id, address)
        except SvcError as e:
            refusal, channel = e, self._kept(proxy_id, address)
            _log.warn(
                "another Proxy could not be reached",
                proxy=proxy_id,
                address=address,
                reason=e.reason,
                text=e.text,
            )
        finally:
            for waiting in self._waiting.pop(proxy_id):
                if waiting.called:
                    continue
                if channel is None:
                    waiting.errback(refusal)
                else:
                    waiting.callback(channel)

    def _kept(self, proxy_id: str, address: str) -> IRpcChannel | None:
        """The connection that was to be replaced, for as long as another one is not worth a try."""
        link = self._links.get(proxy_id)
        if link is None or link.address != address or not self._is_usable(link):
            return None
        self._links[proxy_id] = evolve(link, since=self.clock.seconds())
        return link.channel

    async def _reached(self, proxy_id: str, address: str) -> IRpcChannel:
        ours = self.fresh.ours
        try:
            channel = await bounded(
                self.clock, self.dial_secs, self.dial(address), "the other Proxy"
            )
        except SvcError as e:
            raise Unavailable(e.text, reason=PEER_PROXY_UNREACHABLE) from None
        try:
            shown = self.fresh.shown(ours, channel.peer)
            if (found := self.proxy_at(channel)) != proxy_id:
                raise SvcError(
                    f"the Proxy {found} is at this address",
                    reason=PEER_PROXY_REFUSED,
                    fault=Fault.UNAVAILABLE,
                )
        except BaseException:
            await channel.close()
            raise
        before = self._links.get(proxy_id)
        self._links[proxy_id] = _Link(
            address=address, channel=channel, shown=shown, since=self.clock.seconds()
        )
        if before is not None:
            self.tasks.spawn("leave a Proxy", close_when_idle(before.channel, self.clock))
        channel.on_close(lambda _: self._ended(proxy_id, channel))
        return channel

    def _is_good(self, link: _Link) -> bool:
        """Whether sessions may begin on it: one whose certificates grow old is soon replaced."""
        if not self._is_usable(link):
            return False
        # The other Proxy may not have renewed yet: not every session is worth a try.
        is_new = self.clock.seconds() < link.since + _AGAIN_SECS
        return is_new or self.fresh.left(link.shown) > 0

    def _is_usable(self, link: _Link) -> bool:
        return link.channel.takes_calls and not self.fresh.has_ended(link.shown)

    def _ended(self, proxy_id: str, channel: IRpcChannel) -> None:
        link = self._links.get(proxy_id)
        if link is not None and link.channel is channel:
            del self._links[proxy_id]

    def _drop_an_idle_one(self) -> None:
        for proxy_id, link in self._links.items():
            if not link.channel.open_streams:
                del self._links[proxy_id]
                self.tasks.spawn("leave a Proxy", link.channel.close())
                return
        raise SvcError(
            "this Proxy relays to as many others as it can",
            reason=PEER_PROXY_UNREACHABLE,
            fault=Fault.EXHAUSTED,
        )

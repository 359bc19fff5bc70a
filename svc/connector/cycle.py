"""One cycle of a tunnel: dial a Proxy, register, keep the lease, hear open notices.

A cycle is begun and ended by the machine of ``svc.tunnel.machine``; it reports
what it reached and, once, why it is over.  It decides nothing about sessions:
notices go to :class:`~svc.connector.opening.Openings`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime, IStreamClientEndpoint
from twisted.logger import Logger

from svc.connector.opening import Openings
from svc.errors import SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcChannel, IRpcStream, Peer
from svc.messages.tunnel import (
    CARRY_METHOD,
    REGISTER_METHOD,
    Down,
    Draining,
    Goodbye,
    Hello,
    Nonce,
    OpenNotice,
    OpenRefused,
    Renew,
    Renewed,
    Up,
    decode_down,
    encode_carry_open,
    encode_registration,
    encode_up,
)
from svc.model.principal import Role
from svc.model.registration import Accepted, DeclaredResource, Registration
from svc.model.signing import Signed
from svc.rpc.endpoint import StreamClientEndpoint
from svc.rpc.frames import open_frame
from svc.service import BackgroundTasks, bounded
from svc.tunnel.machine import Cycle, Tunnel
from svc.tunnel.times import TunnelTimes

_log = Logger(namespace="svc_connector")

_PROXIES = frozenset({Role.PROXY})


def proxy_by(verifier: IChainVerifier) -> Callable[[Peer], str]:
    """Gives the node id of the Proxy at the other end of a connection.

    What is given raises CertificateRefused for anybody but a Proxy of our
    cluster; it is asked anew for each tunnel.
    """

    def proxy_of(peer: Peer) -> str:
        return verifier.verify(peer.chain, _PROXIES).principal.id

    return proxy_of


@frozen
class Connector:
    """What a Connector says of itself, the same in every cycle.

    Attributes:
        instance_id: New with each process.
        resources: What its configuration declares.
    """

    cluster: str
    node_id: str
    instance_id: str
    version: str
    resources: tuple[DeclaredResource, ...]
    capabilities: tuple[str, ...] = ()


@define
class Tunnels:
    """Makes the cycles of one tunnel.

    Attributes:
        dial: Connects to the Proxy over TLS, keepalive included; raises SvcError.
        proxy_of: The node id of the Proxy at the other end, from its verified
            certificate; raises SvcError for anybody else (:func:`proxy_by`).
        sign: Signs the bytes of a registration with our node key.
    """

    connector: Connector
    dial: Callable[[], Awaitable[IRpcChannel]]
    proxy_of: Callable[[Peer], str]
    sign: Callable[[bytes], Signed]
    openings: Openings
    tasks: BackgroundTasks
    clock: IReactorTime
    times: TunnelTimes = field(factory=TunnelTimes)
    _generation: int = field(default=0, init=False)
    _cycle: TunnelCycle | None = field(default=None, init=False)

    def begin(self, tunnel: Tunnel) -> Cycle:
        """The next cycle.  Given to the machine as ``begin``."""
        self._cycle = cycle = TunnelCycle(self, tunnel)
        self.tasks.spawn("tunnel", cycle.run())
        return cycle

    async def ended(self) -> None:
        """Wait until the cycle that runs, if one does, is over and its connection closed."""
        if self._cycle is not None:
            await self._cycle.over()

    def registration(self, proxy_id: str, nonce: bytes) -> Signed:
        """Signed over Authority's nonce; each is of a higher generation than the last."""
        self._generation += 1
        me = self.connector
        return self.sign(
            encode_registration(
                Registration(
                    me.cluster,
                    me.node_id,
                    proxy_id,
                    nonce,
                    me.resources,
                    me.instance_id,
                    self._generation,
                    me.version,
                    me.capabilities,
                )
            )
        )


@define(eq=False)
class TunnelCycle:
    """See the module."""

    _tunnels: Tunnels
    _tunnel: Tunnel
    _channel: IRpcChannel | None = field(default=None, init=False)
    _link: ProxyLink | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    async def over(self) -> None:
        """Wait for the end of :meth:`run`."""
        if not self._is_over:
            waiting: Deferred[None] = Deferred(self._waiting.remove)
            self._waiting.append(waiting)
            await waiting

    async def run(self) -> None:
        """From dial to end; tells the machine why it ended, and never raises SvcError."""
        reason = "closed"
        try:
            await self._connect_and_serve()
        except SvcError as error:
            reason = error.reason
            _log.warn("tunnel ended", reason=reason, text=error.text, stopping=self._stopped)
        except CancelledError:
            reason = "cancelled"
        except Exception:
            # The machine must hear of every end, or it would never dial again.
            reason = "internal"
            _log.failure("tunnel failed", reason=reason)
        channel, self._channel = self._channel, None
        self._tunnel.ended(reason)
        if channel is not None:
            await channel.close()
        self._is_over = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    def stop(self) -> None:
        """Say goodbye where there is somebody; else end at once."""
        self._stopped = True
        if self._link is not None:
            self._link.leave()
        elif self._channel is not None:
            self._tunnels.tasks.spawn("tunnel end", self._channel.close())

    async def _connect_and_serve(self) -> None:
        times, clock = self._tunnels.times, self._tunnels.clock
        channel = await bounded(clock, times.dial, self._tunnels.dial(), "the Proxy")
        self._channel = channel
        if self._stopped:
            return
        proxy_id = self._tunnels.proxy_of(channel.peer)
        stream = channel.stream(REGISTER_METHOD)
        self._tunnel.dialed()
        self._link = link = ProxyLink(proxy_id, channel, stream, self._tunnels.tasks)
        me = self._tunnels.connector
        unanswered = clock.callLater(times.acknowledge, stream.cancel, "not_acknowledged")
        renewal = Renewal(clock, link.say)
        try:
            await stream.send(encode_up(Hello(me.instance_id, me.version)))
            while (message := await stream.receive()) is not None:
                self._heard(decode_down(message), link, unanswered, renewal)
        finally:
            self._link = None
            renewal.stop()
            if unanswered.active():
                unanswered.cancel()
            stream.cancel()

    def _heard(
        self, said: Down, link: ProxyLink, unanswered: IDelayedCall, renewal: Renewal
    ) -> None:
        match said:
            case Nonce():
                link.say(self._tunnels.registration(link.proxy_id, said.nonce))
            case Accepted():
                if unanswered.active():
                    unanswered.cancel()
                renewal.start(min(self._tunnels.times.renew, said.lease_secs / 3))
                self._tunnel.registered()
                _log.info("tunnel registered", proxy=link.proxy_id, lease=said.lease_secs)
                for one in said.withheld:
                    _log.warn(
                        "declared a resource the cluster is not giving us",
                        resource=one.id,
                        reason=one.reason,
                    )
            case OpenNotice():
                self._tunnels.tasks.spawn("session", self._tunnels.openings.open(said, link))
            case Draining():
                _log.info("the Proxy is stopping", proxy=link.proxy_id)
            case Renewed():
                pass


@define(eq=False)
class Renewal:
    """Renews the lease again and again, once started."""

    _clock: IReactorTime
    _say: Callable[[Up], None]
    _next: IDelayedCall | None = field(default=None, init=False)
    _every: float = field(default=0.0, init=False)

    def start(self, every: float) -> None:
        """Renew every so many seconds, at least one; from now on."""
        self.stop()
        self._every = max(1.0, every)
        self._next = self._clock.callLater(self._every, self._renew)

    def stop(self) -> None:
        """Renew no more.  Idempotent."""
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None

    def _renew(self) -> None:
        self._next = self._clock.callLater(self._every, self._renew)
        self._say(Renew())


@define(eq=False)
class ProxyLink:
    """The tunnel as sessions know it: whose it is, how to refuse, how to carry."""

    proxy_id: str
    _channel: IRpcChannel
    _stream: IRpcStream
    _tasks: BackgroundTasks

    def say(self, message: Up) -> None:
        """Send in the background; a broken tunnel ends by its own reader."""
        self._tasks.spawn("tunnel message", self._send(encode_up(message)))

    def refuse(self, session_uid: str, word: str) -> None:
        """See :class:`svc.connector.opening.Link`."""
        self.say(OpenRefused(session_uid, word))

    def leave(self) -> None:
        """Say goodbye; the Proxy then ends the call."""
        self.say(Goodbye())
        self._stream.end()

    def carry(self, session_uid: str, secret: bytes) -> IStreamClientEndpoint:
        """See :class:`svc.connector.opening.Link`."""

        async def opened() -> object:
            stream = self._channel.stream(CARRY_METHOD)
            try:
                await stream.send(open_frame(encode_carry_open(session_uid, secret)))
            except BaseException:
                stream.cancel()
                raise
            return stream

        return StreamClientEndpoint(opened)  # type: ignore[arg-type]

    async def _send(self, message: bytes) -> None:
        try:
            await self._stream.send(message)
        except CancelledError:
            raise
        except SvcError as error:
            _log.debug("tunnel message not sent", reason=error.reason)

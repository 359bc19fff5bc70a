"""One connection of a tunnel: dials, registers, receives, drains and closes.

A tunnel has one leg at a time, but for the moment in which it moves to a
fresher one: then the old leg is *retired* and ends with the last session it
carries.  A leg decides nothing about sessions: notices go to
:class:`~svc.connector.opening.ConnectorSessions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.connector.proxies import DuplicateProxy, ProxyAddress
from svc.connector.tunnel_parts import TunnelParts
from svc.errors import SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel, IRpcStream, Peer
from svc.messages.gated import (
    CHECKPOINT_METHOD,
    CheckpointAnswer,
    checkpoint_message,
    read_checkpoint_answer,
)
from svc.messages.tunnel import (
    CARRY_METHOD,
    REGISTER_METHOD,
    Down,
    DrainNotice,
    Goodbye,
    Hello,
    LaneOffer,
    Nonce,
    OpenNotice,
    OpenRefused,
    Renew,
    Renewed,
    Up,
    decode_down,
    encode_carry_open,
    encode_up,
)
from svc.model.cluster.registration import AcceptedRegistration
from svc.model.session.ending import SessionOver
from svc.model.signing import Signed
from svc.proto.gate.v1 import session_pb2
from svc.rpc.client.channel import ClientStream
from svc.rpc.endpoint import StreamClientEndpoint
from svc.rpc.frames import data_frame, open_frame
from svc.rpc.keepalive import CommonTicks
from svc.rpc.max_age import Shown
from svc.runtime.services import BackgroundTasks, bounded

_log = Logger(namespace="svc_connector")

_LOOK_SECS = 0.5
"""How often a retired leg is looked at for what it still carries."""

_CHECKPOINT_SECS = 15.0
_HEALTH_SECS = 10.0

MAX_UNSENT = 64
"""Messages that may wait once the stream is full, for a Proxy that reads slowly or not at all."""


class LegListener(Protocol):
    """Receives the progress of a leg."""

    def dialed(self, leg: Leg) -> None:
        """The connection is open and the registration was sent."""

    def registered(self, leg: Leg) -> None:
        """The Proxy acknowledged the registration (again, if it asked again)."""


@define(eq=False)
class Leg:
    """See the module.

    Attributes:
        than: Of the leg this one is to replace: it must be fresher.
        shown: Of the connection, once it stands.
        is_retired: Another leg has taken over.
    """

    _tunnels: TunnelParts
    _listener: LegListener
    than: Shown | None = None
    shown: Shown = field(factory=Shown, init=False)
    is_retired: bool = field(default=False, init=False)
    _channel: IRpcChannel | None = field(default=None, init=False)
    _link: LegLink | None = field(default=None, init=False)
    _renewal: LeaseRenewal | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    async def serve(self) -> None:
        """From dial to the end of the registration.

        Raises:
            SvcError: why it ended, unless the Proxy ended it in order.
        """
        try:
            proxy_id = await self._reach()
            if self._channel is None or self._stopped:
                return
            stream = self._channel.stream(REGISTER_METHOD)
            self._listener.dialed(self)
            self._link = LegLink(
                proxy_id=proxy_id, channel=self._channel, stream=stream, tasks=self._tunnels.tasks
            )
            try:
                await self._receive(self._link, stream)
            finally:
                self._link = None
                stream.cancel()
        finally:
            self._tunnels.proxies.release(self)

    async def _reach(self) -> str:
        """Connect to a Proxy that no other tunnel leads to; its node id.

        Where another address is free it is tried next, without a wait; one that is to replace
        another leg stays with that leg's address.
        """
        proxies, tried = self._tunnels.proxies, list[ProxyAddress]()
        if self.than is not None:
            return await self._dial(proxies.current(self._tunnels))
        way = proxies.next_way(self._tunnels, tried)
        assert way is not None  # there is always one to begin with
        while True:
            try:
                return await self._dial(way)
            except SvcError as error:
                await self.close()
                tried.append(way)
                following = proxies.next_way(self._tunnels, tried)
                if following is None or self._stopped:
                    raise
                if error.reason != DuplicateProxy.reason:  # which is told already
                    _log.warn(
                        "a Proxy could not be reached; trying the next address",
                        address=way.address,
                        reason=error.reason,
                        text=error.text,
                    )
                way = following

    async def _dial(self, way: ProxyAddress) -> str:
        tunnels = self._tunnels
        ours = tunnels.fresh.ours
        channel = await bounded(tunnels.clock, tunnels.times.dial, way.dial(), "the Proxy")
        self._channel = channel
        if self._stopped:
            return ""
        self.shown = tunnels.fresh.shown(ours, channel.peer, self.than)
        proxy_id = tunnels.proxy_of(channel.peer)
        tunnels.proxies.hold(self, tunnels, proxy_id)
        return proxy_id

    async def _receive(self, link: LegLink, stream: IRpcStream) -> None:
        me, times, clock = self._tunnels.connector, self._tunnels.times, self._tunnels.clock
        unanswered = clock.callLater(times.acknowledge, stream.cancel, "not_acknowledged")
        self._renewal = renewal = LeaseRenewal(clock, link.send, self._tunnels.ticks)
        takes_lanes = self._tunnels.sessions.lane_to is not None
        try:
            hello = Hello(
                instance_id=me.instance_id,
                version=me.version,
                takes_lanes=takes_lanes,
                takes_first_flight=True,
            )
            await stream.send(encode_up(hello))
            while (message := await stream.receive()) is not None:
                self._act_on(decode_down(message), link, unanswered, renewal)
        finally:
            renewal.stop()
            self._tunnels.sessions.last.left(link)
            self._tunnels.health.left(renewal)
            if unanswered.active():
                unanswered.cancel()

    def retire(self) -> None:
        """Another leg has taken over; sessions that are open here may finish."""
        self.is_retired = True
        self._tunnels.proxies.release(self)
        if self._renewal is not None:
            self._renewal.stop()

    async def drained(self) -> None:
        """Wait until nothing runs over the connection any more.

        The Proxy ends the registration only once each of its orders is
        answered, so no session is still to come here.
        """
        while self._channel is not None and self._channel.open_streams:
            await deferLater(self._tunnels.clock, _LOOK_SECS)

    async def close(self) -> None:
        """End the connection.  Idempotent."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def leave(self) -> None:
        """Announce the departure if the Proxy is connected; otherwise end at once."""
        self._stopped = True
        if self._link is not None:
            self._link.leave()
        elif self._channel is not None:
            self._tunnels.tasks.spawn("tunnel end", self.close())

    def _act_on(
        self, said: Down, link: LegLink, unanswered: IDelayedCall, renewal: LeaseRenewal
    ) -> None:
        match said:
            case Nonce():
                link.send(self._tunnels.registration(link.proxy_id, said.nonce))
            case AcceptedRegistration():
                if unanswered.active():
                    unanswered.cancel()
                self._tunnels.inventories.receive(link.proxy_id, said.inventory)
                renewal.start(self._tunnels.times.renewal(said.lease_secs))
                self._listener.registered(self)
                self._tunnels.sessions.last.came(link)
                self._tunnels.health.came(renewal)
                _log.info("tunnel registered", proxy=link.proxy_id, lease=said.lease_secs)
                for one in said.withheld:
                    _log.warn(
                        "the configuration has a resource that the cluster does not assign to this "
                        "Connector",
                        resource=one.id,
                        reason=one.reason,
                    )
            case OpenNotice():
                self._tunnels.tasks.spawn("session", self._tunnels.sessions.open(said, link))
            case LaneOffer():
                self._tunnels.tasks.spawn("direct lane", self._tunnels.sessions.move(said, link))
            case DrainNotice():
                _log.info("the Proxy is stopping", proxy=link.proxy_id)
            case Renewed():
                renewal.renewed(said)


@define(eq=False)
class LeaseRenewal:
    """Renews the lease again and again, once started; a health report goes with a renewal."""

    _clock: IReactorTime
    _send: Callable[[Up], None]
    _ticks: CommonTicks | None = None
    _next: IDelayedCall | None = field(default=None, init=False)
    _every: float = field(default=0.0, init=False)
    _reported: Deferred[None] | None = field(default=None, init=False)

    def start(self, every: float) -> None:
        """Renew every so many seconds, at least one; from now on."""
        self.stop()
        self._every = max(1.0, every)
        self._wait()

    def stop(self) -> None:
        """Renew no more.  Idempotent."""
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None
        self._answer(Unavailable("the registration is over"))

    async def report_health(self, signed: Signed) -> None:
        """See :class:`svc.connector.health.HealthLink`."""
        if self._next is None or self._reported is not None:
            raise Unavailable("no health report can go to this Proxy now")
        self._next.cancel()
        answered: Deferred[None] = Deferred()
        self._reported = answered
        self._renew(signed)
        try:
            await bounded(self._clock, _HEALTH_SECS, answered, "the Proxy's answer")
        finally:
            self._reported = None

    def renewed(self, said: Renewed) -> None:
        """The Proxy has answered a renewal."""
        if said.health_taken is not None:
            self._answer(None if said.health_taken else Unavailable("the report was not taken"))

    def _answer(self, refusal: SvcError | None) -> None:
        answered, self._reported = self._reported, None
        if answered is None:
            return
        if refusal is None:
            answered.callback(None)
        else:
            answered.errback(refusal)

    def _renew(self, health: Signed | None = None) -> None:
        self._wait()
        self._send(Renew(health))

    def _wait(self) -> None:
        every, ticks = self._every, self._ticks
        seconds = every if ticks is None else ticks.shortened(every)
        self._next = self._clock.callLater(seconds, self._renew)


@define(eq=False)
class CarryEndpoint(StreamClientEndpoint):
    """Opens a session's stream, and reports why it ends."""

    _first_flight: bytes = field(default=b"", init=False, repr=False)

    def begin_with(self, flight: bytes) -> None:
        """See :class:`svc.connector.ends.Carrying`."""
        self._first_flight = flight

    def take_first_flight(self) -> bytes:
        """What the stream begins with, once."""
        flight, self._first_flight = self._first_flight, b""
        return flight

    @property
    def fault(self) -> str:
        """See :class:`svc.connector.ends.Carrying`."""
        return "" if self.transport is None else self.transport.fault

    def end_with(self, word: str) -> None:
        """See :class:`svc.connector.opening.Carrying`."""
        if self.transport is not None:
            self.transport.end_with(SessionOver(word))

    async def left(self) -> None:
        """See :class:`svc.connector.opening.Carrying`."""
        if not isinstance(self.end, ClientStream):
            return
        try:
            await self.end.closed
        except SvcError:
            pass  # It is over, whatever the Proxy made of it.


@define(eq=False)
class LegLink:
    """The leg as sessions know it: whose it is, how to refuse, how to carry."""

    proxy_id: str
    _channel: IRpcChannel
    _stream: IRpcStream
    _tasks: BackgroundTasks
    _unsent: int = field(default=0, init=False)

    @property
    def peer(self) -> Peer:
        """The Proxy's end of the connection."""
        return self._channel.peer

    def send(self, message: Up) -> None:
        """Send in the background; the reader ends a broken tunnel.

        A Proxy that asks on and reads nothing breaks it: what we owe it would grow for ever, and
        no answer of ours may be left out while the registration stands.
        """
        if self._unsent >= MAX_UNSENT:
            self._stream.cancel("proxy_reads_nothing")
            return
        self._tasks.spawn("tunnel message", self._send(encode_up(message)))

    def refuse(self, session_uid: str, word: str) -> None:
        """See :class:`svc.connector.opening.NoticeLink`."""
        self.send(OpenRefused(session_uid, word))

    def leave(self) -> None:
        """Say goodbye; the Proxy then ends the call."""
        self.send(Goodbye())
        self._stream.end()

    def carry(self, session_uid: str, secret: bytes, answer: Signed | None = None) -> CarryEndpoint:
        """See :class:`svc.connector.opening.NoticeLink`."""

        async def opened() -> object:
            stream = self._channel.stream(CARRY_METHOD)
            try:
                await stream.send(open_frame(encode_carry_open(session_uid, secret, answer)))
                if flight := endpoint.take_first_flight():
                    await stream.send(data_frame(flight))
            except BaseException:
                stream.cancel()
                raise
            endpoint.open_no_more()
            return stream

        endpoint = CarryEndpoint(opened)  # type: ignore[arg-type]
        return endpoint

    async def checkpoint(self, signed: Signed) -> CheckpointAnswer:
        """See :class:`svc.connector.opening.NoticeLink`."""
        message = await self._channel.unary(
            CHECKPOINT_METHOD,
            checkpoint_message(signed),
            session_pb2.CheckpointAnswer,
            timeout=_CHECKPOINT_SECS,
        )
        return read_checkpoint_answer(message)

    async def _send(self, message: bytes) -> None:
        self._unsent += 1
        try:
            await self._stream.send(message)
        except CancelledError:
            raise
        except SvcError as error:
            _log.debug("a tunnel message was not sent", reason=error.reason)
        finally:
            self._unsent -= 1

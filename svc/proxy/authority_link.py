"""The way to Authority: one connection, greeted, followed, dialed again for ever.

Whoever needs Authority asks for the channel and is refused at once while
there is none: an open is never kept waiting for a connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.errors import SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel, IRpcStream
from svc.messages.control import HELLO_METHOD, Lanes, hello_message, read_lanes
from svc.messages.snapshot import SNAPSHOT_METHOD, SnapshotFrame, decode_frame
from svc.proto.gate.v1 import control_pb2 as pb

_log = Logger(namespace="svc_proxy")

_HELLO_SECS = 10.0
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
_SILENCE_SECS = 20.0
"""Heartbeats come every few seconds; a follow that is silent this long is dialed anew."""


@define(slots=False, eq=False)
class AuthorityLink(Service):
    """Keeps the control connection.

    Attributes:
        dial: Opens a channel to Authority, TLS done and its principal checked.
        take: Takes each snapshot frame; what it raises ends the connection.
        have: Digest of the bundle already held.
        claims: Uids of the sessions this Proxy carries, said at each greeting.
        jitter: Makes the wait out of the backoff's seconds.
    """

    clock: IReactorTime
    dial: Callable[[], Awaitable[IRpcChannel]]
    take: Callable[[SnapshotFrame], Awaitable[None]]
    have: Callable[[], bytes]
    claims: Callable[[], Iterable[str]]
    jitter: Callable[[float], float]
    version: str
    instance_id: str
    lanes: Lanes | None = None
    _channel: IRpcChannel | None = None
    _running_loop: Deferred[None] | None = None
    _connected: list[Callable[[], object]] = field(factory=list)
    _waiting: list[Deferred[IRpcChannel]] = field(factory=list)

    def startService(self) -> None:
        """Begin to dial; does not wait for the first connection."""
        Service.startService(self)
        self._running_loop = Deferred.fromCoroutine(self._run())
        self._running_loop.addErrback(lambda _: None)

    async def _stop(self) -> None:
        if self._running_loop is not None:
            self._running_loop.cancel()
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def stopService(self) -> Deferred[None]:
        """Close the connection and dial no more."""
        Service.stopService(self)
        return Deferred.fromCoroutine(self._stop())

    def on_connected(self, told: Callable[[], object]) -> None:
        """Call *told* after each greeting that Authority answered."""
        self._connected.append(told)

    def channel(self) -> IRpcChannel:
        """The channel, now.

        Raises:
            Unavailable: ``authority_unreachable``.
        """
        if self._channel is None:
            raise Unavailable(
                "Authority cannot be reached from this Proxy; try again",
                reason="authority_unreachable",
            )
        return self._channel

    def next_channel(self) -> Deferred[IRpcChannel]:
        """The channel once there is one: for what must outlive an Authority's absence."""
        waiting: Deferred[IRpcChannel] = Deferred(self._waiting.remove)
        if self._channel is not None:
            waiting = Deferred()
            waiting.callback(self._channel)
        else:
            self._waiting.append(waiting)
        return waiting

    async def _run(self) -> None:
        failures = 0
        while self.running:
            try:
                await self._connection()
                failures = 0
            except SvcError as e:
                failures = failures + 1 if self._channel is None else 0
                _log.warn("authority connection over", reason=e.reason, text=e.text)
            finally:
                await self._drop()
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(failures, 10))
            await deferLater(self.clock, self.jitter(wait))

    async def _connection(self) -> None:
        channel = await self.dial()
        try:
            request = hello_message(self.version, self.instance_id, self.claims())
            answer = await channel.unary(
                HELLO_METHOD, request, pb.HelloResponse, timeout=_HELLO_SECS
            )
            self.lanes = read_lanes(answer)
            stream = channel.stream(SNAPSHOT_METHOD)
            await stream.send(pb.SnapshotRequest(have_digest=self.have()).SerializeToString())
            stream.end()
            # The first snapshot is there before anybody is told that we are connected.
            await self._frame(stream)
        except BaseException:
            await channel.close()
            raise
        self._channel = channel
        _log.info("authority connected", authority=self.lanes.authority_id)
        self._tell(channel)
        while True:
            await self._frame(stream)

    async def _frame(self, stream: IRpcStream) -> None:
        silent = self.clock.callLater(_SILENCE_SECS, stream.cancel, "silent")
        try:
            data = await stream.receive()
        finally:
            if silent.active():
                silent.cancel()
        if data is None:
            raise Unavailable("Authority ended the snapshot", reason="snapshot_ended")
        await self.take(decode_frame(data))

    def _tell(self, channel: IRpcChannel) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(channel)
        for told in self._connected:
            told()

    async def _drop(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

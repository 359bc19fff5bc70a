"""An HTTP/2 connection on a Twisted transport: reads, batches writes, deadlines, keepalive.

Both sides of gRPC stand on :class:`WireProtocol`; it knows nothing of methods.  What was queued in
a turn is written in one piece, and nothing is moved into frames while the transport is full.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from h2.errors import ErrorCodes
from twisted.internet.interfaces import (
    IHandshakeListener,
    IPushProducer,
    IReactorTime,
    ISSLTransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import SvcError
from svc.interfaces.rpc import Peer
from svc.rpc.arrival import waited_secs
from svc.rpc.call import MessageEnd, OnProblem
from svc.rpc.keepalive import DIALER_SILENCE, TICK_SECS, Keepalive
from svc.rpc.peer import peer_of
from svc.rpc.read_hold import ReadHold
from svc.rpc.status import connection_lost
from svc.rpc.throttle import ReadThrottle
from svc.rpc.timeouts import ConnectionTimeouts
from svc.rpc.timers import NamedTimers
from svc.runtime.dial_failure import dial_failure
from svc.wire.connection import Connection
from svc.wire.errors import WireError
from svc.wire.events import Event, Finished, GoingAway, Ponged, QueueEmptied, Readable, Ready
from svc.wire.limits import KIB, WireLimits
from svc.wire.streams import Stream

HANDSHAKE_SECONDS = 10.0
"""How long a connection may take to speak HTTP/2, TLS included, where nobody says otherwise."""

_COARSE = 1 / 16
"""Of its interval, how much earlier than it might the other end looks for silence: those of many
connections look in the same turn, and need not wake the process one by one."""

_LONG = 10 * TICK_SECS
"""Seconds of a silence to which a tick more or less is little."""

_TURN_BUDGET = 512 * KIB
_PING = b"svc-ping"
_OF_A_STREAM = (Readable, QueueEmptied, Finished)
_log = Logger(namespace="svc_rpc")


def ignore(_what: str, _detail: str) -> None:
    """An *on_problem* for callers that want no events."""


@implementer(IHandshakeListener, IPushProducer)
class WireProtocol(Protocol):
    """One connection; subclasses say what a call is."""

    transport: Any
    is_ending = False
    """Whether it is to end once nothing is left to do: :meth:`look_after` sees to it."""

    close_seconds = 5.0
    """How long a peer may take to read the rest of a closed connection."""

    def __init__(
        self,
        clock: IReactorTime,
        limits: WireLimits,
        *,
        is_client: bool,
        plaintext: bool,
        on_problem: OnProblem,
        keepalive: Keepalive | None = None,
        handshake_secs: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._limits, self._is_client = limits, is_client
        self.peer = Peer("", 0)
        self.end_reason: str | None = None
        self.lost_because = ""
        self.clock = clock
        self.heard_at = clock.seconds()
        self.on_problem = on_problem
        self._plaintext = plaintext
        self._keepalive = keepalive
        self._handshake_secs = handshake_secs
        self._is_paused = self._is_holding = self._is_ready = self._is_lost = False
        self._is_flushing = False
        self._before: list[Callable[[], object]] | None = None
        self._timers = NamedTimers(clock)
        self._slow: ReadThrottle | None = None

    @cached_property
    def wire(self) -> Connection:
        """HTTP/2; made when first asked for: a caller that never gets so far costs none."""
        return self.wire_within(self._limits)

    # Made when first asked for, as well: few connections are ever held back, or left waiting.

    @cached_property
    def _reading(self) -> ReadHold:
        return ReadHold(lambda: self.transport)

    @cached_property
    def _timeouts(self) -> ConnectionTimeouts:
        return ConnectionTimeouts(self, self._timers.after, self._timers)

    def wire_within(self, limits: WireLimits) -> Connection:
        """HTTP/2 within other limits, for a subclass that meets a peer of which it takes less."""
        return Connection(limits, is_client=self._is_client, on_work=self.schedule)

    # -- the transport's side

    def connectionMade(self) -> None:
        """Begin at once in plaintext, after the handshake over TLS."""
        # Asked of the object: TLS says it is TCP whatever it runs over.
        set_no_delay = getattr(self.transport, "setTcpNoDelay", None)
        if set_no_delay is not None:
            set_no_delay(True)
        waited = min(waited_secs(self.transport), self._handshake_secs / 2)
        self._timers.after("handshake", self._handshake_secs - waited, self._handshake_late)
        if ISSLTransport.providedBy(self.transport):
            return
        if self._plaintext:
            self._begin()
        else:
            self.fail("plaintext_refused")

    def handshakeCompleted(self) -> None:
        """TLS is up: only HTTP/2 is spoken here."""
        if self.transport.negotiatedProtocol != b"h2":
            self.fail("no_h2")
        else:
            self._begin()

    def dataReceived(self, data: bytes) -> None:
        """Feed the wire, unless the peer is held back."""
        if self._slow is not None:
            self._slow.received(data)
        elif self.end_reason is None and not self._is_holding:
            self._take(data)
        else:
            self._feed(data)
        if self.is_ending and self._is_client:
            self.look_after()

    def _feed(self, data: bytes) -> None:
        """Feed the wire; what it did of that is acted on before this returns."""
        if self.end_reason is not None:
            return
        if self._is_holding:
            # TLS hands over what it had when we asked it to wait.
            self.wire.hold(data)
        else:
            self._take(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The transport is gone: every call is over."""
        has_begun = "wire" in vars(self)
        while has_begun and self.wire.has_unread and self.end_reason is None:
            self._take(b"")  # It said this before it went.
        self._is_lost = True
        self._timers.stop_all()
        if self._slow is not None:
            self._slow.stop()
        self.lost_because = "" if reason.value is None else dial_failure(reason.value)
        if not self._is_ready and self.end_reason is None:
            self.end_reason = "handshake_failed"
            self.on_problem(self.end_reason, self.lost_because)
        self.end_reason = self.end_reason or "lost"
        for stream in self.wire.calls if has_begun else ():
            if isinstance(stream.context, MessageEnd):
                stream.context.lost(connection_lost(self.end_reason, has_begun=bool(stream.id)))
            stream.drop()
        self.ended(self.end_reason)

    def pauseProducing(self) -> None:
        """The transport is full."""
        self._is_paused = True
        self._timeouts.full()

    def resumeProducing(self) -> None:
        """The transport accepts bytes again."""
        self._is_paused = False
        self._timeouts.empty()
        self.schedule()

    def stopProducing(self) -> None:
        """The transport is going; ``connectionLost`` follows."""
        self._is_paused = True

    # -- for ends and subclasses

    def schedule(self) -> None:
        """Write what is queued in this turn of the reactor, once."""
        if self._is_lost or self._is_paused or self._is_flushing or "flush" in self._timers:
            return
        self._timers["flush"] = self.clock.callLater(0, self._flush)

    def before_writing(self, call: Callable[[], object]) -> None:
        """Run *call* once, just before writing next."""
        if self._before is None:
            self._before = [call]
        else:
            self._before.append(call)
        self.schedule()

    def soon(self, call: Callable[[], object]) -> None:
        """Run *call* in the next turn."""
        self.clock.callLater(0, call)

    def keep_alive(self, keepalive: Keepalive) -> None:
        """Ask the peer for signs of life from now on; the first asker's times stay."""
        if self._keepalive is None:
            self._keepalive = keepalive
            if self._is_ready and self.end_reason is None:
                self._timers.after("ping", self._silence(keepalive), self._ping)

    def hold(self, seconds: float) -> None:
        """Read nothing more from the peer for so long, and then a little at a time."""
        if self._is_lost or self.end_reason is not None:
            return
        if self._slow is None:
            self._slow = ReadThrottle(self.clock, self._reading.holder("asks too much"), self._feed)
        self._slow.hold(seconds)

    def reset(self, stream: Stream, code: ErrorCodes) -> None:
        """Reset one stream."""
        self.wire.reset(stream, code)
        self.schedule()

    def close(self, reason: str, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """End the connection in order; a peer that does not read is cut off soon.  Idempotent."""
        if self._is_lost or self.end_reason is not None:
            return
        self.end_reason = reason
        self.wire.terminate(code, reason if code else "")
        self._write()
        self._read_again()
        self.transport.unregisterProducer()
        self.transport.loseConnection()
        self._timers.after("close", self.close_seconds, self._abort)

    def give_up(self, reason: str) -> None:
        """End the connection, telling the peer that it was asked for too much.  Idempotent."""
        if not self._is_lost and self.end_reason is None:
            self.on_problem(reason, self.peer.host)
            self.close(reason, ErrorCodes.ENHANCE_YOUR_CALM)

    def fail(self, reason: str) -> None:
        """End the connection at once.  Idempotent."""
        if not self._is_lost and self.end_reason is None:
            self.end_reason = reason
            self.on_problem(reason, self.peer.host)
            self._abort()

    def met(self) -> None:
        """The peer is known and nothing was sent yet; subclasses may still change the limits."""

    def opened(self, event: Event) -> None:
        """A peer's call has started; only servers get this."""

    def look_after(self) -> None:
        """It was written to while it :attr:`is_ending`, or a caller of ours read."""

    def settled(self) -> None:
        """The peer speaks HTTP/2; subclasses that wait for it override this."""

    def going_away(self, event: GoingAway) -> None:
        """The peer accepts no further calls, or starts none."""

    def ended(self, reason: str) -> None:
        """The connection is over; subclasses notify the waiting callers."""

    # -- inside

    def _begin(self) -> None:
        self.transport.registerProducer(self, True)  # it would delay a failed handshake's close
        try:
            self.peer = peer_of(self.transport)
        except (SvcError, ValueError, OSError):
            _log.failure("a peer's certificate cannot be read")
            self.fail("unreadable_peer")
            return
        self.met()
        self.schedule()  # with the answer to what came behind the end of the handshake

    def _take(self, data: bytes) -> None:
        self.heard_at = self.clock.seconds()
        try:
            events = self.wire.receive(data, self.heard_at)
            if self._is_paused:
                self.wire.check_held()
        except WireError as broken:
            self.on_problem(broken.reason, str(broken.details.get("error", broken.text)))
            self._write()
            self.close(broken.reason)
            return
        for event in events:
            # Nearly all of them, without a call.
            end = event.stream.context if type(event) is Readable else None
            if isinstance(end, MessageEnd):
                end.readable()
            else:
                self._act(event)
        if "flush" not in self._timers and self.wire.has_work:
            if events or self._is_paused or self._is_flushing:
                self.schedule()
            else:
                self._flush()  # An answer to a ping: nobody has anything to say with it.
        if not self.wire.is_clear:
            self._left_over()

    def _left_over(self) -> None:
        """What came does not end with a frame, or waits for its turn."""
        self._timeouts.received()
        if self.wire.has_unread and self.end_reason is None and not self._is_holding:
            self._is_holding = True
            self._reading.hold("turn")
            self._timers.after("unread", 0, self._read_on)

    def _read_on(self) -> None:
        """Others had their turn."""
        if self.end_reason is not None:
            return
        self._take(b"")
        if self.wire.has_unread:
            self._timers.after("unread", 0, self._read_on)
        else:
            self._read_again()

    def _read_again(self) -> None:
        if self._is_holding:
            self._is_holding = False
            self._reading.let_go("turn")

    def _act(self, event: Event) -> None:
        if isinstance(event, _OF_A_STREAM):
            end = event.stream.context
            if not isinstance(end, MessageEnd):
                return
            if isinstance(event, Readable):
                end.readable()
            elif isinstance(event, QueueEmptied):
                end.drained()
            else:
                event.stream.context = None
                end.over()
        elif isinstance(event, Ready):
            self._ready()
        elif isinstance(event, Ponged):
            self._timers.stop("pong")
        elif isinstance(event, GoingAway):
            self.going_away(event)
        else:
            self.opened(event)

    def _ready(self) -> None:
        self._is_ready = True
        self._timers.stop("handshake")
        if self._keepalive is not None:
            self._timers.after("ping", self._silence(self._keepalive), self._ping)
        self.settled()

    def _silence(self, keepalive: Keepalive) -> float:
        return keepalive.interval * (DIALER_SILENCE if self._is_client else 1)

    def _ping(self) -> None:
        """Ask for a sign of life, unless the peer gave one meanwhile."""
        if self._keepalive is None:
            return
        silence, ticks = self._silence(self._keepalive), self._keepalive.ticks
        due = self.heard_at + silence
        left, again = due - self.clock.seconds(), silence
        if not self._is_client:
            slack = _COARSE * silence
            wait = left - due % slack
        elif ticks is not None and silence >= _LONG:
            slack, wait, again = TICK_SECS, ticks.shortened(left), ticks.shortened(silence)
        else:
            slack, wait = 0.0, left
        if left > slack:
            self._timers.after("ping", wait, self._ping)
            return
        self.wire.ping(_PING)
        self.schedule()
        self._timers.after("ping", again, self._ping)
        if "pong" not in self._timers:
            self._timers.after(
                "pong", self._keepalive.timeout, lambda: self.fail("keepalive_failed")
            )

    def _handshake_late(self) -> None:
        self.fail("handshake_timeout")

    def _abort(self) -> None:
        self.transport.abortConnection()

    def _flush(self) -> None:
        self._timers.pop("flush", None)
        before, self._before = self._before, None
        # What these queue is written below: a turn of its own for it would be a poll for nothing.
        self._is_flushing = True
        try:
            for call in before or ():
                call()
        except BaseException:
            self._is_flushing = False
            self.schedule()
            raise
        self._is_flushing = False
        try:
            self._write()
            if self.wire.blocked:
                self._timeouts.written()
            if self.wire.events:
                for event in self.wire.take_events():
                    self._act(event)
        finally:
            # Whoever of these raised: the others wait for their turn.
            if self.wire.has_work or self._before:
                self.schedule()
        if self.is_ending:
            self.look_after()

    def _write(self) -> None:
        parts = self.wire.pump(_TURN_BUDGET)
        if parts:
            self.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

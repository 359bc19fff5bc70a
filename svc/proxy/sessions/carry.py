"""Joins the client's call and the Connector's carry stream of one session, without reading them.

Invariants: the session ends once, with one reason; however it ends, the bytes
that passed are known, and the side that did not end it is told in the manner
of the end: a close as a close, a break as a break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRawEnd, IRpcCall
from svc.interfaces.transport import ICarriedSession, OpenOrder
from svc.lanes.join import RelayedBytes, join_streams
from svc.lanes.rendezvous import Rendezvous
from svc.lanes.splice import Splice, SpliceEnded
from svc.messages.control import CountedEnd
from svc.messages.tunnel import MAX_FIRST_FLIGHT
from svc.model.session.ending import (
    BROKEN,
    CANCELLED,
    CLOSED,
    NOT_RECORDED,
    PEER_PROXY_LOST,
    READING_CHANGED,
    TARGET_CLOSED,
)
from svc.model.session.session import DIRECT, IN_TUNNEL
from svc.model.session.tunnels import EndReason
from svc.model.signing import Signed
from svc.proxy.sessions.ending import EndFrameReader
from svc.proxy.sessions.route import SessionRoute
from svc.rpc.client.channel import ClientStream
from svc.rpc.frames import data_head, open_frame
from svc.tunnel.transport import TUNNEL_WORD
from svc.wire.framing import PREFIX_BYTES

_log = Logger(namespace="svc_proxy")

_WORD_SECS = 1.0
"""How long a session whose lane broke may go without a word why; its ends wait longer."""

_SNAPSHOT_SECS = 5.0
"""How long our own snapshot may be behind another Proxy's, which says that it ends a session."""

_OF_THE_GATE = frozenset({NOT_RECORDED, READING_CHANGED})
"""Why a gate ends a session of itself."""

_FAULTS = {CANCELLED: Fault.CANCELLED}

FirstWord = Callable[[Signed | None], bytes]
"""Makes what a call is told first, of the Connector's answer to the person of a gated session."""


@implementer(ICarriedSession)
class Carried(Protocol):
    """The session's end at the tunnel.

    A tunnel connects it as it would any protocol; instead of bytes it is given
    the carry call, and joins the two.

    Attributes:
        over: Fires when the session is over; fails with SvcError where it broke.
        route: Whose stream it is; None before one was ordered.
        is_left_behind: The tunnel ended under it: its departure notice names it.
        closed_by: The word of an end in order.

    Args:
        on_moved: Called when it has moved to a direct lane.
    """

    def __init__(
        self,
        call: IRpcCall,
        first_word: FirstWord,
        *,
        clock: IReactorTime,
        on_moved: Callable[[], object] = lambda: None,
    ) -> None:
        self.over: Deferred[None] = Deferred(lambda _: self._break_off("cancelled"))
        self.route: SessionRoute | None = None
        self.is_left_behind = False
        self.closed_by = CLOSED
        self._on_moved = on_moved
        self._end_frame_reader = EndFrameReader()
        self._carry: IRpcCall | ClientStream | None = None
        self._joined = RelayedBytes(0, 0)
        self._taken = 0
        self._rendezvous: Deferred[Splice] | None = None
        self._lane: Splice | None = None
        self._was_offered = False
        self._join_is_over = False
        self._is_breaking = False
        self._clock = clock
        self._unexplained: IDelayedCall | None = None
        self._call = call
        self._first_word = first_word
        self._opening: Deferred[IProtocol] | None = None
        self._joining: Deferred[RelayedBytes] | None = None
        self._carry_over: Deferred[object] = Deferred(lambda _: self.break_off("carry_ended"))

    @property
    def counted(self) -> RelayedBytes:
        """Bytes that passed, from the client and from the Connector, in whatever lane."""
        up, down = (0, 0) if self._lane is None else self._lane.passed
        from_client = self._taken + self._joined.from_first
        return RelayedBytes(from_client + up, self._joined.from_second + down)

    @property
    def lane(self) -> str:
        """Which lane carries its bytes, or did last."""
        return IN_TUNNEL if self._lane is None else DIRECT

    def as_ended(self, uid: str, reason: str) -> CountedEnd:
        """The session's end, as it is reported to the Authority."""
        passed = self.counted
        return CountedEnd(
            session_uid=uid,
            reason=reason,
            bytes_up=passed.from_first,
            bytes_down=passed.from_second,
            lane=self.lane,
        )

    @property
    def connection(self) -> object:
        """An object for the client's connection; compared by identity only."""
        return self._call.peer

    @property
    def may_move(self) -> bool:
        """Whether it passes bytes, and no lane was ever arranged for it."""
        return not self._was_offered and self._joining is not None

    def check(self) -> None:
        """Return if what passes now may go on.

        Raises:
            Denied: it may not.
        """

    def move_by(self, rendezvous: Rendezvous) -> None:
        """Move to the lane of this meeting once both halves have met; for ``Session/Lane``."""
        self._was_offered = True
        self._rendezvous = rendezvous.spliced
        rendezvous.spliced.addCallbacks(self._moved, self._stayed)

    def open_through(
        self, route: SessionRoute, order: Callable[[bytes], OpenOrder]
    ) -> Deferred[IProtocol]:
        """Order a stream of this way and be joined to it; ending the session ends the wait.

        Args:
            order: What the Connector is told, given what the client has said already.

        Returns:
            Fires once the stream is there; fails with SvcError where none came, or the session
            was broken off.
        """
        self.route = route
        endpoint = route.endpoint(order(self._first_flight(route)))
        self._opening = opening = endpoint.connect(SingleProtocolFactory(self))
        return opening.addCallbacks(self._has_opened, self._not_opened)

    def _has_opened(self, protocol: IProtocol) -> IProtocol:
        self._opening = None
        return protocol

    def _not_opened(self, failure: Failure) -> Any:
        self._opening = None
        # What broke the session off says why; that it ended this wait, too, is no reason.
        is_broken_off = failure.check(CancelledError) and self.over.called
        return self.over if is_broken_off else failure

    def _first_flight(self, route: SessionRoute) -> bytes:
        """What the client has said already, if its way takes that with the order."""
        if not route.takes_first_flight:
            return b""
        flight = cast(IRawEnd, self._call).take_data(MAX_FIRST_FLIGHT)
        if flight:
            self._taken = PREFIX_BYTES + len(data_head(len(flight))) + len(flight)
        return flight

    def carried_by(
        self, carry: IRpcCall | ClientStream, answer: Signed | None = None
    ) -> Deferred[object]:
        """Join; fires (or fails) when the session is over.

        Called by ``Tunnel/Carry``, or by the way to another Proxy.

        Args:
            carry: The Connector's stream.
            answer: What it says to the person as it opens a gated session.
        """
        self._opening, self._carry = None, carry
        self._opened = open_frame(self._first_word(answer))
        self._joining = Deferred.fromCoroutine(self._join(carry))
        self._joining.addCallbacks(self._closed, self._broken)
        return self._carry_over

    def tunnel_ended(self, reason: EndReason) -> None:
        """The tunnel is gone; see :class:`ICarriedSession`."""
        if not self.over.called:
            self.is_left_behind = True
        self.break_off(TUNNEL_WORD + reason.value)

    def break_off(self, reason: str) -> None:
        """End the session at once, for this reason; nothing where it is over."""
        self._break_off(reason)
        if not self.over.called:
            self.over.errback(_broken(reason))
        if self._opening is not None:
            self._opening.cancel()

    def _break_off(self, reason: str) -> None:
        self._is_breaking = True
        if self._unexplained is not None and self._unexplained.active():
            self._unexplained.cancel()
        joining, self._joining = self._joining, None
        if joining is not None:
            joining.cancel()
        if self._rendezvous is not None:
            self._rendezvous.cancel()
        if self._lane is not None:
            self._lane.abort()
        # Without a stream of the Connector's nobody waits for the end of one.
        if self._carry is not None and not self._carry_over.called:
            self._carry_over.errback(_broken(reason))

    async def _say_opened(self) -> None:
        """Tell the client its grant, before any byte of the target; nobody needs it afterwards."""
        opened, self._opened = self._opened, b""
        await self._call.send(opened)

    async def _join(self, carry: IRpcCall | ClientStream) -> RelayedBytes:
        await self._say_opened()
        return await join_streams(
            cast(IRawEnd, self._call),
            cast(IRawEnd, carry),
            counted=self._count,
            watch=self._end_frame_reader.passed,
        )

    def _count(self, joined: RelayedBytes) -> None:
        self._joined = joined

    def _moved(self, lane: Splice) -> None:
        self._rendezvous, self._lane = None, lane
        lane.done.addCallback(self._lane_over)
        if self.over.called:
            lane.abort()
        else:
            self._on_moved()

    def _stayed(self, _failure: Failure) -> None:
        self._rendezvous = None

    def _lane_over(self, ended: SpliceEnded) -> None:
        if self._is_breaking:
            return  # For a reason of its own, of which this is a part.
        if not ended.is_clean:
            if self._join_is_over:
                self.break_off(BROKEN)
                return
            # Whoever broke it says why on a connection of its own, which may be behind.
            self._unexplained = self._clock.callLater(_WORD_SECS, self.break_off, BROKEN)
        elif self._join_is_over:
            self._finish()

    def _closed(self, _joined: RelayedBytes) -> None:
        self._joining = None
        self._join_is_over = True
        if self._broken_by_word():
            return
        if self._unexplained is not None:
            self.break_off(BROKEN)
            return
        self.closed_by = self._end_frame_reader.reason or self.closed_by
        if self._rendezvous is not None:
            self._rendezvous.cancel()
        # Both calls have ended in order; what is still under way in the lane arrives first.
        if self._lane is None or self._lane.done.called:
            self._finish()

    def _broken_by_word(self) -> bool:
        """Whether the Connector said of its end that it is none in order; then that ends it."""
        stated_reason = self._end_frame_reader.reason
        if stated_reason in ("", TARGET_CLOSED):
            return False
        # What is queued for the person would hold back the word.
        cast(IRawEnd, self._call).fail_raw(_broken(stated_reason))
        self.break_off(stated_reason)
        return True

    def _finish(self) -> None:
        if not self._carry_over.called:
            self._carry_over.callback(None)
        if not self.over.called:
            self.over.callback(None)

    def _broken(self, failure: Failure) -> None:
        if not failure.check(SvcError, CancelledError):
            _log.failure("connecting a session's two sides failed", failure)
        if self._joining is not None:
            self._joining = None
            lost, stated = _lost(self._carry), getattr(failure.value, "reason", "")
            # Told at once, if it was the client's call that ended.
            if _lost(self._call) is not None:
                self.break_off(CANCELLED)
            elif lost is None and stated in _OF_THE_GATE:
                self.break_off(stated)
            else:
                self._break_off_lost(self._end_frame_reader.reason or self._why_lost(lost))

    def _break_off_lost(self, word: str) -> None:
        if word:
            self.break_off(word)
        else:
            # Our own snapshot is about to end it, with the word.
            wait = self._clock.callLater(_SNAPSHOT_SECS, self.break_off, PEER_PROXY_LOST)
            self._unexplained = wait

    def _why_lost(self, lost: SvcError | None) -> str:
        """The Connector's stream broke without a word: by itself, or with its connection."""
        return BROKEN if lost is None or self.route is None else self.route.lost_word(lost)


class SingleProtocolFactory(Factory):
    """Gives the one protocol that waits for its stream."""

    noisy = False

    def __init__(self, carried: Carried) -> None:
        self._carried = carried

    def buildProtocol(self, addr: object) -> Protocol:
        """The one."""
        return self._carried


def _lost(call: IRpcCall | ClientStream | None) -> SvcError | None:
    """How a call has ended already, if it was not by its handler."""
    if call is None or isinstance(call, ClientStream):
        return None if call is None else call.outcome
    lost: list[SvcError] = []
    call.on_cancel(lost.append)  # told at once
    return lost[0] if lost else None


def _broken(reason: str) -> SvcError:
    is_tunnel = reason.startswith(TUNNEL_WORD)
    fault = Fault.UNAVAILABLE if is_tunnel else _FAULTS.get(reason, Fault.ABORTED)
    return SvcError("the session was aborted", reason=reason, fault=fault)

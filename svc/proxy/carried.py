"""One session between two calls: the client's and the Connector's carry stream, joined unread.

Invariants: the session ends once, with one reason; however it ends, the bytes
that passed are known, and the side that did not end it is told in the manner
of the end: a close as a close, a break as a break.
"""

from __future__ import annotations

from typing import cast

from attrs import define
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRawEnd, IRpcCall
from svc.lanes.join import Joined, join_streams
from svc.lanes.meeting import Meeting
from svc.lanes.splice import Splice, SpliceEnded
from svc.messages.control import Answer
from svc.messages.session import encode_opened
from svc.model.signing import Signed
from svc.rpc.frames import open_frame
from svc.tunnel.transport import RegisteredTunnel

_log = Logger(namespace="svc_proxy")

_FAULTS = {"tunnel_ended": Fault.UNAVAILABLE, "cancelled": Fault.CANCELLED}


class Carried(Protocol):
    """The session's end at the tunnel.

    A tunnel connects it as it would any protocol; instead of bytes it is given
    the carry call, and joins the two.

    Attributes:
        over: Fires when the session is over; fails with SvcError where it broke.
        tunnel: Whose stream it is; set by whoever opened it.
        is_left_behind: The tunnel ended under it: its departure notice names it.
    """

    def __init__(self, call: IRpcCall, grant: Signed, answer: Answer) -> None:
        self.over: Deferred[None] = Deferred(lambda _: self._break_off("cancelled"))
        self.tunnel: RegisteredTunnel | None = None
        self.is_left_behind = False
        self._joined = Joined(0, 0)
        self._meeting: Deferred[Splice] | None = None
        self._lane: Splice | None = None
        self._was_offered = False
        self._join_is_over = False
        self._is_breaking = False
        self._call = call
        self._opened = open_frame(encode_opened(grant, answer.decision_id))
        self._joining: Deferred[Joined] | None = None
        self._carry_over: Deferred[object] = Deferred(lambda _: self.break_off("carry_ended"))
        self.transport = _Breaker(self)  # type: ignore[assignment]

    @property
    def counted(self) -> Joined:
        """Bytes that passed, from the client and from the Connector, in whatever lane."""
        up, down = (0, 0) if self._lane is None else self._lane.passed
        return Joined(self._joined.from_first + up, self._joined.from_second + down)

    @property
    def connection(self) -> object:
        """What stands for the client's connection; compared by identity only."""
        return self._call.peer

    @property
    def may_move(self) -> bool:
        """Whether it passes bytes, and no lane was ever arranged for it."""
        return not self._was_offered and self._joining is not None

    def move_by(self, meeting: Meeting) -> None:
        """Go on in the lane of this meeting once it has come about.  Called by ``Session/Lane``."""
        self._was_offered = True
        self._meeting = meeting.spliced
        meeting.spliced.addCallbacks(self._moved, self._stayed)

    def carried_by(self, carry: IRpcCall) -> Deferred[object]:
        """Join; fires (or fails) when the session is over.  Called by ``Tunnel/Carry``."""
        self._joining = Deferred.fromCoroutine(self._join(carry))
        self._joining.addCallbacks(self._closed, self._broken)
        return self._carry_over

    def break_off(self, reason: str) -> None:
        """End the session at once, for this reason; nothing where it is over."""
        self._break_off(reason)
        if not self.over.called:
            self.over.errback(_broken(reason))

    def _break_off(self, reason: str) -> None:
        self._is_breaking = True
        joining, self._joining = self._joining, None
        if joining is not None:
            joining.cancel()
        if self._meeting is not None:
            self._meeting.cancel()
        if self._lane is not None:
            self._lane.abort()
        if not self._carry_over.called:
            self._carry_over.errback(_broken(reason))

    async def _join(self, carry: IRpcCall) -> Joined:
        # The client learns its grant before any byte of the target.
        await self._call.send(self._opened)
        return await join_streams(
            cast(IRawEnd, self._call), cast(IRawEnd, carry), counted=self._count
        )

    def _count(self, joined: Joined) -> None:
        self._joined = joined

    def _moved(self, lane: Splice) -> None:
        self._meeting, self._lane = None, lane
        lane.done.addCallback(self._lane_over)
        if self.over.called:
            lane.abort()

    def _stayed(self, _failure: Failure) -> None:
        self._meeting = None

    def _lane_over(self, ended: SpliceEnded) -> None:
        if self._is_breaking:
            return  # For a reason of its own, of which this is a part.
        if not ended.is_clean:
            self.break_off("broken")
        elif self._join_is_over:
            self._finish()

    def _closed(self, _joined: Joined) -> None:
        self._joining = None
        self._join_is_over = True
        if self._meeting is not None:
            self._meeting.cancel()
        # Both calls have ended in order; what is still under way in the lane arrives first.
        if self._lane is None or self._lane.done.called:
            self._finish()

    def _finish(self) -> None:
        if not self._carry_over.called:
            self._carry_over.callback(None)
        if not self.over.called:
            self.over.callback(None)

    def _broken(self, failure: Failure) -> None:
        if not failure.check(SvcError, CancelledError):
            _log.failure("a session's join failed", failure)
        if self._joining is not None:
            self._joining = None
            # Told at once, if it was the client's call that ended.
            gone: list[SvcError] = []
            self._call.on_cancel(gone.append)
            self.break_off("cancelled" if gone else "broken")


@define
class _Breaker:
    """What a tunnel that ends aborts."""

    carried: Carried

    def abortConnection(self) -> None:
        """The tunnel is gone."""
        if not self.carried.over.called:
            self.carried.is_left_behind = True
        self.carried.break_off("tunnel_ended")


class Once(Factory):
    """Gives the one protocol that waits for its stream."""

    noisy = False

    def __init__(self, carried: Carried) -> None:
        self._carried = carried

    def buildProtocol(self, addr: object) -> Protocol:
        """The one."""
        return self._carried


def _broken(reason: str) -> SvcError:
    fault = _FAULTS.get(reason, Fault.ABORTED)
    return SvcError("the session was broken off", reason=reason, fault=fault)

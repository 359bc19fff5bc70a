"""What a Proxy owes Authority after the fact: ends of sessions and departure notices.

Both wait while Authority is away.  The queue of notices is bounded and drops
the newest (document 1); ends are one a session, bounded by the sessions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.control import (
    DEPARTED_METHOD,
    END_METHOD,
    Departure,
    Ended,
    departure_message,
    ended_message,
)
from svc.proto.gate.v1 import control_pb2 as pb
from svc.service import BackgroundTasks

_log = Logger(namespace="svc_proxy")

MAX_NOTICES = 1024
MAX_ENDS = 100_000
_BATCH = 1000
_TIMEOUT = 10.0


@define(eq=False)
class Reports:
    """Queues and delivers, in order, one delivery at a time.

    Attributes:
        channel: Gives the channel to Authority or raises while there is none.
        dropped: Called for each notice the full queue dropped.
        answered: Told Authority's outcome word for each session of a notice.
    """

    channel: Callable[[], IRpcChannel]
    tasks: BackgroundTasks
    dropped: Callable[[], object]
    answered: Callable[[str], object]
    _notices: deque[Departure] = field(factory=deque)
    _ends: deque[Ended] = field(factory=deque)
    _delivering: bool = False

    @property
    def waiting(self) -> int:
        """How many reports Authority has not answered."""
        return len(self._notices) + len(self._ends)

    def departed(self, departure: Departure) -> None:
        """Queue one notice; the newest is dropped when the queue is full."""
        if len(self._notices) >= MAX_NOTICES:
            _log.warn("departure notice dropped", node=departure.tunnel_node_id)
            self.dropped()
            return
        self._notices.append(departure)
        self.deliver()

    def ended(self, ended: Ended) -> None:
        """Queue one end."""
        if len(self._ends) >= MAX_ENDS:
            _log.error("report of a session's end dropped", session=ended.session_uid)
            return
        self._ends.append(ended)
        self.deliver()

    def deliver(self) -> None:
        """Deliver what waits, if nobody does so already; called when Authority is back too."""
        if not self._delivering and self.waiting:
            self._delivering = True
            self.tasks.spawn("deliver reports", self._deliver())

    async def _deliver(self) -> None:
        try:
            while self.waiting:
                await self._deliver_some(self.channel())
        except SvcError as e:
            _log.info("reports wait for Authority", waiting=self.waiting, reason=e.reason)
        finally:
            self._delivering = False

    async def _deliver_some(self, channel: IRpcChannel) -> None:
        if self._notices:
            notice = departure_message(self._notices[0])
            answer = await channel.unary(
                DEPARTED_METHOD, notice, pb.DepartureAnswer, timeout=_TIMEOUT
            )
            self._notices.popleft()
            for one in answer.outcomes:
                self.answered(one.outcome)
            return
        batch = [self._ends[i] for i in range(min(_BATCH, len(self._ends)))]
        await channel.unary(
            END_METHOD, ended_message(batch), pb.EndSessionsResponse, timeout=_TIMEOUT
        )
        for _ in batch:
            self._ends.popleft()

"""Asks for a direct lane once a session has carried enough to make it worthwhile."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel, Peer
from svc.lanes.preface import Preface, Side
from svc.messages.session import LANE_METHOD, lane_request, read_lane_response
from svc.proto.gate.v1 import session_pb2 as pb
from svc.runtime.services import BackgroundTasks
from svc.tunnel.moves import move
from svc.tunnel.moving import MovingStream

_log = Logger(namespace="svc_client")

_ASK_SECS = 10.0


@define
class PersonLanes:
    """The lanes of one person.

    Attributes:
        to: Plain TCP to the Proxy at the other end of a connection.
        after: Bytes that a session carries before it asks.
        tasks: Owns what is under way.
    """

    to: Callable[[Peer], IStreamClientEndpoint]
    after: int
    tasks: BackgroundTasks
    clock: IReactorTime

    def ask(self, channel: IRpcChannel, session_uid: str, stream: MovingStream) -> None:
        """Move *stream* to a lane if its Proxy offers one; called once for each session."""
        self.tasks.spawn("direct lane", self._ask(channel, session_uid, stream))

    async def _ask(self, channel: IRpcChannel, session_uid: str, stream: MovingStream) -> None:
        try:
            answer = await channel.unary(
                LANE_METHOD, lane_request(session_uid), pb.SessionLaneResponse, timeout=_ASK_SECS
            )
            token = read_lane_response(answer)
        except SvcError as refusal:
            _log.debug("a session stays in the tunnel", reason=refusal.reason)
            return
        await move(stream, self.to(channel.peer), Preface(Side.PERSON, token), self.clock)

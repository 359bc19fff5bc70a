"""``Session/Lane``: moves a session from the tunnel to a direct lane.

Only whoever opened a session may ask, on the connection that it was opened on;
both ends get a token of their own, and the session goes on where it is until
both halves are there.  What ends or breaks the session ends or breaks its lane.
"""

from __future__ import annotations

from attrs import define

from svc.errors import Fault, SvcError
from svc.lanes.preface import Side
from svc.lanes.rendezvous import RendezvousTable
from svc.proxy.sessions.live import Live


@define
class DirectLanes:
    """Offers lanes to sessions that may move.

    Attributes:
        rendezvous_table: Where halves meet; None where there are no lanes (turned off,
            or behind a front that ends TLS).
    """

    rendezvous_table: RendezvousTable | None = None

    def offer(
        self, session_uid: str, session: Live | None, person_id: str, connection: object
    ) -> bytes:
        """The token for the person's half, once the Connector has received its own.

        Args:
            session: The open one of this uid, if there is one.
            person_id: Who asks, on *connection*.

        Raises:
            SvcError: ``no_direct_lane`` where there is none to be had, ``no_such_session``,
                ``too_many_lanes``.
        """
        moving = None if session is None else session.movable
        if (
            session is None
            or moving is None
            or session.person_id != person_id
            or moving.connection is not connection
        ):
            raise SvcError(
                "you have no open session with this id on this connection",
                reason="no_such_session",
                fault=Fault.NOT_FOUND,
            )
        tunnel = moving.route
        if (
            self.rendezvous_table is None
            or tunnel is None
            or not (tunnel.takes_lanes and tunnel.open_for_sessions)
            or not moving.may_move
        ):
            raise SvcError(
                "this session stays in the tunnel",
                reason="no_direct_lane",
                fault=Fault.PRECONDITION,
            )
        rendezvous = self.rendezvous_table.arrange(person_id)
        moving.move_by(rendezvous)
        tunnel.offer_lane(session_uid, rendezvous.tokens[Side.CONNECTOR])
        return rendezvous.tokens[Side.PERSON]

    def close(self) -> None:
        """Let go of what idle lanes would have used; called once no session is left."""
        if self.rendezvous_table is not None:
            self.rendezvous_table.pipes.close()

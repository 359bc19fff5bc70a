"""``Session/Lane``: moves a session from the tunnel to a direct lane.

Only whoever opened a session may ask, on the connection that it was opened on;
both ends get a token of their own, and the session goes on where it is until
both halves are there.  What ends or breaks the session ends or breaks its lane.
"""

from __future__ import annotations

from attrs import define, field, frozen

from svc.errors import Fault, SvcError
from svc.lanes.preface import Side
from svc.lanes.rendezvous import RendezvousTable
from svc.proxy.sessions.carry import Carried


@frozen
class _Session:
    person_id: str
    carried: Carried


@define
class DirectLanes:
    """The sessions that may move.

    Attributes:
        rendezvous_table: Where halves meet; None where there are no lanes (turned off,
            or behind a front that ends TLS).
    """

    rendezvous_table: RendezvousTable | None = None
    _sessions: dict[str, _Session] = field(factory=dict)

    def add(self, session_uid: str, person_id: str, carried: Carried) -> None:
        """It passes bytes from now on."""
        self._sessions[session_uid] = _Session(person_id, carried)

    def remove(self, session_uid: str) -> None:
        """It is over; nothing where it could not move."""
        self._sessions.pop(session_uid, None)

    def offer(self, session_uid: str, person_id: str, connection: object) -> bytes:
        """The token for the person's half, once the Connector has received its own.

        Raises:
            SvcError: ``no_direct_lane`` where there is none to be had, ``no_such_session``,
                ``too_many_lanes``.
        """
        session = self._sessions.get(session_uid)
        if (
            session is None
            or session.person_id != person_id
            or session.carried.connection is not connection
        ):
            raise SvcError(
                "you have no open session with this id on this connection",
                reason="no_such_session",
                fault=Fault.NOT_FOUND,
            )
        tunnel = session.carried.tunnel
        if (
            self.rendezvous_table is None
            or tunnel is None
            or not (tunnel.takes_lanes and tunnel.open_for_sessions)
            or not session.carried.may_move
        ):
            raise SvcError(
                "this session stays in the tunnel",
                reason="no_direct_lane",
                fault=Fault.PRECONDITION,
            )
        rendezvous = self.rendezvous_table.arrange(person_id)
        session.carried.move_by(rendezvous)
        tunnel.offer_lane(session_uid, rendezvous.tokens[Side.CONNECTOR])
        return rendezvous.tokens[Side.PERSON]

    def close(self) -> None:
        """Let go of what idle lanes would have used; called once no session is left."""
        if self.rendezvous_table is not None:
            self.rendezvous_table.pipes.close()

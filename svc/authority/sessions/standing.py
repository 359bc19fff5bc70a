"""Ends sessions that stand on an approval whose approver may approve it no more.

An approval dies with its approver at its next use.  A session that is open, or a stream inside
one, uses it no more, so each reload pass looks at the approvals that have not ended.
"""

from __future__ import annotations

from attrs import define

from svc.authority.access.approved import ApprovedRequests
from svc.authority.sessions.admin import SessionAdmin
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.session.ending import APPROVER_GONE
from svc.model.session.session import Session


@define
class StandingSessions:
    """Looks for them.

    Attributes:
        actor: Who ends them: this Authority.
    """

    approvals: ApprovedRequests
    sessions: SessionAdmin
    actor: Actor

    async def look(self) -> None:
        """One pass; what it finds is recorded first, and then told to the Proxies.

        Raises:
            SvcError: the store cannot be asked, or did not take a record.
        """

        def standing(tx: ITransaction) -> list[Session]:
            return [
                session
                for request_id in self.approvals.lost(tx)
                for session in self.approvals.standing_on(tx, request_id)
                if not session.end_reason
            ]

        if await self.sessions.store.read("sessions without their approver", standing):
            # Looked at again where it is written: some of them may have ended meanwhile.
            await self.sessions.end_found(standing, self.actor, APPROVER_GONE)

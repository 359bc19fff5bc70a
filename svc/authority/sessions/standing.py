"""Ends sessions that stand on a lost approval: its approver was let go, or SQL hides it.

A lost approval opens nothing.  A session that is open, or a stream inside one, asks for it no
more, so each reload pass looks at the approvals that have not ended.

The row of a session is not signed: it does not say whether the session stands on one, nor whether
it is over.  The Proxies are told until the session's own says that it is.
"""

from __future__ import annotations

from attrs import define

from svc.authority.access.approved import ApprovedRequests
from svc.authority.sessions.admin import SessionAdmin
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.audit.standing import StandingSession
from svc.model.session.ending import APPROVER_GONE


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
        if await self.sessions.store.read("sessions without their approver", self._lost):
            # Looked at again where it is written: some of them may have ended meanwhile.
            await self.sessions.end_standing(self._lost, self.actor, APPROVER_GONE)

    def _lost(self, tx: ITransaction) -> list[StandingSession]:
        """Those that were not told yet."""
        return [one for one in self.approvals.lost(tx) if one.uid not in self.sessions.asked]

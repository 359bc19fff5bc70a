"""Approvals of single requests inside gated sessions, used before the request passes (rule R30).

The Proxy decides such a request, so it asks when its own decision would be turned by an approval.
It names the session and the action; whose session it is, and which approval covers it, Authority
knows by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.access.approved import ApprovalUsedUp, ApprovedRequests
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, person
from svc.errors import Denied
from svc.interfaces.store import IStore, ITransaction
from svc.messages.access import ApprovalForRequests
from svc.model.audit.events import ACCESS_USE
from svc.model.cluster.node import Node
from svc.model.cluster.person import require_active
from svc.model.policy.requested import ApprovedAccess
from svc.model.session.session import Session, SessionState

_ROUNDS = 3


@define(kw_only=True)
class RequestApprovals:
    """Answers ``Control/UseApproval``.

    Attributes:
        told: Told ``used`` once a use is on record.
    """

    approvals: ApprovedRequests
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    told: Callable[[str], object]

    async def use(self, session_uid: str, action: str, proxy: Node) -> ApprovalForRequests | None:
        """The approval that covers a request of this action in a session; its use is on record.

        Raises:
            Denied: the session is not open, or another Proxy's.
            SvcError: the store did not take the record.
        """
        session = await self.store.read("a session", lambda tx: tx.sessions.get(session_uid))
        is_it = session is not None and session.proxy_id == proxy.id
        if session is None or not is_it or session.state is not SessionState.OPEN:
            raise Denied("the session is not open at this Proxy", reason="unknown_session")
        resource = self.state_cache.state.catalog.get(session.resource_id)
        if resource is None:
            return None
        for _ in range(_ROUNDS):
            approved = await self.approvals.find(session.person_id, resource, action, {})
            if approved is None:
                return None
            try:
                is_lasting = await self._used(session, action, approved)
            except ApprovalUsedUp:
                continue  # Another request was first; there may be another approval.
            self.told("used")
            await self.state_cache.catch_up()
            return ApprovalForRequests(approved, is_lasting)
        return None

    async def _used(self, session: Session, action: str, approved: ApprovedAccess) -> bool:
        """Count a use and record it; whether it is for further requests too."""

        def write(tx: ITransaction) -> bool:
            rows = self.state_cache.rows(tx)
            require_active(rows.person(session.person_id))
            state = self.approvals.use(tx, approved)
            row = tx.access.get(approved.request_id)
            self.recorder.append(
                tx,
                ACCESS_USE,
                person(session.person_id),
                node_id=session.proxy_id,
                resource_id=session.resource_id,
                resource_kind=session.kind,
                session_uid=session.uid,
                decision_id=session.decision_id,
                cedar_action=action,
                details={
                    "access_request": approved.request_id,
                    "approved_by": approved.approver,
                    "approved_until": approved.ends_at,
                    "proxy_id": session.proxy_id,
                },
                state=state,
            )
            return row is not None and row.uses is None

        return await self.store.run("use an approval", write)

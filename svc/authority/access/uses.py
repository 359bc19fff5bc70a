"""Approvals of single requests inside gated sessions, used before the request passes (rule R30).

The Proxy decides such a request, so it asks when its own decision would be turned by an approval.
It names the session, the action and the digest of the request's exact text; whose session it is,
and which approval covers it, Authority knows by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.authority.access.approved import ApprovalUsedUp, ApprovedRequests
from svc.authority.limits import AskRates
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node, person
from svc.errors import Denied, TooMany
from svc.interfaces.store import IStore, ITransaction
from svc.messages.access import ApprovalForRequests
from svc.model.audit.events import ACCESS_USE
from svc.model.cluster.node import Node
from svc.model.cluster.person import require_active
from svc.model.cluster.resource import Resource
from svc.model.policy.requested import ApprovedAccess
from svc.model.session.session import Session, SessionState
from svc.ratelimit.bucket import Buckets, Rate

_ROUNDS = 3
_USES = Rate(per_minute=600, burst=200)
"""Calls about one session.  They count for it and not for its person, who signed none of them: a
Proxy could use up the person's budget at the others (rule R1)."""

_MOST_LASTING = 10_000
"""Past these the first is forgotten, and recorded again when its Proxy asks again."""


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
    rates: AskRates
    _uses: Buckets = field(factory=lambda: Buckets(_USES), init=False)
    _lasting: dict[tuple[str, str], str] = field(factory=dict, init=False)

    async def use(
        self,
        session_uid: str,
        action: str,
        proxy: Node,
        *,
        text_sha256: str = "",
        only_exact: bool = False,
    ) -> ApprovalForRequests:
        """The approval that covers a request of this action in a session; its use is on record.

        One of the request's exact text goes before one of its action, which is not used at all
        where only an exact one would turn the denial.

        One use of an approval without a number of uses is for every request of the action in the
        session, so a Proxy that asks again is given it again, without another record.

        Raises:
            Denied: the session is not open, or another Proxy's.
            TooMany: the Proxy asks too often for this session.
            SvcError: the store did not take the record.
        """
        session = await self.store.read("a session", lambda tx: tx.sessions.get(session_uid))
        is_it = session is not None and session.proxy_id == proxy.id
        if session is None or not is_it or session.state is not SessionState.OPEN:
            self.rates.disproved(proxy.id, None)
            raise Denied("the session is not open at this Proxy", reason="unknown_session")
        self._spend(session_uid, proxy)
        resource = self.state_cache.state.catalog.get(session.resource_id)
        if resource is None:
            return ApprovalForRequests(None)
        for _ in range(_ROUNDS):
            approved, is_other = await self._exact(session, resource, action, text_sha256)
            if approved is None and not only_exact:
                approved = await self.approvals.find(session.person_id, resource, action, {})
            if approved is None:
                return ApprovalForRequests(None, exact=is_other)
            if self._lasting.get((session_uid, action)) == approved.request_id:
                return ApprovalForRequests(approved, lasting=True)
            try:
                is_lasting = await self._used(session, action, approved, text_sha256)
            except ApprovalUsedUp:
                continue  # Another request was first; there may be another approval.
            if is_lasting:
                self._remember(session_uid, action, approved)
            self.told("used")
            await self.state_cache.catch_up()
            return ApprovalForRequests(approved, is_lasting)
        return ApprovalForRequests(None)

    async def _exact(
        self, session: Session, resource: Resource, action: str, text_sha256: str
    ) -> tuple[ApprovedAccess | None, bool]:
        """The approval of this text, and whether one of any text is there."""
        if not text_sha256:
            return None, False
        return await self.approvals.find_exact(session, resource, action, text_sha256)

    def _spend(self, session_uid: str, proxy: Node) -> None:
        wait = self._uses.take(session_uid, self.rates.refusals.seconds())
        if wait:
            refusal: TooMany = self.rates.refusals.refusal("asks", node(proxy.id), wait)
            raise refusal

    def _remember(self, session_uid: str, action: str, approved: ApprovedAccess) -> None:
        self._lasting.pop((session_uid, action), None)
        self._lasting[session_uid, action] = approved.request_id
        while len(self._lasting) > _MOST_LASTING:
            del self._lasting[next(iter(self._lasting))]

    async def _used(
        self, session: Session, action: str, approved: ApprovedAccess, text_sha256: str
    ) -> bool:
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
                    "text_sha256": text_sha256 if approved.exact else None,
                    "proxy_id": session.proxy_id,
                },
                state=state,
            )
            return row is not None and row.uses is None

        return await self.store.run("use an approval", write)

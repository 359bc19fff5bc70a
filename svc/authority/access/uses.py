"""Approvals of single requests inside gated sessions, used before the request passes (rule R30).

The Proxy decides such a request, so it asks when its own decision would be turned by an approval.
It brings the session's grant, the action and the digest of the request's exact text.  Whose session
it is, and on what, the grant says, which Authority signed.  The row of the session is not signed:
from it we take whether the session is still open, and where the record of its opening is, which is
held to the grant.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.authority.access.approved import ApprovalUsedUp, ApprovedRequests
from svc.authority.access.opened import OpenedSession, opened_by_grant
from svc.authority.limits import AskRates
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node, person
from svc.errors import Denied, StoreUnavailable, SvcError, TooMany
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.store import IStore, ITransaction
from svc.messages.access import ApprovalAsk, ApprovalForRequests
from svc.messages.session import decode_grant
from svc.model.audit.events import ACCESS_USE
from svc.model.cluster.node import Node
from svc.model.cluster.person import require_active
from svc.model.cluster.resource import Resource
from svc.model.ids import is_agent_id
from svc.model.policy.requested import ApprovedAccess
from svc.model.session.grant import Grant
from svc.model.session.session import SessionState
from svc.model.signing import Purpose, Signed
from svc.ratelimit.limits import Buckets, Rate

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
        verifier: Verifies grants.
        on_event: Told ``used`` once a use is on record.
    """

    cluster: str
    verifier: IChainVerifier
    approvals: ApprovedRequests
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    on_event: Callable[[str], object]
    rates: AskRates
    _uses: Buckets = field(factory=lambda: Buckets(_USES), init=False)
    _lasting: dict[tuple[str, str], str] = field(factory=dict, init=False)

    async def use(self, ask: ApprovalAsk, proxy: Node) -> ApprovalForRequests:
        """The approval that covers a request of this action in a session; its use is on record.

        One of the request's exact text goes before one of its action, which is not used at all
        where only an exact one would turn the denial.

        One use of an approval without a number of uses is for every request of the action in the
        session, so a Proxy that asks again is given it again, without another record.

        Raises:
            Denied: the session is not open, another Proxy's, or no person's.
            TooMany: the Proxy asks too often for this session.
            SvcError: the grant is not ours, or the store did not take the record.
        """
        try:
            grant = self._granted(ask.grant, proxy)
            opened = await self.store.read("a session", lambda tx: _open_session(tx, grant))
        except StoreUnavailable:
            raise
        except SvcError:
            self.rates.disproved(proxy.id, None)
            raise
        self._spend(grant.session_uid, proxy)
        resource = self.state_cache.state.catalog.get(grant.resource)
        if resource is None or resource.identity != grant.resource_identity:
            return ApprovalForRequests(None)
        place = (grant.session_uid, ask.action)
        for _ in range(_ROUNDS):
            approved, is_other = await self._exact(grant, opened, resource, ask)
            if approved is None and not ask.only_exact:
                approved = await self.approvals.find(grant.person_id, resource, ask.action, {})
            if approved is None:
                return ApprovalForRequests(None, exact=is_other)
            if self._lasting.get(place) == approved.request_id:
                return ApprovalForRequests(approved, lasting=True)
            try:
                is_lasting = await self._used(grant, ask, approved)
            except ApprovalUsedUp:
                continue  # Another request was first; there may be another approval.
            if is_lasting:
                self._remember(place, approved)
            self.on_event("used")
            await self.state_cache.catch_up()
            return ApprovalForRequests(approved, is_lasting)
        return ApprovalForRequests(None)

    def _granted(self, signed: Signed, proxy: Node) -> Grant:
        """Our own word of what the session is."""
        self.verifier.verify_signed(signed, Purpose.GRANT)
        grant = decode_grant(signed.payload)
        is_theirs = (grant.cluster, grant.proxy_id) == (self.cluster, proxy.id)
        if not is_theirs or is_agent_id(grant.person_id):  # only people have approvals
            raise _not_open()
        return grant

    async def _exact(
        self, grant: Grant, opened: OpenedSession, resource: Resource, ask: ApprovalAsk
    ) -> tuple[ApprovedAccess | None, bool]:
        """The approval of this text, and whether one of any text is there."""
        if not ask.text_sha256:
            return None, False
        return await self.approvals.find_exact(
            grant.person_id, resource, ask.action, opened.parameters, ask.text_sha256
        )

    def _spend(self, session_uid: str, proxy: Node) -> None:
        wait = self._uses.take(session_uid, self.rates.refusals.seconds())
        if wait:
            refusal: TooMany = self.rates.refusals.refusal("asks", node(proxy.id), wait)
            raise refusal

    def _remember(self, place: tuple[str, str], approved: ApprovedAccess) -> None:
        self._lasting.pop(place, None)
        self._lasting[place] = approved.request_id
        while len(self._lasting) > _MOST_LASTING:
            del self._lasting[next(iter(self._lasting))]

    async def _used(self, grant: Grant, ask: ApprovalAsk, approved: ApprovedAccess) -> bool:
        """Count a use and record it; whether it is for further requests too."""

        def write(tx: ITransaction) -> bool:
            opened = _open_session(tx, grant)
            rows = self.state_cache.rows(tx)
            require_active(rows.person(grant.person_id))
            state = self.approvals.use(tx, approved)
            row = tx.access.get(approved.request_id)
            self.recorder.append(
                tx,
                ACCESS_USE,
                person(grant.person_id),
                node_id=grant.proxy_id,
                resource_id=grant.resource,
                resource_kind=grant.kind,
                session_uid=grant.session_uid,
                decision_id=opened.decision_id,
                cedar_action=ask.action,
                details={
                    "access_request": approved.request_id,
                    "approved_by": approved.approver,
                    "approved_until": approved.ends_at,
                    "text_sha256": ask.text_sha256 if approved.exact else None,
                    "proxy_id": grant.proxy_id,
                },
                state=state,
            )
            return row is not None and row.uses is None

        return await self.store.run("use an approval", write)


def _open_session(tx: ITransaction, grant: Grant) -> OpenedSession:
    """What the session of a grant was opened with, if it is open; not one that is to end."""
    session = tx.sessions.get(grant.session_uid)
    is_open = session is not None and session.state is SessionState.OPEN and not session.end_reason
    opened = opened_by_grant(tx, grant) if is_open else None
    if opened is None:
        raise _not_open()
    return opened


def _not_open() -> Denied:
    return Denied("the session is not open at this Proxy", reason="unknown_session")

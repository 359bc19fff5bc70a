"""Approved requests for access, as sessions use them: found, counted, and held to their approver.

A request counts only as signed records say (rule R8), and its approval is looked at again each
time: its signature, its document, its end, and whether its approver is still accepted (rule R30).
A use is counted in the transaction of its record, so that of two Proxies one gets the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from attrs import define, evolve, frozen
from cryptography import x509
from twisted.logger import Logger

from svc.authority.access.opened import opened_by_grant
from svc.authority.policy.proposed.approval_count import require_kept_certificate
from svc.authority.registry.approvals import Approvable, check_kept
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.tables import ACCESS_DECISIONS, ACCESS_REQUESTS, SignedRows
from svc.authority.state.unreadable import require_store
from svc.errors import Denied, SvcError
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.audit.events import ACCESS_USE, SESSION_START
from svc.model.audit.standing import StandingSession
from svc.model.audit.state import StateEntry
from svc.model.canonical import decode
from svc.model.cluster.person import require_active
from svc.model.cluster.resource import Resource
from svc.model.policy.approval import (
    ApprovalDecision,
    ApprovalKind,
    document_digest,
)
from svc.model.policy.requested import (
    APPROVED_REQUEST,
    ApprovedAccess,
    KeptApproval,
    RequestedAccess,
    RequestState,
    approved_fact,
    request_document,
)
from svc.model.session.grant import Grant

_log = Logger(namespace="svc_authority")

_USABLE = frozenset({RequestState.APPROVED})
_STANDING = _USABLE | {RequestState.WITHDRAWN}
"""A withdrawn request opens nothing more, but what it has opened goes on to the approval's end."""


class ApprovalUsedUp(Denied):
    """Another session has used the approval up since it was found."""

    reason = "approval_used_up"


@frozen
class UsedApproval:
    """An approval that requests of an action in a session may have stood on.

    Attributes:
        fact: What their decisions read of it.
        most: How many requests; None: any number.
    """

    fact: dict[str, Any]
    most: int | None

    @property
    def id(self) -> str:
        """Of the approved request."""
        return str(self.fact["id"])

    def with_more(self, other: UsedApproval) -> UsedApproval:
        """Both uses of one approval as one."""
        are_counted = self.most is not None and other.most is not None
        return evolve(self, most=(self.most or 0) + (other.most or 0) if are_counted else None)


@define
class ApprovedRequests:
    """The approvals in force, by what they cover.

    Attributes:
        may_approve: Whether somebody, by id, may still approve a request at all.
    """

    cluster: str
    state_cache: ClusterStateCache
    store: IReadOnlyStore
    now: Callable[[], float]
    may_approve: Callable[[str, RequestedAccess], bool] = lambda approver, row: True

    async def find(
        self, person_id: str, resource: Resource, action: str, parameters: Mapping[str, str]
    ) -> ApprovedAccess | None:
        """The approval that covers this of the person now, or None.

        Args:
            parameters: All that the session is asked for with, with the kind's defaults.
        """
        now = self.now()

        def look(tx: ITransaction) -> ApprovedAccess | None:
            for one in tx.access.of(person_id, now):
                if _is_usable(one) and one.covers(resource.identity, action, parameters):
                    found = self._in_force_or_none(tx, one.id)
                    if found is not None:
                        return found
            return None

        return await self.store.read("approved requests for access", look)

    async def find_exact(
        self,
        person_id: str,
        resource: Resource,
        action: str,
        parameters: Mapping[str, str],
        text_sha256: str,
    ) -> tuple[ApprovedAccess | None, bool]:
        """The approval of one exact text in a session, and whether there is one of any text.

        Args:
            parameters: What policies can read of the session's.
        """
        now = self.now()

        def look(tx: ITransaction) -> tuple[ApprovedAccess | None, bool]:
            wanted = (resource.identity, action)
            exact = [
                one
                for one in tx.access.of(person_id, now)
                if one.text_sha256 and (one.resource_identity, one.action) == wanted
                if _is_usable(one)
            ]
            for one in exact:
                if one.covers(resource.identity, action, parameters, text_sha256):
                    found = self._in_force_or_none(tx, one.id)
                    if found is not None:
                        return found, True
            return None, bool(exact)

        return await self.store.read("approvals of exact texts", look)

    async def of_grant(self, grant: Grant) -> ApprovedAccess | None:
        """The approval in force that the session of a grant was opened by; None without one.

        It may be used up or withdrawn: what stands on it stands until it ends, or its approver is
        not accepted any more.
        """

        def look(tx: ITransaction) -> ApprovedAccess | None:
            opened = opened_by_grant(tx, grant)
            if opened is None or not opened.request_id:
                return None
            found = self._in_force_or_none(tx, opened.request_id, _STANDING)
            row = tx.access.get(opened.request_id)
            if found is None or row is None:
                return None
            approved_for = (row.person_id, row.resource_identity, row.action)
            is_its = approved_for == (grant.person_id, grant.resource_identity, opened.action)
            return found if is_its else None

        return await self.store.read("the approval of a session", look)

    async def facts_of(self, session_uid: str, action: str) -> list[UsedApproval]:
        """Each approval that requests of this action in a session may have stood on.

        Whether it is still in force is not looked at: this is about what was decided.
        """

        def look(tx: ITransaction) -> list[UsedApproval]:
            session = tx.sessions.get(session_uid)
            rows = () if session is None else tx.audit.by_decision(session.decision_id)
            found: dict[str, UsedApproval] = {}
            for row in rows:
                one = _used_in(row.canonical, session_uid, action)
                if one is None:
                    continue
                before = found.get(one.id)
                found[one.id] = one if before is None else before.with_more(one)
            return [_counted(tx, one) for one in found.values()]

        return await self.store.read("the approvals of a session", look)

    def use(self, tx: ITransaction, approved: ApprovedAccess) -> list[StateEntry]:
        """Count one use in *tx*; what its record says of the row.

        Raises:
            ApprovalUsedUp: there is none left.
            Denied: it is not in force any more.
        """
        rows = self.state_cache.rows(tx)
        row = rows.access_request(approved.request_id)
        if row is None or row.is_used_up:
            raise ApprovalUsedUp("the approved request was used up; ask again")
        self._in_force(rows, approved.request_id)
        row = evolve(row, used=row.used + 1)
        tx.access.put(evolve(row, sealed_text=b"") if row.is_used_up else row)
        return [ACCESS_REQUESTS.now(tx, row.id)]

    def _in_force_or_none(
        self, tx: ITransaction, request_id: str, states: frozenset[RequestState] = _USABLE
    ) -> ApprovedAccess | None:
        try:
            return self._in_force(self.state_cache.rows(tx), request_id, states)
        except SvcError as refusal:
            # The reload pass names a row that no record covers; whoever asks hears "denied".
            _log.info("an approved request is not in force", reason=refusal.reason, id=request_id)
            return None

    def _in_force(
        self, rows: SignedRows, request_id: str, states: frozenset[RequestState] = _USABLE
    ) -> ApprovedAccess:
        row, kept = rows.access_request(request_id), rows.access_decision(request_id)
        if row is None or kept is None or row.state not in states:
            raise ApprovalUsedUp("the request is not approved")
        self._check_approver(rows, row, kept)
        self._check_signature(rows, row, kept)
        return ApprovedAccess(
            request_id=row.id,
            approver=kept.approver,
            ends_at=int(_end(row, kept)),
            exact=bool(row.text_sha256),
        )

    def lost(self, tx: ITransaction) -> list[StandingSession]:
        """The sessions that stand on a lost approval: opened by it, or having used it.

        Lost is one whose approver is accepted no more, and one whose rows are not what is signed:
        SQL that hides an approval must not spare its sessions (rule R8).  Which those are the
        signed records of its uses say.  The rows of sessions are not asked, nor whether one says
        that its session is over: only the session's Proxy says so.
        """
        rows, now = self.state_cache.rows_or_known(tx), self.now()
        lost = {
            ACCESS_REQUESTS.subject(request_id)
            for request_id in rows.seen.unended(ACCESS_DECISIONS.name, now)
            if not self._stands(rows, request_id)
        }
        sessions = rows.seen.sessions.values()
        return [one for one in sessions if not one.subjects.isdisjoint(lost)]

    def _stands(self, rows: SignedRows, request_id: str) -> bool:
        """Whether nothing has to end.  What cannot be read does not stand, and keeps no other."""
        try:
            row, kept = rows.access_request(request_id), rows.access_decision(request_id)
            if row is None or kept is None:
                return False
            if row.state in _STANDING:
                self._check_approver(rows, row, kept)
        except Denied:
            return False
        except Exception:
            require_store(rows.tx)
            _log.failure("an approved request cannot be read", id=request_id)
            return False
        return True

    def _check_approver(self, rows: SignedRows, row: RequestedAccess, kept: KeptApproval) -> None:
        """Refuse an approver who was let go, or may approve this no more."""
        require_active(rows.person(kept.approver))
        # By its signed record, also where it has ended: records are known for a day longer, and no
        # approval lasts longer than that.  The stored end may be anybody's.
        require_kept_certificate(rows, kept.certificate_sha256, kept.approver)
        if not self.may_approve(kept.approver, row):
            raise Denied("the approver may approve this no more", reason="approver_gone")

    def _check_signature(self, rows: SignedRows, row: RequestedAccess, kept: KeptApproval) -> None:
        person = require_active(rows.person(row.person_id))
        document = request_document(row, self.cluster, person.name)
        certificate = x509.load_der_x509_certificate(kept.certificate)
        approval = check_kept(
            payload=kept.payload,
            signature=kept.signature,
            key=certificate.public_key(),  # type: ignore[arg-type]  # any other is refused
            certificate_sha256=sha256(kept.certificate).digest(),
            wanted=Approvable(
                cluster=self.cluster,
                kind=ApprovalKind.ACCESS,
                subject=row.id,
                document_sha256=document_digest(document),
                asked_by=row.person_id,
            ),
            now=self.now(),
        )
        if approval.decision is not ApprovalDecision.APPROVE or approval.approver != kept.approver:
            raise Denied("the kept decision is no approval", reason="approval_mismatch")


def _end(row: RequestedAccess, kept: KeptApproval) -> float:
    """When what stands on it ends.  That of a withdrawn request is only its own end."""
    is_withdrawn = row.state is RequestState.WITHDRAWN
    return kept.ends_at if is_withdrawn else min(row.ends_at, kept.ends_at)


def _is_usable(row: RequestedAccess) -> bool:
    return row.state is RequestState.APPROVED and not row.is_used_up


def _used_in(canonical: bytes, session_uid: str, action: str) -> UsedApproval | None:
    """The approval that a record of Authority's says such requests stood on: one use, or any."""
    record: Any = decode(canonical)
    if record.get("session_uid") != session_uid:
        return None  # the session's row, which is not signed, names another one's decision
    if record.get("event") == SESSION_START.name:
        fact: dict[str, Any] | None = record["request"]["context"].get(APPROVED_REQUEST)
        return None if fact is None else UsedApproval(fact, None)
    if (record.get("event"), record.get("cedar_action")) != (ACCESS_USE.name, action):
        return None
    details = record["details"]
    used = approved_fact(
        details["access_request"],
        details["approved_by"],
        details["approved_until"],
        exact="text_sha256" in details,
    )
    return UsedApproval(used, 1)


def _counted(tx: ITransaction, one: UsedApproval) -> UsedApproval:
    """One use of an approval without a number of uses is for any number of requests."""
    row = tx.access.get(one.id)
    return evolve(one, most=None) if row is None or row.uses is None else one

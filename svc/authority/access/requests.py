"""Requests for access, as a service: a person asks, another person decides, both can look.

Whoever calls has authenticated the person.  Everything that decides is asked of the policy: whether
an approval would allow it, who may decide about it, and who may know of the resource at all.  What
may not be viewed is answered like what never was (rule R16).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, evolve, field

from svc.authority.access.records import AccessRecords, Asker
from svc.authority.access.refusals import call_used, request_decided, unknown_request
from svc.authority.access.texts import SealedTexts, check_exact
from svc.authority.access.turned import require_turned
from svc.authority.registry.approvals import Approvable, ApprovalRefused, check_new
from svc.authority.registry.operators import for_want_of_factor
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.tables import SignedRows
from svc.errors import Denied, Fault, Malformed, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import IStore, ITransaction
from svc.messages.access import AccessEntry
from svc.model.canonical import encode
from svc.model.certificate import CertificateFacts
from svc.model.cluster.person import require_active
from svc.model.ids import Entropy, is_random_id
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.approval import Approval, ApprovalDecision, ApprovalKind, document_digest
from svc.model.policy.requested import (
    MAX_OPEN,
    OPEN_SECS,
    AccessAsk,
    KeptApproval,
    RequestedAccess,
    RequestState,
    check_ask,
    request_document,
    text_digest,
)
from svc.model.policy.requests import context_at, may_approve, may_open, may_view
from svc.model.session.parameters import facts, resolved
from svc.model.short_ids import whole_id
from svc.model.signing import Signed

HIDDEN_TEXT = "access denied, or no such resource; see what you may use: svc resources list"
MAX_LISTED = 500
_SALT_BYTES = 16
FORGET_EVERY_SECS = 600.0
"""So long after its end the text of a request is still there at most, while Authority runs."""

_KEPT_SECS = 30 * 86400
"""How long a row is kept once it has ended, of a proposed policy too: the audit log has what
became of it."""


@define(kw_only=True)
class AccessRequestService:
    """Asks, lists, shows, decides and withdraws.

    Attributes:
        max_secs: The longest access that can be asked for.
        on_event: Told ``asked``, ``approved``, ``denied`` or ``withdrawn`` once it is on record.
    """

    cluster: str
    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    kinds: Mapping[str, ServedKind]
    store: IStore
    records: AccessRecords
    verifier: IChainVerifier
    now: Callable[[], float]
    entropy: Entropy
    max_secs: int
    on_event: Callable[[str], object]
    texts: SealedTexts
    _forget_after: float = field(default=0.0, init=False)

    # -- the person who asks

    async def ask(self, asker: Asker, ask: AccessAsk, *, request_id: str) -> AccessEntry:
        """File a request; one that is open already for the same thing is given again.

        Args:
            request_id: The id of its row; the same for a call that somebody brings again.

        Raises:
            Denied: the resource may not be viewed, an approval would change nothing, it is
                allowed already, or the call was made before.
            SvcError: too many are open, or it asks for what nobody can give.
        """
        check_ask(ask, self.max_secs)
        row = self._row(asker, ask, request_id)

        def write(tx: ITransaction) -> tuple[RequestedAccess, bool]:
            rows = self.state_cache.rows(tx)
            require_active(rows.person(asker.person.id))
            tx.access.forget(row.asked_at - _KEPT_SECS, row.asked_at)
            waiting = [
                one
                for one in tx.access.of(asker.person.id, row.asked_at)
                if one.state is RequestState.OPEN
            ]
            for one in waiting:
                if one.is_like(row) and rows.access_request(one.id) is not None:
                    return one, False
            if tx.access.get(row.id) is not None:
                raise call_used()
            if len(waiting) >= MAX_OPEN:
                raise SvcError(
                    f"you have {MAX_OPEN} requests that wait for a decision, which is the limit; "
                    "withdraw one: svc requests withdraw ID",
                    reason="too_many_requests",
                    fault=Fault.EXHAUSTED,
                )
            tx.access.put(row)
            self.records.asked(tx, asker, row)
            return row, True

        kept, is_new = await self.store.run("ask for access", write)
        if is_new:
            await self._recorded("asked")
        return self._entry(kept, text=self.texts.opened(kept))

    async def own(self, asker: Asker) -> list[AccessEntry]:
        """The requests of this person that have not ended, the oldest first."""
        rows = await self._unexpired()
        mine = [one for one in rows if one[0].person_id == asker.person.id]
        return [self._entry(*one) for one in mine[-MAX_LISTED:]]

    async def withdraw(self, asker: Asker, request_id: str) -> AccessEntry:
        """Take back a request, or give up what was approved; running sessions go on to their end.

        It ends at once, so that whoever asks and withdraws leaves nothing that every list and
        reload pass looks at.

        Raises:
            SvcError: it is unknown, another person's, or was denied or has ended; or the ids of
                several of the person's begin so.
        """
        if not is_random_id(request_id):
            mine = [one.terms["id"] for one in await self.own(asker)]
            request_id = whole_id("request", request_id, map(str, mine)) or request_id

        def write(tx: ITransaction) -> RequestedAccess:
            row = self.state_cache.rows(tx).access_request(request_id)
            if row is None or row.person_id != asker.person.id:
                raise unknown_request()
            if row.standing(self.now()) not in ("open", "approved"):
                raise request_decided(row.standing(self.now()))
            # In whole seconds, as the others; the table wants the end after the beginning.
            ends_at = max(float(int(self.now())), row.asked_at + 1.0)
            row = evolve(
                row,
                state=RequestState.WITHDRAWN,
                ends_at=min(row.ends_at, ends_at),
                sealed_text=b"",
            )
            tx.access.put(row)
            self.records.withdrawn(tx, asker, row)
            return row

        row = await self.store.run("withdraw a request for access", write)
        await self._recorded("withdrawn")
        return self._entry(row)

    # -- the person who decides

    async def to_decide(self, asker: Asker) -> list[AccessEntry]:
        """The open requests of others that this person may decide about, the oldest first."""
        rows = await self._unexpired()
        found = [one for one, _ in rows if one.standing(self.now()) == "open"]
        mine = [one for one in found if self._may_decide(asker, one)]
        return [self._entry(one) for one in mine[:MAX_LISTED]]

    async def show(self, asker: Asker, request_id: str) -> AccessEntry:
        """One request: one's own, or one that one may decide about.

        Args:
            request_id: Or its beginning, where it is that of no other that the caller may see.

        Raises:
            SvcError: there is none, the caller may not see it, or several begin so.
        """
        if not is_random_id(request_id):
            mine = [one for one, _ in await self._unexpired() if self._may_find(asker, one)]
            request_id = whole_id("request", request_id, [one.id for one in mine]) or request_id
        row, kept = await self._visible(asker, request_id)
        return self._entry(row, kept, self.texts.opened(row))

    async def decide(self, asker: Asker, request_id: str, signed: Signed) -> AccessEntry:
        """Take a signed decision; an approval is in force from here on.

        Raises:
            SvcError: the caller may not decide about it, the decision is for something else than
                is shown now, or the request is not open any more.
        """
        row, _ = await self._visible(asker, request_id)
        wanted = self._wanted(row)
        approval, certificate = check_new(signed, wanted, self.verifier, self.now())
        if approval.approver != asker.person.id:
            raise ApprovalRefused("the decision is signed by another person than the caller")
        if not self._may_decide(asker, row):
            raise unknown_request()
        decided = _after(row, approval)
        kept = KeptApproval(
            request_id=row.id,
            approver=approval.approver,
            certificate_sha256=certificate.sha256,
            payload=signed.payload,
            signature=signed.signature,
            certificate=signed.chain[0],
            decided_at=self.now(),
            ends_at=decided.ends_at,
        )

        def write(tx: ITransaction) -> None:
            rows = self.state_cache.rows(tx)
            now = rows.access_request(row.id)
            if now is None or now.standing(self.now()) != "open":
                raise request_decided("unknown" if now is None else now.standing(self.now()))
            self._check_standing(rows, now, approval, certificate, wanted)
            tx.access.put(decided)
            tx.access.decide(kept)
            self.records.decided(tx, asker, decided, kept)

        await self.store.run("decide about a request for access", write)
        is_approved = decided.state is RequestState.APPROVED
        await self._recorded("approved" if is_approved else "denied")
        return self._entry(decided, kept)

    async def waiting(self, asker: Asker) -> int:
        """How many requests wait for a decision that this person may make."""
        return len(await self.to_decide(asker))

    async def sweep(self) -> int:
        """How many requests wait for a decision; what is past its time is deleted now and then.

        Proposed policies are deleted with them: they wait for people's decisions as well.

        Raises:
            SvcError: the store cannot be asked.
        """
        at = self.now()

        def look(tx: ITransaction) -> int:
            return sum(one.standing(at) == "open" for one in tx.access.unexpired(at))

        def forget(tx: ITransaction) -> None:
            tx.access.forget(at - _KEPT_SECS, at)
            tx.proposals.forget(at - _KEPT_SECS)

        if at >= self._forget_after:
            await self.store.run("forget requests for access", forget)
            self._forget_after = at + FORGET_EVERY_SECS
        return await self.store.read("count requests for access", look)

    # -- inside

    def _row(self, asker: Asker, ask: AccessAsk, request_id: str) -> RequestedAccess:
        """The row of a request that an approval would turn."""
        engine, now = self._engine(), self.now()
        resource = self.state_cache.state.catalog.get(ask.resource)
        kind = None if resource is None else self.kinds.get(resource.kind)
        if resource is None or kind is None:
            raise Denied(HIDDEN_TEXT)
        target = EntityUid(kind.terms.entity_type, resource.id)
        view = may_view(asker.person.id, target, now, asker.source_address)
        if not engine.decide(view).allowed:
            raise Denied(HIDDEN_TEXT)
        action = ask.action or kind.terms.open_action
        is_open = action == kind.terms.open_action
        asked = self._asked(asker, ask, kind, target)
        require_turned(engine, asked, ask, is_open=is_open, ends_at=int(now) + ask.secs)
        return RequestedAccess(
            id=request_id,
            person_id=asker.person.id,
            resource_id=resource.id,
            resource_identity=resource.identity,
            kind=kind.name,
            action=action,
            parameters=dict(ask.parameters),
            reason=ask.reason,
            salt=self.entropy(_SALT_BYTES),
            asked_secs=ask.secs,
            uses=ask.uses,
            asked_at=float(int(now)),
            ends_at=float(int(now) + OPEN_SECS),
            text_sha256=text_digest(ask.text),
            sealed_text=self.texts.sealed(request_id, asker.person.id, ask.text),
        )

    def _asked(
        self, asker: Asker, ask: AccessAsk, kind: ServedKind, target: EntityUid
    ) -> AccessRequest:
        """The question that a session of this would be decided by, as far as it is known.

        Raises:
            Malformed: the kind has no such action or parameter.
        """
        action = ask.action or kind.terms.open_action
        if action not in kind.terms.actions:
            raise Malformed(
                f"{kind.name} has no action {action}; it has "
                f"{', '.join(sorted(kind.terms.actions))}",
                reason="unknown_action",
            )
        if ask.text:
            check_exact(ask, kind)
        elif ask.parameters and action != kind.terms.open_action:
            raise Malformed(
                f"parameters are of a session that is opened, and {action} opens none",
                reason="bad_request",
            )
        known = {
            name: one
            for name, one in kind.terms.parameters.items()
            if name in ask.parameters or one.default is not None
        }
        if not set(ask.parameters) <= set(known):
            resolved(kind.terms.parameters, ask.parameters, kind.name)  # raises
        parameters = facts(known, resolved(known, ask.parameters, kind.name))
        context = context_at(self.now(), asker.source_address, parameters, asker.factor_at)
        counted = kind.terms.actions[action]
        return may_open(counted, action, asker.person.id, target, context)

    def _may_decide(self, asker: Asker, row: RequestedAccess) -> bool:
        kind, person_id = self.kinds.get(row.kind), asker.person.id
        if kind is None or person_id == row.person_id:
            return False
        target = EntityUid(kind.terms.entity_type, row.resource_id)
        asked = may_approve(person_id, target, row.action, self.now(), asker.factor_at)
        return self._engine().decide(asked).allowed

    def _wants_factor(self, asker: Asker, row: RequestedAccess) -> bool:
        """Whether they could decide about it, had they just presented a second factor."""
        return self._may_decide(evolve(asker, factor_at=self.now()), row)

    def _engine(self) -> IPolicyEngine:
        engine = self.engine()
        if engine is None:
            raise SvcError(
                "no policy is in force", reason="policy_unavailable", fault=Fault.UNAVAILABLE
            )
        return engine

    async def _unexpired(self) -> list[tuple[RequestedAccess, KeptApproval | None]]:
        """Every request that has not ended and that a signed record covers, the oldest first."""
        at = self.now()

        def look(tx: ITransaction) -> list[tuple[RequestedAccess, KeptApproval | None]]:
            rows, found = self.state_cache.rows(tx), []
            for one in tx.access.unexpired(at):
                try:
                    row, kept = rows.access_request(one.id), rows.access_decision(one.id)
                except Denied:
                    continue  # the reload pass names it
                if row is not None:
                    found.append((row, kept))
            return sorted(found, key=lambda each: (each[0].asked_at, each[0].id))

        return await self.store.read("requests for access", look)

    async def _visible(
        self, asker: Asker, request_id: str
    ) -> tuple[RequestedAccess, KeptApproval | None]:
        def look(tx: ITransaction) -> Any:
            rows = self.state_cache.rows(tx)
            row = rows.access_request(request_id)
            return row, None if row is None else rows.access_decision(request_id)

        row, kept = await self.store.read("a request for access", look)
        if row is None or row.ends_at <= self.now() or not self._may_find(asker, row):
            raise unknown_request()
        if not self._may_see(asker, row):
            wanted = for_want_of_factor(is_known=asker.factor_at is not None)
            raise Denied(f"the policy does not let you decide about this request {wanted}")
        return row, kept

    def _may_see(self, asker: Asker, row: RequestedAccess) -> bool:
        return row.person_id == asker.person.id or self._may_decide(asker, row)

    def _may_find(self, asker: Asker, row: RequestedAccess) -> bool:
        """Whether they may know of it: also where only a recent second factor is wanting."""
        return self._may_see(asker, row) or self._wants_factor(asker, row)

    def _wanted(self, row: RequestedAccess) -> Approvable:
        return Approvable(
            cluster=self.cluster,
            kind=ApprovalKind.ACCESS,
            subject=row.id,
            document_sha256=document_digest(self._document(row)),
            asked_by=row.person_id,
        )

    def _check_standing(
        self,
        rows: SignedRows,
        row: RequestedAccess,
        approval: Approval,
        certificate: CertificateFacts,
        wanted: Approvable,
    ) -> None:
        """Refuse what changed since it was checked: both persons, the certificate, the document."""
        require_active(rows.person(approval.approver))
        asked_by = require_active(rows.person(row.person_id))
        issued = rows.certificate(certificate.sha256)
        if issued is None or issued.revoked_at is not None:
            raise Denied("the certificate was revoked", reason="revoked_certificate")
        document = request_document(row, self.cluster, asked_by.name)
        if document_digest(document) != wanted.document_sha256:
            raise ApprovalRefused("the request was changed meanwhile; review it again")

    async def _recorded(self, word: str) -> None:
        self.on_event(word)
        await self.state_cache.catch_up()

    def _name(self, person_id: str) -> str:
        known = self.state_cache.state.people.get(person_id)
        return person_id if known is None else known.name

    def _document(self, row: RequestedAccess) -> Any:
        return request_document(row, self.cluster, self._name(row.person_id))

    def _entry(
        self, row: RequestedAccess, kept: KeptApproval | None = None, text: bytes = b""
    ) -> AccessEntry:
        return AccessEntry(
            document=encode(self._document(row)),
            state=row.standing(self.now()),
            ends_at=int(row.ends_at),
            used=row.used,
            decided_by="" if kept is None else self._name(kept.approver),
            text=text,
        )


def _after(row: RequestedAccess, approval: Approval) -> RequestedAccess:
    """The request once it is decided.  Raises ApprovalRefused: for longer than was asked."""
    if approval.decision is ApprovalDecision.DENY:
        return evolve(row, state=RequestState.DENIED, sealed_text=b"")
    if approval.expires_at > approval.made_at + row.asked_secs:
        raise ApprovalRefused("the approval is for longer than was asked")
    return evolve(row, state=RequestState.APPROVED, ends_at=float(approval.expires_at))

"""Decides and records one session: the only place where a grant is made.

The order is fixed (rules R1, R16): authenticate the person's own signature,
look at its budget, decide, look for a Connector, commit what both decided and the session row in
one transaction, and only then sign.  Nothing a Proxy says about the person is
believed; what only it can know enters the policy as ``proxy_reported``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import sha256

from attrs import define, evolve, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.audit.checkpoint.signer import HeadsUnsigned
from svc.authority.access.approved import ApprovalUsedUp
from svc.authority.access.offer import AccessOffers
from svc.authority.limits import AskRates
from svc.authority.refusals import RefusalRecords
from svc.authority.registry.peers import PeerProxies
from svc.authority.sessions.checkpoints import GatedSessions
from svc.authority.sessions.onward import (
    NO_CERTIFICATES,
    OnwardCertificates,
)
from svc.authority.sessions.refused import refused_answer
from svc.authority.sessions.request import (
    IssuanceResult,
    VerifiedRequest,
    claimed_details,
    claimed_record,
    has_own_record,
    require_assigned,
    session_row,
)
from svc.authority.sessions.rights import is_ended, rights_of
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node, person
from svc.authority.state.standing import require_standing
from svc.errors import (
    AlreadyExists,
    Denied,
    Fault,
    StoreUnavailable,
    SvcError,
    TooMany,
)
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind, kind_of
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import IStore, ITransaction
from svc.interfaces.tracing import Note, no_note, no_trace
from svc.messages.control import Ask, AuthorizeAnswer, CountedEnd, ProxyDecision
from svc.messages.session import decode_request, encode_grant
from svc.model.audit.events import SESSION_REFUSED, SESSION_START
from svc.model.audit.ledger import ChainRow, EntitySlice
from svc.model.audit.state import StateEntry
from svc.model.certificate import CertificateFacts
from svc.model.cluster.agent import Agent
from svc.model.cluster.node import Node
from svc.model.ids import Entropy, random_id
from svc.model.policy.access import AccessRequest, Decision
from svc.model.policy.requested import ApprovedAccess
from svc.model.policy.requests import (
    may_open,
    may_view,
    user,
    with_new_factor,
)
from svc.model.principal import CALLERS, Role
from svc.model.session.checkpoint import GATED_MS
from svc.model.session.ending import NOT_OPENED
from svc.model.session.grant import OPEN_WITHIN_MS, Grant
from svc.model.session.request import is_fresh, stale
from svc.model.session.session import Session
from svc.model.signing import Purpose, Signed, verify
from svc.policy.entities import cedar_json

_log = Logger(namespace="svc_authority")

_ROUNDS = 3
"""How often a session is decided whose approval another session has just used up."""

_REMEMBERED_SLICES = 10_000


@define
class Issuance:
    """Answers ``Control/Authorize``.

    Attributes:
        engine: Gives the policy in force; None while there is none.
        sign_grant: Signs with the grant key.
        on_decision: Told action label, decision word and seconds of each decision.
        may_grant: Raises SvcError while nothing may be granted, whatever the policy says.
        ended: Ends sessions of a Proxy, by its id.
        offers: Knows the approved requests, and what can be asked for.
        gated: Prolongs the grants of gated sessions, and knows which Proxies may open some.
        onward: Certifies what Connectors log in with at targets.
        rates: What a person may ask, and what a Proxy may bring that proves nothing.
        refusals: Bounds the records of requests that prove nothing.
        note: Describes the span of the call.
        peers: Finds the registration that a session goes by, here or through another Proxy.
        recording_key: The public key that recordings of new sessions are sealed to.
        trace_id: Gives the id of the call's trace, which its records hold; empty without one.
    """

    cluster: str
    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    peers: PeerProxies
    kinds: Mapping[str, ServedKind]
    store: IStore
    recorder: Recorder
    verifier: IChainVerifier
    sign_grant: Callable[[bytes], Signed]
    clock: IReactorTime
    now: Callable[[], float]
    entropy: Entropy
    on_decision: Callable[[str, str, float], object]
    rates: AskRates
    may_grant: Callable[[], object] = field(kw_only=True)
    ended: Callable[[str, Iterable[CountedEnd]], Awaitable[object]] = field(kw_only=True)
    gated: GatedSessions = field(kw_only=True)
    offers: AccessOffers = field(kw_only=True)
    recording_key: Callable[[], bytes] = field(kw_only=True)
    onward: OnwardCertificates = field(default=NO_CERTIFICATES, kw_only=True)
    refusals: RefusalRecords = field()
    note: Note = no_note
    trace_id: Callable[[], str] = no_trace
    _seen: dict[bytes, float] = field(factory=dict)
    _kept_slices: dict[str, None] = field(factory=dict)

    @refusals.default
    def _own_refusals(self) -> RefusalRecords:
        return RefusalRecords(
            store=self.store, recorder=self.recorder, clock=self.clock, now=self.now
        )

    async def authorize(self, ask: Ask, proxy: Node) -> AuthorizeAnswer:
        """Decide one session; a grant leaves only after its record is durable.

        Raises:
            SvcError: the request is not a person's own, fresh, first use of it
                (recorded first), is over budget, or the store did not take the record.
        """
        began = self.clock.seconds()
        try:
            verified = self._authenticate(ask, proxy)
            self._note(verified)
            with self.rates.writing(verified.person.id):
                outcome, row = await self._decided(verified, ask, proxy)
        except (StoreUnavailable, HeadsUnsigned, TooMany):
            raise  # nowhere to write it down; or counted, and summarised later
        except SvcError as refusal:
            self.note(decision="deny")
            await self._record_rejected(ask, proxy, refusal)
            raise
        if outcome.connector is not None:
            await self._require_grants(verified, proxy)
        if outcome.approved is not None:
            await self.offers.used()
        if outcome.word != "allow":
            self.rates.denied(verified.person.id)
        self.note(decision=outcome.recorded)
        self.on_decision(verified.kind.request_kind, outcome.word, self.clock.seconds() - began)
        return self._answer(verified, outcome, proxy, row)

    async def _decided(
        self, verified: VerifiedRequest, ask: Ask, proxy: Node
    ) -> tuple[IssuanceResult, ChainRow]:
        """The decision, on record; a denial may be turned by an approved request of the person.

        Raises:
            SvcError: nothing may be granted now, or nothing can be written down.
        """
        for _ in range(_ROUNDS):
            outcome = self._decide(verified, ask, proxy)
            if outcome.word == "deny" and outcome.may_view:
                outcome = await self._turned(outcome, verified, ask, proxy)
            if outcome.connector is not None:
                self.may_grant()
                if not verified.kind.opaque:
                    # Each of them could pass on what the other has not decided.
                    self.gated.trust.require_trusted(proxy.id)
                    egress = outcome.connector.proxy_id
                    self.gated.trust.require_trusted(egress, f"the Proxy {egress}")
            try:
                return outcome, await self._commit(verified, outcome, ask, proxy)
            except ApprovalUsedUp:
                continue  # Another session was first; there may be another approval.
        raise Denied("the approved request was used up; ask again", reason=ApprovalUsedUp.reason)

    async def _turned(
        self, denied: IssuanceResult, verified: VerifiedRequest, ask: Ask, proxy: Node
    ) -> IssuanceResult:
        """The decision with the approved request that covers it, or how to ask for one."""
        engine, resource = self.engine(), verified.resource
        if engine is None or resource is None or denied.reason != "denied":
            return denied
        if verified.certificate.principal.role is not Role.USER:
            return denied  # only a person asks
        asked = denied.decision.request
        if not self.offers.would_turn(engine, asked):
            return denied
        approved = await self.offers.approved(
            verified.person.id, resource, verified.kind, verified.request
        )
        if approved is not None:
            turned = self._decide(verified, ask, proxy, approved)
            if turned.word != "deny":
                return turned
        hint = self.offers.hint(engine, asked, verified.kind, verified.request)
        reason = self.offers.reason(engine, asked)
        return evolve(denied, request_hint=hint, request_reason=reason)

    async def _require_grants(self, verified: VerifiedRequest, proxy: Node) -> None:
        """Return if a grant may leave still: what was found during the commit holds it back.

        Raises:
            SvcError: it may not; the session is over.
        """
        try:
            self.may_grant()
        except SvcError:
            self.note(decision="deny")
            uid = verified.request.session_uid
            try:
                await self.ended(proxy.id, (CountedEnd(uid, NOT_OPENED),))
            except SvcError as failed:
                # The Proxy reports the same end once it has our refusal.
                _log.warn("a session that was not granted is not ended yet", reason=failed.reason)
            raise

    def _note(self, verified: VerifiedRequest) -> None:
        request = verified.request
        self.note(
            action=verified.kind.request_kind,
            resource=request.resource,
            session_uid=request.session_uid,
        )

    def _authenticate(self, ask: Ask, proxy: Node) -> VerifiedRequest:
        try:
            certificate = self.verifier.verify(ask.person_chain, CALLERS)
        except SvcError:
            self.rates.disproved(proxy.id, None)
            raise
        person_id = certificate.principal.id
        self.rates.claims(proxy.id, person_id)
        try:
            return self._proven(ask, proxy, certificate)
        except TooMany:
            raise
        except SvcError:
            self.rates.disproved(proxy.id, person_id)
            raise

    def _proven(self, ask: Ask, proxy: Node, certificate: CertificateFacts) -> VerifiedRequest:
        verify(certificate.public_key, Purpose.SESSION_REQUEST, ask.request, ask.signature)
        request = decode_request(ask.request)
        if request.cluster != self.cluster or request.proxy_id != proxy.id:
            raise Denied("the request was made for another Proxy", reason="request_wrong_proxy")
        if request.certificate_sha256 != certificate.sha256:
            raise Denied("the request names another certificate", reason="request_unsigned")
        if not is_fresh(request.issued_at_ms, self.now()):
            raise Denied(
                stale(request.issued_at_ms, self.now()),
                reason="request_stale",
            )
        kind, _ = kind_of(self.kinds, request)
        asker = self.state_cache.caller(certificate.principal)
        digest = sha256(ask.request).digest()
        self._check_new(digest)
        # A Proxy that brings a request again spends nothing of the person's.
        self.rates.proven(asker.id)
        self._seen[digest] = self.clock.seconds()
        resource = self.state_cache.state.catalog.get(request.resource)
        if resource is not None and resource.kind != kind.name:
            resource = None
        ends = is_ended(resource, kind)
        return VerifiedRequest(
            request=request,
            digest=digest,
            person=asker,
            certificate=certificate,
            kind=kind,
            asked=kind.asked(request, ends=ends),
            ends=ends,
            resource=resource,
            trace_id=self.trace_id(),
        )

    def _check_new(self, digest: bytes) -> None:
        """A request is good for one use; remembered as long as it could be fresh."""
        horizon = self.clock.seconds() - 2 * OPEN_WITHIN_MS / 1000
        while self._seen and next(iter(self._seen.values())) < horizon:
            del self._seen[next(iter(self._seen))]
        if digest in self._seen:
            raise Denied("the request was already used", reason="request_replayed")

    def _decide(
        self,
        verified: VerifiedRequest,
        ask: Ask,
        proxy: Node,
        approved: ApprovedAccess | None = None,
    ) -> IssuanceResult:
        engine = self.engine()
        if engine is None:
            raise SvcError(
                "no policy is in force", reason="policy_unavailable", fault=Fault.UNAVAILABLE
            )
        reported = ask.proxy_decision.source_address
        now, target, asker = self.now(), verified.target, verified.person.id
        decision = engine.decide(verified.question(now, reported, approved))
        view = engine.decide(may_view(asker, target, now, reported))
        outcome = IssuanceResult(
            decision=decision,
            decision_id=random_id(self.entropy),
            may_view=view.allowed,
            entities=self._slice(engine, decision),
            approved=approved,
        )
        if not decision.allowed:
            wants = _wants_factor(engine, decision.request)
            return evolve(outcome, word="deny", reason="denied", wants_factor=wants)
        if not _has_agreed(ask.proxy_decision, approved):
            return evolve(outcome, word="deny", reason="proxy_denied")
        if verified.resource is None:
            return evolve(outcome, word="not_served", reason="unknown")
        trusts = _trusts_each if verified.kind.opaque else self.gated.trust.is_trusted
        connector = self.peers.serving(verified.resource.assigned, proxy.id, trusts)
        if connector is None:
            was_served = verified.resource.last_served_at is not None
            return evolve(
                outcome, word="not_served", reason="departed" if was_served else "unknown"
            )
        rights = rights_of(engine, verified, now, reported) if verified.ends else None
        return self.onward.planned(verified, evolve(outcome, connector=connector, rights=rights))

    def _slice(self, engine: IPolicyEngine, decision: Decision) -> EntitySlice | None:
        """The entities of a decision, until the log is known to hold them (rule R9)."""
        digest = decision.entities_digest
        if not digest or digest in self._kept_slices:
            return None
        return EntitySlice(digest, cedar_json(engine.entity_slice(decision.request)))

    async def _commit(
        self, verified: VerifiedRequest, outcome: IssuanceResult, ask: Ask, proxy: Node
    ) -> ChainRow:
        def write(tx: ITransaction) -> ChainRow:
            rows = self.recorder.rows(tx)
            require_standing(rows, verified.certificate)
            if outcome.connector is not None:
                require_assigned(rows, verified)
            is_used = outcome.connector is not None and outcome.approved is not None
            used = self.offers.use(tx, outcome.approved) if is_used else ()
            row = self._record_decision(tx, verified, outcome, ask, proxy, used)
            self.onward.record(tx, self.recorder, verified, outcome)
            if ask.seen_at_ms and isinstance(verified.person, Agent):
                tx.agents.seen(verified.person.id, self.now())
            if outcome.connector is not None:
                self._insert(tx, session_row(verified, outcome, proxy.id, self.now()))
            return row

        row = await self.store.run("authorize session", write)
        if outcome.entities is not None:
            if len(self._kept_slices) >= _REMEMBERED_SLICES:
                self._kept_slices.clear()
            self._kept_slices[outcome.entities.digest] = None
        return row

    def _insert(self, tx: ITransaction, session: Session) -> None:
        """Enter a session; its uid is good for one, over restarts of ours too."""
        try:
            tx.sessions.insert(session)
        except AlreadyExists:
            raise Denied("the request was already used", reason="request_replayed") from None

    def _record_decision(
        self,
        tx: ITransaction,
        verified: VerifiedRequest,
        outcome: IssuanceResult,
        ask: Ask,
        proxy: Node,
        used: Sequence[StateEntry],
    ) -> ChainRow:
        decision = outcome.decision
        granted, claimed = outcome.connector is not None, ask.proxy_decision
        told = has_own_record(claimed, granted=granted)
        before = (claimed_record(self.recorder, verified, claimed, proxy.id),) if told else ()
        return self.recorder.append(
            tx,
            SESSION_START if granted else SESSION_REFUSED,
            person(verified.person.id),
            node_id=proxy.id,
            **verified.record_fields,
            decision=outcome.recorded,
            decision_id=outcome.decision_id,
            policies=outcome.policies,
            policy_version=decision.policy_version,
            catalog_version=self.state_cache.state.revision,
            reason=outcome.reason or None,
            request=decision.request,
            entities_digest=decision.entities_digest or None,
            entities=outcome.entities,
            state=used,
            before=before,
            details={
                "proxy_id": proxy.id,
                **outcome.details(proxy.id),
                "request_sha256": verified.digest.hex(),
                "certificate_sha256": verified.certificate.sha256.hex(),
                "proxy_decision_id": claimed.decision_id,
                **({} if told else claimed_details(claimed)),
            },
        )

    def _answer(
        self, verified: VerifiedRequest, outcome: IssuanceResult, proxy: Node, row: ChainRow
    ) -> AuthorizeAnswer:
        if outcome.connector is not None:
            grant = self._grant(verified, outcome, proxy, row)
            if grant.is_gated:
                self.gated.granted(grant)
            signed = self.sign_grant(encode_grant(grant))
            return AuthorizeAnswer(
                outcome.decision_id,
                grant=signed,
                may_view=outcome.may_view,
                approved=outcome.approved,
                peer_address=self.peers.address(grant.egress_proxy_id),
            )
        return refused_answer(verified, outcome)

    def _grant(
        self,
        verified: VerifiedRequest,
        outcome: IssuanceResult,
        proxy: Node,
        row: ChainRow,
    ) -> Grant:
        issued_at_ms = int(self.now() * 1000)
        end = _end_ms(verified, outcome, issued_at_ms)
        return Grant(
            cluster=self.cluster,
            session_uid=verified.request.session_uid,
            request_sha256=verified.digest,
            person_id=verified.person.id,
            person_certificate_sha256=verified.certificate.sha256,
            resource=verified.request.resource,
            resource_revision=0 if verified.resource is None else verified.resource.revision,
            resource_identity="" if verified.resource is None else verified.resource.identity,
            assignment_revision=(
                0 if verified.resource is None else verified.resource.assignment_revision
            ),
            kind=verified.kind.name,
            connector_id=outcome.connector_id,
            proxy_id=proxy.id,
            egress_proxy_id=outcome.egress_proxy_id(proxy.id),
            ceiling=verified.asked.ceiling,
            operations=self._operations(verified, outcome),
            decision_id=outcome.decision_id if verified.ends else "",
            recording_key=self.recording_key() if verified.ends else b"",
            onward_certificate=self.onward.signed(outcome),
            is_gated=not verified.kind.opaque,
            policy_version=outcome.decision.policy_version,
            audit_hash=row.hash,
            issued_at_ms=issued_at_ms,
            open_before_ms=min(issued_at_ms + OPEN_WITHIN_MS, end),
            end_before_ms=end,
        )

    def _operations(
        self, verified: VerifiedRequest, outcome: IssuanceResult
    ) -> frozenset[str] | None:
        """The operations of the kind that the policy may ever allow here; None: all of them.

        Of a session that ends at its Connector: those that the policy allows it.
        """
        if outcome.rights is not None:
            return outcome.rights.allowed
        terms, engine = verified.kind.terms, self.engine()
        if verified.kind.opaque or not terms.operations or engine is None:
            return None
        possible = {
            name
            for name, one in terms.operations.items()
            if engine.may_ever(
                may_open(
                    terms.actions[one.action],
                    one.action,
                    verified.person.id,
                    verified.target,
                    one.facts,
                )
            )
        }
        return None if len(possible) == len(terms.operations) else frozenset(possible)

    async def _record_rejected(self, ask: Ask, proxy: Node, refusal: SvcError) -> None:
        """A request that proves nothing is the Proxy's doing until shown otherwise."""
        _log.warn("session request refused", proxy=proxy.id, reason=refusal.reason)
        details = {"proxy_id": proxy.id, "request_sha256": sha256(ask.request).hexdigest()}
        trace_id = self.trace_id() or None  # here: the store's thread has no span

        def write(tx: ITransaction) -> None:
            self.recorder.append(
                tx,
                SESSION_REFUSED,
                node(proxy.id),
                node_id=proxy.id,
                decision="deny",
                decision_id=ask.proxy_decision.decision_id,
                reason=refusal.reason,
                trace_id=trace_id,
                details=details,
            )

        await self.refusals.write(node(proxy.id), "record a refused request", write)


def _trusts_each(_proxy_id: str) -> bool:
    return True  # with bytes that no Proxy can read


def _wants_factor(engine: IPolicyEngine, denied: AccessRequest) -> bool:
    """Whether the policy would allow what it denied, had the person just signed in."""
    return denied.principal == user(denied.principal.id) and (
        engine.decide(with_new_factor(denied)).allowed
    )


def _has_agreed(said: ProxyDecision, approved: ApprovedAccess | None) -> bool:
    """Whether a Proxy that decided so may get a grant.

    It knows no approvals: what it denies without one it decides again with the one that the answer
    names, before anything is opened (ADR 46).
    """
    return said.decision == "allow" or (approved is not None and said.decision == "deny")


def _end_ms(verified: VerifiedRequest, outcome: IssuanceResult, issued_at_ms: int) -> int:
    """When the session ends at the latest."""
    end = int(verified.certificate.not_after * 1000)
    if not verified.kind.opaque:
        end = min(end, issued_at_ms + GATED_MS)
    return end if outcome.approved is None else min(end, outcome.approved.ends_at * 1000)

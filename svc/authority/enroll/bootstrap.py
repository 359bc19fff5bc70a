"""``gate.v1.Bootstrap``: issues first certificates.

A token is spent, the certificate signed and the record written in one
transaction; what fails undoes the spending.  Every refused token gets one
answer: which of the reasons it was is in the audit log only.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.enroll.agents import AgentCertificates
from svc.authority.enroll.expected import KeyNotExpected, use_key
from svc.authority.enroll.issued import certificate_details, leaf_of
from svc.authority.refusals import JOINERS, RefusalRecords
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import ANONYMOUS, Recorder, node, person
from svc.authority.state.tables import (
    CERTIFICATES,
    EXPECTED,
    NODES,
    TOKENS,
    StateUnsigned,
)
from svc.errors import (
    Denied,
    Fault,
    Malformed,
    StoreUnavailable,
    SvcError,
)
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import (
    ENROLL_REFUSED,
    NODE_ENROLL,
    PERSON_ENROLL,
)
from svc.model.audit.spool import AUDIT_KEY_BYTES, verify_audit_key
from svc.model.audit.state import StateEntry, token_entry
from svc.model.certificate import NewCertificate
from svc.model.clocks import ClockWrong, check_clock
from svc.model.cluster.node import (
    KeptToken,
    Node,
    NodeState,
    RegistryRenewal,
    Spending,
    TokenRecord,
    TokenRole,
)
from svc.model.cluster.node import TokenRecord as TokenRow
from svc.model.cluster.person import IssuedCertificate as PersonCertificate
from svc.model.cluster.person import PersonState, require_active
from svc.model.cluster.token import JoinToken, TokenGrant, parse_token
from svc.model.principal import Role
from svc.model.signing import BadSignature
from svc.pki.enroll import CertificateIssuer
from svc.proto.gate.v1 import bootstrap_pb2 as pb

_log = Logger(namespace="svc_authority")

MAX_ASKED = 4
"""Calls over one connection, of a sign-in too: a lane is budgeted, what passes in it is not."""
_VERSION = 63
_SET_THE_CLOCK = "set the clock and join again; neither token nor key was used up"


class TokenNotGood(SvcError):
    """The one answer to every token that cannot be spent."""

    fault = Fault.DENIED
    reason = "token_refused"


@frozen
class AcceptedJoiner:
    """A joiner that was let in."""

    issued: NewCertificate
    name: str


@frozen
class RefusedToken:
    """A token that was not good: why, for the record, and the token where its id is known."""

    why: str
    token: TokenRow | None
    is_recorded: bool = False


@define
class Enrollment:
    """Serves callers that join; anyone who reaches the join listener may ask.

    Attributes:
        refusals: Bounds the records of refused joiners.
    """

    issuer: CertificateIssuer
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    clock: IReactorTime
    refusals: RefusalRecords = field()
    _asked: WeakKeyDictionary[Peer, int] = field(factory=WeakKeyDictionary)

    @refusals.default
    def _own_refusals(self) -> RefusalRecords:
        return RefusalRecords(
            store=self.store, recorder=self.recorder, clock=self.clock, now=self.now
        )

    def admit(self, method: str, peer: Peer) -> None:
        """Each call costs the store's only writer a transaction: a connection has a few.

        Raises:
            SvcError: the connection has asked too often.
        """
        asked = self._asked.get(peer, 0)
        if asked >= MAX_ASKED:
            raise SvcError(
                "too many joins over one connection; connect again",
                reason="anonymous_budget",
                fault=Fault.EXHAUSTED,
            )
        self._asked[peer] = asked + 1

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        return RpcService("gate.v1.Bootstrap", {"Enroll": unary(pb.EnrollRequest, self._enroll)})

    async def _enroll(self, request: pb.EnrollRequest, call: IRpcCall) -> pb.EnrollResponse:
        self._check_clock(request.sent_at_ms)
        token = parse_token(request.token) if request.token else None
        if len(request.version) > _VERSION:
            raise Malformed("enroll: the version is too long")
        key = self.issuer.examine(request.csr)

        try:
            joined = await self.store.run("enroll", lambda tx: self._admit(tx, token, request))
        except Denied as refusal:  # a good token, kept: its bearer may not join like this
            if token is None:
                await self._refuse_key(key.sha256, refusal)
            else:
                await self._record_refused(token.id, refusal.reason, None)
            raise
        if isinstance(joined, RefusedToken):
            if not joined.is_recorded:
                await self._record_refused(
                    "" if token is None else token.id, joined.why, joined.token
                )
            raise _refusal(token)
        await self._refresh()
        principal = joined.issued.facts.principal
        _log.info("joined", role=principal.role.value, id=principal.id, version=request.version)
        return pb.EnrollResponse(
            cluster=principal.cluster,
            principal=principal.uri,
            chain=joined.issued.chain,
            root=self.issuer.keys.root_der,
            name=joined.name,
        )

    def _check_clock(self, sent_at_ms: int) -> None:
        """Refuse a joiner whose clock is wrong while it still has its token, or its expected key.

        Its certificate would not be valid by its own clock, or open nothing.
        """
        if not sent_at_ms:
            return
        try:
            check_clock(sent_at_ms / 1000, self.now(), _SET_THE_CLOCK)
        except ClockWrong as refusal:
            _log.info("join refused", reason=refusal.reason, error=refusal.text)
            raise

    async def _refuse_key(self, key_sha256: bytes, refusal: Denied) -> None:
        """Record why an expected key, still waiting, may not join like this.

        Raises:
            KeyNotExpected: its row is not what was signed for; to the joiner that is as any other.
        """
        found = await self.store.read(
            "find an expected key", lambda tx: tx.expected.of_key(key_sha256)
        )
        await self._record_refused("", refusal.reason, None if found is None else found.token)
        if isinstance(refusal, StateUnsigned):
            raise _refusal(None) from refusal

    async def _refresh(self) -> None:
        """Know the joiner; what it was given must reach it all the same."""
        try:
            await self.state_cache.refresh()
        except StoreUnavailable as e:
            _log.warn("a joiner is known from the next reload pass on", reason=e.reason)

    def _admit(
        self, tx: ITransaction, token: JoinToken | None, request: pb.EnrollRequest
    ) -> AcceptedJoiner | RefusedToken:
        if token is not None:
            return self._spend(tx, token, request)
        key = self.issuer.examine(request.csr)
        outcome, found = use_key(tx, self.recorder, key.sha256, self.now())
        if outcome is not Spending.SPENT or found is None:
            return RefusedToken(outcome.value, None if found is None else found.token)
        used = EXPECTED.now(tx, found.id)
        return self._node(tx, found.token, request, used)

    def _spend(
        self, tx: ITransaction, token: JoinToken, request: pb.EnrollRequest
    ) -> AcceptedJoiner | RefusedToken:
        spent = tx.tokens.spend(token.id, token.secret_sha256, self.now())
        if spent.outcome is not Spending.SPENT or spent.token is None:
            return RefusedToken(spent.outcome.value, spent.token)
        # Before it was spent it was as its record says: its time, its role, and not spent yet.
        self.recorder.rows(tx).require(token_entry(KeptToken(spent.token)))
        if spent.token.role is TokenRole.PERSON:
            return self._person(tx, spent.token, request)
        if spent.token.role is TokenRole.AGENT:
            return self._agent(tx, spent.token, request)
        used = TOKENS.now(tx, token.id)
        return self._node(tx, spent.token, request, used)

    async def _record_refused(self, token_id: str, why: str, known: TokenRow | None) -> None:
        role = None if known is None else known.role.value
        details = {"token_id": token_id, "role": role}
        if not token_id:
            details = {"expected_id": None if known is None else known.id, "role": role}
        _log.warn("join refused", reason=why, **details)
        if why == Spending.UNKNOWN.value:
            return  # Anybody can make up an id: it is in the log only (R12).
        await self.refusals.write(
            JOINERS,
            "refuse a joiner",
            lambda tx: self.recorder.append(
                tx, ENROLL_REFUSED, ANONYMOUS, reason=why, details=details
            ),
        )

    def _person(
        self, tx: ITransaction, token: TokenRow, request: pb.EnrollRequest
    ) -> AcceptedJoiner | RefusedToken:
        known = self.recorder.rows(tx).person(token.bound_to or "")
        if known is None or known.state is PersonState.REVOKED:
            return self._wasted(tx, token, "revoked_person")
        require_active(known)  # a disabled person keeps the token, and is told
        issued = self.issuer.admit(
            TokenGrant(token.id, Role.USER, subject_id=known.id, name=known.name), request.csr
        )
        facts = issued.facts
        tx.certificates.issued(
            PersonCertificate(
                sha256=facts.sha256,
                serial=facts.serial,
                person_id=known.id,
                issued_at=self.now(),
                expires=facts.not_after,
            )
        )
        self.recorder.append(
            tx,
            PERSON_ENROLL,
            person(known.id),
            details={**certificate_details(issued), "person_id": known.id, "token_id": token.id},
            state=[TOKENS.now(tx, token.id), CERTIFICATES.now(tx, facts.sha256)],
        )
        return AcceptedJoiner(issued, known.name)

    def _agent(
        self, tx: ITransaction, token: TokenRow, request: pb.EnrollRequest
    ) -> AcceptedJoiner:
        """Let an agent in; one that is not in force keeps its token, and is told."""
        agents = AgentCertificates(self.issuer, self.recorder, self.now)
        known = agents.require(tx, token.bound_to or "")
        used = (TOKENS.now(tx, token.id),)
        issued = agents.enroll(tx, known, request.csr, token_id=token.id, used=used)
        return AcceptedJoiner(issued, known.name)

    def _wasted(self, tx: ITransaction, token: TokenRow, why: str) -> RefusedToken:
        """A good token that was spent on nobody: the record says that it is spent."""
        _log.warn("join refused", token_id=token.id, reason=why)
        details = {"token_id": token.id, "role": token.role.value}
        state = [TOKENS.now(tx, token.id)]
        self.recorder.append(
            tx, ENROLL_REFUSED, ANONYMOUS, reason=why, details=details, state=state
        )
        return RefusedToken(why, token, is_recorded=True)

    def _node(
        self, tx: ITransaction, token: TokenRow, request: pb.EnrollRequest, used: StateEntry
    ) -> AcceptedJoiner:
        """Let a node in; *used* is what it came by, a token or an expected key."""
        check_audit_key(request)
        grant = TokenGrant(
            token.id, Role(token.role.value), name=token.bound_to or "", names=token.names
        )
        principal = self.issuer.principal(grant, self.issuer.examine(request.csr))
        known = self.recorder.rows(tx).node(principal.id)
        if known is not None:
            check_same_member(known, principal.role, token, request.audit_public_key)
        else:
            check_new_key(tx, request.audit_public_key)
        generation = 1 if known is None else known.generation + 1
        issued = self.issuer.admit(grant, request.csr, generation)
        leaf = leaf_of(issued)
        if known is None:
            tx.nodes.register(
                Node(
                    id=principal.id,
                    name=token.bound_to or principal.id,
                    role=principal.role.value,
                    key_sha256=issued.key_sha256,
                    audit_key=request.audit_public_key,
                    leaf=leaf,
                    enrolled_at=self.now(),
                    version=request.version,
                    names=token.names,
                )
            )
        elif tx.nodes.renewed(principal.id, known.generation, leaf) is not RegistryRenewal.RENEWED:
            raise Denied("the node joins with a new key", reason="revoked_node")
        self.recorder.append(
            tx,
            NODE_ENROLL,
            node(principal.id),
            node_id=principal.id,
            details={
                **certificate_details(issued),
                f"{used.sort}_id": token.id,
                "role": principal.role.value,
                "key_digest": issued.key_sha256.hex(),
            },
            state=[used, NODES.now(tx, principal.id)],
        )
        return AcceptedJoiner(issued, token.bound_to or principal.id)


def check_audit_key(request: pb.EnrollRequest) -> None:
    """Refuse an audit key that the caller does not hold, because its rows would be another's.

    Raises:
        Malformed: it brings none.
        Denied: it does not show that it has it.
    """
    if len(request.audit_public_key) != AUDIT_KEY_BYTES:
        raise Malformed("enroll: a node must send an Ed25519 audit key of 32 bytes")
    try:
        verify_audit_key(request.audit_public_key, request.csr, request.audit_proof)
    except BadSignature as refused:
        raise Denied(
            "enroll: the node did not prove that it holds its audit key: the request lacks "
            "that key's signature over the certificate request",
            reason="audit_key_unproven",
        ) from refused


def check_new_key(tx: ITransaction, audit_key: bytes) -> None:
    """An audit key belongs to one node for ever, so that each row has one origin.

    Raises:
        Denied: it is another's, or was.
    """
    if tx.nodes.keyed(audit_key) is not None:
        raise Denied(
            "enroll: the audit key belongs or belonged to another node; remove identity/ from "
            "this node's state directory, so that it creates its own keys, and join again",
            reason="audit_key_taken",
        )


def check_same_member(known: Node, role: Role, token: TokenRecord, audit_key: bytes) -> None:
    """A key that is registered joins again only as what it is registered as.

    Raises:
        Denied: it was revoked, or is to become another member.
    """
    if known.state is NodeState.REVOKED:
        raise Denied("the node was revoked; it must join with a new key", reason="revoked_node")
    as_known = (known.role, known.name, known.names, known.audit_key)
    if as_known != (role.value, token.bound_to or known.id, token.names, audit_key):
        raise Denied(
            "the node's key is registered to another member; it must join with a new key",
            reason="node_differs",
        )


def _refusal(token: JoinToken | None) -> SvcError:
    """The one answer to every token, or key, that is not good."""
    if token is not None:
        return TokenNotGood(
            "the join token is invalid, expired or already used; ask your operator for a new one"
        )
    return KeyNotExpected(
        "this key may not join; an operator must register its SHA-256 with `svc authority "
        "nodes expect`, which permits one join"
    )

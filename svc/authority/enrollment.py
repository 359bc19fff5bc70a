"""``gate.v1.Bootstrap`` and ``gate.v1.Renewal``: how certificates come to be.

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

from svc.authority.facts import Knowledge
from svc.authority.joiners import check_audit_key, check_new_key, check_same_member
from svc.authority.records import ANONYMOUS, Recorder, node, person
from svc.authority.refusals import JOINERS, RefusalRecords
from svc.authority.signed_rows import certificate_now, node_now, token_now
from svc.errors import (
    Denied,
    Fault,
    Malformed,
    StoreUnavailable,
    SvcError,
    Unauthenticated,
)
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit import rfc3339
from svc.model.budget import Budget
from svc.model.certificate import CertificateFacts, IssuedCertificate
from svc.model.events import (
    ENROLL_REFUSED,
    NODE_ENROLL,
    NODE_RENEW,
    NODE_REVOKE,
    PERSON_ENROLL,
    RENEW_REFUSED,
)
from svc.model.node import JoinToken as TokenRow
from svc.model.node import KeptToken, Leaf, Node, NodeState, Renewal, Spending, TokenRole
from svc.model.person import IssuedCertificate as PersonCertificate
from svc.model.person import PersonState
from svc.model.principal import NODE_ROLES, Role
from svc.model.state import token_entry
from svc.model.token import JoinToken, TokenGrant, parse_token
from svc.pki.enroll import CloneSuspected, EnrollmentDesk, Standing
from svc.proto.gate.v1 import bootstrap_pb2 as pb

_log = Logger(namespace="svc_authority")

MAX_ASKED = 4
"""Enrollments asked for over one connection: a lane is budgeted, what passes in it is not."""
_VERSION = 63


class TokenNotGood(SvcError):
    """The one answer to every token that cannot be spent."""

    fault = Fault.DENIED
    reason = "token_refused"


@frozen
class Joined:
    """A joiner that was let in."""

    issued: IssuedCertificate
    name: str


@frozen
class NotJoined:
    """A token that was not good: why, for the record, and the token where its id is known."""

    why: str
    token: TokenRow | None
    is_recorded: bool = False


@define
class Enrollment:
    """Serves joiners; whoever reaches the join listener may ask.

    Attributes:
        refusals: Bounds the records of refused joiners.
    """

    desk: EnrollmentDesk
    knowledge: Knowledge
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    clock: IReactorTime
    refusals: RefusalRecords = field()
    _asked: WeakKeyDictionary[Peer, int] = field(factory=WeakKeyDictionary)

    @refusals.default
    def _own_refusals(self) -> RefusalRecords:
        return RefusalRecords(self.store, self.recorder, self.clock, self.now)

    def admit(self, method: str, peer: Peer) -> None:
        """Each call costs the store's only writer a transaction: a connection has a few.

        Raises:
            SvcError: the connection has asked too often.
        """
        asked = self._asked.get(peer, 0)
        if asked >= MAX_ASKED:
            raise SvcError(
                "too many joins over one connection; connect anew",
                reason="anonymous_budget",
                fault=Fault.EXHAUSTED,
            )
        self._asked[peer] = asked + 1

    def service(self) -> RpcService:
        """The methods, as the RPC server takes them."""
        return RpcService("gate.v1.Bootstrap", {"Enroll": unary(pb.EnrollRequest, self._enroll)})

    async def _enroll(self, request: pb.EnrollRequest, call: IRpcCall) -> pb.EnrollResponse:
        token = parse_token(request.token)
        if len(request.version) > _VERSION:
            raise Malformed("enroll: the version is too long")
        self.desk.examine(request.csr)

        try:
            joined = await self.store.run("enroll", lambda tx: self._spend(tx, token, request))
        except Denied as refusal:  # a good token, kept: its bearer may not join like this
            await self._record_refused(token.id, refusal.reason, None)
            raise
        if isinstance(joined, NotJoined):
            if not joined.is_recorded:
                await self._record_refused(token.id, joined.why, joined.token)
            raise TokenNotGood("the token is not good; ask the operator for a new one")
        await self._refresh()
        principal = joined.issued.facts.principal
        _log.info("joined", role=principal.role.value, id=principal.id, version=request.version)
        return pb.EnrollResponse(
            cluster=principal.cluster,
            principal=principal.uri,
            chain=joined.issued.chain,
            root=self.desk.keys.root_der,
            name=joined.name,
        )

    async def _refresh(self) -> None:
        """Know the joiner; what it was given must reach it all the same."""
        try:
            await self.knowledge.refresh()
        except StoreUnavailable as e:
            _log.warn("a joiner is known from the next reload pass on", reason=e.reason)

    def _spend(
        self, tx: ITransaction, token: JoinToken, request: pb.EnrollRequest
    ) -> Joined | NotJoined:
        spent = tx.tokens.spend(token.id, token.secret_sha256, self.now())
        if spent.outcome is not Spending.SPENT or spent.token is None:
            return NotJoined(spent.outcome.value, spent.token)
        # Before it was spent it was as its record says: its time, its role, and not spent yet.
        self.recorder.rows(tx).require(token_entry(KeptToken(spent.token)))
        if spent.token.role is TokenRole.PERSON:
            return self._person(tx, spent.token, request)
        return self._node(tx, spent.token, request)

    async def _record_refused(self, token_id: str, why: str, known: TokenRow | None) -> None:
        _log.warn("join refused", token_id=token_id, reason=why)
        if why == Spending.UNKNOWN.value:
            return  # Anybody can make up an id: it is in the log only (R12).
        details = {"token_id": token_id, "role": None if known is None else known.role.value}
        await self.refusals.write(
            JOINERS,
            "refuse a joiner",
            lambda tx: self.recorder.append(
                tx, ENROLL_REFUSED, ANONYMOUS, reason=why, details=details
            ),
        )

    def _person(
        self, tx: ITransaction, token: TokenRow, request: pb.EnrollRequest
    ) -> Joined | NotJoined:
        known = self.recorder.rows(tx).person(token.bound_to or "")
        if known is None or known.state is PersonState.REVOKED:
            return self._wasted(tx, token, "revoked_person")
        issued = self.desk.admit(
            TokenGrant(token.id, Role.USER, subject_id=known.id, name=known.name), request.csr
        )
        facts = issued.facts
        tx.certificates.issued(
            PersonCertificate(facts.sha256, facts.serial, known.id, self.now(), facts.not_after)
        )
        self.recorder.append(
            tx,
            PERSON_ENROLL,
            person(known.id),
            details={**_certificate(issued), "person_id": known.id, "token_id": token.id},
            state=[token_now(tx, token.id), certificate_now(tx, facts.sha256)],
        )
        return Joined(issued, known.name)

    def _wasted(self, tx: ITransaction, token: TokenRow, why: str) -> NotJoined:
        """A good token that was spent on nobody: the record says that it is spent."""
        _log.warn("join refused", token_id=token.id, reason=why)
        details = {"token_id": token.id, "role": token.role.value}
        state = [token_now(tx, token.id)]
        self.recorder.append(
            tx, ENROLL_REFUSED, ANONYMOUS, reason=why, details=details, state=state
        )
        return NotJoined(why, token, is_recorded=True)

    def _node(self, tx: ITransaction, token: TokenRow, request: pb.EnrollRequest) -> Joined:
        check_audit_key(request)
        grant = TokenGrant(
            token.id, Role(token.role.value), name=token.bound_to or "", names=token.names
        )
        principal = self.desk.principal(grant, self.desk.examine(request.csr))
        known = self.recorder.rows(tx).node(principal.id)
        if known is not None:
            check_same_member(known, principal.role, token, request.audit_public_key)
        else:
            check_new_key(tx, request.audit_public_key)
        generation = 1 if known is None else known.generation + 1
        issued = self.desk.admit(grant, request.csr, generation)
        leaf = _leaf(issued)
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
        elif tx.nodes.renewed(principal.id, known.generation, leaf) is not Renewal.RENEWED:
            raise Denied("the node joins with a new key", reason="revoked_node")
        self.recorder.append(
            tx,
            NODE_ENROLL,
            node(principal.id),
            node_id=principal.id,
            details={
                **_certificate(issued),
                "token_id": token.id,
                "role": principal.role.value,
                "key_digest": issued.key_sha256.hex(),
            },
            state=[token_now(tx, token.id), node_now(tx, principal.id)],
        )
        return Joined(issued, token.bound_to or principal.id)


@define
class RenewalDesk:
    """Serves nodes that renew: their certificate is their only credential here."""

    desk: EnrollmentDesk
    knowledge: Knowledge
    verifier: IChainVerifier
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    revoked: Callable[[str], object]
    """Called with a node id found cloned, once its revocation is durable."""
    renewals: Budget
    """How often a node may renew; this Authority's own renewals do not pass it."""

    def service(self) -> RpcService:
        """The methods, as the RPC server takes them."""
        return RpcService("gate.v1.Renewal", {"Renew": unary(pb.RenewRequest, self._renew)})

    def admit(self, method: str, peer: Peer) -> None:
        """Refuse a caller without a node certificate that is good now."""
        if not peer.chain:
            raise Unauthenticated("the renewal listener takes node certificates only")
        self.knowledge.node(self.verifier.verify(peer.chain, NODE_ROLES).principal)

    async def _renew(self, request: pb.RenewRequest, call: IRpcCall) -> pb.RenewResponse:
        shown = self.verifier.verify(call.peer.chain, NODE_ROLES)
        self.renewals.spend(node(shown.principal.id))
        return pb.RenewResponse(chain=await self.renew(shown, request.csr))

    async def renew(self, shown: CertificateFacts, csr: bytes) -> tuple[bytes, ...]:
        """The next certificate chain of the holder of a certificate that is good now.

        Called for peers, and by this Authority for its own leaf.

        Raises:
            SvcError: the holder may not renew; a clone is revoked first.
        """
        self.desk.examine(csr)

        def issue(tx: ITransaction) -> IssuedCertificate | None:
            known = self.recorder.rows(tx).node(shown.principal.id)
            if known is None or known.role != shown.principal.role.value:
                raise Denied("the node is not in the registry", reason="unknown_node")
            standing = Standing(
                known.generation,
                known.leaf.key_sha256,
                known.names,
                known.state is NodeState.REVOKED,
            )
            try:
                issued = self.desk.renew(shown, csr, standing)
            except CloneSuspected as clone:
                self._end_clone(tx, known, shown.generation, clone)
                return None
            outcome = tx.nodes.renewed(known.id, shown.generation, _leaf(issued))
            if outcome is Renewal.CLONE:
                self._end_clone(tx, known, shown.generation, CloneSuspected("an older generation"))
                return None
            if outcome not in (Renewal.RENEWED, Renewal.REPEATED):
                raise Denied("the node may not renew", reason="revoked_node")
            self._renewed(tx, known, issued)
            return issued

        issued = await self.store.run("renew a node", issue)
        await self.knowledge.refresh()
        if issued is None:
            self.revoked(shown.principal.id)
            raise CloneSuspected(
                "this identity was renewed by another holder; the node is revoked and joins anew"
            )
        return issued.chain

    def _renewed(self, tx: ITransaction, known: Node, issued: IssuedCertificate) -> None:
        self.recorder.append(
            tx,
            NODE_RENEW,
            node(known.id),
            node_id=known.id,
            details={**_certificate(issued), "role": known.role},
            state=[node_now(tx, known.id)],
        )

    def _end_clone(
        self, tx: ITransaction, known: Node, generation: int, clone: CloneSuspected
    ) -> None:
        tx.nodes.revoke(known.id, self.now())
        self.recorder.append(
            tx,
            RENEW_REFUSED,
            node(known.id),
            node_id=known.id,
            reason=clone.reason,
            details={"generation": generation, "role": known.role},
        )
        self.recorder.append(
            tx,
            NODE_REVOKE,
            node(known.id),
            node_id=known.id,
            reason=clone.reason,
            details={"role": known.role},
            state=[node_now(tx, known.id)],
        )


def _leaf(issued: IssuedCertificate) -> Leaf:
    return Leaf(issued.facts.serial, issued.key_sha256, issued.facts.not_after)


def _certificate(issued: IssuedCertificate) -> dict[str, str | int]:
    facts = issued.facts
    return {
        "serial": facts.serial,
        "certificate_sha256": facts.sha256.hex(),
        "not_after": rfc3339(facts.not_after),
        "generation": facts.generation,
    }

"""``gate.v1.Renewal``: a node's certificate is its only credential for the next one."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.enroll.issued import certificate_details, leaf_of
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node
from svc.authority.state.tables import NODES
from svc.errors import Denied, Unauthenticated
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import NODE_RENEW, NODE_REVOKE, RENEW_REFUSED
from svc.model.certificate import CertificateFacts, NewCertificate
from svc.model.cluster.node import Node, NodeState, RegistryRenewal
from svc.model.principal import NODE_ROLES
from svc.pki.enroll import CertificateIssuer, CloneSuspected, HolderStanding
from svc.proto.gate.v1 import bootstrap_pb2 as pb
from svc.ratelimit.limits import Budget


@define
class NodeRenewal:
    """Serves nodes that renew: their certificate is their only credential here."""

    issuer: CertificateIssuer
    state_cache: ClusterStateCache
    verifier: IChainVerifier
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    revoked: Callable[[str], object]
    """Called with a node id found cloned, once its revocation is durable."""
    renewals: Budget
    """How often a node may renew; this Authority's own renewals do not pass it."""

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        return RpcService("gate.v1.Renewal", {"Renew": unary(pb.RenewRequest, self._renew)})

    def admit(self, method: str, peer: Peer) -> None:
        """Refuse a caller without a node certificate that is good now."""
        if not peer.chain:
            raise Unauthenticated("the renewal listener accepts only node certificates")
        self.state_cache.node(self.verifier.verify(peer.chain, NODE_ROLES).principal)

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
        self.issuer.examine(csr)

        def issue(tx: ITransaction) -> NewCertificate | None:
            known = self.recorder.rows(tx).node(shown.principal.id)
            if known is None or known.role != shown.principal.role.value:
                raise Denied("the node is not in the registry", reason="unknown_node")
            standing = HolderStanding(
                generation=known.generation,
                key_sha256=known.leaf.key_sha256,
                names=known.names,
                revoked=known.state is NodeState.REVOKED,
            )
            try:
                issued = self.issuer.renew(shown, csr, standing)
            except CloneSuspected as clone:
                self._end_clone(tx, known, shown.generation, clone)
                return None
            outcome = tx.nodes.renewed(known.id, shown.generation, leaf_of(issued))
            if outcome is RegistryRenewal.CLONE:
                self._end_clone(tx, known, shown.generation, CloneSuspected("an older generation"))
                return None
            if outcome not in (RegistryRenewal.RENEWED, RegistryRenewal.REPEATED):
                raise Denied("the node may not renew", reason="revoked_node")
            self._renewed(tx, known, issued)
            return issued

        issued = await self.store.run("renew a node", issue)
        await self.state_cache.refresh()
        if issued is None:
            self.revoked(shown.principal.id)
            raise CloneSuspected(
                "this identity was renewed by another holder; the node was revoked and must "
                "join again"
            )
        return issued.chain

    def _renewed(self, tx: ITransaction, known: Node, issued: NewCertificate) -> None:
        self.recorder.append(
            tx,
            NODE_RENEW,
            node(known.id),
            node_id=known.id,
            details={**certificate_details(issued), "role": known.role},
            state=[NODES.now(tx, known.id)],
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
            state=[NODES.now(tx, known.id)],
        )

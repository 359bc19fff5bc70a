"""Says who proposes a policy: the person who signed for it, or the caller (rule R17)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from attrs import define

from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import person
from svc.errors import Denied
from svc.interfaces.identity import IChainVerifier
from svc.model.audit.record import Actor
from svc.model.certificate import CertificateFacts
from svc.model.clocks import MAX_APART_SECS, apart
from svc.model.policy.claim import ProposalClaim, decode_claim
from svc.model.principal import Role
from svc.model.signing import Purpose, verify
from svc.proto.gate.v1 import policy_change_pb2 as pb


@define
class ProposalClaims:
    """Checks what proposers sign."""

    cluster: str
    verifier: IChainVerifier
    state_cache: ClusterStateCache
    now: Callable[[], float]

    def proposer(
        self, request: pb.ProposePolicyRequest, actor: Actor
    ) -> tuple[Actor, CertificateFacts | None]:
        """Who proposes, and the certificate that they signed with; None: nobody signed.

        Raises:
            SvcError: the signature is nobody's of us, for another proposal, or old.
        """
        if not request.claim:
            return actor, None
        certificate = self.verifier.verify(tuple(request.chain), {Role.USER})
        verify(certificate.public_key, Purpose.POLICY_PROPOSAL, request.claim, request.signature)
        claim = decode_claim(request.claim)
        if claim != self._expected(request, certificate, claim.made_at):
            raise Denied("what was signed is another proposal", reason="proposal_mismatch")
        if abs(self.now() - claim.made_at) > MAX_APART_SECS:
            raise Denied(
                "the proposal was not signed just now, or this machine's clock is "
                f"{apart(claim.made_at, self.now())}; set the clock and propose again",
                reason="proposal_stale",
            )
        if actor.kind == "person" and actor.id != claim.proposer:
            raise Denied("another person signed the proposal", reason="proposal_mismatch")
        self.state_cache.person(certificate.principal)
        return person(claim.proposer), certificate

    def _expected(
        self, request: pb.ProposePolicyRequest, certificate: CertificateFacts, made_at: int
    ) -> ProposalClaim:
        return ProposalClaim(
            cluster=self.cluster,
            proposer=certificate.principal.id,
            certificate_sha256=certificate.sha256,
            policy_sha256=sha256(request.text.encode("utf-8", "surrogatepass")).digest(),
            replay_sha256=sha256(request.replay).digest(),
            findings_sha256=sha256(request.findings).digest(),
            note=request.note,
            made_at=made_at,
        )

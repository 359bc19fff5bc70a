"""Decides from facts who gets a certificate: enrollment and renewal at the Authority.

No store here: the role spends the token or reads the registry's row inside its
own transaction, passes what it found, and keeps what comes back.  All of it is
synchronous and takes about 250 microseconds, so it may run in a transaction.
"""

from __future__ import annotations

from attrs import define, evolve, frozen

from svc.errors import Fault, SvcError
from svc.model.certificate import (
    CertificateFacts,
    CertificateRefused,
    CertificateRequest,
    NewCertificate,
)
from svc.model.cluster.token import TokenGrant
from svc.model.ids import node_id
from svc.model.principal import HOLDERS, Principal
from svc.pki import profile
from svc.pki.issue import IssuingAuthority, ProvenKey, prove_key
from svc.pki.root import ClusterKeys


class CloneSuspected(SvcError):
    """Two holders of one identity renewed it: both are refused from now on (R13)."""

    fault = Fault.DENIED
    reason = "identity_cloned"


class IdentityRevoked(SvcError):
    """The registry says that this holder is no more."""

    fault = Fault.DENIED
    reason = "identity_revoked"


@frozen
class HolderStanding:
    """What the registry knows about a holder that asks for renewal.

    Attributes:
        generation: Of the newest certificate issued to it.
        key_sha256: Of the key in that certificate.
        names: Host names the certificate carries.
        revoked: Whether the holder was revoked or found cloned.
    """

    generation: int
    key_sha256: bytes
    names: tuple[str, ...] = ()
    revoked: bool = False


@define
class CertificateIssuer:
    """Turns spent tokens and old certificates into new certificates.

    Args:
        keys: The issuing CAs; replaced whole, for threads that sign meanwhile.
        node_lifetime: Seconds a node's leaf lives.
        person_lifetime: Seconds a person's or operator's leaf lives.
    """

    keys: ClusterKeys
    node_lifetime: float = profile.NODE_LIFETIME
    person_lifetime: float = profile.NODE_LIFETIME

    def examine(self, csr: bytes) -> ProvenKey:
        """Check a request before its token is spent: a bad one must not cost a token.

        Raises:
            CertificateRefused: for a request that nothing could be signed for.
        """
        return prove_key(csr)

    def principal(self, grant: TokenGrant, key: ProvenKey) -> Principal:
        """Whom a bearer of *key* becomes by *grant*: nodes are named by their key.

        Raises:
            CertificateRefused: for a grant that names no person where it must.
        """
        if grant.role.is_node:
            return Principal(self.keys.cluster, grant.role, node_id(key.info))
        if grant.role not in HOLDERS or not grant.subject_id:
            raise CertificateRefused("the token names no holder", reason="certificate_role")
        return Principal(self.keys.cluster, grant.role, grant.subject_id)

    def admit(
        self, grant: TokenGrant, csr: bytes, generation: int = 1, factor_at: int | None = None
    ) -> NewCertificate:
        """The first certificate of a joiner whose token was just spent.

        Args:
            generation: Above 1 only where the registry knows this holder
                already (re-enrollment): one more than its newest.
            factor_at: When a person presented a second factor; None where that is not known.

        Raises:
            CertificateRefused: nothing was signed.
        """
        principal = self.principal(grant, prove_key(csr))
        return self.sign_for(principal, csr, generation, grant.names, factor_at=factor_at)

    def renew(
        self,
        shown: CertificateFacts,
        csr: bytes,
        standing: HolderStanding,
        ends_by: float | None = None,
    ) -> NewCertificate:
        """The next certificate of a holder who showed a valid one in TLS.

        The answer to a renewal can be lost on its way.  So a holder one
        generation behind that asks again with the very key it got the newest
        certificate for is given that generation once more; anyone else behind
        is a clone.

        Args:
            shown: Of the peer's certificate, verified now.
            ends_by: What the next one must not outlive; None: it has its full lifetime.

        Raises:
            IdentityRevoked, CloneSuspected: the caller records it and, for a
                clone, revokes the holder; CertificateRefused: for the request.
        """
        if standing.revoked:
            raise IdentityRevoked("this identity was revoked")
        key = prove_key(csr)
        if shown.generation == standing.generation:
            generation = standing.generation + 1
        elif shown.generation == standing.generation - 1 and key.sha256 == standing.key_sha256:
            generation = standing.generation
        else:
            raise CloneSuspected(
                "the certificate that asks for renewal is not the newest generation"
            )
        # No renewal makes a second factor younger (rule R35).
        return self.sign_for(
            shown.principal,
            csr,
            generation,
            standing.names,
            ends_by=ends_by,
            factor_at=shown.factor_at,
        )

    def take(self, issuer: IssuingAuthority) -> None:
        """Sign with this CA from now on; what the one before signed stays good to its end."""
        self.keys = evolve(self.keys, issuers={**self.keys.issuers, issuer.kind: issuer})

    def sign_for(
        self,
        principal: Principal,
        csr: bytes,
        generation: int,
        names: tuple[str, ...] = (),
        ends_by: float | None = None,
        factor_at: int | None = None,
    ) -> NewCertificate:
        """A certificate for a principal that the caller vouches for.

        Directly called only by an Authority for its own leaf.

        Raises:
            CertificateRefused: nothing was signed.
        """
        lifetime = self.node_lifetime if principal.role.is_node else self.person_lifetime
        request = CertificateRequest(
            csr=csr,
            principal=principal,
            lifetime=lifetime,
            generation=generation,
            names=names,
            ends_by=ends_by,
            factor_at=factor_at,
        )
        return self.keys.issuer_for(principal.role).sign(request)

"""What a peer must be: under which root, of which role, and who exactly.

Asked inside the handshake by :mod:`svc.pki.handshake`, once OpenSSL has checked the signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Protocol

from attrs import frozen

from svc.model.certificate import CertificateFacts, CertificateRefused
from svc.model.principal import Principal, Role
from svc.pki.verify import ChainVerifier, Shown, ca_pin, der_of

Expect = Callable[[CertificateFacts], None]
"""A further check of a verified peer; raises SvcError to refuse it."""


class PeerCheck(Protocol):
    """What decides on a peer's chain: leaf first, root last."""

    def accept(self, chain: Shown) -> None:
        """Return to accept; raise SvcError to refuse.

        Args:
            chain: As OpenSSL has it: writing a certificate out costs more than knowing it again.
        """

    def trusts(self, root: bytes) -> bool:
        """Whether a root that only the peer's chain contains may be trusted; its DER."""


@frozen
class KnownRoot:
    """Accepts chains to the pinned root whose leaf has one of *roles* and is as expected."""

    verifier: ChainVerifier
    roles: Set[Role]
    expect: Expect

    def accept(self, chain: Shown) -> None:
        """See PeerCheck."""
        self.expect(self.verifier.verify(chain, self.roles))

    def trusts(self, root: bytes) -> bool:
        """See PeerCheck."""
        return root == self.verifier.root


@frozen
class PinnedRoot:
    """Accepts an authority of *cluster* whose chain ends in the root that *pin* names."""

    cluster: str
    pin: str
    now: Callable[[], float]

    def accept(self, chain: Shown) -> None:
        """See PeerCheck."""
        root = der_of(chain[-1])
        if not self.trusts(root):
            raise CertificateRefused("the chain does not end in the pinned root")
        ChainVerifier(self.cluster, root, self.now).verify(chain, frozenset({Role.AUTHORITY}))

    def trusts(self, root: bytes) -> bool:
        """See PeerCheck."""
        return ca_pin(root) == self.pin


def anyone(facts: CertificateFacts) -> None:
    """Expect nothing further of a verified peer."""


def exactly(principal: Principal) -> Expect:
    """Expect this one principal."""

    def check(facts: CertificateFacts) -> None:
        if facts.principal != principal:
            raise CertificateRefused(
                "the peer's certificate is for a different identity from the expected one",
                reason="certificate_name",
            )

    return check

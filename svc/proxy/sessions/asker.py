"""Who asks for a session, as the policy is asked about them."""

from __future__ import annotations

from attrs import frozen

from svc.model.certificate import CertificateFacts


@frozen
class SessionAsker:
    """Who asks for a session.

    Attributes:
        factor_at: When they presented a second factor, by their certificate; None where nobody
            knows.
    """

    person_id: str
    factor_at: int | None = None

    @classmethod
    def of(cls, certificate: CertificateFacts) -> SessionAsker:
        """The holder of a certificate."""
        return cls(certificate.principal.id, certificate.factor_at)

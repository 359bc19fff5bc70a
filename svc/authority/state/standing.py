"""Whether the holder of a certificate is accepted, by the rows of one transaction."""

from __future__ import annotations

from svc.authority.state.tables import SignedRows
from svc.errors import Denied
from svc.model.certificate import CertificateFacts
from svc.model.cluster.agent import require_agent
from svc.model.cluster.person import require_active
from svc.model.principal import Role


def require_standing(rows: SignedRows, certificate: CertificateFacts) -> None:
    """Return if a person or agent, and this certificate of theirs, are in force.

    Raises:
        Denied: they are not, or a row is not what was signed for.
    """
    require_certificate(rows, certificate)
    id = certificate.principal.id
    if certificate.principal.role is Role.AGENT:
        agent = rows.agent(id)
        require_agent(agent, None if agent is None else rows.person(agent.owner))
    else:
        require_active(rows.person(id))


def require_certificate(rows: SignedRows, certificate: CertificateFacts) -> None:
    """Return if this certificate was issued here and not revoked.

    Raises:
        Denied: ``revoked_certificate``, or its row is not what was signed for.
    """
    if certificate.principal.role is Role.AGENT:
        is_good = rows.agent_certificate(certificate.sha256) is not None
    else:
        issued = rows.certificate(certificate.sha256)
        is_good = issued is not None and issued.revoked_at is None
    if not is_good:
        raise Denied("the certificate was revoked", reason="revoked_certificate")

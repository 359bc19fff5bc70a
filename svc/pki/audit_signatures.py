"""Which signatures are valid in the audit log: those of its heads and of records of state.

Both are judged as of the time that the signed thing itself names, so that a
key whose certificate has ended since still proves what it signed before.
"""

from __future__ import annotations

from svc.interfaces.audit import HeadVerifier, OriginVerifier
from svc.model.signing import Purpose, Signed
from svc.pki.verify import ChainVerifier


def head_verifier(root: bytes, cluster: str) -> HeadVerifier:
    """Verifies each head's signature at the head's own time, under *root*."""
    verifier = ChainVerifier(cluster, root, lambda: 0.0)

    def verify(signed: Signed, at: float) -> object:
        return verifier.verify_signed_at(signed, Purpose.AUDIT_HEAD, at)

    return verify


def origin_verifier(root: bytes, cluster: str) -> OriginVerifier:
    """Verifies the signature of a record of state at the record's own time, under *root*."""
    verifier = ChainVerifier(cluster, root, lambda: 0.0)

    def verify(signed: Signed, at: float) -> object:
        return verifier.verify_signed_at(signed, Purpose.AUDIT_ORIGIN, at)

    return verify

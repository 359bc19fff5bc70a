"""Facts about a certificate, after its chain was verified.

Values only.  Reading a certificate and judging its chain is done in
``svc.pki.verify``, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from attrs import field, frozen

from svc.errors import Fault, SvcError
from svc.model.principal import Principal
from svc.model.signing import PublicKey, read_public_key


class CertificateRefused(SvcError):
    """A certificate or chain that proves nothing here.

    ``reason`` is one of ``certificate_malformed``,
    ``certificate_chain``, ``certificate_expired``,
    ``certificate_not_yet_valid``, ``certificate_usage``,
    ``certificate_cluster``, ``certificate_role``, ``certificate_name``,
    ``certificate_key`` (of a request).
    """

    fault = Fault.UNAUTHENTICATED
    reason = "certificate_chain"


EXPIRED = "certificate_expired"
NOT_YET_VALID = "certificate_not_yet_valid"

BACKDATE_SECS = 60.0
"""How long before its issue a certificate begins, for clocks that lag."""


@frozen
class CertificateFacts:
    """One verified certificate.

    Attributes:
        principal: Whom it speaks for.
        sha256: Of the leaf's DER, 32 bytes: how sessions and grants name it.
        serial: The leaf's serial number in lower-case hex.
        not_before: Unix seconds; the latest beginning in its chain.
        not_after: Unix seconds; the earliest end in its chain.  Invalid from then on.
        generation: How often this holder's certificate was issued, from 1
            on; 0 for purpose certificates (R13).
        key_info: The holder's public key, as DER (SubjectPublicKeyInfo).
        factor_at: When its holder presented a second factor, by whoever signed them in; None
            where nobody said so.
    """

    principal: Principal
    sha256: bytes
    serial: str
    not_before: float
    not_after: float
    generation: int
    key_info: bytes = field(eq=False, repr=False)
    factor_at: int | None = None

    @cached_property
    def public_key(self) -> PublicKey:
        """The holder's key; verifies what the holder signs.

        Made when first asked for: it takes OpenSSL 2 KiB, and a Proxy, which remembers the
        certificates of thousands of nodes and persons, verifies nothing by them.
        """
        return read_public_key(self.key_info)

    @property
    def lifetime(self) -> float:
        """Seconds from its issue to its end, never below one."""
        return max(1.0, self.not_after - self.not_before - BACKDATE_SECS)

    @property
    def issued_at(self) -> float:
        """When it was issued, by the clock of the Authority that did; to a second."""
        return self.not_before + BACKDATE_SECS

    def seconds_left(self, now: float) -> float:
        """Seconds until the certificate ends; negative once it has."""
        return self.not_after - now


@frozen
class CertificateRequest:
    """What an authority is asked to sign; every field but the key is the registry's word.

    Attributes:
        csr: DER; nothing is taken from it but its public key, once the
            signature in it proves that the asker holds the private one.
        principal: The name the certificate will carry.
        names: DNS names and IP addresses, from registry or configuration.
        lifetime: Seconds; cut to the end of the issuing CA.
        generation: 1 at enrollment, one more at each renewal.
        ends_by: Unix time that the certificate is not good past; None: only *lifetime* says.
        factor_at: When a person presented a second factor; None where that is not known.
    """

    csr: bytes
    principal: Principal
    lifetime: float
    generation: int = 1
    names: tuple[str, ...] = ()
    ends_by: float | None = None
    factor_at: int | None = None


@frozen
class NewCertificate:
    """A certificate just made.

    Attributes:
        chain: DER, leaf first, issuing CA second.
        facts: Of the leaf.
        key_sha256: Of the leaf's SubjectPublicKeyInfo; the registry keeps it
            to recognise a renewal asked for twice.
    """

    chain: tuple[bytes, ...]
    facts: CertificateFacts
    key_sha256: bytes


@frozen
class TrustBundle:
    """What a joiner keeps: the cluster's name, its root, the issuing CAs in force; DER."""

    cluster: str
    root: bytes
    issuers: tuple[bytes, ...] = ()


SignerCallable = Callable[[bytes], bytes]
"""Signs bytes for one purpose fixed when it was made; what ``compose`` hands to other rooms."""

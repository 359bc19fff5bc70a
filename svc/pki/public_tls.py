"""TLS under a public name: a certificate and key that an operator keeps in files.

Browsers know the authority that signed it, so it is no certificate of the cluster's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import define, field
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from svc.errors import ConfigError
from svc.model.clocks import utc
from svc.pki.files import MAX_FILE_BYTES, read_private

_MOST_NAMES = 5


@implementer(IOpenSSLServerConnectionCreator)
@define(eq=False)
class PublicCertificate:
    """The certificate of a name, as its files held it when they were read last.

    Attributes:
        cert: PEM: the certificate, then its chain.
        key: PEM, readable by this user alone.
    """

    cert: Path
    key: Path
    _leaf: x509.Certificate = field(init=False)
    _context: SSL.Context = field(init=False)
    _read: tuple[bytes, bytes] = field(default=(b"", b""), init=False, repr=False)

    def load(self) -> bool:
        """Read the files; whether they changed.  Blocks for the disk.

        Raises:
            ConfigError: naming the file; what was read before stays in force.
        """
        read = (_public(self.cert), read_private(self.key, os.geteuid()))
        if read == self._read:
            return False
        self._leaf, self._context = _context(self.cert, self.key, *read)
        self._read = read
        return True

    @property
    def ends_at(self) -> float:
        """When what is in force ends, in seconds since the epoch."""
        return self._leaf.not_valid_after_utc.timestamp()

    @property
    def lifetime(self) -> float:
        """For how many seconds what is in force was made."""
        return self.ends_at - self._leaf.not_valid_before_utc.timestamp()

    def problem(self, now: float) -> str:
        """Why browsers refuse what is in force, as it is not valid at *now*; empty: it is.

        It is served all the same: the clock here may be the one that is wrong.
        """
        begins = self._leaf.not_valid_before_utc
        if now > self.ends_at:
            return f"{self.cert}: the certificate ended at {utc(self.ends_at)}; renew it"
        if now < begins.timestamp():
            return f"{self.cert}: the certificate is valid only from {utc(begins.timestamp())} on"
        return ""

    def other_name(self, host: str) -> str:
        """Why browsers that come to *host* refuse what is in force; empty: it has that name."""
        names = _dns_names(self._leaf)
        wanted = host.lower()
        if {wanted, f"*.{wanted.partition('.')[2]}"} & set(names):
            return ""
        told = ", ".join(names[:_MOST_NAMES]) or "no DNS name"
        return f"{self.cert}: the certificate is for {told}; get one for {host}"

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """A connection of what is in force now."""
        return SSL.Connection(self._context, None)


def _dns_names(leaf: x509.Certificate) -> list[str]:
    """Its names; browsers do not look at the common name."""
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return []
    return [name.lower() for name in found.get_values_for_type(x509.DNSName)]


def _public(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        what = (error.strerror or "unreadable").lower()
        raise ConfigError(str(path), f"cannot be read: {what}") from None


def _context(
    cert: Path, key: Path, cert_pem: bytes, key_pem: bytes
) -> tuple[x509.Certificate, SSL.Context]:
    try:
        leaf, *above = x509.load_pem_x509_certificates(cert_pem)
        public = leaf.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(str(cert), "holds no certificate that can be read") from None
    try:
        private: Any = load_pem_private_key(key_pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(str(key), "holds no private key that can be read") from None
    if private.public_key() != public:
        raise ConfigError(str(key), f"is not the key of the certificate in {cert}")
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    try:
        context.use_certificate(leaf)
        for one in above:
            context.add_extra_chain_cert(one)
        context.use_privatekey(private)
    except (SSL.Error, TypeError) as refused:
        # Such as a key that is too short, or of a kind that signs nothing.
        why = _reasons(refused) or "its key is of no kind that TLS uses"
        raise ConfigError(str(cert), f"cannot be served with its key: {why}") from None
    return leaf, context


def _reasons(refused: Exception) -> str:
    """What OpenSSL says of it; empty where it says nothing."""
    said = refused.args[0] if isinstance(refused, SSL.Error) and refused.args else ()
    return "; ".join(str(one[-1]) for one in said)

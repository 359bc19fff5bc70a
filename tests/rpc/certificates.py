"""A throw-away CA and leaves for TLS tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import Any

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from OpenSSL import SSL
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    PrivateCertificate,
    TLSVersion,
)


@frozen
class Leaf:
    """A key and its certificate in PEM."""

    key: bytes
    certificate: bytes

    @property
    def both(self) -> Any:
        return PrivateCertificate.loadPEM(self.key + self.certificate)


class TestCA:
    """Issues leaves; two of them trust nothing of each other."""

    __test__ = False

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._build(self._name, self._key, None, is_ca=True)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def leaf(self, uri: str) -> Leaf:
        """A certificate for 127.0.0.1 that names *uri*."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "leaf")])
        certificate = self._build(subject, key, uri, is_ca=False)
        return Leaf(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            certificate.public_bytes(serialization.Encoding.PEM),
        )

    def _build(self, subject: Any, key: Any, uri: Any, *, is_ca: Any) -> Any:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
        )
        if uri is not None:
            names = [
                x509.UniformResourceIdentifier(uri),
                x509.DNSName("localhost"),
                x509.IPAddress(IPv4Address("127.0.0.1")),
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def server_options(self, leaf: Leaf) -> CertificateOptions:
        """TLS 1.3 with optional client certificates of this CA, ALPN h2."""
        both = leaf.both
        options = CertificateOptions(
            privateKey=both.privateKey.original,
            certificate=both.original,
            verify=True,
            requireCertificate=False,
            caCerts=[Certificate.loadPEM(self.pem).original],
            acceptableProtocols=[b"h2"],
            raiseMinimumTo=TLSVersion.TLSv1_3,
        )
        options.getContext().set_session_cache_mode(SSL.SESS_CACHE_OFF)
        return options

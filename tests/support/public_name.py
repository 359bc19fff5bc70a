"""Certificates of public names, each signed by itself."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from svc.pki.files import certificates_pem


def certificate_of(
    name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, days: int = 1
) -> x509.Certificate:
    """A certificate of a name, good for so many days."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, SHA256())
    )


def write_certificate(
    cert: Path,
    key: Path,
    name: str,
    private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    days: int = 1,
) -> bytes:
    """Put a certificate of a name and its key into files; the certificate, in PEM."""
    pem = certificates_pem(certificate_of(name, private, days))
    cert.write_bytes(pem)
    key.touch(0o600)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return pem

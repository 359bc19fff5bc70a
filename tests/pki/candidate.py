"""Certificates as an earlier, unreleased candidate made them: with private extensions."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from svc.model.principal import Role, parse_principal
from svc.pki import profile
from svc.pki.files import certificates_pem, load_certificates, load_key

ARC = "2.25.82585585912717447376651555937639710693"
_PURPOSES = ("grant", "snapshot", "anchor", "audit-origin", "jwt", "onward-ssh")


def as_candidate(
    certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    """*certificate* in the candidate's form, signed with *key*: its issuer's."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    principal = parse_principal(uri)
    subject = x509.Name(
        [each for each in certificate.subject if each.oid != x509.NameOID.SERIAL_NUMBER]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(certificate.issuer)
        .public_key(certificate.public_key())
        .serial_number(certificate.serial_number)
        .not_valid_before(certificate.not_valid_before_utc)
        .not_valid_after(certificate.not_valid_after_utc)
    )
    for each in certificate.extensions:
        value = each.value
        if principal.role is Role.CA and value == names:
            value = _uri(f"spiffe://{principal.cluster}")
        if principal.role is Role.PURPOSE and isinstance(value, x509.ExtendedKeyUsage):
            number = _PURPOSES.index(principal.id) + 1
            value = x509.ExtendedKeyUsage([x509.ObjectIdentifier(f"{ARC}.3.{number}")])
        builder = builder.add_extension(value, critical=each.critical)
    if principal.role is Role.CA:
        word = principal.id.encode()
        builder = builder.add_extension(_private(1, b"\x0c" + bytes([len(word)]) + word), False)
    elif principal.role is not Role.PURPOSE:
        builder = builder.add_extension(_private(2, b"\x02\x01\x01"), False)
    return builder.sign(key, SHA256())


def make_keys_old(keys: Path) -> None:
    """Put a key directory into the candidate's form; the root's key must lie there."""
    root_key = _key(keys / "root.key")
    for name in (*profile.ISSUERS, *profile.PURPOSES):
        _rewrite(keys / f"{name}.pem", root_key)


def make_identity_old(state: Path, keys: Path) -> None:
    """Put the identity of a state directory into the candidate's form.

    Args:
        keys: The key directory of its cluster.
    """
    place = state / "identity" / "current"
    (leaf,) = load_certificates(place / "leaf.pem", os.geteuid())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    kind = profile.kind_of(parse_principal(uri).role)
    _rewrite(place / "leaf.pem", _key(keys / f"{kind}.key"))
    _rewrite(place / "chain.pem", _key(keys / "root.key"))


def _rewrite(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    (certificate,) = load_certificates(path, os.geteuid())
    path.write_bytes(certificates_pem(as_candidate(certificate, key)))


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = load_key(path, os.geteuid())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _uri(uri: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])


def _private(number: int, value: bytes) -> x509.UnrecognizedExtension:
    return x509.UnrecognizedExtension(x509.ObjectIdentifier(f"{ARC}.{number}"), value)

"""TLS towards a target whose certificate is verified: no setting leaves that out."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates
from OpenSSL.crypto import FILETYPE_ASN1
from twisted.internet.ssl import (
    Certificate,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)

from svc.errors import SvcError

_MOST_BYTES = 1 << 20
"""Of a file of certificates."""


def verified_tls(server_name: str, ca_file: str, speaks: bytes) -> Any:
    """The options of one connection, as Twisted's TLS takes them; reads *ca_file* each time.

    Args:
        server_name: What the target's certificate must be for.
        ca_file: Of the authorities that may have signed it; empty: the system's.
        speaks: The protocol above TLS, by its name in ALPN.

    Raises:
        SvcError: ``target_untrusted``: the name cannot be in a certificate, or the file cannot be
            used.
    """
    try:
        return optionsForClientTLS(
            server_name,
            trustRoot=_authorities(ca_file) if ca_file else platformTrust(),
            acceptableProtocols=[speaks],
        )
    except ValueError as error:
        raise SvcError(
            f"{server_name} cannot be in a certificate: {error}", reason="target_untrusted"
        ) from None


def _authorities(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            found = load_pem_x509_certificates(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        raise SvcError(
            f"{path}: no file of certificates in PEM can be read there", reason="target_untrusted"
        ) from None
    return trustRootFromCertificates(
        [Certificate.load(one.public_bytes(Encoding.DER), FILETYPE_ASN1) for one in found]
    )

"""TLS towards a PostgreSQL server: verify-full, and nothing weaker."""

from __future__ import annotations

from collections.abc import Callable
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

MOST_BYTES = 1 << 20
"""Of a file of certificates."""


def client_tls(server_name: str, ca_file: str) -> Callable[[Any], None]:
    """What secures a connected transport; its server must prove *server_name*.

    Returns:
        Starts TLS; raises SvcError where the file of authorities cannot be used.  A server that
        does not prove itself loses the connection.
    """

    def secure(transport: Any) -> None:
        roots = trustRootFromCertificates(_authorities(ca_file)) if ca_file else platformTrust()
        transport.startTLS(
            optionsForClientTLS(server_name, trustRoot=roots, acceptableProtocols=[b"postgresql"])
        )

    return secure


def _authorities(path: str) -> list[Certificate]:
    try:
        with open(path, "rb") as file:
            found = load_pem_x509_certificates(file.read(MOST_BYTES))
    except (OSError, ValueError):
        raise SvcError(
            f"{path}: no file of certificates in PEM can be read there", reason="target_untrusted"
        ) from None
    return [Certificate.load(one.public_bytes(Encoding.DER), FILETYPE_ASN1) for one in found]

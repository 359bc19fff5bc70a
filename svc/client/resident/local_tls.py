"""TLS towards a person's own tools that insist on it.

The endpoint lets in nobody but the person's processes, so encryption protects nothing here; some
tools cannot be told to do without.  Their certificate is made when the first of them asks, and its
key never leaves this process.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from typing import Any

from attrs import define, field
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from OpenSSL.crypto import X509, PKey
from twisted.internet.ssl import CertificateOptions

_NAME = "localhost"
_BACKDATE = timedelta(hours=1)
_LASTS = timedelta(days=825)
"""Some tools refuse one that lasts longer."""


@define(slots=False)
class LocalTls:
    """Makes what a local connection's TLS begins with.

    Attributes:
        now: Unix seconds.
    """

    now: Callable[[], float]
    entropy: Callable[[int], bytes]
    _made: dict[bytes, CertificateOptions] = field(factory=dict, init=False)

    def server(self, protocol: bytes) -> CertificateOptions:
        """The server's end, for a tool that will speak *protocol* (a name of ALPN) inside."""
        found = self._made.get(protocol)
        if found is None:
            key, certificate = self._certificate
            found = CertificateOptions(
                privateKey=key, certificate=certificate, acceptableProtocols=[protocol]
            )
            self._made[protocol] = found
        return found

    @cached_property
    def _certificate(self) -> tuple[PKey, X509]:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
        moment = datetime.fromtimestamp(int(self.now()), UTC)
        made: Any = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(int.from_bytes(b"\x40" + self.entropy(15), "big"))
            .not_valid_before(moment - _BACKDATE)
            .not_valid_after(moment + _LASTS)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName(_NAME), x509.IPAddress(ip_address("127.0.0.1"))]
                ),
                critical=False,
            )
            .sign(key, SHA256())
        )
        return PKey.from_cryptography_key(key), X509.from_cryptography(made)

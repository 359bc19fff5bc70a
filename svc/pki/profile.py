"""What each sort of certificate looks like: one row a sort, read by issuer and verifier alike.

Adding an authority or a purpose is adding a row here.  Two private extensions
carry what X.509 has no field for; both are non-critical, since nobody but our
own verifier needs them: the *kind* of an issuing CA (so that identity is never
read out of a distinguished name) and the *renewal generation* of a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from attrs import frozen
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from svc.errors import Malformed
from svc.model.certificate import BACKDATE_SECS
from svc.model.principal import NODE_ROLES, Role
from svc.model.signing import Purpose

WallTime = Callable[[], float]
"""``now()``: seconds since the epoch."""

DAY = 86400.0
ROOT_LIFETIME = 3650 * DAY
ISSUER_LIFETIME = 90 * DAY
PURPOSE_LIFETIME = 90 * DAY
NODE_LIFETIME = DAY
"""Seconds a node's leaf lives unless configured otherwise (G-OPEN-09)."""

BACKDATE = BACKDATE_SECS
"""Seconds that a certificate's beginning lies before its issue, for clocks that lag."""

# A UUID arc (ITU-T X.667): ours for ever, registered nowhere.
_ARC = "2.25.82585585912717447376651555937639710693"
KIND_OID = x509.ObjectIdentifier(f"{_ARC}.1")
GENERATION_OID = x509.ObjectIdentifier(f"{_ARC}.2")

_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
_SERVER = ExtendedKeyUsageOID.SERVER_AUTH


@frozen
class IssuerRow:
    """One issuing CA under the root and the only roles its leafs may carry (R14)."""

    kind: str
    roles: Set[Role]


@frozen
class PurposeRow:
    """One purpose certificate directly under the root.

    ``usage`` is its one extended key usage: private, so that no TLS library
    takes such a certificate for a server's or a client's.
    """

    word: str
    signs: Set[Purpose]
    usage: x509.ObjectIdentifier
    ed25519: bool = False


ISSUERS = {
    row.kind: row
    for row in (
        IssuerRow("transport", NODE_ROLES),
        IssuerRow("spiffe", frozenset({Role.USER, Role.OPERATOR})),
    )
}

PURPOSES = {
    row.word: row
    for row in (
        PurposeRow("grant", frozenset({Purpose.GRANT}), x509.ObjectIdentifier(f"{_ARC}.3.1")),
        PurposeRow("snapshot", frozenset({Purpose.SNAPSHOT}), x509.ObjectIdentifier(f"{_ARC}.3.2")),
        PurposeRow(
            "anchor",
            frozenset({Purpose.AUDIT_HEAD}),
            x509.ObjectIdentifier(f"{_ARC}.3.3"),
            ed25519=True,
        ),
        PurposeRow(
            "audit-origin",
            frozenset({Purpose.AUDIT_ORIGIN}),
            x509.ObjectIdentifier(f"{_ARC}.3.4"),
            ed25519=True,
        ),
    )
}

SIGNED_BY = {purpose: row.word for row in PURPOSES.values() for purpose in row.signs}
"""Which purpose certificate signs what."""


def kind_of(role: Role) -> str | None:
    """The kind of issuing CA that signs *role*; None for purposes."""
    return next((row.kind for row in ISSUERS.values() if role in row.roles), None)


def leaf_usages(role: Role) -> Set[x509.ObjectIdentifier]:
    """Exactly the extended key usages a leaf of *role* carries."""
    return frozenset({_CLIENT, _SERVER}) if role.is_node else frozenset({_CLIENT})


def key_usage(*, authority: bool) -> x509.KeyUsage:
    """A CA signs certificates and revocation lists; everyone else signs, and no more."""
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def kind_extension(kind: str) -> x509.UnrecognizedExtension:
    """The private extension that says which authority a CA certificate is for."""
    word = kind.encode("ascii")
    return x509.UnrecognizedExtension(KIND_OID, bytes((0x0C, len(word))) + word)


def read_kind(value: bytes) -> str:
    """The kind in a DER UTF8String.  Raises Malformed."""
    if len(value) < 3 or value[0] != 0x0C or value[1] != len(value) - 2:
        raise Malformed("the kind of the issuing CA is not of its form")
    return value[2:].decode("utf-8", "replace")


def generation_extension(generation: int) -> x509.UnrecognizedExtension:
    """The private extension that counts how often a holder's leaf was issued."""
    number = generation.to_bytes(generation.bit_length() // 8 + 1, "big")
    return x509.UnrecognizedExtension(GENERATION_OID, bytes((0x02, len(number))) + number)


def read_generation(value: bytes) -> int:
    """The generation in a DER INTEGER of at most eight bytes.  Raises Malformed."""
    if not 3 <= len(value) <= 10 or value[0] != 0x02 or value[1] != len(value) - 2:
        raise Malformed("the renewal generation is not of its form")
    number = int.from_bytes(value[2:], "big", signed=True)
    if number < 1:
        raise Malformed("the renewal generation is below 1")
    return number

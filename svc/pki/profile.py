"""The profile of each type of certificate: one row each, which issuer and verifier both use.

Adding an authority or a purpose is adding a row here.  Nothing in a certificate
is private to this program: Go, for one, cannot even parse a certificate with an
object identifier whose arcs it cannot hold.  What an issuing CA or a purpose
certificate is for stands in its SPIFFE URI, the renewal generation of a
leaf in the ``serialNumber`` attribute of its subject (docs/adr/0021), and when a
person presented a second factor in ``dnQualifier`` (docs/adr/0051).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set

from attrs import frozen
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from svc.errors import Malformed
from svc.model.certificate import BACKDATE_SECS
from svc.model.principal import CALLERS, NODE_ROLES, Role
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

PURPOSE_USAGE = x509.ObjectIdentifier("1.3.6.1.5.5.7.3.36")
"""The one extended key usage of a purpose certificate: document signing (RFC 9336).

It is a standard one, and none of TLS: no TLS library takes such a certificate
for a server's or a client's.
"""

UNREADABLE = (
    ValueError,
    TypeError,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
)
"""What ``cryptography`` raises for a certificate, or a part of it, that it cannot read."""

MAX_GENERATION = 2**63 - 1
_GENERATION = re.compile(r"[1-9][0-9]{0,18}\Z")
_FACTOR_TIME = re.compile(r"[1-9][0-9]{0,11}\Z")
_CANDIDATE_ARC = "2.25."  # Of UUIDs: nothing that this program issues stands there.
OF_CANDIDATE = (
    "was made by an earlier candidate of svc, whose certificates contain private extensions; "
    "that format was never released and is not supported: create the gateway again with `svc init` "
    "in another directory; nodes then join it with an empty state_dir, people with `svc join`"
)
"""What is said of a certificate, or its file, that an unreleased candidate made."""

_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
_SERVER = ExtendedKeyUsageOID.SERVER_AUTH


@frozen
class IssuerRow:
    """One issuing CA under the root and the only roles its leafs may carry (R14)."""

    kind: str
    roles: Set[Role]


@frozen
class PurposeRow:
    """One purpose certificate directly under the root; its URI says which, its usage is shared."""

    word: str
    signs: Set[Purpose]
    ed25519: bool = False
    optional: bool = False
    """Whether an Authority starts without it: a key that clusters of before do not have."""
    keeps_key: bool = False
    """Whether renewing gives the same key another certificate: others trust the key itself."""


ISSUERS = {
    row.kind: row
    for row in (
        IssuerRow("transport", NODE_ROLES),
        IssuerRow("spiffe", CALLERS | {Role.OPERATOR}),
    )
}

PURPOSES = {
    row.word: row
    for row in (
        PurposeRow("grant", frozenset({Purpose.GRANT, Purpose.GRANT_EXTENSION})),
        # What Authority has others pass on: the policy, and where people sign in.
        PurposeRow("snapshot", frozenset({Purpose.SNAPSHOT, Purpose.SIGN_IN_PROFILE})),
        PurposeRow("anchor", frozenset({Purpose.AUDIT_HEAD}), ed25519=True),
        PurposeRow("audit-origin", frozenset({Purpose.AUDIT_ORIGIN}), ed25519=True),
        PurposeRow("jwt", frozenset({Purpose.JWT}), optional=True),
        PurposeRow(
            "onward-ssh",
            frozenset({Purpose.ONWARD_SSH}),
            ed25519=True,
            optional=True,
            keeps_key=True,
        ),
    )
}

SIGNED_BY = {purpose: row.word for row in PURPOSES.values() for purpose in row.signs}
"""Which purpose certificate signs what."""


def kind_of(role: Role) -> str | None:
    """The kind of issuing CA that signs *role*; None for what the root signs itself."""
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


def generation_attribute(generation: int) -> x509.NameAttribute[str]:
    """The attribute of a leaf's subject that counts how often its holder was issued one."""
    return x509.NameAttribute(NameOID.SERIAL_NUMBER, str(generation))


def read_generation(subject: x509.Name) -> int:
    """The generation in a leaf's subject: one attribute, decimal, without leading zeros.

    Raises:
        Malformed: it is missing, there twice, or of another form.
    """
    found = [each.value for each in subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)]
    if len(found) != 1:
        raise Malformed(
            "a leaf's subject must contain its renewal generation once, as serialNumber"
        )
    text = found[0]
    if not isinstance(text, str) or _GENERATION.match(text) is None or int(text) > MAX_GENERATION:
        raise Malformed("the renewal generation is not a decimal number from 1 to 2^63-1")
    return int(text)


def factor_attribute(at: int) -> x509.NameAttribute[str]:
    """The attribute of a person's subject that says when they presented a second factor."""
    return x509.NameAttribute(NameOID.DN_QUALIFIER, str(at))


def read_factor(subject: x509.Name) -> int | None:
    """When a person presented a second factor; None where nobody said so.

    Raises:
        Malformed: it is there twice, or of another form.
    """
    found = [each.value for each in subject.get_attributes_for_oid(NameOID.DN_QUALIFIER)]
    if not found:
        return None
    text = found[0]
    if len(found) > 1 or not isinstance(text, str) or _FACTOR_TIME.match(text) is None:
        raise Malformed("the time of the second factor is not one number of seconds")
    return int(text)


def is_of_candidate(certificate: x509.Certificate) -> bool:
    """Whether an unreleased candidate made it, with extensions or usages of its own.

    Raises:
        Exception: one of :data:`UNREADABLE`, for extensions that cannot be read.
    """
    for each in certificate.extensions:
        usages = each.value if isinstance(each.value, x509.ExtendedKeyUsage) else ()
        if any(oid.dotted_string.startswith(_CANDIDATE_ARC) for oid in (each.oid, *usages)):
            return True
    return False

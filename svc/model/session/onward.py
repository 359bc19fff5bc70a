"""How a Connector logs in at the target of one session by a certificate of Authority's.

The key is the Connector's: made by its process, and never sent.  The certificate stands in the
session's grant.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LIFETIME_SECS = 240
"""How long after its issue a certificate lets anybody in."""

BACKDATE_SECS = 60
"""How long before its issue it begins, for hosts whose clocks lag; five minutes in all (R6)."""


@frozen
class OnwardLogin:
    """What a session may do at its target, as its certificate says it there.

    Attributes:
        account: The one that it lets in to.
        options: OpenSSH's critical options, by name.
        extensions: OpenSSH's, by name.
    """

    account: str
    options: Mapping[str, str]
    extensions: tuple[str, ...]


@frozen
class OnwardCertificate:
    """A certificate before it is signed, as the record of it says.

    Attributes:
        public_key: Of the Connector's process, Ed25519, raw.
        serial: 64 bits, of the decision's id.
        key_id: What the target's own log shows: names the session and the person.
        begins_at: In seconds since the epoch, as ``ends_at``.
    """

    login: OnwardLogin
    public_key: bytes
    serial: int
    key_id: str
    begins_at: int
    ends_at: int


@frozen
class OnwardCredential:
    """What a Connector logs in with.

    Attributes:
        certificate: As Authority signed it for this session; nobody has looked at it.
    """

    key: Ed25519PrivateKey = field(repr=False)
    certificate: bytes


def credential(key: Ed25519PrivateKey, certificate: bytes) -> OnwardCredential | None:
    """What a grant with this certificate gives; None where it has none."""
    return OnwardCredential(key, certificate) if certificate else None

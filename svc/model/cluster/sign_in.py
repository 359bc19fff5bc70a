"""What the cluster keeps of people who sign in at an identity provider.

Both rows are credentials, and credentials are state (rule R31): they mean
something only as a signed record says.
"""

from __future__ import annotations

from attrs import field, frozen

SIGNED_OUT = "logout"
"""Why a sign-in ended that its own holder ended."""


@frozen
class IdentityLink:
    """Who somebody of a provider is here.

    ``salt`` is random and goes into the digest of the row, so that nobody can try subjects
    against the digest once the row is gone.
    """

    id: str
    issuer: str
    subject: str
    person_id: str
    salt: bytes = field(default=b"", repr=False)


@frozen
class SignIn:
    """One sign-in of a person on one machine, and what its certificates are renewed by.

    Attributes:
        identity_id: The link that it came by.
        auth_time: When the person proved who they are to the provider; never moved by a renewal.
        ends_at: The certificate is not renewed past this.
        certificate_sha256: Of the newest certificate; an older one that is renewed is a clone.
        key_sha256: Of the key in it.
        generation: Of it.
        refresh: The provider's refresh token, sealed; empty where it gave none.
        ended_at: None while it can be renewed.
    """

    id: str
    identity_id: str
    person_id: str
    auth_time: float
    began_at: float
    ends_at: float
    certificate_sha256: bytes
    key_sha256: bytes
    generation: int
    refresh: bytes = field(default=b"", repr=False)
    ended_at: float | None = None

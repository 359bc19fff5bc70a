"""What the cluster keeps of a person who signs in with a password and a second factor.

Each row is a credential, and credentials are state (rule R31): it means something
only as the newest signed record of it says.  What a row holds is sealed, so the
store alone tells nobody even a password's hash.
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

LOCAL_ISSUER = "local"
"""The issuer of accounts that are kept here; their subject is the person's id."""

ADMINISTRATORS = "administrators"
"""The group that the first administrator is put into; the shipped policy lets it administer."""

CODE_FILE = "first-administrator.code"
"""In Authority's state directory: the one-time code of the first administrator."""

PASSWORD_MIN = 12
"""Least characters of a password, unless the configuration says otherwise."""

PASSWORD_DIFFERENT = 5
"""Least different characters of a password."""

RECOVERY_CODES = 10

MAX_PASSKEYS = 10
"""Of one account."""


class SecretKind(Enum):
    """What a row proves; the words are in the store and in records."""

    ENROLLMENT = "enrollment"
    PASSWORD = "password"
    TOTP = "totp"
    KEY = "key"
    PASSKEY = "passkey"
    RECOVERY = "recovery"


@frozen
class PersonSecret:
    """One credential of a person.

    Attributes:
        sealed: Of a password its Argon2id hash, of a one-use code its SHA-256, of TOTP the secret,
            of a security key or passkey its id and public key.
        counter: Of TOTP the last step whose code was taken, of a security key or passkey its
            signature count; None while nothing was taken.
        expires_at: Of an enrollment code.
    """

    id: str
    person_id: str
    kind: SecretKind
    sealed: bytes = field(repr=False)
    added_at: float
    counter: int | None = None
    expires_at: float | None = None

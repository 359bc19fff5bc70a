"""People, their groups, and the certificates issued to them.

A person is an opaque id everywhere; the name lives in one table and is joined
when read (security rule R9).
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen


class PersonState(Enum):
    """Whether the cluster still accepts a person."""

    ACTIVE = "active"
    REVOKED = "revoked"


@frozen
class Person:
    """One person.  ``groups`` are group names in alphabetical order.

    ``salt`` is random and goes into the digest of the row, so that nobody can
    try names against the digest once name and salt are erased.
    """

    id: str
    name: str
    state: PersonState = PersonState.ACTIVE
    groups: tuple[str, ...] = ()
    salt: bytes = field(default=b"", repr=False)


@frozen
class IssuedCertificate:
    """A certificate that was signed for a person.

    ``sha256`` is of the DER certificate; times are seconds since the epoch;
    ``revoked_at`` is None while it is good.
    """

    sha256: bytes
    serial: str
    person_id: str
    issued_at: float
    expires: float
    revoked_at: float | None = None

"""People, their groups, and the certificates issued to them.

A person is an opaque id everywhere; the name lives in one table and is joined
when read (security rule R9).
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

from svc.errors import Denied


class PersonState(Enum):
    """Whether the cluster accepts a person: a disabled one can be enabled again."""

    ACTIVE = "active"
    DISABLED = "disabled"
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

    @property
    def known_name(self) -> str:
        """The name; empty once it is forgotten: the id stands in its place then."""
        return "" if self.name == self.id else self.name


DISABLED_PERSON = "disabled_person"
"""Why a disabled person is refused, and why the sessions of one end."""

DISABLED_TEXT = "the person was disabled by an operator, who can enable the person again"


def require_active(person: Person | None) -> Person:
    """The person, if the cluster accepts them.

    Raises:
        Denied: ``unknown_person``, ``revoked_person`` or ``disabled_person``.
    """
    if person is None:
        raise Denied("the person is not known here", reason="unknown_person")
    if person.state is PersonState.REVOKED:
        raise Denied("the person was revoked", reason="revoked_person")
    if person.state is PersonState.DISABLED:
        raise Denied(DISABLED_TEXT, reason=DISABLED_PERSON)
    return person


@frozen
class IssuedCertificate:
    """A certificate that was signed for a person.

    ``sha256`` is of the DER certificate; times are seconds since the epoch;
    ``revoked_at`` is None while it is good; ``sign_in_id`` is empty where it came by no sign-in;
    ``signed_out`` says that it was revoked only because its holder signed out.
    """

    sha256: bytes
    serial: str
    person_id: str
    issued_at: float
    expires: float
    revoked_at: float | None = None
    sign_in_id: str = ""
    signed_out: bool = False

    @property
    def is_honored(self) -> bool:
        """Whether what it signed stands: it is good, it has expired, or its holder signed out.

        Nobody took it from them.
        """
        return self.revoked_at is None or self.signed_out

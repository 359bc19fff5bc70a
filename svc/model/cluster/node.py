"""Members of the node registry, and the tokens with which one joins.

Values only: who may join, and what follows from an outcome, is decided in
``svc.pki`` and ``svc.authority``.
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen


class NodeState(Enum):
    """Whether the cluster still accepts a node."""

    ACTIVE = "active"
    REVOKED = "revoked"


class Publication(Enum):
    """How what a Connector offers gets into the catalog."""

    MANUAL = "manual"
    AUTOMATIC = "automatic"


@frozen
class Leaf:
    """What the registry remembers of a node's newest leaf certificate.

    ``key_sha256`` is of the DER SubjectPublicKeyInfo; ``expires`` is in
    seconds since the epoch.
    """

    serial: str
    key_sha256: bytes
    expires: float


EXPIRED, OVERDUE = "expired", "overdue"

RENEWED_BY = 0.8
"""The part of its certificate's life after which a node that runs has renewed it: it tries at two
thirds of it, and again and again (``svc.pki.renewal``)."""


def leaf_problem(leaf: Leaf, now: float, life: float) -> str:
    """What is wrong with a node's certificate: ``expired``, ``overdue`` or nothing.

    Args:
        now: Seconds since the epoch.
        life: Of a certificate as it is issued now, in seconds.
    """
    left = leaf.expires - now
    if left <= 0:
        return EXPIRED
    return OVERDUE if left < (1 - RENEWED_BY) * life else ""


@frozen
class Node:
    """One node of the registry.

    ``key_sha256`` is of the key the node was enrolled with; ``generation`` is
    that of its newest leaf, 1 after enrolment; times are seconds since the
    epoch; ``last_seen`` is None until the node registers for the first time;
    ``names`` are the host names its certificate carries; ``publication`` of
    all but a Connector is manual, as there is none.
    """

    id: str
    name: str
    role: str
    key_sha256: bytes
    audit_key: bytes
    leaf: Leaf
    enrolled_at: float
    generation: int = 1
    state: NodeState = NodeState.ACTIVE
    last_seen: float | None = None
    version: str = ""
    names: tuple[str, ...] = ()
    publication: Publication = Publication.MANUAL


class TokenRole(Enum):
    """What sort of holder a join token makes."""

    AUTHORITY = "authority"
    PROXY = "proxy"
    CONNECTOR = "connector"
    PERSON = "person"
    AGENT = "agent"


@frozen
class TokenRecord:
    """A one-use right to join; the secret itself is never kept.

    ``bound_to`` is the node name, or person's or agent's id the token is good for, or None
    where the joiner names itself; ``names`` are the host names its certificate
    will carry.
    """

    id: str
    secret_sha256: bytes = field(repr=False)
    role: TokenRole
    expires_at: float
    bound_to: str | None = None
    names: tuple[str, ...] = ()


@frozen
class KeptToken:
    """A token as the store keeps it; ``spent_at`` is None while it can be spent."""

    token: TokenRecord
    spent_at: float | None = None


@frozen
class ExpectedKey:
    """A key that an operator expects: its holder may join once, without a token.

    Attributes:
        key_sha256: Of the DER SubjectPublicKeyInfo.
        names: Host names that the certificate will carry.
        issuer: Who registered it.
        used_at: When it joined, or was withdrawn; seconds since the epoch, as all times.
    """

    id: str
    role: TokenRole
    name: str
    key_sha256: bytes
    issuer: str
    expires_at: float
    names: tuple[str, ...] = ()
    used_at: float | None = None

    @property
    def token(self) -> TokenRecord:
        """What joining by it gives: as much as a token of the same words."""
        return TokenRecord(
            id=self.id,
            secret_sha256=b"",
            role=self.role,
            expires_at=self.expires_at,
            bound_to=self.name,
            names=self.names,
        )


class Spending(Enum):
    """The result of an attempt to spend a token.

    All but ``SPENT`` are one and the same answer to the joiner; they differ
    for the audit record only.
    """

    SPENT = "spent"
    UNKNOWN = "unknown"
    WRONG_SECRET = "wrong_secret"
    EXPIRED = "expired"
    ALREADY_SPENT = "already_spent"


@frozen
class SpentToken:
    """The outcome of one attempt, and the token where its id is known."""

    outcome: Spending
    token: TokenRecord | None = None


class RegistryRenewal(Enum):
    """The result of a renewal in the registry.

    ``REPEATED`` is a node that did not get its answer and asks again with the
    same new key; ``CLONE`` is an older generation that cannot be that.
    """

    RENEWED = "renewed"
    REPEATED = "repeated"
    CLONE = "clone"
    REVOKED = "revoked"
    UNKNOWN = "unknown"

"""The identity that a certificate is for.

A certificate names its holder with one SPIFFE URI.  Everything past the parser
works with :class:`Principal`; nobody compares the strings.  The rules are
those of the SPIFFE-ID standard, tightened to the paths this cluster signs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from attrs import field, frozen

from svc.errors import Malformed
from svc.model.ids import is_agent_id, is_cluster_name, is_opaque_id, is_resource_id

MAX_SPIFFE_BYTES = 2048


class Role(Enum):
    """The first path segment: what sort of holder this is."""

    AUTHORITY = "authority"
    PROXY = "proxy"
    CONNECTOR = "connector"
    USER = "user"
    AGENT = "agent"
    OPERATOR = "operator"
    PURPOSE = "purpose"
    CA = "ca"

    # An enum's own hash runs Python code, at every look at a certificate.
    __hash__ = object.__hash__

    @property
    def is_node(self) -> bool:
        """Whether holders of this role are members of the node registry."""
        return self in NODE_ROLES


NODE_ROLES = frozenset({Role.AUTHORITY, Role.PROXY, Role.CONNECTOR})
CALLERS = frozenset({Role.USER, Role.AGENT})
"""Who opens sessions."""

HOLDERS = NODE_ROLES | CALLERS | {Role.OPERATOR}
"""Who can be at the other end of a connection: purpose keys and CAs cannot."""
_NAMED_BY_WORD = frozenset({Role.PURPOSE, Role.CA})


@frozen
class Principal:
    """One certificate holder: a node, a person, an agent, an operator, a purpose key, or a CA.

    ``id`` is opaque for nodes and persons; for ``Role.PURPOSE`` it is the
    purpose word (``grant``, ``snapshot``, ``anchor``), and for ``Role.CA`` the
    kind of issuing CA (``transport``, ``spiffe``).
    """

    cluster: str
    role: Role
    id: str
    uri: str = field(init=False, eq=False, repr=False)
    """The SPIFFE URI that names this principal; asked for at every look for revocations."""

    @uri.default
    def _spiffe_id(self) -> str:
        return f"spiffe://{self.cluster}/{self.role.value}/{self.id}"


def parse_principal(uri: str) -> Principal:
    """The principal a SPIFFE URI names.

    Raises:
        Malformed: with a text that says which rule the URI breaks.
    """
    if len(uri.encode("utf-8", "surrogatepass")) > MAX_SPIFFE_BYTES:
        raise Malformed("SPIFFE ID: it is longer than 2048 bytes")
    if not uri.startswith("spiffe://"):
        raise Malformed("SPIFFE ID: the scheme is not spiffe, in lower case")
    if any(mark in uri for mark in "?#%@\\"):
        raise Malformed("SPIFFE ID: query, fragment, user information and escapes are not allowed")
    cluster, _, path = uri.removeprefix("spiffe://").partition("/")
    if not is_cluster_name(cluster):
        raise Malformed("SPIFFE ID: the trust domain is not a lower-case DNS name without a port")
    segments = path.split("/")
    if len(segments) != 2 or not all(segments):
        raise Malformed("SPIFFE ID: the path is not /<role>/<id>")
    try:
        role = Role(segments[0])
    except ValueError:
        raise Malformed("SPIFFE ID: unknown role") from None
    if not _form_of(role)(segments[1]):
        raise Malformed("SPIFFE ID: the id does not have the form for its role")
    return Principal(cluster, role, segments[1])


def _form_of(role: Role) -> Callable[[str], bool]:
    if role is Role.AGENT:
        return is_agent_id
    return is_resource_id if role in _NAMED_BY_WORD else is_opaque_id

"""Resources as the Authority's catalog holds them.

Addresses are not here: they live in the Connector's configuration only
(``svc.model.cluster.target``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from attrs import field, frozen

from svc.model.cluster.onward import NEEDS_ONWARD_AUTH, OnwardAuth

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class ResourceSource(Enum):
    """Who put a resource into the catalog."""

    MANUAL = "manual"
    DISCOVERED = "discovered"


_FOUND = "found."


def first_identity(resource_id: str) -> str:
    """The identity of a resource that was there before identities were kept."""
    return f"first.{resource_id}"


def found_identity(node_id: str, random: str) -> str:
    """The identity of a resource that a Connector found."""
    return f"{_FOUND}{node_id}.{random}"


def found_by(identity: str) -> str | None:
    """The id of the Connector that found the resource of this identity; None: it was declared."""
    if not identity.startswith(_FOUND):
        return None
    return identity.removeprefix(_FOUND).partition(".")[0]


@frozen
class Assigned:
    """A resource as one Connector is meant to serve it.

    ``identity`` says which resource of that id it is, ``revision`` the how
    manieth assignment of it this is: what was meant for another of either is
    not meant for this one.
    """

    id: str
    identity: str
    revision: int


@frozen
class Resource:
    """One resource of the catalog.

    ``assigned_to`` is the id of the node that may serve it, or None;
    ``revision`` is the catalog revision of its last change;
    ``last_served_at`` (seconds since the epoch) and ``last_served_by`` are
    None until a Connector served it once.  ``identity`` ends with the
    resource: one that is added again under the same id is another.
    ``assignment_revision`` counts its assignments, and what takes one away;
    0: it never had one.  ``onward_auth`` is how its Connector signs on at the
    target; None: nobody chose.
    """

    id: str
    kind: str
    labels: Mapping[str, str] = field(default=_NO_LABELS, hash=False)
    assigned_to: str | None = None
    source: ResourceSource = ResourceSource.MANUAL
    revision: int = 0
    last_served_at: float | None = None
    last_served_by: str | None = None
    onward_auth: OnwardAuth | None = None
    identity: str = field()
    assignment_revision: int = field()

    @identity.default
    def _first(self) -> str:
        return first_identity(self.id)

    @assignment_revision.default
    def _first_assignment(self) -> int:
        return 0 if self.assigned_to is None else 1

    @property
    def is_discovered(self) -> bool:
        """Whether a Connector found it, rather than that an operator declared it."""
        return self.source is ResourceSource.DISCOVERED

    @property
    def lacks_mode(self) -> bool:
        """Whether somebody has to choose how its target is signed on to before it is served.

        What operators declared before there was a choice is served as it was (U-PHA-22).
        """
        is_needed = self.is_discovered and self.kind in NEEDS_ONWARD_AUTH
        return is_needed and self.onward_auth is None

    @property
    def assigned(self) -> Assigned:
        """As its Connector is meant to serve it; of nobody's, as nobody is."""
        return Assigned(self.id, self.identity, self.assignment_revision)


@frozen
class Binding:
    """One assignment of a resource to a Connector, or to none.

    Attributes:
        node_id: Who may serve it from then on; None: nobody.
        revision: The catalog's revision of that change.
        is_current: Whether it holds now; at most one of a resource does.
        bound_at: Seconds since the epoch; of an assignment of before bindings
            were kept, when the resource was added.
    """

    identity: str
    node_id: str | None
    revision: int
    assignment_revision: int
    is_current: bool
    bound_at: float


@frozen
class Undeclared:
    """A resource a Connector offered that it may not serve: ``not_in_catalog``."""

    id: str
    kind: str
    node_id: str
    seen_at: float

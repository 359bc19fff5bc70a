"""What can be reached through the gateway, as Authority's catalog knows it.

Addresses are not here: they live in the Connector's configuration only
(``svc.model.target``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from attrs import field, frozen

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class ResourceSource(Enum):
    """Who put a resource into the catalog."""

    MANUAL = "manual"


@frozen
class Resource:
    """One resource of the catalog.

    ``assigned_to`` is the id of the node that may serve it, or None;
    ``revision`` is the catalog revision of its last change;
    ``last_served_at`` (seconds since the epoch) and ``last_served_by`` are
    None until a Connector served it once.
    """

    id: str
    kind: str
    labels: Mapping[str, str] = field(default=_NO_LABELS, hash=False)
    assigned_to: str | None = None
    source: ResourceSource = ResourceSource.MANUAL
    revision: int = 0
    last_served_at: float | None = None
    last_served_by: str | None = None


@frozen
class Undeclared:
    """A resource a Connector offered that it may not serve: ``not_in_catalog``."""

    id: str
    kind: str
    node_id: str
    seen_at: float

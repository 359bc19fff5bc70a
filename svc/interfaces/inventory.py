"""The facets of who is meant to serve what, and of how nodes say they are.

What changes the first is :class:`ICatalog`; nothing is decided by the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zope.interface import Interface

from svc.model.cluster.health import NodeHealth
from svc.model.cluster.resource import Binding


class IBindings(Interface):
    """What every assignment was."""

    def of(resource_id: str) -> tuple[Binding, ...]:
        """Every binding of every resource that ever had this id, oldest first."""


class IInventories(Interface):
    """How often what a Connector is meant to serve has changed, from 1.

    Nothing is decided by it; it lets a Connector and an operator see who is behind.
    """

    def generation(node_id: str) -> int:
        """Of one node; 0 for one that never was meant to serve anything."""

    def all() -> Mapping[str, int]:
        """Of each node that has one."""


class INodeHealth(Interface):
    """The last health report of each node."""

    def put(reports: Iterable[NodeHealth]) -> None:
        """Keep these in place of those that there were; of one node the last.

        No effect on an id that is not in the registry.
        """

    def all() -> Mapping[str, NodeHealth]:
        """Of each node that ever reported, revoked ones included."""

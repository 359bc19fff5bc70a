"""The facets of who is meant to serve what; what changes it is :class:`ICatalog`."""

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Interface

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

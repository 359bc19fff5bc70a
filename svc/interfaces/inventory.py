"""The facets of who is meant to serve what; what changes it is :class:`ICatalog`."""

from __future__ import annotations

from zope.interface import Interface

from svc.model.resource import Binding


class IBindings(Interface):
    """What every assignment was."""

    def of(resource_id: str) -> tuple[Binding, ...]:
        """Every binding of every resource that ever had this id, oldest first."""

"""The inventory of this Connector, as each Proxy last sent it.

A Proxy is a courier (rule R1): what one tells counts for the sessions over
itself, and for nobody else's.  It can keep sessions of its own from opening,
as it always can; it makes none open, for the grant is checked all the same.
"""

from __future__ import annotations

from attrs import define, field
from twisted.logger import Logger

from svc.model.cluster.registration import NO_INVENTORY, Inventory
from svc.model.session.grant import Grant
from svc.tunnel.refusals import refused

_log = Logger(namespace="svc_connector")


@define
class ProxyInventories:
    """By Proxy; kept as long as this process lives."""

    _by_proxy: dict[str, Inventory] = field(factory=dict, init=False)

    def receive(self, proxy_id: str, inventory: Inventory) -> None:
        """Use this inventory from now on, for sessions through this Proxy."""
        if inventory != self._by_proxy.get(proxy_id, NO_INVENTORY):
            _log.info(
                "inventory received",
                proxy=proxy_id,
                inventory=inventory.generation,
                resources=len(inventory.assigned),
            )
        self._by_proxy[proxy_id] = inventory

    def generation(self, proxy_id: str) -> int:
        """The generation that this Proxy sent last; 0: none."""
        return self._by_proxy.get(proxy_id, NO_INVENTORY).generation

    def check(self, grant: Grant, proxy_id: str) -> None:
        """Refuse a grant of a different assignment than the one we know.

        Raises:
            OpenRefusedHere: ``assignment_changed``.
        """
        if not self._by_proxy.get(proxy_id, NO_INVENTORY).holds(grant.assigned):
            raise refused(
                "assignment_changed", "the grant is for a different assignment of the resource"
            )

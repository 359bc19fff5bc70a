"""What is kept of how nodes are: one test a promise.

Part of :class:`svc.testing.contracts.store.StoreContract`; not used alone.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.model.cluster.health import CheckFound, NodeHealth
from svc.model.doctor import CheckSeverity
from svc.testing.contracts.facets import NODE, OTHER, registered_nodes


class HealthContract:
    """One test a promise; ``self.store`` is open and empty."""

    async def test_health_is_written_over(self: Any) -> None:
        """Of each node the last report is kept; one of a node that is not there has no effect."""
        found = (CheckFound("store.reachable", CheckSeverity.FAIL),)
        sick = NodeHealth(
            node_id=NODE.id,
            at=5.5,
            version="0.11.0",
            worst=CheckSeverity.FAIL,
            failed=1,
            warnings=2,
            found=found,
        )
        unchecked = evolve(
            sick, node_id=OTHER.id, at=6.0, worst=None, failed=0, warnings=0, found=()
        )
        stranger = evolve(sick, node_id="n9")
        await self.store.run("nodes", registered_nodes)

        async def put(*reports: NodeHealth) -> Any:
            await self.store.run("health", lambda tx: tx.health.put(reports))
            return await self.store.read("look", lambda tx: tx.health.all())

        self.assertEqual(await put(), {})
        self.assertEqual(await put(stranger), {})
        both = {NODE.id: sick, OTHER.id: unchecked}
        self.assertEqual(await put(unchecked, stranger, sick), both)
        well = evolve(sick, at=66.0, worst=CheckSeverity.OK, failed=0, warnings=0, found=())
        self.assertEqual(await put(sick, well), both | {NODE.id: well})

"""What can be reached through other Proxies, as the Authority last said; for lists only."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field


@define
class ReachableByPeers:
    """The resources; nothing is decided or routed by it.

    Attributes:
        changed: Called after each change.
    """

    changed: Callable[[], object]
    _resources: frozenset[str] = field(default=frozenset(), init=False)

    def __contains__(self, resource_id: object) -> bool:
        return resource_id in self._resources

    def take(self, resources: frozenset[str] | None) -> None:
        """Take what a frame says; None: as before."""
        if resources is None or resources == self._resources:
            return
        self._resources = resources
        self.changed()

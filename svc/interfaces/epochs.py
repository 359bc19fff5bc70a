"""The facet of epochs: what the cluster switched on, and what each node offers."""

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Interface

from svc.model.cluster.registration import Epoch


class IEpochs(Interface):
    """What is in force by name, and what nodes can do."""

    def get(name: str) -> Epoch | None:
        """The epoch in force; None: 0."""

    def all() -> tuple[Epoch, ...]:
        """All that are in force, by name."""

    def activate(epoch: Epoch) -> None:
        """Put it in force in the place of the one before."""

    def offer(node_id: str, name: str, epoch: int) -> None:
        """Keep the highest epoch that a node offers; 0: none."""

    def offers(name: str) -> Mapping[str, int]:
        """What nodes offered last, by their ids; one that is not here offers none."""

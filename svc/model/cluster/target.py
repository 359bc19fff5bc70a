"""A resource as its Connector knows it, with its address, which nobody else learns."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen
class Target:
    """One target of a Connector's own configuration.

    Attributes:
        address: ``host:port``, as the kind checked it; IPv6 in brackets.
        options: Whatever else the kind read from the table.
    """

    id: str
    kind: str
    address: str
    options: Mapping[str, object] = field(factory=dict)

"""Which address each resource has on this machine, and which ports are tried there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from ipaddress import IPv4Network

from attrs import define, field

from svc.client.resident.addresses import addresses, ports


async def any_network(_port: int) -> IPv4Network | None:
    """No port needs an address of a network."""
    return None


@define
class GivenAddresses:
    """The addresses of one resident.

    Attributes:
        uid: Whose resident this is.
        offset: Added to native ports.
        low_network: The network that the address of a port has to be of; None: any.
        kept: By resource.
    """

    cluster: str
    uid: int
    offset: int
    low_network: Callable[[int], Awaitable[IPv4Network | None]] = any_network
    kept: dict[str, str] = field(factory=dict)

    def tries(self, resource: str, native: int | None) -> Iterator[int]:
        """Ports to try for a resource, best first."""
        return ports(self.cluster, resource, native, self.offset)

    async def give(self, natives: Mapping[str, int | None], used: Collection[str]) -> None:
        """Give each resource an address.

        Args:
            natives: The native port of each resource.
            used: Resources whose address is listened on, and stays.
        """
        within = dict[str, IPv4Network]()
        for resource, native in natives.items():
            if resource not in used:
                network = await self.low_network(next(self.tries(resource, native)))
                if network is not None:
                    within[resource] = network
        self.kept = addresses(self.cluster, self.uid, natives, self.kept, within)

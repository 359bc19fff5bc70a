"""Whom a peer's address stands for where a share is given to each (rule R18)."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

IPV6_PREFIX = 64


def source_of(host: str) -> str:
    """IPv4 as it is; of IPv6 the network a site is given; what is no address as it is."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address, IPV6_PREFIX), strict=False))
    return str(address)

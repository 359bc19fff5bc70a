"""Turns addresses of the configuration into Twisted endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.interfaces import IStreamClientEndpoint

from svc.config import Address
from svc.interfaces.rpc import Peer


def dialed(reactor: Any, address: Address) -> IStreamClientEndpoint:
    """Plain TCP to an address of the configuration."""
    return HostnameEndpoint(reactor, address.host, address.port)


def lane_to(reactor: Any) -> Callable[[Peer], IStreamClientEndpoint]:
    """Where a half of a direct lane is dialed: the very address that a connection leads to."""
    return lambda peer: HostnameEndpoint(reactor, peer.host, peer.port)

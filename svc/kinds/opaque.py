"""Targets that are an address, and ports that a label tells: the sides of a plain byte stream."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
)
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import implementer

from svc.interfaces.kinds import IDialer, ILocalEndpoint
from svc.kinds.address import read_address, refuse_unknown, split_address
from svc.model.cluster.labels import DISCOVERED
from svc.model.cluster.target import Target

PORT_LABEL = "port"
"""The catalog label that tells people's tools the port, where a kind has none of its own."""

_KEYS = frozenset({"address"})


@implementer(IDialer)
@frozen(kw_only=True)
class AddressDialer:
    """Reaches a target by ``address``, as plain TCP.

    Attributes:
        kind: The kind's name.
        default_port: Port when an address names none; None: it must.
        connect_seconds: How long one address is tried; the Connector's own
            deadline for the whole dial stands above it.
    """

    kind: str
    default_port: int | None = None
    connect_seconds: float = 10.0

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A target with an address and nothing else."""
        address = read_address(table, path, self.default_port)
        refuse_unknown(table, _KEYS, path)
        return Target(resource_id, self.kind, address)

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Plain TCP to the address."""
        host, port = split_address(target.address)
        # An address needs no resolver, whose machinery costs more than the dial itself.
        if isIPAddress(host):
            return TCP4ClientEndpoint(reactor, host, port, timeout=self.connect_seconds)
        if isIPv6Address(host):
            return TCP6ClientEndpoint(reactor, host, port, timeout=self.connect_seconds)
        return HostnameEndpoint(reactor, host, port, timeout=self.connect_seconds)


@implementer(ILocalEndpoint)
@frozen(kw_only=True)
class LabelledPort:
    """A port that the label ``port`` tells, else the default one."""

    default_port: int | None = None

    def native_port(self, labels: Mapping[str, str]) -> int | None:
        """The label ``port`` where it is a port, else the kind's default.

        Where no operator gave it, the word of the Connector that found the resource will do: it
        chooses nothing but a number on the person's own loopback address.
        """
        text = labels.get(PORT_LABEL) or labels.get(DISCOVERED + PORT_LABEL, "")
        if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= 65535:
            return int(text)
        return self.default_port

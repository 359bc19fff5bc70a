"""Which addresses a Connector may connect to, checked after name resolution.

The judgement stands in the one place nothing can go around: the reactor that
kinds are given connects to literal addresses within the reach and to nothing
else.  A name is resolved once; what was judged is what is dialed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any

from attrs import define, field, frozen
from twisted.internet.address import IPv4Address as TcpAddress
from twisted.internet.address import IPv6Address as Tcp6Address
from twisted.internet.interfaces import (
    IAddress,
    IConnector,
    IDelayedCall,
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
    IReactorTCP,
    IReactorTime,
    IResolutionReceiver,
)
from twisted.internet.protocol import ClientFactory
from zope.interface import implementer

from svc.errors import ConfigError
from svc.tunnel.refusals import refused

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_SPECIAL = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # unspecified, "this network"
        "169.254.0.0/16",  # link-local; most metadata services
        "100.100.100.200/32",  # metadata
        "168.63.129.16/32",  # metadata
        "192.0.0.192/32",  # metadata
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "::/128",  # unspecified
        "64:ff9b:1::/48",  # a network's own NAT64: only it knows which IPv4 this stands for
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, gone
        "fd00:ec2::/32",  # metadata
        "fd20:ce::254/128",  # metadata
        "ff00::/8",  # multicast
    )
)
"""What no target should be: refused unless the reach lists it by itself."""

_MOST_KNOWN = 1024
"""Addresses whose judgement is remembered; targets have few."""

_NAT64 = ip_network("64:ff9b::/96")
_SIIT = ip_network("::ffff:0:0:0/96")
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The upper half of such an interface's id; the lower one is IPv4 (RFC 5214)."""


@frozen
class Reach:
    """Which addresses a Connector dials.

    Attributes:
        listed: ``[connector].reach``; empty: everything but the special addresses.
    """

    listed: tuple[_Network, ...] = ()
    _known: dict[str, bool] = field(factory=dict, init=False, eq=False, repr=False)

    def allows(self, address: str) -> bool:
        """Whether a literal address may be dialed; anything else is not."""
        known = self._known.get(address)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[address] = self._judged(address)
        return known

    def _judged(self, address: str) -> bool:
        try:
            really = _really(ip_address(address))
        except ValueError:
            return False
        return all(map(self._allows, really))

    def _allows(self, ip: _Address) -> bool:
        special = [network for network in _SPECIAL if _within(ip, network)]
        holding = [network for network in self.listed if _within(ip, network)]
        if special:
            # A wide network does not list what is special: somebody must have meant it.
            return any(_inside(network, wide) for network in holding for wide in special)
        return bool(holding) or not self.listed


def parse_reach(texts: Sequence[str], path: str = "connector.reach") -> Reach:
    """The reach as an operator writes it: addresses and networks.

    Raises:
        ConfigError: naming the entry.
    """
    networks = []
    for number, text in enumerate(texts):
        try:
            networks.append(ip_network(text))
        except ValueError:
            raise ConfigError(
                f"{path}[{number}]", 'this is not an IP address or network such as "10.1.0.0/16"'
            ) from None
    return Reach(tuple(networks))


def _really(ip: _Address) -> Sequence[_Address]:
    """What is really reached: IPv4 out of its IPv6 disguises; all of it where there is a choice."""
    if isinstance(ip, IPv4Address):
        return (ip,)
    if ip.ipv4_mapped is not None:
        return (ip.ipv4_mapped,)
    if ip.sixtofour is not None:
        return (ip.sixtofour,)
    if ip.teredo is not None:
        return ip.teredo  # its server hears from whoever calls the client
    inner = IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip in _NAT64 or ip in _SIIT or 0 < int(ip) >> 16 < 1 << 16:
        return (inner,)
    itself = IPv6Address(int(ip))  # without its scope
    return (itself, inner) if int(ip) >> 32 & 0xFFFFFFFF in _ISATAP else (itself,)


def _within(ip: _Address, network: _Network) -> bool:
    return ip.version == network.version and ip in network


def _inside(network: _Network, wide: _Network) -> bool:
    if isinstance(network, IPv4Network) and isinstance(wide, IPv4Network):
        return network.subnet_of(wide)
    if isinstance(network, IPv6Network) and isinstance(wide, IPv6Network):
        return network.subnet_of(wide)
    return False


@implementer(IReactorTCP, IReactorTime, IReactorPluggableNameResolver)
@define
class ReachReactor:
    """What kinds dial with: a reactor that only connects within the reach.

    One is made for each open, so that ``turned_away`` speaks of that open.
    """

    reactor: Any
    reach: Reach
    turned_away: list[str] = field(factory=list, init=False)

    def connectTCP(
        self,
        host: str,
        port: int,
        factory: ClientFactory[Any],
        timeout: float = 30,
        bindAddress: tuple[str, int] | None = None,
    ) -> IConnector:
        """Connect to a literal address within the reach.

        Raises:
            SvcError: ``address_out_of_reach`` for any other, a name included.
        """
        if not self.reach.allows(host):
            self.turned_away.append(host)
            raise refused(
                "address_out_of_reach", "connector.reach does not allow the target's address"
            )
        connector: IConnector = self.reactor.connectTCP(host, port, factory, timeout, bindAddress)
        return connector

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        """A kind that dials does not listen."""
        raise refused("address_out_of_reach", "a resource kind cannot listen")

    @property
    def nameResolver(self) -> IHostnameResolver:
        """Resolves as the real one does; addresses out of reach are left out."""
        return _ReachResolver(self)

    def installNameResolver(self, resolver: IHostnameResolver) -> IHostnameResolver:
        """A kind cannot change how names are resolved."""
        raise refused("address_out_of_reach", "a resource kind cannot change the resolver")

    def seconds(self) -> float:
        """The real clock."""
        return float(self.reactor.seconds())

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object
    ) -> IDelayedCall:
        """The real clock."""
        later: IDelayedCall = self.reactor.callLater(delay, callable, *args, **kwargs)
        return later

    def getThreadPool(self) -> Any:
        """The real one, for what takes long to compute."""
        return self.reactor.getThreadPool()

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:
        """On the real reactor."""
        self.reactor.callFromThread(callable, *args, **kwargs)

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        """The real clock."""
        calls: Sequence[IDelayedCall] = self.reactor.getDelayedCalls()
        return calls


@implementer(IHostnameResolver)
@frozen
class _ReachResolver:
    owner: ReachReactor

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Iterable[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """See :attr:`ReachReactor.nameResolver`."""
        resolution: IHostResolution = self.owner.reactor.nameResolver.resolveHostName(
            _AddressFilter(resolutionReceiver, self.owner),
            hostName,
            portNumber,
            addressTypes,
            transportSemantics,
        )
        return resolution


@implementer(IResolutionReceiver)
@frozen
class _AddressFilter:
    """Passes on the addresses within reach."""

    receiver: IResolutionReceiver
    owner: ReachReactor

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        self.receiver.resolutionBegan(resolutionInProgress)

    def addressResolved(self, address: IAddress) -> None:
        host = address.host if isinstance(address, TcpAddress | Tcp6Address) else ""
        if self.owner.reach.allows(host):
            self.receiver.addressResolved(address)
        else:
            self.owner.turned_away.append(host)

    def resolutionComplete(self) -> None:
        self.receiver.resolutionComplete()

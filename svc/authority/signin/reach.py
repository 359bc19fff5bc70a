"""Which addresses of an identity provider Authority connects to, checked after name resolution.

A provider is on public addresses, unless the operator lists others in
``oidc.reach``: so no answer of a provider, and no resolver, leads Authority's
requests into the network that it stands in.  What was judged is what is dialed.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.ssl import optionsForClientTLS
from twisted.web.client import URI
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from svc.authority.signin.refusals import ProviderFault

CONNECT_SECS = 5.0
_DISGUISED = tuple(map(ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
_TUNNELLED = tuple(map(ip_network, ("2002::/16", "2001::/32", "64:ff9b:1::/48")))


@frozen
class ProviderReach:
    """Public addresses, and those that are listed."""

    listed: tuple[IPv4Network | IPv6Network, ...] = ()

    def allows(self, address: str) -> bool:
        """Whether a literal address may be dialed; anything else is not."""
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        if any(ip in network for network in self.listed if network.version == ip.version):
            return True
        if isinstance(ip, IPv6Address) and any(ip in one for one in (*_DISGUISED, *_TUNNELLED)):
            return False  # an IPv4 address in another form, or somebody's tunnel
        return ip.is_global and not ip.is_multicast


@implementer(IAgentEndpointFactory)
@frozen
class ReachableEndpoints:
    """Gives the agent its connections: HTTPS, to addresses within reach.

    Attributes:
        trust: What the provider's certificate is checked against; None: the system's.
    """

    reactor: Any
    reach: ProviderReach
    trust: Any = None

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        """The endpoint of a URL."""
        host = uri.host.decode("ascii").strip("[]")
        if uri.scheme != b"https":
            raise ProviderFault(
                "the identity provider names a URL that is not https", reason="provider_url"
            )
        tls = optionsForClientTLS(host, self.trust)
        below = _Resolved(reactor=self.reactor, reach=self.reach, host=host, port=uri.port)
        return wrapClientTLS(tls, below)


@implementer(IStreamClientEndpoint)
@frozen
class _Resolved:
    """One host: resolved once, then its addresses within reach are tried in turn."""

    reactor: Any
    reach: ProviderReach
    host: str
    port: int

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint."""
        return Deferred.fromCoroutine(self._connect(protocolFactory))

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        found = await _Resolution.of(self.reactor, self.host, self.port)
        hosts = [host for host in found if self.reach.allows(host)]
        if found and not hosts:
            raise ProviderFault(
                f"{self.host}: its address is not public; the operator can allow it in oidc.reach",
                reason="provider_address",
            )
        problem: Exception = ProviderFault(f"{self.host}: no such host")
        for host in hosts:
            form: Callable[..., Any] = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
            try:
                made: IProtocol = await form(self.reactor, host, self.port, CONNECT_SECS).connect(
                    factory
                )
            except CancelledError:
                raise
            except Exception as failed:
                problem = failed
            else:
                return made
        raise problem


class _Resolution:
    """Collects the addresses of one resolution."""

    def __init__(self) -> None:
        self.done: Deferred[list[str]] = Deferred()
        self._found: list[str] = []

    @classmethod
    def of(cls, reactor: Any, host: str, port: int) -> Deferred[list[str]]:
        """The addresses of *host*."""
        receiver = cls()
        reactor.nameResolver.resolveHostName(receiver, host, port)
        return receiver.done

    def resolutionBegan(self, resolutionInProgress: object) -> None:
        """See IResolutionReceiver."""

    def addressResolved(self, address: IAddress) -> None:
        """See IResolutionReceiver."""
        self._found.append(str(getattr(address, "host", "")))

    def resolutionComplete(self) -> None:
        """See IResolutionReceiver."""
        self.done.callback(self._found)

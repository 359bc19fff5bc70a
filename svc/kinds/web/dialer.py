"""At the Connector: how an application is described and reached, and what it gets of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IProtocol,
    IProtocolFactory,
    IReactorTCP,
    IStreamClientEndpoint,
)
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from zope.interface import implementer

from svc.errors import ConfigError
from svc.kinds.address import split_address
from svc.kinds.opaque import AddressDialer
from svc.kinds.web.head import HOST
from svc.kinds.web.rewrite import RequestRewriter
from svc.kinds.web.words import DROP
from svc.model.cluster.target import Target
from svc.model.session.edits import MakeEdit

_HOST_KEY = "host"


def drop(came: bytes, values: Mapping[str, str]) -> bytes:
    """Nothing of a denied request reaches the target."""
    return b""


class _ToTarget(ProtocolWrapper):
    """A connection to the target that writes requests as the target may get them."""

    transport: Any

    def __init__(self, factory: Any, wrapped: IProtocol, host: bytes) -> None:
        super().__init__(factory, wrapped)
        self._rewriter = RequestRewriter(host)

    def write(self, data: bytes) -> None:
        """Write requests; what is none ends the session."""
        out = self._rewriter.feed(data)
        if out:
            self.transport.write(out)

    def writeSequence(self, data: Any) -> None:
        """As :meth:`write`."""
        self.write(b"".join(data))


class _Wrapping(WrappingFactory):
    noisy = False

    def __init__(self, wrapped: Any, host: bytes) -> None:
        super().__init__(wrapped)  # type: ignore[no-untyped-call]
        self._host = host

    def buildProtocol(self, addr: IAddress | None) -> Any:
        inner = self.wrappedFactory.buildProtocol(addr)
        return None if inner is None else _ToTarget(self, inner, self._host)


@implementer(IStreamClientEndpoint)
@frozen(kw_only=True)
class RequestsEndpoint:
    """Reaches an application, and lets only requests through, their heads rewritten.

    Attributes:
        below: Reaches the target.
        host: The name that the target knows itself by.
    """

    below: IStreamClientEndpoint
    host: bytes

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint."""
        connecting: Any = self.below.connect(_Wrapping(protocolFactory, self.host))
        return connecting.addCallback(lambda wrapper: wrapper.wrappedProtocol)  # type: ignore[no-any-return]


@frozen(kw_only=True)
class WebDialer(AddressDialer):
    """Reaches an application by ``address``, which gets ``host`` as its name."""

    edits: Mapping[str, MakeEdit] = field(factory=lambda: {DROP: drop})

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A target with an address, and the name that the application is asked by."""
        rest = {key: value for key, value in table.items() if key != _HOST_KEY}
        target = super().parse(resource_id, rest, path)
        host = table.get(_HOST_KEY, _host_of(target.address, self.default_port))
        if not isinstance(host, str) or not HOST.match(host.encode("utf-8")):
            raise ConfigError(f"{path}.{_HOST_KEY}", "must be a host name, with or without a port")
        return evolve(target, options={_HOST_KEY: host})

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Nothing but requests reaches the address."""
        below = super().endpoint(reactor, target, ceiling)
        return RequestsEndpoint(below=below, host=str(target.options[_HOST_KEY]).encode("ascii"))


def _host_of(address: str, default_port: int | None) -> str:
    """As a browser writes it: without the port where that is the usual one."""
    _, port = split_address(address)
    return address.removesuffix(f":{port}") if port == default_port else address


DIALER = WebDialer(kind="web", default_port=80)

"""At the Connector: how an application is described and reached, and what it gets of a request.

A table of ``[[connector.resources]]`` of this kind::

    address = "10.2.0.15:3000"            # port 80, or 443 with TLS, where it is left out
    host = "grafana.internal"             # what the application knows itself by; else the address
    tls = "verify"                        # or "off", the default
    ca_file = "/etc/svc/grafana-ca.pem"   # the system's trust, where it is left out
    identity = true                       # tell it who makes each request; false, the default
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
from twisted.protocols.policies import WrappingFactory
from zope.interface import implementer

from svc.errors import ConfigError, SvcError
from svc.interfaces.kinds import Identify, IIdentifyingDialer, ILimitedDialer
from svc.kinds.address import split_address
from svc.kinds.opaque import AddressDialer
from svc.kinds.web.head import HOST, WEBSOCKETS, HttpRequest, Protocols
from svc.kinds.web.operations import operations_of
from svc.kinds.web.reader import WebRequests
from svc.kinds.web.rewrite import ChangeFields, RequestRewriter, same_fields
from svc.kinds.web.secured import VerifiedTlsEndpoint
from svc.kinds.web.target import Permits, Refuse, TargetConnection, refusal
from svc.kinds.web.words import DROP
from svc.model.cluster.target import Target
from svc.model.session.edits import MakeEdit

_OWN_KEYS = frozenset({"host", "tls", "ca_file", "identity"})
_OFF, _VERIFY = "off", "verify"
_TLS_PORT = 443


def drop(came: bytes, values: Mapping[str, str]) -> bytes:
    """Nothing of a denied request reaches the target."""
    return b""


class _Wrapping(WrappingFactory):
    noisy = False

    def __init__(self, wrapped: Any, made: Callable[..., TargetConnection]) -> None:
        super().__init__(wrapped)  # type: ignore[no-untyped-call]
        self._made = made

    def buildProtocol(self, addr: IAddress | None) -> Any:
        inner = self.wrappedFactory.buildProtocol(addr)
        if inner is None:
            return None
        return self._made(factory=self, wrapped=inner)


@implementer(IStreamClientEndpoint)
@frozen(kw_only=True)
class RequestsEndpoint:
    """Reaches an application, and lets only requests through, their heads rewritten.

    Attributes:
        below: Reaches the target.
        host: The name that the target knows itself by.
        is_secured: Whether there is a handshake of TLS to wait for.
        change: Called before it dials; gives what the kind makes of header fields.
        protocols: Those that a request may ask to switch to.
        identify: Gives the token of each request; None: the target is told nothing.
        permits: Whether a request may reach the target at all; None: each.
        refuse: Makes the answer to one that does not.
    """

    below: IStreamClientEndpoint
    host: bytes
    is_secured: bool = False
    change: Callable[[], ChangeFields] = lambda: same_fields
    protocols: Protocols = WEBSOCKETS
    identify: Identify | None = None
    permits: Permits | None = None
    refuse: Refuse = refusal

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint."""
        return Deferred.fromCoroutine(self._connect(protocolFactory))

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        change = self.change()

        def made(factory: Any, wrapped: IProtocol) -> TargetConnection:
            return TargetConnection(
                factory=factory,
                wrapped=wrapped,
                rewriter=RequestRewriter(self.host, change, self.protocols),
                identify=self.identify,
                permits=self.permits,
                refuse=self.refuse,
            )

        wrapping = _Wrapping(factory, made)
        wrapper: Any = await self.below.connect(wrapping)
        if self.is_secured:
            try:
                await wrapper.secured
            except BaseException:
                wrapper.transport.abortConnection()
                raise
        else:
            wrapper.secured.addErrback(lambda _: None)
        return wrapper.wrappedProtocol  # type: ignore[no-any-return]


@implementer(IIdentifyingDialer, ILimitedDialer)
@frozen(kw_only=True)
class WebDialer(AddressDialer):
    """Reaches an application by ``address``, which gets ``host`` as its name.

    Attributes:
        identify: Of the session that it dials for; None: of none.
        session_uid: Of that session; empty: of none.
        operations: Those that its requests may be of; None: all.
        operations_of: Those that a request is of.
        refuse: Makes the answer to a request that the target does not get.
    """

    identify: Identify | None = field(default=None, eq=False)
    session_uid: str = ""
    edits: Mapping[str, MakeEdit] = field(factory=lambda: {DROP: drop})
    requests: type[WebRequests] = WebRequests
    operations: frozenset[str] | None = None
    operations_of: Callable[[HttpRequest], tuple[str, ...]] = operations_of
    refuse: Callable[..., bytes] = refusal

    def limited(self, operations: frozenset[str]) -> WebDialer:
        """See ILimitedDialer."""
        return evolve(self, operations=operations)

    def permits(self, head: HttpRequest) -> bool:
        """Whether all that a request is of may pass."""
        return self.operations is None or self.operations.issuperset(self.operations_of(head))

    def identified(self, identify: Identify, session_uid: str) -> WebDialer:
        """See IIdentifyingDialer."""
        return evolve(self, identify=identify, session_uid=session_uid)

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A target with an address, the name it is asked by, and how it proves itself."""
        tls = table.get("tls", _OFF)
        if tls not in (_OFF, _VERIFY):
            raise ConfigError(f"{path}.tls", f'must be "{_VERIFY}" or "{_OFF}"')
        ca_file = table.get("ca_file", "")
        if not isinstance(ca_file, str) or ("ca_file" in table and (not ca_file or tls == _OFF)):
            raise ConfigError(f"{path}.ca_file", f'must be a path, and goes with tls = "{_VERIFY}"')
        identity = table.get("identity", False)
        if not isinstance(identity, bool):
            raise ConfigError(f"{path}.identity", "must be true or false")
        rest = {key: value for key, value in table.items() if key not in _OWN_KEYS}
        usual = evolve(self, default_port=_TLS_PORT) if tls == _VERIFY else self
        target = super(WebDialer, usual).parse(resource_id, rest, path)
        host = table.get("host", _host_of(target.address, usual.default_port))
        found = HOST.match(host.encode("utf-8")) if isinstance(host, str) else None
        if found is None:
            raise ConfigError(f"{path}.host", "must be a host name, with or without a port")
        name = found[1].decode("ascii").strip("[]")
        tls_options = {"name": name, "tls": tls, "ca_file": ca_file}
        return evolve(target, options={"host": host, "identity": identity, **tls_options})

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Nothing but requests reaches the address."""
        below, host = super().endpoint(reactor, target, ceiling), str(target.options["host"])
        is_secured = target.options["tls"] == _VERIFY
        if is_secured:
            name = str(target.options["name"])
            ca_file = str(target.options["ca_file"])
            below = VerifiedTlsEndpoint(below=below, server_name=name, ca_file=ca_file)
        if target.options["identity"] and self.identify is None:
            raise SvcError("there is no session to tell the target of", reason="no_credential")
        return RequestsEndpoint(
            below=below,
            host=host.encode("ascii"),
            is_secured=is_secured,
            identify=self.identify if target.options["identity"] else None,
            permits=None if self.operations is None else self.permits,
            refuse=partial(self.refuse, session_uid=self.session_uid),
        )


def _host_of(address: str, default_port: int | None) -> str:
    """As a browser writes it: without the port where that is the usual one."""
    _, port = split_address(address)
    return address.removesuffix(f":{port}") if port == default_port else address


DIALER = WebDialer(kind="web", default_port=80)

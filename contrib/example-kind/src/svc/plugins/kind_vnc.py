"""Drop-in: the resource kind ``vnc``, desktops that are told by host and display."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import implementer

from svc.errors import ConfigError
from svc.interfaces.kinds import IResourceKind, KindTerms
from svc.kinds.address import read_address, refuse_unknown, split_address
from svc.model.cluster.target import Target

FIRST_PORT = 5900
"""Display N of a host listens on this port and N more."""


@implementer(IResourceKind)
@frozen
class VncKind:
    """Bytes that no Proxy reads; decided once, as ``vncConnect``, when a session opens."""

    name = "vnc"
    request_kind = "connect"
    protocol = "vnc"
    opaque = True
    terms = KindTerms("Desktop", open_action="vncConnect", actions=("vncConnect",))
    default_port = FIRST_PORT

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A target with ``address = "host"`` and, if it is not the first, its ``display``."""
        refuse_unknown(table, frozenset({"address", "display"}), path)
        display = table.get("display", 0)
        if type(display) is not int or not 0 <= display <= 99:
            raise ConfigError(f"{path}.display", "must be a number from 0 to 99")
        return Target(resource_id, self.name, read_address(table, path, FIRST_PORT + display))

    def native_port(self, labels: Mapping[str, str]) -> int | None:
        """A viewer's port for the catalog's label ``display``."""
        text = labels.get("display", "0")
        is_display = text.isascii() and text.isdigit() and len(text) <= 2
        return FIRST_PORT + int(text) if is_display else FIRST_PORT

    def endpoint(self, reactor: IReactorTCP, target: Target) -> IStreamClientEndpoint:
        """Through the reactor given, so that the Connector's reach holds."""
        host, port = split_address(target.address)
        return HostnameEndpoint(reactor, host, port)


vnc = VncKind()

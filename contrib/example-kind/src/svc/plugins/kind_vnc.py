"""Drop-in: the resource kind ``vnc``, desktops that are told by host and display."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import implementer

from svc.errors import ConfigError
from svc.interfaces.kinds import IDialer, ILocalEndpoint, Kind, KindTerms
from svc.kinds.address import read_address, refuse_unknown, split_address
from svc.model.cluster.target import Target

FIRST_PORT = 5900
"""Display N of a host listens on this port and N more."""

# No gate: bytes that no Proxy reads, decided once, as ``vncConnect``, when a session opens.
VNC = Kind(name="vnc", terms=":TERMS", dialer=":DIALER", local=":LOCAL")
TERMS = KindTerms("Desktop", open_action="vncConnect", actions={"vncConnect": "connect"})


@implementer(IDialer)
class VncDialer:
    """At the Connector: how a desktop is described and reached."""

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A target with ``address = "host"`` and, if it is not the first, its ``display``."""
        refuse_unknown(table, frozenset({"address", "display"}), path)
        display = table.get("display", 0)
        if type(display) is not int or not 0 <= display <= 99:
            raise ConfigError(f"{path}.display", "must be a number from 0 to 99")
        return Target(resource_id, "vnc", read_address(table, path, FIRST_PORT + display))

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Through the reactor given, so that the Connector's reach holds."""
        host, port = split_address(target.address)
        return HostnameEndpoint(reactor, host, port)


@implementer(ILocalEndpoint)
class VncPorts:
    """At the person's machine: the port that a viewer expects."""

    def native_port(self, labels: Mapping[str, str]) -> int | None:
        """A viewer's port for the catalog's label ``display``."""
        text = labels.get("display", "0")
        is_display = text.isascii() and text.isdigit() and len(text) <= 2
        return FIRST_PORT + int(text) if is_display else FIRST_PORT


DIALER, LOCAL = VncDialer(), VncPorts()

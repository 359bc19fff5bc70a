"""The services behind the demo's Connector: a page, an echo, SSH, an API server, and the vault.

They stand on loopback ports, so each looks at whose process connects before it
says anything: what the gateway protects must not be open beside it (rule R7).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, ITransport
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from zope.interface import implementer

from svc.client.resident.peer_uid import AVAILABLE, peer_uid
from svc.demo.scene import ECHO, KUBE, SSH, VAULT, WEB
from svc.demo.temporary import DemoDirectory
from svc.model.ids import Entropy, random_id
from svc.runtime import durable

_log = Logger(namespace="svc_demo")

LOOPBACK = "127.0.0.1"

_PAGE = b"""\
<!doctype html>
<title>svc demo</title>
<h1>You came through the gateway.</h1>
<p>This page stands on a loopback port that only the demo's Connector dials.
The session was decided by a Cedar policy and is in the audit log.</p>
"""


class Echo(Protocol):
    """Says back what it hears."""

    transport: ITransport

    def dataReceived(self, data: bytes) -> None:
        """Back it goes."""
        self.transport.write(data)


class Page(LineOnlyReceiver):
    """One small page for whatever is asked: enough for a browser and for curl."""

    transport: ITransport
    is_last = False
    delimiter = b"\n"
    MAX_LENGTH = 8192

    def lineReceived(self, line: bytes) -> None:
        """The empty line ends the request."""
        if line.strip():
            self.is_last = self.is_last or line.rstrip().endswith(b"HTTP/1.0")
            return
        head = (
            b"HTTP/1.1 200 OK\r\n"
            b"Content-Type: text/html; charset=utf-8\r\n"
            b"Content-Length: %d\r\n"
            b"Connection: %s\r\n\r\n"
        )
        stays = b"close" if self.is_last else b"keep-alive"
        self.transport.write(head % (len(_PAGE), stays) + _PAGE)
        if self.is_last:
            self.transport.loseConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        """No request that we answer is that long."""
        self.transport.loseConnection()


class Secret(Protocol):
    """Would tell, if anybody ever got here."""

    transport: ITransport

    def connectionMade(self) -> None:
        """Nobody does."""
        self.transport.write(b"the vault is open\n")
        self.transport.loseConnection()


@implementer(IProtocolFactory)
@define
class SameUserFactory:
    """Closes, unserved, the connections of any other user of this machine."""

    factory: Any
    port: int = 0

    def doStart(self) -> None:
        """Pass it on."""
        self.factory.doStart()

    def doStop(self) -> None:
        """Pass it on."""
        self.factory.doStop()

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol, or None, which closes the connection before a byte."""
        if AVAILABLE and peer_uid((LOOPBACK, self.port), (addr.host, addr.port)) != os.geteuid():
            _log.warn("connection of another user closed", port=self.port)
            return None
        return self.factory.buildProtocol(addr)


@define
class Targets:
    """The targets while they listen.

    Attributes:
        addresses: ``host:port`` by resource id, once started.
        tables: Further keys in the Connector's configuration, likewise.
    """

    reactor: Any
    entropy: Entropy = os.urandom
    addresses: dict[str, str] = field(factory=dict)
    tables: dict[str, dict[str, Any]] = field(factory=dict)
    _directory: DemoDirectory | None = field(default=None, init=False)
    _ports: list[IListeningPort] = field(factory=list)

    async def start(self) -> None:
        """Listen, each on a free port."""
        from svc.demo.kube_target import KubeApi
        from svc.demo.ssh_target import ssh_factory

        token = random_id(self.entropy)
        self._directory = DemoDirectory.made("kube-")
        file = self._directory.path / "token"
        durable.replace(file, token.encode("ascii"))
        self.tables[KUBE.id] = {"tls": "off", "token_file": str(file)}
        made: dict[str, Any] = {
            ECHO.id: _quiet(Echo),
            WEB.id: _quiet(Page),
            SSH.id: ssh_factory(self.reactor),
            VAULT.id: _quiet(Secret),
            KUBE.id: _quiet(lambda: KubeApi(token)),
        }
        for name, factory in made.items():
            guarded = SameUserFactory(factory)
            endpoint = TCP4ServerEndpoint(self.reactor, 0, interface=LOOPBACK)
            port = await endpoint.listen(guarded)
            self._ports.append(port)
            guarded.port = getattr(port.getHost(), "port", 0)
            self.addresses[name] = f"{LOOPBACK}:{guarded.port}"

    async def stop(self) -> None:
        """Listen no more."""
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.remove()
        while self._ports:
            closed = self._ports.pop().stopListening()
            if closed is not None:
                await closed


def _quiet(protocol: Callable[[], Protocol]) -> Any:
    factory: Any = Factory.forProtocol(protocol)
    factory.noisy = False
    return factory

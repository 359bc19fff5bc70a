"""The resident's side: ports below 1024, bound by the helper where the resident may not."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import AdoptedStreamServerEndpoint, UNIXClientEndpoint
from twisted.internet.error import CannotListenError, ConnectError
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.client.low_ports.words import (
    ADDRESS_IN_USE,
    BIND,
    MAX_ANSWER,
    NETWORK,
    NOT_YOURS,
    read,
    written,
)
from svc.errors import Malformed, SvcError, Unavailable
from svc.model.session.local_ports import CLIENT_NET, LOOPBACK, LOWEST_FREE
from svc.runtime.services import bounded

_log = Logger(namespace="svc_client")

ASK_SECS = 10.0
_BACKLOG = 128
_TRIED = "127.63.255.254"
"""Nobody's address, where it is tried whether this process may bind a port."""


def may_bind(port: int) -> bool:
    """Whether this process may listen on the port, if nobody else does."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        try:
            tried.bind((_TRIED, port))
        except OSError as error:
            return error.errno != errno.EACCES
    return True


@define(eq=False)
class LowPorts:
    """Makes the endpoint of every local address.

    Attributes:
        path: The helper's socket.
        direct: Makes one that this process binds itself.
        may_bind: Whether it may.
    """

    reactor: Any
    path: str
    direct: Callable[[str, int], IStreamServerEndpoint]
    may_bind: Callable[[int], bool] = may_bind
    _network: IPv4Network | None = field(default=None, init=False)

    async def network(self, port: int) -> IPv4Network | None:
        """Where the address has to lie of which this port is to be bound.

        None: anywhere, or the helper does not say; what it is asked for next is then refused.
        """
        if not self._is_privileged(port):
            return None
        if self._network is None:
            try:
                answer = await self._asked({"ask": NETWORK}, None)
                self._network = _network(answer.get(NETWORK))
            except SvcError as refusal:
                _log.debug("svc-client-net gives no network", problem=refusal.text)
        return self._network

    def endpoint(self, address: str, port: int) -> IStreamServerEndpoint:
        """The endpoint of an address and a port."""
        if self._is_privileged(port):
            return _HelpedEndpoint(self, address, port)
        return self.direct(address, port)

    async def bound(self, made: socket.socket, address: str, port: int) -> None:
        """Have the helper bind a socket.

        Raises:
            SvcError: it refused, or there is none.
        """
        if self._network is not None and IPv4Address(address) not in self._network:
            raise Unavailable(
                f"{self._network}, your network of {CLIENT_NET}, has no address left for it; raise "
                "client.native_port_offset, which is 10000 by default",
                reason="network_full",
            )
        question = {"ask": BIND, "address": address, "port": port}
        try:
            await self._asked(question, made.fileno())
        except SvcError as refusal:
            if refusal.reason == NOT_YOURS:
                self._network = None  # The helper has forgotten it, or never said it.
            raise
        if made.getsockname() != (address, port):
            raise Unavailable(f"{CLIENT_NET} did not bind the socket", reason="helper_failed")

    def _is_privileged(self, port: int) -> bool:
        return port < LOWEST_FREE and not self.may_bind(port)

    async def _asked(self, question: dict[str, Any], given: int | None) -> dict[str, Any]:
        asking = _Asking(written(question), given)
        endpoint = UNIXClientEndpoint(self.reactor, self.path, timeout=ASK_SECS)
        try:
            await endpoint.connect(Factory.forProtocol(lambda: asking))
        except ConnectError:
            raise self._unanswered() from None
        try:
            line = await bounded(self.reactor, ASK_SECS, asking.answer, CLIENT_NET)
        finally:
            asking.transport.abortConnection()
        answer = read(line)
        refusal = answer.get("error")
        if isinstance(refusal, dict):
            raise Unavailable(
                f"{CLIENT_NET}: {refusal.get('text')}", reason=str(refusal.get("reason"))
            )
        return answer

    def _unanswered(self) -> SvcError:
        return Unavailable(
            f"ports below {LOWEST_FREE} require a privilege, and {CLIENT_NET}, which has it, does "
            f"not answer at {self.path}: run, as root, svc service install client-net and "
            f"systemctl start {CLIENT_NET}; or raise client.native_port_offset, which is 10000 by "
            "default",
            reason="no_helper",
        )


def _network(text: object) -> IPv4Network:
    """The network that the helper said.

    Raises:
        Malformed: it is none of ours.
    """
    try:
        found = IPv4Network(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if found is None or found.num_addresses < 256 or not found.subnet_of(LOOPBACK):
        raise Malformed(f"{CLIENT_NET}: the answer names no network in {LOOPBACK}")
    return found


@implementer(IStreamServerEndpoint)
@frozen
class _HelpedEndpoint:
    ports: LowPorts
    address: str
    port: int

    def listen(self, protocolFactory: Any) -> Deferred[IListeningPort]:
        return Deferred.fromCoroutine(self._listening(protocolFactory))

    async def _listening(self, factory: Any) -> IListeningPort:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            await self.ports.bound(made, self.address, self.port)
            made.listen(_BACKLOG)
            adopted = AdoptedStreamServerEndpoint(self.ports.reactor, made.detach(), socket.AF_INET)
            port: IListeningPort = await adopted.listen(factory)
            return port
        except (SvcError, OSError) as refusal:
            why: Exception = refusal
            if getattr(refusal, "reason", "") == ADDRESS_IN_USE:
                why = OSError(errno.EADDRINUSE, "in use")
            raise CannotListenError(self.address, self.port, why) from None
        finally:
            made.close()


class _Asking(LineOnlyReceiver):
    """One question."""

    transport: Any
    delimiter = b"\n"
    MAX_LENGTH = MAX_ANSWER

    def __init__(self, question: bytes, given: int | None) -> None:
        self._question = question
        self._given = given
        self.answer: Deferred[bytes] = Deferred()

    def connectionMade(self) -> None:
        if self._given is not None:
            self.transport.sendFileDescriptor(self._given)
        self.transport.write(self._question + self.delimiter)

    def lineReceived(self, line: bytes) -> None:
        if not self.answer.called:
            self.answer.callback(line)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.answer.called:
            self.answer.errback(
                Unavailable(f"{CLIENT_NET} gave no answer; see its log", reason="helper_silent")
            )

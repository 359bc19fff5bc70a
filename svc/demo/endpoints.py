"""Using the resident's local endpoints as any program of the person would."""

from __future__ import annotations

import json
import os
from errno import ECONNRESET
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, UNIXClientEndpoint
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.client.places import CONTROL_SOCKET, RUN_DIRECTORY
from svc.errors import Unavailable
from svc.runtime.services import bounded

_SECS = 20.0


@define(eq=False)
class Conversation(Protocol):
    """Says one thing and listens until it has heard enough or the other end is gone.

    Attributes:
        enough: How many bytes end it; 0 listens to the end.
    """

    said: bytes
    enough: int
    heard: bytearray = field(factory=bytearray, init=False)
    over: Deferred[bytes] = field(factory=Deferred, init=False)

    def connectionMade(self) -> None:
        """Say it."""
        assert self.transport is not None
        if self.said:
            self.transport.write(self.said)

    def dataReceived(self, data: bytes) -> None:
        """Listen."""
        self.heard += data
        if self.enough and len(self.heard) >= self.enough:
            self._end()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """There is no more to hear."""
        self._end()

    def _end(self) -> None:
        if not self.over.called:
            self.over.callback(bytes(self.heard))


@define
class LocalEndpoints:
    """The endpoints of the resident whose state lies in *state*."""

    reactor: Any
    clock: IReactorTime
    state: Path

    async def status(self) -> dict[str, Any]:
        """What ``svc status`` is told."""
        question = json.dumps({"ask": "status"}).encode() + b"\n"
        path = self.state / RUN_DIRECTORY / CONTROL_SOCKET
        answer: dict[str, Any] = json.loads(await self._talk(self._unix(path), question, 0))
        return answer

    async def endpoint(self, resource: str) -> dict[str, Any] | None:
        """Where a resource stands, once it stands somewhere and is served."""
        for each in (await self.status())["endpoints"]:
            if each["resource"] == resource and each["served"] and _is_open(each):
                found: dict[str, Any] = each
                return found
        return None

    async def talk(self, there: dict[str, Any], said: bytes, enough: int) -> bytes:
        """Connect there, say something; what came back until enough was heard, or the end."""
        if not there["address"]:
            return await self._talk(self._unix(Path(there["socket"])), said, enough)
        host, _, port = there["address"].rpartition(":")
        return await self._talk(TCP4ClientEndpoint(self.reactor, host, int(port)), said, enough)

    async def _talk(self, endpoint: IStreamClientEndpoint, said: bytes, enough: int) -> bytes:
        conversation = Conversation(said, enough)
        factory = Factory.forProtocol(lambda: conversation)
        factory.noisy = False
        try:
            await bounded(self.clock, _SECS, endpoint.connect(factory), "the local endpoint")
        except ConnectError as error:
            if error.osError == ECONNRESET:
                return b""  # a session was refused before the connection was told to be there
            raise Unavailable(f"the resident's endpoint does not answer: {error}") from None
        try:
            return await bounded(self.clock, _SECS, conversation.over, "the session")
        finally:
            transport: Any = conversation.transport
            transport.abortConnection()

    def _unix(self, path: Path) -> IStreamClientEndpoint:
        return _DirectorySocketEndpoint(self.reactor, path)


@implementer(IStreamClientEndpoint)
@define
class _DirectorySocketEndpoint:
    """A unix socket by its directory's descriptor: its path may be too long for an address."""

    reactor: Any
    path: Path

    def connect(self, factory: Any) -> Deferred[Any]:
        """Connect; the descriptor is needed until then."""
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        short = f"/proc/self/fd/{descriptor}/{self.path.name}"
        connecting: Deferred[Any] = UNIXClientEndpoint(self.reactor, short).connect(factory)

        def done(result: Any) -> Any:
            os.close(descriptor)
            return result

        return connecting.addBoth(done)


def _is_open(endpoint: dict[str, Any]) -> bool:
    return bool(endpoint["address"] or endpoint["socket"])

"""What a Proxy under control hears: its connections above their TLS, and the streams in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from zope.interface import implementer


@define(eq=False, slots=False)
class Seen:
    """What a Proxy sees: bytes of its connections, and of the streams in them put together."""

    pieces: dict[str, bytearray] = field(factory=dict)

    def note(self, where: str, data: bytes) -> None:
        """Keep a piece."""
        self.pieces.setdefault(where, bytearray()).extend(data)

    def holds(self, marker: bytes) -> bool:
        """Whether it was anywhere."""
        return any(marker in piece for piece in self.pieces.values())

    def size(self, what: str) -> int:
        """How many bytes of the streams so named were seen."""
        return sum(len(piece) for name, piece in self.pieces.items() if name.startswith(what))


@implementer(IHandshakeListener)
class _Overheard(ProtocolWrapper):
    """A connection of the public listener, above its TLS."""

    wrappedProtocol: Any
    factory: Any

    def handshakeCompleted(self) -> None:
        self.wrappedProtocol.handshakeCompleted()

    def dataReceived(self, data: bytes) -> None:
        self.factory.seen.note(f"connection in {id(self)}", data)
        super().dataReceived(data)

    def write(self, data: bytes) -> None:
        self.factory.seen.note(f"connection out {id(self)}", data)
        super().write(data)

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))


class Overhearing(WrappingFactory):
    protocol = _Overheard
    noisy = False

    def __init__(self, wrapped: Any, seen: Seen) -> None:
        WrappingFactory.__init__(self, wrapped)  # type: ignore[arg-type]
        self.seen = seen


@implementer(IHalfCloseableProtocol)
class Tap(Protocol):
    """One side of a stream that passes through; the other is ``far``."""

    far: Any

    def __init__(self, seen: Seen, name: str, alter: Callable[[bytes], bytes]) -> None:
        self._note = lambda data: seen.note(name, data)
        self._alter = alter
        self._early: list[bytes] = []

    def connectionMade(self) -> None:
        for data in self._early:
            self.say(data)

    def say(self, data: bytes) -> None:
        """Pass on what the other side said."""
        if self.transport is None:
            self._early.append(data)
        else:
            self.transport.write(data)

    def dataReceived(self, data: bytes) -> None:
        self._note(data)
        self.far.say(self._alter(data))

    def readConnectionLost(self) -> None:
        if self.far.transport is not None:
            self.far.transport.loseWriteConnection()

    def writeConnectionLost(self) -> None:
        pass

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.far.transport is not None:
            self.far.transport.loseConnection()


def taps(
    seen: Seen, name: str, alter: Callable[[bytes], bytes] = lambda data: data
) -> tuple[Tap, Tap]:
    """Two ends, joined; what the first hears is named ``<name> up``, the second ``down``."""
    first, second = Tap(seen, f"{name} up", alter), Tap(seen, f"{name} down", alter)
    first.far, second.far = second, first
    return first, second

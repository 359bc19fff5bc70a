"""Carry streams over real calls: joined on their own connection, by their secret, once."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.interfaces.rpc import RpcService
from svc.messages.tunnel import CARRY_METHOD, encode_carry_open
from svc.model.session.tunnels import EndReason
from svc.rpc.frames import FrameKind, data_head, open_frame, parse_frame
from svc.tunnel.routes import RouteTable
from svc.tunnel.transport import RegisteredTunnel
from tests.rpc.memory import Pair
from tests.support.nothing import nothing
from tests.tunnel.pieces import UID, Line, order, serve_carry


class Heard(Protocol):
    """Keeps what came."""

    received = b""
    lost: Failure | None = None

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        self.lost = reason


class CarryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = RouteTable(lambda event: None, on_reassigned=nothing)
        service = RpcService("gate.v1.Tunnel", {"Carry": serve_carry(self.routes.tunnel_on)})
        self.pairs = [Pair([service]), Pair([service])]
        self.lines = []
        for number, pair in enumerate(self.pairs):
            line = Line(pair.clock, connection=pair.server.peer)
            self.routes.register(line.tunnel(f"n{number}", f"db{number}"))
            self.lines.append(line)
        self.opened: list[Any] = []

    def order(self, resource: str = "db0") -> bytes:
        """Order a session; its secret."""
        tunnel = self.routes.find(resource)
        assert isinstance(tunnel, RegisteredTunnel)
        opening = tunnel.endpoint(order()).connect(Factory.forProtocol(Heard))
        opening.addBoth(self.opened.append)
        return self.lines[int(resource[-1])].notices()[-1].secret

    def carry(self, secret: bytes, *then: bytes, pair: int = 0, uid: str = UID) -> list[Any]:
        """What a Carry call was answered: frames, then how it ended."""
        got: list[Any] = []

        async def call() -> None:
            stream = self.pairs[pair].channel.stream(CARRY_METHOD)
            for message in (open_frame(encode_carry_open(uid, secret)), *then):
                await stream.send(message)
            try:
                while (message := await stream.receive()) is not None:  # type: ignore[assignment]
                    got.append(parse_frame(message))
            except SvcError as error:
                got.append(error.reason)

        self.pairs[pair].settle(call())
        return got

    def test_joined(self) -> None:
        """The stream that knows the secret is taken, and its bytes reach who ordered."""
        got = self.carry(self.order(), data_head(5) + b"hello")
        self.assertEqual([kind for kind, _ in got], [FrameKind.OPEN])
        self.assertTrue(IProtocol.providedBy(self.opened[0]))
        self.assertEqual(self.opened[0].received, b"hello")

    def test_over_another_tunnel(self) -> None:
        """The right secret over another tunnel's connection moves no byte."""
        secret = self.order()
        got = self.carry(secret, data_head(4) + b"evil", pair=1)
        self.assertEqual(got, ["carry_refused"])
        self.assertEqual(self.opened, [])
        self.carry(secret, data_head(4) + b"good")
        self.assertEqual(self.opened[0].received, b"good")

    def test_a_second_stream(self) -> None:
        """A second stream with the same secret is refused and changes nothing of the first."""
        secret = self.order()
        self.carry(secret, data_head(3) + b"one")
        self.assertEqual(self.carry(secret, data_head(3) + b"two"), ["carry_refused"])
        self.assertEqual(self.opened[0].received, b"one")

    def test_no_tunnel(self) -> None:
        """On a connection whose tunnel has ended nothing is carried any more."""
        secret = self.order()
        self.routes.evict("n0")
        self.assertEqual(self.carry(secret), ["carry_refused"])
        self.assertEqual(self.opened[0].value.reason, "tunnel_ended")

    def test_not_a_beginning(self) -> None:
        """A stream that does not begin as it must is refused, and the order waits on."""
        secret = self.order()
        for uid, wrong in (("ff" * 16, secret), (UID, bytes(32))):
            self.assertEqual(self.carry(wrong, uid=uid), ["carry_refused"])
        self.assertEqual(self.carry(b"short"), ["malformed"])
        self.assertEqual(self.opened, [])

    def test_ends_with_its_tunnel(self) -> None:
        """A tunnel that ends breaks the streams it carried."""
        got = self.carry(self.order())
        tunnel = self.routes.tunnels[0]
        self.assertEqual(tunnel.sessions, {UID})
        tunnel.close(EndReason.EVICTED)
        self.pairs[0].turn()
        self.assertEqual((len(got), len(tunnel.sessions)), (2, 0))
        self.assertTrue(self.opened[0].lost)

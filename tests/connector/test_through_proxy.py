"""A session of three parties: the Proxy joins two calls and reads neither."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, Serve
from svc.lanes.join import join_streams
from svc.messages.tunnel import decode_carry_open
from svc.rpc.endpoint import StreamClientEndpoint
from svc.rpc.frames import open_frame, parse_frame
from svc.tunnel.tls_endpoint import SessionTlsEndpoint
from tests.connector.ends import Talker
from tests.connector.gateway import Gateway
from tests.rpc.memory import Pair
from tests.support.garbage import left_to_the_collector
from tests.support.nothing import nothing


class _Joint:
    """The protocol a tunnel is given when its stream is to be joined to a call unread."""

    def __init__(self, call: IRpcCall) -> None:
        self.call = call
        self.over: Deferred[None] = Deferred()
        self.transport = self

    def abortConnection(self) -> None:
        if not self.over.called:
            self.over.errback(SvcError("the tunnel ended", reason="tunnel_ended"))

    def join(self, carry: IRpcCall) -> Deferred[Any]:
        async def joined() -> None:
            await self.call.send(open_frame(b""))
            await join_streams(self.call, carry, counted=nothing)  # type: ignore[arg-type]

        joining = Deferred.fromCoroutine(joined())
        joining.addCallbacks(self._done, self._broke)
        return joining

    def _done(self, _: object) -> None:
        del self.transport
        if not self.over.called:
            self.over.callback(None)

    def _broke(self, failure: Failure) -> Failure:
        if not self.over.called:
            self.over.errback(failure)
        return failure


class _JoiningGateway(Gateway):
    """A gateway whose Proxy joins the person's call to the carry stream."""

    def __init__(self) -> None:
        super().__init__()
        session = RpcService("gate.v1.Session", {"Open": self.session})
        self.front = Pair([session])
        self.pairs.append(self.front)

    def carry(self) -> Serve:
        return self.join_carry

    async def dial(self) -> Any:
        return self.pairs[0].channel

    def turn(self, times: int = 40) -> None:
        for _ in range(times):
            for pair in self.pairs:
                pair.clock.advance(0)
                pair.pump.pump()

    async def session(self, call: IRpcCall) -> None:
        await call.receive()
        joint = _Joint(call)
        factory = Factory()
        factory.buildProtocol = lambda address: joint  # type: ignore
        tunnel: Any = self.routes.find("db1")
        await tunnel.endpoint(self.order()).connect(factory)
        await joint.over

    async def join_carry(self, call: IRpcCall) -> None:
        _, payload = parse_frame(await call.receive() or b"")
        uid, secret, _ = decode_carry_open(bytes(payload))
        tunnel: Any = self.routes.tunnel_on(call.peer)
        await tunnel.carry(uid, secret, lambda joint: joint.join(call))

    def open_through(self) -> list[Any]:
        async def opened() -> Any:
            stream = self.front.channel.stream("/gate.v1.Session/Open")
            await stream.send(open_frame(b""))
            await stream.receive()
            return stream

        node = self.cluster.connector.facts.principal.id
        tls = self.person_end.session(node)
        endpoint = SessionTlsEndpoint(
            below=StreamClientEndpoint(opened),
            begin=tls.begin,
            clock=self.clock,
            seconds=10,
        )
        got: list[Any] = []
        endpoint.connect(Factory.forProtocol(Talker)).addBoth(got.append)
        self.turn()
        return got


class ThroughProxyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gateway = _JoiningGateway()
        self.gateway.start()
        self.addCleanup(self.gateway.stop)
        got = self.gateway.open_through()
        self.assertEqual([type(each) for each in got], [Talker])
        [self.person] = got
        [self.target] = self.gateway.kind.targets

    def test_megabytes_both_ways(self) -> None:
        """Three megabytes each way pass the joined calls unchanged."""
        data = bytes(range(256)) * (3 << 12)
        self.person.transport.write(data)
        self.target.protocol.dataReceived(data)
        for _ in range(10):
            self.gateway.turn()
        self.assertEqual(self.target.value() == data, True)
        self.assertEqual(self.person.received == data, True)

    def test_half_close_and_end(self) -> None:
        """Each direction ends by itself, and the whole then ends in order everywhere."""
        self.person.transport.write(b"question")
        self.person.transport.loseWriteConnection()
        self.gateway.turn()
        self.assertEqual((self.target.value(), self.target.write_ended), (b"question", True))
        self.target.protocol.dataReceived(b"answer" * 100_000)
        self.target.protocol.readConnectionLost()
        for _ in range(5):
            self.gateway.turn()
        self.assertEqual(len(self.person.received), 600_000)
        self.assertTrue(self.person.heard_end)
        self.person.transport.loseConnection()
        self.gateway.turn()
        self.assertEqual([type(e).__name__ for e in self.gateway.sessions][-1], "SessionEnded")
        self.assertEqual(self.gateway.sessions[-1].reason, "closed")  # type: ignore[union-attr]
        self.assertTrue(self.person.lost)
        self.assertEqual(self.gateway.front.channel.open_streams, 0)
        self.assertEqual(self.gateway.pairs[0].channel.open_streams, 1)

    def test_target_ends(self) -> None:
        """A target that closes gives the person all it said, then the end."""
        self.target.protocol.dataReceived(b"bye" * 50_000)
        self.target.loseConnection()
        for _ in range(5):
            self.gateway.turn()
        self.assertEqual(len(self.person.received), 150_000)
        self.assertTrue(self.person.heard_end)

    def test_person_breaks_off(self) -> None:
        """A person who breaks off leaves nothing open anywhere."""
        self.person.transport.abortConnection()
        self.gateway.turn()
        self.assertTrue(self.target.gone)
        self.assertEqual(self.gateway.connector_sessions.sessions, frozenset())
        self.assertEqual(self.gateway.sessions[-1].reason, "broken")  # type: ignore[union-attr]

    def test_person_breaks_off_a_session_stalled_both_ways(self) -> None:
        """Neither a person nor a target that reads nothing keeps a broken session anywhere."""
        self.person.transport.pauseProducing()
        self.target.producer.pauseProducing()  # type: ignore[union-attr]
        for _ in range(64):
            self.person.transport.write(bytes(1 << 16))
            self.target.protocol.dataReceived(bytes(1 << 16))
            self.gateway.turn(3)
        self.person.transport.abortConnection()
        self.gateway.turn()
        self.assertTrue(self.target.gone)
        self.assertEqual(self.gateway.connector_sessions.sessions, frozenset())
        self.assertEqual(self.gateway.front.channel.open_streams, 0)
        tunnel = self.gateway.pairs[0]
        self.assertEqual(tunnel.channel.open_streams, 1)
        self.assertEqual(len(tunnel.server.wire.streams), 1)

    def test_stalled_person(self) -> None:
        """A person who reads nothing holds back the target after a bounded amount."""
        self.person.transport.pauseProducing()
        sent = 0
        while self.target.producerState == "producing" and sent < 64 << 20:
            self.target.protocol.dataReceived(bytes(1 << 16))
            sent += 1 << 16
            self.gateway.turn(3)
        self.assertLess(sent, 6 << 20)
        self.person.transport.resumeProducing()
        for _ in range(20):
            self.gateway.turn()
        self.assertEqual(len(self.person.received), sent)
        self.assertEqual(self.target.producerState, "producing")


class LeftToTheCollectorTests(SynchronousTestCase):
    def test_session_that_is_over(self) -> None:
        """What a session held is free once it is over, without a garbage collection."""
        gateway = _JoiningGateway()
        gateway.start()
        self.addCleanup(gateway.stop)
        with left_to_the_collector() as found:
            self.serve_one(gateway)
        self.assertEqual(found, [])

    def serve_one(self, gateway: _JoiningGateway) -> None:
        [person] = gateway.open_through()
        target = gateway.kind.targets.pop()
        person.transport.write(b"question")
        gateway.turn()
        target.protocol.dataReceived(b"answer")
        gateway.turn()
        self.assertEqual((target.value(), person.received), (b"question", b"answer"))
        person.transport.loseWriteConnection()
        gateway.turn()
        target.protocol.readConnectionLost()
        gateway.turn()
        person.transport.loseConnection()
        gateway.turn()
        self.assertTrue(person.lost)
        target.protocol.connectionLost(Failure(ConnectionDone()))
        gateway.turn()

"""What a Proxy relays it does not read: what it has never heard of passes both ways."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.test.iosim import FakeTransport, IOPump, connect

from svc.interfaces.rpc import IRpcCall, RpcService, only_message, streaming
from svc.join.lane import opened_lane
from svc.messages.relay import Lane
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.rpc.client.channel import dial
from svc.rpc.endpoint import StreamClientEndpoint
from svc.rpc.server.server import RpcServerFactory
from tests.proxy.pieces import ProxyTests
from tests.proxy.test_administration import ONE_ACTION, AdminPolicy
from tests.support.nothing import nothing

UNKNOWN = bytes.fromhex("fa3e0b6e65766572206865617264")
"""Field 1007 of a message, of a version that is not written yet."""


class _NewerAuthority:
    """Connects the far end of a lane to a server, in memory."""

    def __init__(self, factory: RpcServerFactory) -> None:
        self.factory = factory
        self.pumps: list[IOPump] = []

    def connect(self, factory: Any) -> Deferred[Any]:
        """As a TCP endpoint."""
        server, relayed = self.factory.buildProtocol(None), factory.buildProtocol(None)
        ends = FakeTransport(server, True), FakeTransport(relayed, False)
        self.pumps.append(connect(server, ends[0], relayed, ends[1]))
        done: Deferred[Any] = Deferred()
        done.callback(relayed)
        return done


class UnknownFieldTests(ProxyTests, AdminPolicy):
    """A command and an Authority that are both newer than the Proxy between them."""

    def test_both_ways(self) -> None:
        """Unknown fields of requests and answers arrive; so does a method it does not know."""
        came: list[bytes] = []

        async def newer(call: IRpcCall) -> None:
            came.append(await only_message(call))
            await call.send(pb.StatusResponse(version="9.0").SerializeToString() + UNKNOWN)

        service = RpcService("gate.v1.Admin", {"OfTomorrow": streaming(newer)})
        server = RpcServerFactory([service], self.site.clock, plaintext=True, admit=nothing)
        far = self.site.lane_endpoint = _NewerAuthority(server)
        self.policy(ONE_ACTION)
        wire, clock = self.site.connect(self.site.cluster.person), self.site.clock
        got: list[Any] = []

        async def asked() -> None:
            lane = StreamClientEndpoint(lambda: opened_lane(wire.channel, Lane.ADMIN, clock, 10.0))
            channel = await dial(lane, clock, authority="authority", plaintext=True)
            request = pb.StatusRequest.FromString(UNKNOWN)
            got.append(
                await channel.unary(
                    "/gate.v1.Admin/OfTomorrow", request, pb.StatusResponse, timeout=5
                )
            )
            await channel.close()

        asking = Deferred.fromCoroutine(asked())
        for _ in range(20):
            self.site.turn()
            for pump in far.pumps:
                pump.flush()
        self.successResultOf(asking)
        self.assertEqual(came, [UNKNOWN])
        self.assertEqual(got[0].version, "9.0")
        self.assertTrue(got[0].SerializeToString().endswith(UNKNOWN))

"""gRPC's negative HTTP/2 cases: servers that misbehave leave a person's channel sane."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import TestCase

from svc.config import Address
from svc.errors import Fault, SvcError, Unprocessed
from svc.interfaces.rpc import IRpcChannel
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.tls import ClientCertificates, server_context
from svc.testing.gateway.settings import PROXY
from tests.interop import scripts
from tests.interop import testing_pb2 as pb
from tests.interop.cases import SERVICE, payload
from tests.interop.stage import ada, gateway
from tests.system.side import closed, side_of


class NegativeTests(TestCase):
    """Each server has the Proxy's own certificate and takes a person's, as a Proxy would."""

    timeout = 60

    async def served(self, script: type[scripts.Script]) -> scripts.ScriptFactory:
        """A listening server of a script; its address is :attr:`address`."""
        files = gateway().files
        store = IdentityStore(files.state(PROXY))
        identity = TransportIdentity.load(store, time.time, files.cluster)
        factory = scripts.ScriptFactory(script)
        tls = server_context(identity, ClientCertificates.OPTIONAL)
        listening = TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1")
        port = await listening.listen(TLSMemoryBIOFactory(tls, False, factory))
        self.addCleanup(port.stopListening)
        self.address = Address("127.0.0.1", port.getHost().port)
        return factory

    async def dialed(self) -> IRpcChannel:
        channel = await side_of(ada()).dial(self.address)
        self.addCleanup(closed, channel)
        return channel

    async def call(self, channel: IRpcChannel, size: int = 314159) -> None:
        request = pb.SimpleRequest(response_size=size, payload=payload(271828))
        answer = await channel.unary(SERVICE + "UnaryCall", request, pb.SimpleResponse, timeout=30)
        self.assertEqual(len(answer.payload.body), size)

    async def assert_reset(self, script: type[scripts.Script]) -> None:
        """The first call fails, not as one that may be made again; the next one is well."""
        factory = await self.served(script)
        channel = await self.dialed()
        try:
            await self.call(channel)
        except SvcError as refusal:
            self.assertEqual(refusal.fault, Fault.INTERNAL)
            self.assertNotIsInstance(refusal, Unprocessed)
        else:
            self.fail("the call was reset")
        await self.call(channel)
        self.assertEqual(len(factory.served), 1)
        self.assertEqual(channel.open_streams, 0)

    async def test_goaway(self) -> None:
        """The call before a GOAWAY is well; the next is refused unsent, and well elsewhere."""
        factory = await self.served(scripts.Goaway)
        channel = await self.dialed()
        gone: Deferred[Any] = Deferred()
        channel.on_close(gone.callback)
        await self.call(channel)
        self.assertEqual(await gone, "going_away")
        with self.assertRaises(Unprocessed):
            channel.stream(SERVICE + "UnaryCall")
        await self.call(await self.dialed())
        self.assertEqual([len(each.calls) for each in factory.served], [1, 1])

    async def test_rst_after_header(self) -> None:
        """A call reset behind its first headers fails alone."""
        await self.assert_reset(scripts.RstAfterHeader)

    async def test_rst_during_data(self) -> None:
        """A call reset amid its answer fails alone."""
        await self.assert_reset(scripts.RstDuringData)

    async def test_rst_after_data(self) -> None:
        """A call reset behind its answer, without a status, fails alone."""
        await self.assert_reset(scripts.RstAfterData)

    async def test_ping(self) -> None:
        """Every ping is answered, and the call is well."""
        factory = await self.served(scripts.Ping)
        channel = await self.dialed()
        await self.call(channel)
        (server,) = factory.served
        assert isinstance(server, scripts.Ping)
        await server.all_answered

    async def test_max_streams(self) -> None:
        """Ten calls at once are all well where one is allowed at a time."""
        factory = await self.served(scripts.MaxStreams)
        channel = await self.dialed()
        await self.call(channel)
        calls = [Deferred.fromCoroutine(self.call(channel)) for _ in range(10)]
        await gatherResults(calls, consumeErrors=True)
        (server,) = factory.served
        self.assertEqual((len(server.calls), server.most), (11, 1))

    async def test_data_frame_padding(self) -> None:
        """An answer that is nearly all padding comes whole, past every window."""
        factory = await self.served(scripts.DataFramePadding)
        channel = await self.dialed()
        await self.call(channel, 25_000)
        await self.call(channel, 25_000)
        self.assertEqual(len(factory.served), 1)

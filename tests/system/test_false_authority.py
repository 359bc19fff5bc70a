"""Snapshots that a real Proxy is brought by an Authority under the test's control (rule R15).

It has Authority's own TLS identity and replays what Authority once signed, or
what another cluster's Authority did: the Proxy decides by none of it.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, DeferredQueue
from twisted.protocols.tls import TLSMemoryBIOFactory

from svc.client.sessions import SessionIntent
from svc.errors import LeaseLost
from svc.interfaces.rpc import IRpcCall, RpcService, streaming, unary
from svc.messages.control import AuthorityGreeting, lanes_message
from svc.messages.snapshot import (
    SNAPSHOT_METHOD,
    SnapshotFrame,
    decode_frame,
    decode_snapshot,
    encode_frame,
    encode_snapshot,
)
from svc.model.signing import Purpose
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.root import ClusterKeys, make_cluster
from svc.pki.tls import ClientCertificates, server_context
from svc.proto.gate.v1 import control_pb2 as pb
from svc.rpc.server.server import RpcServerFactory
from svc.testing.gateway.processes import run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, POLICY, PROXY
from tests.support.nothing import nothing
from tests.support.proof import proves
from tests.system.hostile_case import HostileCase, dialer, listening
from tests.system.stage import address_of, eventually, kinds, reactor

RUN_BY = "make fault"
ALONE = "the only configured Authority is not the leader; configure an address for each Authority"


class FalseAuthority:
    """Serves the control listener: greets every Proxy, and gives it one frame a connection.

    Args:
        leads: Whether it greets; one that stands by does not.
    """

    def __init__(self, identity: TransportIdentity, leads: bool = True) -> None:
        self.leads = leads
        self.frames: DeferredQueue[SnapshotFrame] = DeferredQueue()
        self.asked: list[str] = []
        methods = {
            "Hello": unary(pb.HelloRequest, self._hello),
            "Snapshot": streaming(self._snapshot),
            "Authorize": streaming(self._authorize),
        }
        self._identity = identity
        self._server = RpcServerFactory(
            [RpcService("gate.v1.Control", methods)], reactor, admit=nothing
        )
        tls = server_context(identity, ClientCertificates.REQUIRED)
        held = socket.create_server(("127.0.0.1", 0))
        held.setblocking(False)
        factory = TLSMemoryBIOFactory(tls, False, self._server)
        self._port = reactor.adoptStreamPort(held.fileno(), socket.AF_INET, factory)
        held.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port.getHost().port}"

    async def stop(self) -> None:
        await self._port.stopListening()
        await self._server.drain(0)

    def stopped(self) -> Deferred[None]:
        """Stop it; fires when it has."""
        return Deferred.fromCoroutine(self.stop())

    async def _hello(self, request: pb.HelloRequest, call: IRpcCall) -> pb.HelloResponse:
        if not self.leads:
            raise LeaseLost("a1")
        principal = self._identity.principal
        return lanes_message(AuthorityGreeting(principal.cluster, principal.id, "0.11.0"))

    async def _snapshot(self, call: IRpcCall) -> None:
        await call.receive()
        await call.send(encode_frame(await self.frames.get()))
        await call.receive()

    async def _authorize(self, call: IRpcCall) -> None:
        self.asked.append(call.method)


class PoolTests(HostileCase):
    @proves("G-HA-08", "U-PHA-04")
    async def test_wrong_names(self) -> None:
        """A member of the pool under another name than an Authority's is told by its address."""
        gateway, child = self.stage.gateway, self.stage.real_proxy()
        right = str(self.stage.address("control"))
        loaded = (
            TransportIdentity.load(IdentityStore(gateway.files.state(role)), time.time)
            for role in (PROXY, CONNECTOR)
        )
        wrong = [FalseAuthority(identity) for identity in loaded]
        for each in wrong:
            self.addCleanup(each.stopped)
        self.assertEqual(child.stop(), 0)
        members = [wrong[0].address, right, wrong[1].address]
        gateway.configure(PROXY, {"endpoints.authority": members})
        gateway.start(PROXY, ready=False)

        def told() -> list[Any]:
            said = child.events("an Authority of the pool cannot be reached")
            return said if len(said) >= len(wrong) else []

        said = await eventually("both are told of", told, [child])
        self.assertEqual(
            {(one["address"], one["reason"], one["key"]) for one in said},
            {(each.address, "certificate_role", "endpoints.authority") for each in wrong},
        )
        await eventually("its policy", lambda: child.events("policy snapshot taken"), [child])
        self.assertEqual(child.stop(), 0)
        gateway.configure(PROXY, {"endpoints.authority": [right]})
        gateway.start(PROXY)


class BalancedTests(HostileCase):
    """A balancer before several Authorities that leads to one that stands by."""

    timeout = 240

    @proves("G-RDY-09", "X-28", "U-PHA-04")
    async def test_one_address(self) -> None:
        """By its address alone the Proxy is not ready, and says why; with the leader's it is."""
        gateway, child = self.stage.gateway, self.stage.real_proxy()
        right = str(self.stage.address("control"))
        state = gateway.files.state(AUTHORITY)
        identity = TransportIdentity.load(IdentityStore(state), time.time)
        balancer = FalseAuthority(identity, leads=False)
        self.addCleanup(balancer.stopped)
        self.assertEqual(child.stop(), 0)
        gateway.configure(PROXY, {"endpoints.authority": [balancer.address]})
        gateway.start(PROXY, ready=False)
        said = await eventually("it is told", lambda: child.events(ALONE), [child])
        self.assertEqual(
            (said[0]["key"], said[0]["address"], said[0]["reason"]),
            ("endpoints.authority", balancer.address, "not_leader"),
        )
        status, body = gateway.get(PROXY, "/readyz")
        self.assertEqual((status, body.startswith("not ready: control pool")), (503, True), body)
        found = until("doctor warns of it", lambda: self.addresses_check("warn"), 60)
        self.assertIn(f"endpoints.authority has only {balancer.address}, and", found["message"])
        self.assertIn("authority_failover", found["hint"])
        self.assertEqual(child.stop(), 0)
        for members, more in (([balancer.address], [right]), ([right], [])):
            changes = {"endpoints.authority": members, "endpoints.authority_failover": more}
            gateway.configure(PROXY, changes)
            gateway.start(PROXY)
            self.assertIsNotNone(self.addresses_check("ok"))
            self.assertEqual(gateway.get(PROXY, "/readyz")[0], 200)
            if more:
                self.assertEqual(child.stop(), 0)

    def addresses_check(self, severity: str) -> Any:
        """What `svc doctor` says of the Authority's addresses, if it is of this severity."""
        files = self.stage.gateway.files
        words = ("--config", str(files.config(PROXY)), "doctor", "--role", "proxy", "--json")
        checks = run(svc_command(*words), self.stage.gateway.directory).json["checks"]
        [found] = [one for one in checks if one["id"] == "cluster.authority_addresses"]
        return found if found["severity"] == severity else None


def resigned(frame: SnapshotFrame, keys: ClusterKeys, **changed: Any) -> SnapshotFrame:
    """The frame with other words, signed by a snapshot key."""
    snapshot = evolve(decode_snapshot(frame.signed.payload), **changed)
    return evolve(frame, signed=keys.signer(Purpose.SNAPSHOT)(encode_snapshot(snapshot)))


class SnapshotTests(HostileCase):
    async def recorded(self) -> SnapshotFrame:
        """What Authority sends to a Proxy that holds nothing, as EVIL keeps it."""
        stream = self.evil.control.stream(SNAPSHOT_METHOD)
        await stream.send(pb.SnapshotRequest().SerializeToString())
        frame = decode_frame(await stream.receive() or b"")
        stream.cancel()
        return frame

    async def test_refused(self) -> None:
        """A Proxy led to a false Authority takes no older and no foreign snapshot, and denies."""
        gateway, child = self.stage.gateway, self.stage.real_proxy()
        old = await self.recorded()
        await self.stage.set_policy(POLICY + "\n// newer\n")
        new = await self.recorded()
        keys = self.stage.keys()
        elsewhere = make_cluster("other.example", time.time, os.urandom)
        minute_ago = int((time.time() - 61) * 1000)
        frames = [
            ("snapshot_older", old),
            ("certificate_chain", resigned(new, elsewhere, cluster="other.example")),
            ("snapshot_cluster", resigned(new, keys, cluster="other.example")),
            ("snapshot_expired", resigned(new, keys, serial=2**62, issued_at_ms=minute_ago)),
        ]
        state = self.stage.gateway.files.state(AUTHORITY)
        false = FalseAuthority(TransportIdentity.load(IdentityStore(state), time.time))
        self.addCleanup(false.stopped)
        self.assertEqual(child.stop(), 0)
        gateway.configure(PROXY, {"endpoints.authority": [false.address]})
        gateway.start(PROXY, ready=False)
        for _, frame in frames:
            false.frames.put(frame)

        def refused() -> list[str]:
            ended = [one["reason"] for one in child.events("the connection to Authority ended")]
            return ended if len(ended) >= len(frames) else []

        ended = await eventually("the refusals", refused, [child])
        self.assertEqual(ended[: len(frames)], [reason for reason, _ in frames])
        self.assertEqual(child.events("policy snapshot taken"), [])
        client, channel = await dialer(self.stage.people["ada"], address_of(gateway.public))
        self.addCleanup(lambda: Deferred.fromCoroutine(channel.close()))
        _, factory = listening()
        opening = client.endpoint(SessionIntent("db1", kinds()["tcp"])).connect(factory)
        self.assertEqual((await self.refusal(opening)).reason, "policy_stale")
        self.assertEqual(false.asked, [])
        child.kill()
        gateway.configure(PROXY, {"endpoints.authority": [str(self.stage.address("control"))]})
        gateway.start(PROXY)
        await eventually("its policy", lambda: child.events("policy snapshot taken"), [child])

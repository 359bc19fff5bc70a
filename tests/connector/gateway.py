"""A Proxy's tunnel end, a Connector and a person, in one process, on memory transports."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, DeferredQueue, fail
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.connector.admission import Admission
from svc.connector.cycle import Tunnels
from svc.connector.last_checkpoints import LastCheckpoints
from svc.connector.opening import ConnectorSessions
from svc.connector.proxies import Proxies, ProxyAddress
from svc.connector.reach import Reach
from svc.connector.session_events import SessionEnded, SessionEvent, SessionRefused
from svc.connector.tunnel_parts import ConnectorIdentity
from svc.connector.uses import SessionUses
from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, Serve, unary
from svc.interfaces.transport import OpenOrder
from svc.messages.gated import (
    CheckpointAnswer,
    checkpoint_answer_message,
    decode_checkpoint,
    read_checkpoint,
)
from svc.messages.tunnel import (
    Down,
    Goodbye,
    Hello,
    Nonce,
    OpenNotice,
    OpenRefused,
    Renew,
    Renewed,
    Up,
    decode_up,
    encode_down,
)
from svc.messages.use import SessionUse
from svc.model.cluster.registration import AcceptedRegistration, DeclaredResource, Withheld
from svc.model.session.checkpoint import SessionCheckpoint
from svc.model.session.tunnels import EndReason, TunnelEvent
from svc.model.signing import Purpose, Signed
from svc.pki.end_to_end import ConnectorEnd, PersonEnd
from svc.proto.gate.v1 import session_pb2
from svc.rpc.endpoint import AwaitedEndpoint
from svc.rpc.keepalive import CommonTicks
from svc.runtime.backoff import Backoff
from svc.runtime.services import BackgroundTasks
from svc.tunnel.machine import TunnelCore, make_tunnel
from svc.tunnel.routes import RouteTable
from svc.tunnel.times import end_reason
from svc.tunnel.tls_endpoint import SessionTlsEndpoint
from svc.tunnel.transport import RegisteredTunnel
from tests.connector.ends import EndTransport, Talker
from tests.connector.pieces import Cluster
from tests.kinds.served import tcp
from tests.rpc.memory import Pair
from tests.support.nothing import nothing
from tests.support.recording import MemoryRecorder
from tests.tunnel.pieces import serve_carry


async def no_identity(named: str) -> bytes:
    """Of targets that are told nothing."""
    raise AssertionError("nobody asks")


class MemoryKind:
    """The kind tcp, but that its targets are in memory."""

    def __init__(self) -> None:
        self.targets: list[EndTransport] = []
        self.dialing: list[Deferred[Any]] = []
        self.answers = "yes"

    def __getattr__(self, name: str) -> Any:
        return getattr(tcp, name)

    @property
    def dialer(self) -> Any:
        """Itself: of the real one's, only the dial is another."""
        return self

    def endpoint(self, reactor: Any, target: Any, ceiling: Any) -> Any:
        return self

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        self.dialing.append(Deferred())
        if self.answers == "no":
            return fail(ConnectionRefusedError())
        if self.answers == "yes":
            protocol: Any = factory.buildProtocol(None)  # type: ignore[arg-type]
            self.targets.append(EndTransport(protocol))
            protocol.makeConnection(self.targets[-1])
            self.dialing[-1].callback(protocol)
        return self.dialing[-1]


@implementer(IStreamClientEndpoint)
@define
class EarlyEndpoint(AwaitedEndpoint):
    """A session's endpoint at its tunnel, whose order may take the person's first flight along."""

    tunnel: Any
    order: OpenOrder

    def begin_with(self, flight: bytes) -> None:
        """Send it with the order."""
        self.order = evolve(self.order, first_flight=flight)

    async def connected(self, factory: IProtocolFactory) -> Any:
        """Of the tunnel."""
        return await self.tunnel.endpoint(self.order).connect(factory)


class Gateway:
    """See the module.  The Proxy's ``Register`` is as plain as it can be."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.routed: list[TunnelEvent] = []
        self.routes = RouteTable(self.routed.append, on_reassigned=nothing)
        self.heard: list[Up] = []
        self.told: list[tuple[str, str]] = []
        self.sessions: list[SessionEvent] = []
        self.checkpoints: list[SessionCheckpoint] = []
        self.uses: list[SessionUse] = []
        self.parent = ""
        self.refuse_with: SvcError | None = None
        self.takes_health: bool | None = True
        self.calls: list[DeferredQueue[Down | EndReason]] = []
        self.kind = MemoryKind()
        self.tasks = BackgroundTasks()
        self.person_end = PersonEnd(self.cluster.person)
        self.pairs = [Pair([RpcService("gate.v1.Tunnel", self.methods())])]
        self.clock = self.cluster.world.clock = self.pairs[0].clock
        self.connector_sessions = self._connector_sessions()
        self.tunnels = self._tunnels()
        core = TunnelCore(
            clock=self.clock,
            begin=self.tunnels.begin,
            waits=Backoff(first=1.0, longest=1.0),
            on_event=lambda *event: self.told.append(event),
        )
        self.machine = make_tunnel(core)

    def methods(self) -> dict[str, Serve]:
        """What the Proxy serves Connectors with."""
        return {
            "Register": self.register,
            "Carry": self.carry(),
            "Checkpoint": unary(session_pb2.SignedCheckpoint, self.checkpoint),
        }

    async def checkpoint(
        self, message: session_pb2.SignedCheckpoint, call: IRpcCall
    ) -> session_pb2.CheckpointAnswer:
        """Authority takes each."""
        self.checkpoints.append(decode_checkpoint(read_checkpoint(message).payload))
        return checkpoint_answer_message(CheckpointAnswer())

    def carry(self) -> Serve:
        """What serves ``Carry``: here the person's end is at the Proxy itself."""
        return serve_carry(self.routes.tunnel_on)

    def _connector_sessions(self) -> ConnectorSessions:
        cluster = self.cluster
        node = cluster.connector.facts.principal.id
        kinds: Any = {"tcp": self.kind}
        return ConnectorSessions(
            admission=Admission(
                node_id=node,
                verifier=cluster.world.verifier,
                targets=cluster.targets,
                kinds=kinds,
                now=cluster.world.now,
            ),
            kinds=kinds,
            reactor=self.clock,
            reach=Reach,
            session_tls=ConnectorEnd(cluster.connector).session,
            now=cluster.world.now,
            on_event=self.sessions.append,
            sign=cluster.connector.sign,
            last=LastCheckpoints(
                lambda data: cluster.connector.sign(Purpose.SESSION_CHECKPOINT, data),
                self.clock,
                self.tasks,
            ),
            identify=lambda grant: no_identity,
            recorder=lambda grant, signed: MemoryRecorder(),
            uses=SessionUses(self.uses_told, self.clock, self.tasks),
            onward_key=Ed25519PrivateKey.generate(),
        )

    async def uses_told(self, use: SessionUse) -> None:
        """Authority takes each."""
        self.uses.append(use)

    def _tunnels(self) -> Tunnels:
        cluster = self.cluster
        node = cluster.connector.facts.principal.id
        declared = (DeclaredResource("db1", "tcp"), DeclaredResource("host1", "ssh"))
        return Tunnels(
            connector=ConnectorIdentity(
                cluster=cluster.world.verifier.cluster,
                node_id=node,
                instance_id="first",
                version="0.11.0",
                resources=declared,
            ),
            proxies=Proxies([ProxyAddress("proxy", lambda: self.dial())], duplicate=nothing),
            proxy_of=lambda peer: cluster.proxy_id,
            sign=self.sign,
            sessions=self.connector_sessions,
            tasks=self.tasks,
            clock=self.clock,
            ticks=CommonTicks(lambda: 1_700_000_000.05 + self.clock.seconds()),
        )

    def sign(self, data: bytes) -> Signed:
        return self.cluster.connector.sign(Purpose.REGISTRATION, data)

    async def dial(self) -> Any:
        return self.pairs[-1].channel

    async def register(self, call: IRpcCall) -> None:
        """What a Proxy's own room does with more care."""
        hello = decode_up(await call.receive() or b"")
        assert isinstance(hello, Hello)
        self.heard.append(hello)
        await call.send(encode_down(Nonce(bytes(32))))
        self.heard.append(decode_up(await call.receive() or b""))
        if self.refuse_with is not None:
            raise self.refuse_with
        say: DeferredQueue[Down | EndReason] = DeferredQueue()
        self.calls.append(say)
        tunnel = RegisteredTunnel(
            node_id=self.cluster.connector.facts.principal.id,
            instance_id=hello.instance_id,
            generation=len(self.calls),
            resources=frozenset({"db1"}),
            connection=call.peer,
            clock=self.clock,
            entropy=self.cluster.world.entropy,
            send=say.put,
            hang_up=say.put,
        )
        self.routes.register(tunnel)
        call.on_cancel(lambda refusal: tunnel.close(end_reason(refusal.reason)))
        self.tasks.spawn("reader", self._read(call, tunnel))
        say.put(AcceptedRegistration(90, (Withheld("host1", "not_in_catalog"),)))
        while not isinstance(message := await say.get(), EndReason):
            await call.send(encode_down(message))
        if message is not EndReason.CLOSED:
            raise SvcError("ended", reason=message.value, fault=Fault.ABORTED)

    async def _read(self, call: IRpcCall, tunnel: RegisteredTunnel) -> None:
        try:
            while (message := await call.receive()) is not None:
                said = decode_up(message)
                self.heard.append(said)
                match said:
                    case Renew(health=health):
                        tunnel.renew()
                        taken = None if health is None else self.takes_health
                        self.calls[-1].put(Renewed(taken))
                    case OpenRefused():
                        tunnel.refused(said.session_uid, said.reason)
                    case Goodbye():
                        tunnel.close(EndReason.CLOSED)
        except SvcError:
            return

    def turn(self, times: int = 40) -> None:
        for _ in range(times):
            for pair in self.pairs:
                self.clock.advance(0)
                pair.clock.advance(0)
                pair.pump.pump()

    def stop(self) -> None:
        self.machine.stop()
        self.connector_sessions.close()
        self.turn()
        self.tasks.stopService()
        self.turn()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.turn()

    def start(self) -> None:
        self.machine.start()
        self.turn()

    def order(self, notice: OpenNotice | None = None) -> OpenOrder:
        sent = notice or self.cluster.notice()
        return OpenOrder(
            session_uid=sent.session_uid,
            grant=sent.grant,
            request=sent.request,
            signature=sent.signature,
            person_chain=sent.person_chain,
            traceparent=self.parent,
        )

    def open(
        self,
        notice: OpenNotice | None = None,
        person: PersonEnd | None = None,
        *,
        is_early: bool = False,
    ) -> Any:
        """What the person's TLS over the tunnel came to: a list of a Talker or a Failure.

        Args:
            is_early: Whether the person's first flight goes with the notice.
        """
        tunnel: Any = self.routes.find("db1")
        node = self.cluster.connector.facts.principal.id
        tls = (person or self.person_end).session(node)
        below = EarlyEndpoint(tunnel, self.order(notice))
        endpoint = SessionTlsEndpoint(
            below=below,
            begin=tls.begin,
            clock=self.clock,
            seconds=10,
            early=below.begin_with if is_early else None,
        )
        got: list[Any] = []
        endpoint.connect(Factory.forProtocol(Talker)).addBoth(got.append)
        self.turn()
        return got


class GatewayCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.gateway = self.started()

    def started(self, **kept: Any) -> Gateway:
        """A gateway whose Connector has dialed; it is stopped after the test."""
        gateway = Gateway()
        for name, value in kept.items():
            setattr(gateway, name, value)
        gateway.start()
        self.addCleanup(gateway.stop)
        return gateway

    def opened(self) -> tuple[Any, Any]:
        """The person's end and the target's of one session."""
        [person] = self.gateway.open()
        self.assertNotIsInstance(person, Failure)
        return person, self.gateway.kind.targets[-1]

    def refusals(self) -> list[str]:
        return [e.reason for e in self.gateway.sessions if isinstance(e, SessionRefused)]

    def end(self) -> SessionEnded:
        event = self.gateway.sessions[-1]
        assert isinstance(event, SessionEnded)
        return event

    def target_says(self, target: Any, data: bytes) -> None:
        target.protocol.dataReceived(data)
        self.gateway.turn()

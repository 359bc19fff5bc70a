"""A whole Proxy on memory transports: its Authority, its Connectors and its persons."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, IOPump, connect
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.quota import SpoolQuota
from svc.audit.spool.spool import Spool
from svc.errors import SvcError, Unavailable
from svc.interfaces.rpc import IRpcStream, Peer
from svc.messages.control import Departure
from svc.messages.session import OPEN_METHOD, encode_open, encode_request
from svc.messages.tunnel import (
    CARRY_METHOD,
    REGISTER_METHOD,
    Down,
    Hello,
    Nonce,
    OpenNotice,
    Up,
    decode_down,
    encode_carry_open,
    encode_registration,
    encode_up,
)
from svc.model.audit.decision_ids import DecisionIds
from svc.model.cluster.registration import DeclaredResource, Registration
from svc.model.session.tunnels import (
    Miss,
    SessionsLeft,
    TunnelEnded,
    TunnelEvent,
    TunnelRefused,
    TunnelRegistered,
)
from svc.model.signing import Purpose, Signed
from svc.pki.identity import TransportIdentity
from svc.policy.bundle import PolicyBundle, engine_of
from svc.policy.engine import CompiledPolicy
from svc.proxy.administration import AdminAdmission
from svc.proxy.anonymous import AnonymousCalls
from svc.proxy.denied import DeniedTexts
from svc.proxy.health import Health
from svc.proxy.peers.relayed import RelayAdmission
from svc.proxy.peers.service import PeerService
from svc.proxy.public import PublicServices
from svc.proxy.relay import LaneMeters, RelayLanes
from svc.proxy.sessions.gate import Gate
from svc.proxy.sessions.limits import ConnectorRates, PersonRates
from svc.proxy.sessions.list import Listings
from svc.proxy.sessions.open import SessionMeters, SessionOpens
from svc.proxy.sessions.route import NoOtherProxies, OtherProxies
from svc.proxy.shutdown import Work
from svc.proxy.tunnels.refusals import RelayStreams
from svc.proxy.tunnels.service import TunnelService
from svc.proxy.uplink.deliver import SpoolDelivery
from svc.proxy.uplink.health import HealthRelay
from svc.proxy.uplink.journal import EndsFile, EndsJournal
from svc.proxy.uplink.link import AuthorityLink
from svc.proxy.uplink.reports import Reports
from svc.proxy.uplink.snapshot import FloorFile, SnapshotHolder
from svc.proxy.uplink.summaries import RefusalSummaries
from svc.ratelimit.counter import RefusalCounter
from svc.ratelimit.limits import Budget, Rate, RefusalPolicy
from svc.rpc.client.channel import ClientConnection, RpcChannel
from svc.rpc.frames import data_head, open_frame
from svc.rpc.server.server import RpcServerFactory
from svc.runtime.services import BackgroundTasks
from svc.tunnel.routes import RouteTable
from svc.tunnel.times import TunnelTimes
from svc.wire.limits import WireLimits
from tests.audit.spools import FaultyDisk, maker
from tests.connector.pieces import Cluster
from tests.kinds.served import tcp
from tests.proxy.authority import Authority
from tests.support.nothing import nothing, nothing_later


class Wire:
    """One connection between two ends of ours, and who the server thinks the client is."""

    def __init__(self, clock: Clock, factory: RpcServerFactory, peer: Peer | None = None) -> None:
        server = factory.buildProtocol(None)
        assert server is not None
        self.server = server
        self.client = ClientConnection(
            clock, WireLimits(), plaintext=True, keepalive=None, on_problem=lambda *_: None
        )
        self.server_side = FakeTransport(self.server, True)
        self.client_side = FakeTransport(self.client, False)
        self.pump: IOPump = connect(self.server, self.server_side, self.client, self.client_side)
        self.is_stopped = False
        if peer is not None:
            self.server.peer = peer
        self.channel = RpcChannel(self.client, authority="gateway")

    def move(self) -> None:
        if self.is_stopped and not self.server_side.disconnecting:
            self.server_side.getOutBuffer()
        else:
            self.pump.pump()

    def cut(self) -> None:
        """As when the client's process dies: the connection is gone without a word."""
        self.client_side.abortConnection()


class Talk:
    """One streaming call as its caller sees it: what came, and how it ended."""

    def __init__(self, stream: IRpcStream) -> None:
        self.stream: Any = stream
        self.heard: list[bytes] = []
        self.error: SvcError | None = None
        self.is_over = False
        self.stalled: Deferred[None] | None = None
        reading = Deferred.fromCoroutine(self._read())
        reading.addErrback(self._failed)

    async def _read(self) -> None:
        while (message := await self.stream.receive()) is not None:
            self.heard.append(message)
            if self.stalled is not None:
                await self.stalled
        self.is_over = True

    def _failed(self, failure: Failure) -> None:
        self.is_over = True
        self.error = failure.check(SvcError) and failure.value  # type: ignore[assignment]

    @property
    def reason(self) -> str:
        return "" if self.error is None else self.error.reason

    def say(self, message: bytes) -> None:
        self.stream.write([message], len(message))

    @property
    def data(self) -> bytes:
        """The bytes of the data frames that came, at most 127 in each."""
        return b"".join(one[2:] for one in self.heard if one[:1] == b"\x12")


class Node(Talk):
    """A Connector's ``Register`` call that a test speaks for."""

    takes_first_flight = False

    def __init__(self, site: Site, identity: TransportIdentity | None = None) -> None:
        self.site = site
        self.identity = identity or site.cluster.connector
        self.wire = site.connect(self.identity)
        self.generation = 0
        super().__init__(self.wire.channel.stream(REGISTER_METHOD))

    def tell(self, said: Up) -> None:
        self.say(encode_up(said))
        self.site.turn()

    @property
    def said(self) -> list[Down]:
        return [decode_down(one) for one in self.heard]

    def last(self, sort: type[Any]) -> Any:
        return [one for one in self.said if isinstance(one, sort)][-1]

    def registration(self, **changed: Any) -> Signed:
        self.generation += 1
        form: dict[str, Any] = {
            "cluster": self.site.cluster.world.verifier.cluster,
            "node_id": self.identity.facts.principal.id,
            "proxy_id": self.site.cluster.proxy_id,
            "nonce": self.last(Nonce).nonce,
            "resources": (DeclaredResource("db1", "tcp"),),
            "instance_id": "first",
            "generation": self.generation,
            "version": "0.11.0",
        }
        data = encode_registration(Registration(**{**form, **changed}))
        return self.identity.sign(Purpose.REGISTRATION, data)

    def register(self, **changed: Any) -> None:
        self.tell(Hello("first", "0.11.0", takes_first_flight=self.takes_first_flight))
        if self.error is None:
            self.tell(self.registration(**changed))

    def carry(self, notice: OpenNotice, secret: bytes | None = None) -> Talk:
        """Answer a notice as a Connector does."""
        talk = Talk(self.wire.channel.stream(CARRY_METHOD))
        opening = encode_carry_open(notice.session_uid, notice.secret if secret is None else secret)
        talk.say(open_frame(opening))
        self.site.turn()
        return talk


def data(payload: bytes) -> bytes:
    """A data frame."""
    return data_head(len(payload)) + payload


class Site:
    """See the module."""

    opens = Rate(per_minute=6000, burst=1000)
    denials = Rate(per_minute=6000, burst=1000)
    requests = Rate(per_minute=6000, burst=1000)
    registrations = Rate(per_minute=600, burst=100)

    def __init__(
        self, directory: Path, cluster: Cluster | None = None, wires: list[Wire] | None = None
    ) -> None:
        self.cluster = cluster or Cluster()
        self.clock = self.cluster.world.clock
        self.authority = Authority(self.cluster)
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.gauges: Counter[tuple[str, ...]] = Counter()
        self.routed: list[TunnelEvent] = []
        self.wires = [] if wires is None else wires
        self.links: list[Wire] = []
        self.dials = 0
        self.lanes_dialed: list[int] = []
        self.lane_endpoint: Any = None
        self.compiled: list[CompiledPolicy | None] = []
        self.tasks = BackgroundTasks()
        self.others: OtherProxies = NoOtherProxies()
        self.times = TunnelTimes()
        self.floor = directory / "floor.json"
        self.spools = directory / "spool"
        self._numbers = 0
        self.holder = self.new_holder()
        self.link = AuthorityLink(
            clock=self.clock,
            dial=self._dial,
            take=lambda frame: self.holder.take(frame),
            have=lambda: self.holder.digest,
            claims=lambda: self.sessions.uids,
            jitter=lambda seconds: seconds,
            version="0.11.0",
            instance_id="proxy-1",
            head=bytes,
            revoked=nothing,
        )
        self._assemble()

    def _assemble_spool(self) -> None:
        self.disk = FaultyDisk()
        made = SpoolFiles(
            root=self.spools,
            maker=maker(self.cluster.proxy_id),
            room=SpoolQuota(1 << 24),
            disk=self.disk,
        )
        self.spool = Spool(
            made, self._in_thread, committed=nothing, has_room=nothing, clock=self.clock
        )
        self.delivery = SpoolDelivery(
            spool=self.spool,
            channel=self.link.channel,
            tasks=self.tasks,
            clock=self.clock,
            gather=0.0,
        )
        self.spool.committed = self.delivery.committed
        self.journal = EndsJournal(
            file=EndsFile(self.spools / "ends"),
            in_thread=self._in_thread,
            tasks=self.tasks,
            clock=self.clock,
        )

    async def _apart(self, work: str, data: bytes, person: str) -> bytes:
        raise SvcError("no kind here has such work", reason="apart_failed")

    def _check_disk(self) -> None:
        self.spool.check()
        self.holder.check_kept()

    def _in_thread(self, call: Any) -> Deferred[Any]:
        return maybeDeferred(call)

    def _assemble(self) -> None:
        world = self.cluster.world
        self._assemble_spool()
        self.reports = Reports(
            channel=self.link.channel,
            tasks=self.tasks,
            dropped=lambda: self._count("dropped"),
            answered=lambda word: self._count("abandoned", word),
            clock=self.clock,
            journal=self.journal,
            room=self.spool.files.room,
            writable=self._check_disk,
            unrecorded=lambda reason: self._count("unrecorded", reason),
        )
        self.routes = RouteTable(self._told, on_reassigned=self._reassigned)
        self._assemble_rates()
        kinds: Any = {"tcp": tcp}
        gate = Gate(
            engine=lambda: self.holder.engine(),
            kinds=kinds,
            now=world.now,
            entropy=world.entropy,
            on_decision=lambda kind, word: self._count("gate", kind, word),
            apart=self._apart,
            request_ids=DecisionIds(self.cluster.proxy_id, world.now, world.entropy),
        )
        self.sessions = SessionOpens(
            gate=gate,
            channel=self.link.channel,
            routes=self.routes,
            reports=self.reports,
            verifier=world.verifier,
            check_person=lambda *whose: self.holder.check_person(*whose),
            meters=self._session_meters(),
            clock=self.clock,
            now=world.now,
            max_per_person=lambda: 3,
            rates=self.person_rates,
            others=self.others,
        )
        self.peers = self._peers()
        self.listings = Listings(
            engine=lambda: self.holder.engine(),
            kinds=kinds,
            is_served=lambda one: not isinstance(self.routes.find(one), Miss),
            person=self.sessions.person,
            clock=self.clock,
            now=world.now,
            heads=tuple,
            receive_head=nothing_later,
            lacking=tuple,
        )
        streams = RelayStreams(
            lambda word: self._count("stream", word), lambda by: self._gauge("streams", by)
        )
        self.tunnels = tunnels = TunnelService(
            routes=self.routes,
            link=self.link,
            verifier=world.verifier,
            streams=streams,
            clock=self.clock,
            entropy=world.entropy,
            times=self.times,
            rates=self.connector_rates,
            unassigned=lambda one: self.sessions.unassigned(one),
            checkpoint=lambda node, signed: self.sessions.prolonged.checkpoint(node, signed),
            bring_health=HealthRelay(self.link.channel, self.tasks, self.clock).bring,
            check_not_revoked=nothing,
            proxy_revoked=nothing,
        )
        meters = LaneMeters(
            lambda lane, word: self._count("lane", lane, word),
            lambda lane, by: self._gauge("lane", by),
        )
        anonymous = AnonymousCalls(self.clock, refused=lambda rpc: self._count("anonymous", rpc))
        lanes = RelayLanes(
            lanes=lambda: self.link.lanes,
            endpoint=self._lane,
            verifier=world.verifier,
            meters=meters,
            clock=self.clock,
            anonymous=anonymous,
            limit=2,
            check_not_revoked=nothing,
            admit_administrator=AdminAdmission(
                cluster=world.verifier.cluster,
                engine=lambda: self.holder.engine(),
                verifier=world.verifier,
                check_person=lambda *whose: self.holder.check_person(*whose),
                rates=self.person_rates,
                now=world.now,
            ).admit,
        )
        self.health = Health()
        self.public = PublicServices(
            health=self.health,
            lanes=lanes,
            tunnels=tunnels,
            sessions=self.sessions,
            listings=self.listings,
            channel=self.link.channel,
            anonymous=anonymous,
            denied=DeniedTexts(self.clock),
        )
        self.server = RpcServerFactory(
            self.public.services(), self.clock, plaintext=True, admit=self.public.admit
        )
        self.control = RpcServerFactory(
            [self.authority.service()], self.clock, plaintext=True, admit=nothing
        )
        self._connect()

    def _connect(self) -> None:
        for changed in (self.listings.changed, self.sessions.recheck, self.peers.recheck):
            self.holder.on_change(changed)
        for told in (self.reports.deliver, self.delivery.connected):
            self.link.on_connected(told)

    @property
    def work(self) -> Work:
        """What is to end when it stops."""
        return Work(
            health=self.health,
            routes=self.routes,
            sessions=self.sessions,
            peers=self.peers,
            listings=self.listings,
            reports=self.reports,
            refused=self.refused,
            spool=self.spool,
            delivery=self.delivery,
        )

    def _assemble_rates(self) -> None:
        world = self.cluster.world
        self.refusals = RefusalPolicy(
            RefusalCounter(world.now),
            self.clock.seconds,
            lambda budget: self._count("budget", budget),
        )
        self.refused = RefusalSummaries(
            refusal_counter=self.refusals.refusal_counter,
            sink=self.spool,
            origin=self.cluster.proxy_id,
            now=world.now,
            entropy=world.entropy,
        )
        self.person_rates = PersonRates.of(
            refusals=self.refusals, opens=self.opens, denials=self.denials, requests=self.requests
        )
        self.connector_rates = ConnectorRates.of(self.refusals, self.registrations)

    def new_holder(self) -> SnapshotHolder:
        async def compiled(bundle: PolicyBundle, base: CompiledPolicy | None) -> CompiledPolicy:
            self.compiled.append(base)
            if base is not None:
                return base.with_entities(bundle.entities, bundle.entity_revision)
            return engine_of(bundle)

        world = self.cluster.world
        holder = SnapshotHolder(
            cluster=world.verifier.cluster,
            verifier=world.verifier,
            clock=self.clock,
            now=world.now,
            floor_file=FloorFile(self.floor),
            compile=compiled,
        )
        holder.load()
        return holder

    def _peers(self) -> PeerService:
        world = self.cluster.world
        return PeerService(
            routes=self.routes,
            admission=RelayAdmission(self.cluster.proxy_id, world.verifier, world.now),
            verifier=world.verifier,
            check_not_revoked=lambda one: self.holder.check_not_revoked(one),
            check_person=lambda *whose: self.holder.check_person(*whose),
            prolonged=self.sessions.prolonged,
            kinds={"tcp": tcp},
            active=lambda protocol, by: self._gauge("relayed", by),
            outcome=lambda word: self._count("egress", word),
            missed=lambda stage, reason: self._count("miss", stage, reason),
            budget=Budget.of("peers", self.refusals, 600, 100),
            times=self.times,
            clock=self.clock,
            now=world.now,
        )

    def _reassigned(self, node_id: str) -> None:
        self.sessions.reassigned(node_id)
        self.peers.reassigned(node_id)

    def _lane(self, port: int) -> Any:
        self.lanes_dialed.append(port)
        return self.lane_endpoint

    def _session_meters(self) -> SessionMeters:
        return SessionMeters(
            opened=lambda protocol: self._count("session", protocol),
            active=lambda protocol, by: self._gauge("sessions", by),
            missed=lambda stage, reason: self._count("miss", stage, reason),
        )

    def _told(self, event: TunnelEvent) -> None:
        self.routed.append(event)
        match event:
            case TunnelRegistered():
                self._gauge("tunnels", 1)
            case TunnelEnded():
                self._gauge("tunnels", -1)
        ends = (TunnelEnded, SessionsLeft)
        if isinstance(event, ends) and (uids := self.peers.others(event.session_uids)):
            self.reports.departed(Departure(event.node_id, event.reason.value, uids))
        self.listings.changed()

    def _count(self, *what: str) -> None:
        self.counts[what] += 1

    def _gauge(self, what: str, by: int) -> None:
        self.gauges[(what,)] += by

    async def _dial(self) -> RpcChannel:
        self.dials += 1
        if not self.authority.is_up:
            raise Unavailable("nobody answers", reason="cannot_connect")
        wire = Wire(self.clock, self.control)
        self.links.append(wire)
        self.wires.append(wire)
        await wire.client.ready
        return wire.channel

    # -- moving

    def turn(self, times: int = 25) -> None:
        for _ in range(times):
            self.clock.advance(0)
            for wire in list(self.wires):
                wire.move()

    def pass_time(self, seconds: float, beating: bool = True, step: float = 1.0) -> None:
        """Let time pass, with Authority's heartbeats if it is up."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end:
            self.clock.advance(min(step, end - self.clock.seconds()))
            if beating and self.authority.follows:
                self.authority.beat()
            self.turn(8)

    def connect(self, identity: TransportIdentity | None, host: str = "192.0.2.7") -> Wire:
        """A client of the public listener; without an identity it shows no certificate."""
        chain = () if identity is None else identity.chain
        peer = Peer(host=host, port=1, tls=True, chain=chain)
        wire = Wire(self.clock, self.server, peer)
        self.wires.append(wire)
        self.turn(4)
        return wire

    def start(self) -> None:
        for opening in (self._recover(), self.spool.open()):
            Deferred.fromCoroutine(opening)
        self.link.startService()
        self.turn()

    async def _recover(self) -> None:
        self.reports.recover(await self.journal.load())

    def lose_authority(self) -> None:
        self.authority.is_up = False
        self.links[-1].server_side.abortConnection()
        self.turn()

    def stop(self) -> None:
        self.link.stopService()
        for wire in self.wires:
            wire.is_stopped = False
            wire.cut()
        self.turn()
        self.tasks.stopService()
        self.delivery.stop()
        self.journal.stop()

    # -- speaking

    def node(self, identity: TransportIdentity | None = None, **changed: Any) -> Node:
        """A Connector that has registered, or was refused."""
        node = Node(self, identity)
        self.turn()
        node.register(**changed)
        self.turn()
        return node

    def uid(self) -> str:
        self._numbers += 1
        return f"{self._numbers:032x}"

    def open(
        self, wire: Wire | None = None, person: TransportIdentity | None = None, **changed: Any
    ) -> Talk:
        """A person's ``Session/Open`` call."""
        who = person or self.cluster.person
        requested = {"session_uid": self.uid(), "certificate_sha256": who.facts.sha256, **changed}
        request = encode_request(self.cluster.request(**requested))
        signed = who.sign(Purpose.SESSION_REQUEST, request)
        talk = Talk((wire or self.connect(who)).channel.stream(OPEN_METHOD))
        talk.say(open_frame(encode_open(request, signed.signature)))
        self.turn()
        return talk


class Accepting(Factory):
    """An endpoint that connects at once to a transport of the test's."""

    noisy = False


class ProxyTests(SynchronousTestCase):
    """A Proxy that has greeted its Authority."""

    def setUp(self) -> None:
        self._begin()
        self.addCleanup(self._check_nothing_left)

    def _begin(self) -> None:
        with_directory = tempfile.TemporaryDirectory()
        self.addCleanup(with_directory.cleanup)
        self.site = Site(Path(with_directory.name))
        self.authority = self.site.authority
        self.site.start()

    def again(self) -> None:
        """Another Proxy and another Authority, in the place of these."""
        self._check_nothing_left()
        self._begin()

    def _check_nothing_left(self) -> None:
        """Whatever a test did: after the stop every gauge is back at nothing."""
        self.site.stop()
        left = {name: value for name, value in self.site.gauges.items() if value}
        self.assertEqual(left, {})
        self.assertEqual(self.site.sessions._open, {})
        self.assertEqual(self.site.sessions._per_person, {})
        self.assertEqual(len(self.site.routes), 0)

    def events(self, sort: type[Any]) -> list[Any]:
        return [one for one in self.site.routed if isinstance(one, sort)]

    def assertNotRegistered(self, node: Node, reason: str) -> None:
        self.assertEqual(node.reason, reason)
        self.assertEqual([one.reason for one in self.events(TunnelRefused)], [reason])
        self.assertEqual(self.events(TunnelRegistered), [])

    def carried(self) -> tuple[Node, Talk, Talk]:
        """A session that passes bytes: its Connector, the person's call, the carry stream."""
        node = self.site.node()
        client = self.site.open()
        carry = node.carry(node.last(OpenNotice))
        self.assertEqual(self.site.gauges[("sessions",)], 1)
        return node, client, carry

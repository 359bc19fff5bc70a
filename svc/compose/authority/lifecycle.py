"""The life of an Authority: its start, its periodic work, its shutdown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256

from attrs import define, field
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc import __version__
from svc.authority.access.requests import AccessRequestService
from svc.authority.accounts.admin import AccountAdmin
from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.admin import PolicyAdmin
from svc.authority.policy.snapshot import SnapshotPublisher
from svc.authority.sessions.end import SessionEnds
from svc.authority.sessions.standing import StandingSessions
from svc.authority.sessions.trust import ProxyTrust
from svc.authority.state.adopt import adoption_request_file
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.migrated import MigrationRecords
from svc.authority.state.recorder import node
from svc.authority.state.tables import NODES, StateUnsigned
from svc.authority.state.unsigned import UnsignedRows
from svc.compose.authority.keys import KeyWiring
from svc.compose.authority.parts import Parts, ServingState
from svc.compose.authority.state import ADOPTION_REQUEST, StateStartup
from svc.compose.authority.store import AwaitedStore
from svc.compose.drop_ins import plugin_records
from svc.compose.listeners.rpc import RpcListener
from svc.errors import (
    LeaseLost,
    MigrationsBroken,
    MigrationsPending,
    StoreUnavailable,
    SvcError,
    UnknownApplied,
)
from svc.interfaces.store import ITransaction
from svc.model.audit.events import NODE_ENROLL, NODE_RENEW, ROLE_START, ROLE_STOP
from svc.model.audit.record import Event
from svc.model.cluster.node import Leaf, Node, NodeState
from svc.model.principal import Role
from svc.pki.identity import TransportIdentity
from svc.runtime.services import AsyncMultiService, AsyncService, BoundPort, Readiness
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_authority")


_OF_ANOTHER_BUILD = (MigrationsPending, UnknownApplied, MigrationsBroken)

LEADER = "leader route"
LISTENERS = "listeners"
MEMBERSHIP = "membership"
POLICY = "policy"
STORE = "store"


@define(slots=False, eq=False)
class AuthorityRole(AsyncMultiService):
    """The service tree of one Authority.

    Attributes:
        ready: Met one by one as it starts.
        listeners: By the names of ``listening.json``.
        documents: What it publishes on the telemetry listener, by path.
        page: The listener of the browser page; None where there is none.
        sign_in: That of the sign-in page, under the public name; likewise.
    """

    ready: Readiness
    listeners: dict[str, RpcListener]
    documents: dict[bytes, Callable[[], bytes]] = field(factory=dict)
    page: BoundPort | None = None
    sign_in: BoundPort | None = None

    def __attrs_pre_init__(self) -> None:
        AsyncMultiService.__init__(self)


@define(slots=False, eq=False)
class StoreLifecycle(AsyncService):
    """Comes first: the store answers before anything uses it, and is closed after all that does."""

    store: AwaitedStore
    clock: IReactorTime
    in_thread: InThread

    async def start(self) -> None:
        """Wait for a database that did not answer when the process began."""
        await self.store.answered(self.clock, self.in_thread)

    async def stop(self) -> None:
        """Close."""
        await self.store.close()


async def each_of(*parts: Callable[[], Awaitable[object]]) -> None:
    """Run all parts of a pass, and then raise what the first that failed raised.

    Raises:
        StoreUnavailable: at once: no part can do its work; so LeaseLost, and a store of
            another build.
    """
    faults = list[Exception]()
    for part in parts:
        try:
            await part()
        except (CancelledError, LeaseLost, StoreUnavailable, *_OF_ANOTHER_BUILD):
            raise
        except Exception as failed:
            if faults:
                _log.failure("a further part of the reload pass failed")
            faults.append(failed)
    if faults:
        raise faults[0]


@define(slots=False, eq=False)
class Startup(AsyncService):
    """What an Authority does between opening its store and serving, and again and again after.

    Attributes:
        end_tunnels: Records the ends of tunnels that the leaders before left open.
        register: Enters our own receiver credential.
    """

    parts: Parts
    role: AuthorityRole
    state_cache: ClusterStateCache
    policy: PolicyInForce
    policies: PolicyAdmin
    ends: SessionEnds
    end_tunnels: Callable[[], Awaitable[object]]
    trust: ProxyTrust
    publisher: SnapshotPublisher
    stopped_by: Callable[[SvcError], object]
    unsigned: UnsignedRows
    keys: KeyWiring
    register: Callable[[], Awaitable[object]]
    accounts: AccountAdmin
    standing: StandingSessions
    requests: AccessRequestService

    async def start(self) -> None:
        """Learn what is in force, enter ourselves, write it down, bring the policy in force."""
        p = self.parts
        me = node(p.identity.principal.id)
        await state_beginning(p).begin()
        migrations = MigrationRecords(p.store, p.recorder)
        earlier = await migrations.earlier()
        await p.store.run("role start", lambda tx: self._record_start(tx, migrations, earlier))
        await self.policies.ensure_first(me)
        await self.reload()
        await self.register()
        await self.accounts.begin()
        await self.end_tunnels()
        await self.ends.await_claims()
        nodes = self.state_cache.state.nodes.values()
        await self.trust.load(one.id for one in nodes if one.role == Role.PROXY.value)
        _log.info("authority started", version=__version__, cluster=self.parts.settings.cluster)

    async def stop(self) -> None:
        """Write the stop down."""
        self.ends.stop()
        try:
            await self.parts.store.run("role stop", self._record_stop)
        except SvcError as e:
            _log.warn("the stop was not recorded", reason=e.reason)

    async def reload(self) -> None:
        """The reload pass: what the store holds now is what is decided by (G-LIM-02).

        What the store holds may keep one part from its work; the others do theirs all the same.
        """
        await each_of(self._follow_state, self._follow_keys, self._end_lost, self._sweep)

    async def _follow_state(self) -> None:
        try:
            reading = await self.state_cache.reload()
        except _OF_ANOTHER_BUILD as refused:
            # Somebody migrated it while it was away from us: we are not its build any more.
            self.stopped_by(refused)
            raise
        self.parts.metrics.gauge("svc_policy_version_stored").set(reading.stored_policy)
        await self.policy.follow(self.state_cache.state)
        if self.policy.engine is not None:
            self.role.ready.met(POLICY)
        await self.unsigned.name(reading.unsigned)

    async def _follow_keys(self) -> None:
        await self.keys.follow(leads=True)

    async def _end_lost(self) -> None:
        await self.standing.look()

    async def _sweep(self) -> None:
        waiting = await self.requests.sweep()
        self.parts.metrics.gauge("svc_access_requests_open").set(waiting)

    async def beat(self) -> None:
        """One heartbeat of the snapshot."""
        self.publisher.beat()

    def _record_start(
        self, tx: ITransaction, migrations: MigrationRecords, earlier: tuple[int, ...]
    ) -> None:
        p, me = self.parts, self.parts.identity.principal.id
        tx.schema.settle("cluster", p.settings.cluster)
        try:
            self._enter(tx)
        except StateUnsigned as refused:
            # Named by the first pass; until it is put right our own leaf is not renewed.
            _log.error("this Authority's own row has no valid signed record", text=refused.text)
        migrations.write(tx, earlier)
        plugins = [*p.kinds.records, *plugin_records(p.opened.loaded), *p.checks]
        p.recorder.append(
            tx,
            ROLE_START,
            node(me),
            node_id=me,
            details={"role": "authority", "version": __version__, "plugins": plugins},
        )

    def _enter(self, tx: ITransaction) -> None:
        """This Authority is a node like the others: its generation is the registry's."""
        p, facts = self.parts, self.parts.identity.facts
        known = p.recorder.rows(tx).node(facts.principal.id)
        key_sha256 = _key_sha256(p.identity)
        leaf = Leaf(facts.serial, key_sha256, facts.not_after)
        if known is not None:
            if known.state is NodeState.REVOKED:
                raise SvcError("this Authority was revoked", reason="revoked_node")
            # More than one where it was started again, with a new leaf, while another one led.
            for generation in range(known.generation, facts.generation):
                tx.nodes.renewed(known.id, generation, leaf)
            if known.generation < facts.generation:
                self._record_entry(tx, NODE_RENEW)
            return
        tx.nodes.register(
            Node(
                id=facts.principal.id,
                name=f"authority-{facts.principal.id[:8]}",
                role="authority",
                key_sha256=key_sha256,
                audit_key=p.identity_store.audit_key().public_key().public_bytes_raw(),
                leaf=leaf,
                enrolled_at=p.runtime.now(),
                generation=facts.generation,
                version=__version__,
            )
        )
        self._record_entry(tx, NODE_ENROLL)

    def _record_entry(self, tx: ITransaction, event: Event) -> None:
        facts = self.parts.identity.facts
        self.parts.recorder.append(
            tx,
            event,
            node(facts.principal.id),
            node_id=facts.principal.id,
            details={"role": "authority", "serial": facts.serial, "generation": facts.generation},
            state=[NODES.now(tx, facts.principal.id)],
        )

    def _record_stop(self, tx: ITransaction) -> None:
        me = self.parts.identity.principal.id
        details = {"role": "authority", "version": __version__}
        self.parts.recorder.append(tx, ROLE_STOP, node(me), node_id=me, details=details)


@define(slots=False, eq=False)
class Serves(AsyncService):
    """Starts before the listeners: callers are served from then on.

    Until then callers are told who leads: their ports answer before it is our turn.
    """

    role: AuthorityRole
    serving: ServingState

    async def start(self) -> None:
        """Say so."""
        self.serving.begin()
        self.role.ready.met(LISTENERS)


def state_beginning(p: Parts) -> StateStartup:
    """How this Authority comes to go by the records of its store."""
    request = adoption_request_file(p.state / "anchor" / ADOPTION_REQUEST)
    return StateStartup(
        store=p.store,
        ledger=p.recorder.ledger,
        anchor=p.keeper.anchor,
        keeper=p.keeper,
        recorder=p.recorder,
        request=request,
    )


def _key_sha256(identity: TransportIdentity) -> bytes:
    key = identity.facts.public_key
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()

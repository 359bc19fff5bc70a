"""An Authority without its listeners: a real store in memory, real keys, a real policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define, evolve, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from svc.audit.log.record import Sealer
from svc.audit.state.anchor import StateAnchor, StateKeeper
from svc.audit.state.in_force import StateLedger
from svc.authority.access.approved import ApprovedRequests
from svc.authority.access.approvers import Approvers
from svc.authority.access.calls import AccessCalls
from svc.authority.access.offer import AccessOffers
from svc.authority.access.records import AccessRecords
from svc.authority.access.requests import AccessRequestService
from svc.authority.access.texts import SealedTexts
from svc.authority.access.uses import RequestApprovals
from svc.authority.enroll.bootstrap import Enrollment
from svc.authority.limits import AskRates
from svc.authority.policy.activate import PolicyActivation
from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.lock_out import LockOutCheck
from svc.authority.policy.past_reasons import PolicyReasons
from svc.authority.policy.publish import PolicyPublisher
from svc.authority.policy.snapshot import SnapshotPublisher
from svc.authority.refusals import RefusalRecords
from svc.authority.registry.admin import RegistryAdmin, registry_admin
from svc.authority.registry.ends import TunnelEndRecords
from svc.authority.registry.groups import GroupAdmin
from svc.authority.registry.members import MemberAdmin
from svc.authority.registry.operators import Operators
from svc.authority.registry.peers import PeerProxies
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.register import RegistrationIntake
from svc.authority.registry.rights import RightsCheck
from svc.authority.registry.routes import Registered
from svc.authority.sessions.checkpoints import GatedSessions
from svc.authority.sessions.end import SessionEnds
from svc.authority.sessions.issue import Issuance
from svc.authority.sessions.onward import OnwardCertificates
from svc.authority.sessions.trust import ProxyTrust
from svc.authority.state.adopt import adopt, adoption_request_file
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, operator
from svc.authority.state.writer import StateWriter
from svc.compose.authority.state import StateStartup, origin_key
from svc.compose.drop_ins import load_kinds
from svc.errors import Fault, StoreUnavailable, SvcError
from svc.interfaces.rpc import IRpcCall, Metadata, Peer, Within
from svc.interfaces.store import IStore, ITransaction
from svc.messages.control import Ask, ProxyDecision
from svc.messages.session import encode_request
from svc.model.audit.record import chain_hash
from svc.model.cluster.node import Leaf, Node
from svc.model.cluster.person import IssuedCertificate as PersonCertificate
from svc.model.cluster.person import Person
from svc.model.cluster.resource import Assigned, Resource
from svc.model.ids import node_id, random_id
from svc.model.policy.rules import PolicyRules
from svc.model.principal import Role
from svc.model.session.request import SessionRequest
from svc.model.signing import PrivateKey, Purpose, sign
from svc.pki.audit_signatures import origin_verifier
from svc.pki.credentials import CredentialSeal
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request, prove_key
from svc.pki.root import new_key
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.ratelimit.limits import Rate, RefusalPolicy
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import inline
from svc.store.sqlite.memory import memory_store
from tests.kinds.served import ssh, tcp
from tests.pki.support import CLUSTER, World
from tests.support.nothing import nothing
from tests.support.recording import RECORDING_KEY

AUTHORITY = "a" * 26
ADA, EVE = "b" * 26, "c" * 26
KINDS: Any = {
    "tcp": tcp,
    "ssh": ssh,
    "postgres": load_kinds(["postgres"]).by_name["postgres"],
}
WORDS = vocabulary(*(kind_terms(kind.terms) for kind in KINDS.values()))
OPENS, CALLS = Rate(6000, 1000), Rate(600, 100)
DOWN = StoreUnavailable("store: down for a test")

POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("dev-uses-tcp")
permit (principal in Group::"dev", action in [Action::"tcpConnect", Action::"view"],
        resource is TcpService)
unless { resource.hasTag("zone") && resource.getTag("zone") == "secret" };
@id("nobody-production")
forbid (principal, action == Action::"tcpConnect", resource == TcpService::"prod1");
@id("dev-uses-any-host")
permit (principal in Group::"dev", action == Action::"sshConnect", resource is Server);
"""


@frozen
class Holder:
    """Somebody's key and chain."""

    id: str
    key: PrivateKey
    chain: tuple[bytes, ...]
    sha256: bytes


@implementer(IStore)
@define
class UnsteadyStore:
    """A store that a test makes fail or fall silent."""

    store: Any
    mood: str = "well"
    written: int = 0

    async def run(self, desc: str, fn: Callable[[ITransaction], Any]) -> Any:
        if self.mood.startswith("commits"):
            await self.store.run(desc, fn)
        if self.mood.endswith("down"):
            raise DOWN
        if self.mood.endswith("silent"):
            await Deferred()
        if self.mood == "broken":
            raise ValueError("broken for a test")
        self.written += 1
        return await self.store.run(desc, fn)

    async def read(self, desc: str, fn: Callable[[ITransaction], Any]) -> Any:
        if self.mood == "down":
            raise DOWN
        return await self.store.read(desc, fn)

    async def close(self) -> None:
        await self.store.close()


@implementer(IRpcCall)
class Call:
    """One call whose other end is the test."""

    method = "/test"
    metadata: Any = {}
    deadline = None
    caller: object = None

    def __init__(self, peer: Peer | None = None) -> None:
        self.peer = peer or Peer("127.0.0.1", 1)
        self.sent: list[bytes] = []
        self.room: Deferred[None] | None = None
        self._coming: list[bytes | SvcError | None] = []
        self._reader: Deferred[None] | None = None

    def answer_with(self, *, initial: Metadata = (), trailing: Metadata = ()) -> None:
        self.answered = list(initial), list(trailing)

    def give(self, *messages: bytes | SvcError | None) -> None:
        self._coming += messages
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.callback(None)

    async def receive(self, within: Within | None = None) -> bytes | None:
        if not self._coming:
            self._reader = Deferred(self._forget)
            await (self._reader if within is None else within(self._reader))
        message = self._coming.pop(0)
        if isinstance(message, SvcError):
            raise message
        return message

    async def ends(self) -> bool:
        return await self.receive() is None

    async def send(self, message: bytes) -> None:
        self.sent.append(message)
        if self.room is not None:
            await self.room

    def on_cancel(self, told: Callable[[SvcError], object]) -> None:
        pass

    def on_gone(self, told: Callable[[], object]) -> None: ...

    def keep_alive(self, interval: float, timeout: float) -> None:
        self.kept_alive = interval, timeout

    def _forget(self, _: object) -> None:
        self._reader = None


class House:
    """Everything wired but what a test is about."""

    def __init__(self, policy: str = POLICY) -> None:
        self.world = World()
        self.clock: Clock = self.world.clock
        self.now, self.entropy = self.world.now, self.world.entropy
        self.store = UnsteadyStore(memory_store(chain_hash))
        facts = {fact.name: fact for fact in WORDS.terms.facts}
        keys = self.world.keys
        self.ledger = StateLedger(origin_verifier(keys.root_der, CLUSTER))
        self.recorder = Recorder(
            origin=AUTHORITY,
            sealer=Sealer(self.entropy, facts),
            now=self.now,
            entropy=self.entropy,
            ledger=self.ledger,
            key=origin_key(keys),
        )
        self.state_cache = ClusterStateCache(self.store, self.ledger, self.now, advanced=nothing)
        self.over_budget, self.access_told = list[str](), list[str]()
        self.refusals = RefusalRecords(
            store=self.store, recorder=self.recorder, clock=self.clock, now=self.now
        )
        self.rates = self.new_rates()
        self.peers = PeerProxies()
        self.registrations = self.peers.registrations
        self.guarded: list[str] = []
        self.guard_refuses: SvcError | None = None
        self.publisher = SnapshotPublisher(
            cluster=CLUSTER,
            sign=self.world.keys.signer(Purpose.SNAPSHOT),
            now=self.now,
            valid_secs=60,
            epoch=lambda: 1,
        )
        self.applied: list[int] = []
        self.publishing = PolicyPublisher(
            cluster=CLUSTER,
            publisher=self.publisher,
            in_thread=inline,
            applied=self.applied.append,
        )
        self.policy = PolicyInForce(
            cluster=CLUSTER,
            vocabulary=WORDS,
            kinds=KINDS,
            guard=self._guard,
            in_thread=inline,
            in_force=self.publishing.policy_changed,
        )
        self.state_cache.on_change(self.publishing.facts_changed)
        self.state_cache.on_change(self.registrations.follow)
        self.proxy = self.node(Role.PROXY, "edge1")
        self.connector = self.node(Role.CONNECTOR, "conn1")
        self.run(lambda tx: self._fill(tx, policy))
        self.ada = self.person(ADA)
        self.eve = self.person(EVE)
        self.refresh()

    def new_rates(
        self,
        opens: Rate = OPENS,
        denials: Rate = OPENS,
        calls: Rate = CALLS,
        at_once: int = 512,
    ) -> AskRates:
        """The budgets of this Authority."""
        refusals = RefusalPolicy(
            self.refusals.refusal_counter, self.clock.seconds, self.over_budget.append
        )
        return AskRates.of(refusals, opens, denials, calls, at_once)

    async def _guard(self, text: str) -> None:
        self.guarded.append(text)
        if self.guard_refuses is not None:
            raise self.guard_refuses

    def _fill(self, tx: ITransaction, policy: str) -> None:
        tx.people.add_group("dev", 1.0)
        tx.people.add(Person(ADA, "ada", groups=("dev",)), 1.0)
        tx.people.add(Person(EVE, "eve"), 1.0)
        secret = {"zone": "secret"}
        for resource in (
            Resource(id="db1", kind="tcp", labels={}, assigned_to=self.connector.id),
            Resource(id="prod1", kind="tcp", labels={}, assigned_to=self.connector.id),
            Resource(id="vault1", kind="tcp", labels=secret, assigned_to=self.connector.id),
            Resource(id="host1", kind="ssh", labels={}, assigned_to=self.connector.id),
        ):
            tx.catalog.add(resource, 1.0)
        if policy:
            tx.policies.activate(tx.policies.add(policy, "test", 1.0).version, 1.0)

    # -- members

    def holder(self, role: Role, id: str = "", **more: Any) -> Holder:
        key = new_key()
        issued = self.world.issued(role, key, id=id, **more)
        return Holder(
            id=issued.facts.principal.id, key=key, chain=issued.chain, sha256=issued.facts.sha256
        )

    def person(self, id: str, **more: Any) -> Holder:
        """A person's certificate, entered in the table."""
        holder = self.holder(Role.USER, id, **more)
        row = PersonCertificate(
            sha256=holder.sha256,
            serial=holder.sha256.hex(),
            person_id=id,
            issued_at=1.0,
            expires=9e9,
        )
        self.run(lambda tx: tx.certificates.issued(row))
        return holder

    def node(self, role: Role, name: str, audit_key: bytes = b"") -> Holder:
        """A registered node."""
        key = new_key()
        request = prove_key(make_request(key))
        issued = self.world.issued(role, key)
        holder = Holder(
            id=node_id(request.info), key=key, chain=issued.chain, sha256=issued.facts.sha256
        )
        leaf = Leaf("01", request.sha256, 9e9)
        row = Node(
            id=holder.id,
            name=name,
            role=role.value,
            key_sha256=request.sha256,
            audit_key=audit_key or request.sha256,
            leaf=leaf,
            enrolled_at=1.0,
        )
        self.run(lambda tx: tx.nodes.register(row))
        return holder

    def row(self, holder: Holder) -> Node:
        return self.state_cache.state.nodes[holder.id]

    def peer(self, holder: Holder) -> Peer:
        return Peer(host="127.0.0.1", port=1, tls=True, chain=holder.chain)

    # -- doing

    def run(self, fn: Callable[[ITransaction], Any]) -> Any:
        """What an operator did: whatever it changed is in a signed record."""

        def signed(tx: ITransaction) -> Any:
            result = fn(tx)
            adopt(tx, self.recorder, operator(0), self.now())
            return result

        return value_of(self.store.store.run("test", signed))

    def by_sql(self, *statements: str) -> None:
        """What somebody did to the tables, past every record."""

        def change(tx: ITransaction) -> None:
            for one in statements:
                tx.state._db.change(one)  # type: ignore[attr-defined]

        value_of(self.store.store.run("sql", change))

    def refresh(self) -> None:
        value_of(self.policy.follow(value_of(self.state_cache.refresh())))

    def add_group(self, name: str) -> None:
        """A change of what the policy looks at."""
        self.run(lambda tx: tx.people.add_group(name, 2.0))

    def records(self, event: str = "") -> list[dict[str, Any]]:
        rows = value_of(self.store.store.read("test", lambda tx: tx.audit.rows(1, 10_000)))
        records = [json.loads(row.canonical) for row in rows]
        ours = [one for one in records if one["event"] != "state.adopt"]
        return [one for one in ours if event in ("", one["event"])]

    def restart(
        self, anchor: StateAnchor, tasks: BackgroundTasks | None = None
    ) -> tuple[StateStartup, ClusterStateCache]:
        """How another process over the same store and anchor begins, and what it then knows."""
        ledger = StateLedger(origin_verifier(self.world.keys.root_der, CLUSTER))
        keeper = StateKeeper(ledger, anchor, tasks or BackgroundTasks())
        beginning = StateStartup(
            store=self.store,
            ledger=ledger,
            anchor=anchor,
            keeper=keeper,
            recorder=evolve(self.recorder, ledger=ledger),
            request=adoption_request_file(anchor.path / "request.json"),
        )
        state_cache = ClusterStateCache(
            store=self.store, ledger=ledger, now=self.now, advanced=keeper.advanced
        )
        return beginning, state_cache

    def may_grant(self) -> None:
        """Nothing keeps grants back, unless a test does."""

    def ends(self) -> SessionEnds:
        """Ends sessions in the store."""
        return SessionEnds(
            store=self.store,
            recorder=self.recorder,
            clock=self.clock,
            now=self.now,
            tasks=BackgroundTasks(),
            reclaim_secs=60.0,
        )

    def writer(self) -> StateWriter:
        """Changes protected rows."""
        return StateWriter(
            cache=self.state_cache,
            store=self.store,
            recorder=self.recorder,
            now=self.now,
            entropy=self.entropy,
        )

    def registry(self, rules: PolicyRules | None = None) -> RegistryAdmin:
        """Serves operators who change nodes, people, groups and tokens."""
        return registry_admin(
            writer=self.writer(),
            peers=self.peers,
            ca_pin="ab" * 32,
            token_secs=3600.0,
            leaf_secs=86400.0,
            proxy_revoked=nothing,
            rights=self.rights(rules),
            actions=lambda: frozenset(kind.terms.open_action for kind in KINDS.values()),
        )

    def members(self) -> MemberAdmin:
        """Serves operators who add nodes, and revoke them."""
        return self.registry().nodes

    def groups(self) -> GroupAdmin:
        """Serves operators who change groups."""
        return self.registry().groups

    def people(self) -> PeopleAdmin:
        """Serves operators who change persons."""
        return self.registry().people

    def rights(self, rules: PolicyRules | None = None) -> RightsCheck:
        """Keeps people from rights that they do not have."""
        return RightsCheck(
            cluster=CLUSTER,
            rules=rules or PolicyRules(),
            engine=self.lock_out().engine_over,
            actions=WORDS.members["administer"],
            now=self.now,
        )

    def lock_out(self, rules: PolicyRules | None = None) -> LockOutCheck:
        """Keeps the policy in reach of user 7."""
        return LockOutCheck(
            cluster=CLUSTER,
            kinds=KINDS,
            own_uid=7,
            rules=rules or PolicyRules(),
            rows=self.recorder.rows,
            engine=lambda: self.policy.engine,
            now=self.now,
        )

    def reasons(self) -> PolicyReasons:
        """What the policies of each version say of themselves."""
        return PolicyReasons(
            state_cache=self.state_cache, engine=lambda: self.policy.engine, store=self.store
        )

    def activation(self, rules: PolicyRules | None = None) -> PolicyActivation:
        """Puts policies in force."""
        return PolicyActivation(
            state_cache=self.state_cache,
            in_force=self.policy,
            lock_out=self.lock_out(rules),
            store=self.store,
            recorder=self.recorder,
            now=self.now,
        )

    def operators(self, own_uid: int = 7) -> Operators:
        """Decides what operators may do, and people who administer."""
        return Operators(
            cluster=CLUSTER,
            own_uid=own_uid,
            engine=lambda: self.policy.engine,
            verifier=self.world.verifier,
            state_cache=self.state_cache,
            store=self.store,
            recorder=self.recorder,
            refusals=self.refusals,
            now=self.now,
        )

    def enrollment(self, issuer: CertificateIssuer) -> Enrollment:
        """Issues first certificates, signed by *issuer*."""
        return Enrollment(
            issuer=issuer,
            state_cache=self.state_cache,
            store=self.store,
            recorder=self.recorder,
            now=self.now,
            clock=self.clock,
        )

    def intake(self, tasks: BackgroundTasks) -> RegistrationIntake:
        """Takes registrations of Connectors."""
        return RegistrationIntake(
            cluster=CLUSTER,
            state_cache=self.state_cache,
            registrations=self.registrations,
            store=self.store,
            recorder=self.recorder,
            verifier=self.world.verifier,
            clock=self.clock,
            now=self.now,
            entropy=self.entropy,
            lease_secs=90,
            ends=TunnelEndRecords(
                store=self.store, recorder=self.recorder, clock=self.clock, tasks=tasks
            ),
            rates=self.rates,
            refusals=self.refusals,
        )

    def gated_sessions(self) -> GatedSessions:
        """What holds records against checkpoints, and prolongs."""
        return GatedSessions(
            cluster=CLUSTER,
            state_cache=self.state_cache,
            engine=lambda: self.policy.engine,
            kinds=KINDS,
            store=self.store,
            verifier=self.world.verifier,
            sign_extension=self.world.keys.signer(Purpose.GRANT_EXTENSION),
            now=self.now,
            trust=ProxyTrust(self.store, self.recorder, self.now),
            instances=self.registrations.instances,
            stands_on=self.approvals().of_grant,
        )

    def approvals(self) -> ApprovedRequests:
        """Approved requests for access, as sessions use them."""
        approvers = Approvers(lambda: self.policy.engine, KINDS)
        return ApprovedRequests(
            cluster=CLUSTER,
            state_cache=self.state_cache,
            store=self.store,
            now=self.now,
            may_approve=approvers.may_still,
        )

    def requests(self) -> AccessRequestService:
        """Serves people who ask for access, and those who decide."""
        return AccessRequestService(
            cluster=CLUSTER,
            state_cache=self.state_cache,
            engine=lambda: self.policy.engine,
            kinds=KINDS,
            store=self.store,
            records=AccessRecords(self.recorder),
            verifier=self.world.verifier,
            now=self.now,
            entropy=self.entropy,
            max_secs=28800,
            on_event=self.access_told.append,
            texts=SealedTexts(CLUSTER, CredentialSeal(self.entropy, b"k" * 32)),
        )

    def access_calls(self) -> AccessCalls:
        """Verifies who asks for access, or decides."""
        return AccessCalls(
            cluster=CLUSTER,
            requests=self.requests(),
            state_cache=self.state_cache,
            verifier=self.world.verifier,
            rates=self.rates,
            clock=self.clock,
            now=self.now,
        )

    def request_approvals(self) -> RequestApprovals:
        """Counts uses of approvals by requests inside sessions."""
        return RequestApprovals(
            cluster=CLUSTER,
            verifier=self.world.verifier,
            approvals=self.approvals(),
            state_cache=self.state_cache,
            store=self.store,
            recorder=self.recorder,
            on_event=self.access_told.append,
            rates=self.rates,
        )

    def issuance(self) -> Issuance:
        self.told: list[tuple[str, str]] = []
        return Issuance(
            recording_key=lambda: RECORDING_KEY.public,
            cluster=CLUSTER,
            state_cache=self.state_cache,
            engine=lambda: self.policy.engine,
            peers=self.peers,
            kinds=KINDS,
            store=self.store,
            recorder=self.recorder,
            verifier=self.world.verifier,
            sign_grant=self.world.keys.signer(Purpose.GRANT),
            clock=self.clock,
            now=self.now,
            entropy=self.entropy,
            on_decision=lambda kind, word, _: self.told.append((kind, word)),
            rates=self.rates,
            refusals=self.refusals,
            may_grant=lambda: self.may_grant(),
            ended=self.ends().reported,
            gated=self.gated_sessions(),
            offers=AccessOffers(
                approvals=self.approvals(),
                now=self.now,
                max_secs=28800,
                on_event=self.access_told.append,
            ),
            onward=OnwardCertificates(lambda: self.world.keys.purposes.get("onward-ssh"), self.now),
        )

    def serve(self, *resources: str) -> Registered:
        """Register the Connector through the Proxy for these."""
        catalog = self.state_cache.state.catalog
        served = {
            one: catalog[one].assigned if one in catalog else Assigned(one, "", 0)
            for one in resources
        }
        registered = Registered(
            node_id=self.connector.id,
            proxy_id=self.proxy.id,
            tunnel_id="t1",
            instance_id="i1",
            resources=served,
            since=self.clock.seconds(),
            evict=lambda reason: None,
        )
        self.registrations.add(registered)
        return registered

    def request(self, asker: Holder, resource: str = "db1", **fields: Any) -> SessionRequest:
        request = SessionRequest(
            cluster=CLUSTER,
            session_uid=random_id(self.entropy),
            resource=resource,
            kind="tcp",
            action="tcpConnect",
            proxy_id=self.proxy.id,
            issued_at_ms=int(self.now() * 1000),
            certificate_sha256=asker.sha256,
        )
        return evolve(request, **fields)

    def ask(self, asker: Holder, resource: str = "db1", said: str = "allow", **fields: Any) -> Ask:
        data = encode_request(self.request(asker, resource, **fields))
        return Ask(
            request=data,
            signature=sign(asker.key, Purpose.SESSION_REQUEST, data),
            person_chain=asker.chain,
            proxy_decision=ProxyDecision(random_id(self.entropy), said, source_address="192.0.2.7"),
        )


def outcome(coro: Coroutine[Any, Any, Any]) -> list[Any]:
    """What came of it: a value or a Failure; empty while it waits."""
    got: list[Any] = []
    Deferred.fromCoroutine(coro).addBoth(got.append)
    return got


def value_of(coro: Coroutine[Any, Any, Any]) -> Any:
    """What it returned; raises what it raised."""
    (got,) = outcome(coro)
    if hasattr(got, "raiseException"):
        got.raiseException()
    return got


def refusal_of(coro: Coroutine[Any, Any, Any]) -> SvcError:
    """The refusal it raised."""
    (got,) = outcome(coro)
    error = getattr(got, "value", None)
    if not isinstance(error, SvcError):
        raise AssertionError(f"no refusal but {got!r}")
    return error


GONE = SvcError("the caller went away", reason="cancelled", fault=Fault.CANCELLED)

"""An operator's terminal: commands run in this process against an Authority in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
from attrs import evolve, frozen
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ed25519
from google.protobuf.message import Message
from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.audit.log.record import Sealer
from svc.audit.state.in_force import StateLedger
from svc.authority.accounts.admin import AccountAdmin
from svc.authority.accounts.first import FirstAdministratorCode
from svc.authority.accounts.secrets import SealedSecrets
from svc.authority.admin import AdminService
from svc.authority.discovery.scopes import ScopeAdmin
from svc.authority.distribution.admin import RootAdmin
from svc.authority.distribution.ceremony import RootCeremony
from svc.authority.distribution.own import OwnRoots
from svc.authority.distribution.pause import RotationAdmin
from svc.authority.ingest.admin import QueueAdmin
from svc.authority.ingest.erase import RequestErasure
from svc.authority.policy.activate import PolicyActivation
from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.admin import PolicyAdmin
from svc.authority.policy.check import PolicyCheck
from svc.authority.policy.lock_out import LockOutCheck
from svc.authority.policy.proposed.approval_count import ApprovalCount
from svc.authority.policy.proposed.claims import ProposalClaims
from svc.authority.policy.proposed.decisions import PolicyDecisions
from svc.authority.policy.proposed.known_changes import KnownChanges
from svc.authority.policy.proposed.proposals import PolicyProposals
from svc.authority.policy.proposed.review import PolicyReview
from svc.authority.recordings.admin import RecordingAdmin
from svc.authority.recordings.files import RecordingFiles
from svc.authority.refusals import RefusalRecords
from svc.authority.registry.admin import registry_admin
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.registry.credentials import CredentialAdmin
from svc.authority.registry.epochs import EpochAdmin
from svc.authority.registry.listing import CatalogListing
from svc.authority.registry.operators import Operators
from svc.authority.registry.peers import PeerProxies
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.rights import RightsCheck
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.signin.links import IdentityLinks
from svc.authority.state.adopt import adopt
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, operator
from svc.authority.state.writer import StateWriter
from svc.cli import USAGE_EXIT, svc
from svc.cli.calls import asked
from svc.cli.control import ADMIN
from svc.compose.authority.state import origin_key
from svc.compose.drop_ins import load_kinds
from svc.errors import SvcError
from svc.interfaces.store import IStore
from svc.model.audit.record import chain_hash
from svc.model.cluster.account import CODE_FILE
from svc.model.policy.rules import PolicyRules
from svc.ops.asked_records import AskedRecords
from svc.pki.audit_signatures import origin_verifier
from svc.pki.credentials import CredentialSeal
from svc.pki.distribution import RootFiles
from svc.pki.receiver import ReceiverCredential
from svc.pki.root import ClusterKeys, make_cluster
from svc.pki.verify import ChainVerifier
from svc.policy.child import try_policy
from svc.policy.prescan import PolicyLimits
from svc.policy.vocabulary import Vocabulary, vocabulary
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.runtime.threads import inline
from svc.store.sqlite.memory import memory_store
from tests.authority.discovery.support import discovering
from tests.pki.support import Counted
from tests.policy.asking import asked_inline
from tests.rpc.memory import Pair
from tests.support.nothing import nothing
from tests.support.recording import RECORDING_KEYS
from tests.support.temporary import process_directory

CLUSTER = "c1.example.test"
NOW = 1_900_000_000.0
PIN = "ab" * 32
NODE = "n" * 26

POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
"""
LESS = """\
@id("look-only")
permit (principal is Operator, action in [Action::"viewStatus", Action::"editPolicy"],
        resource is Cluster);
"""

STATUS = pb.StatusResponse(
    version="0.11.0-rc.7",
    cluster=CLUSTER,
    authority_id=NODE,
    policy_version=1,
    catalog_version=3,
    audit_seq=12,
    audit_head="cd" * 32,
    connectors=2,
    proxies=1,
    open_sessions=4,
    not_ready=["policy", "store"],
    queued_rows=7,
    held_rows=2,
    ca_pin=PIN,
    leader="authority-1",
    store_level="m0067_last",
    store_count=67,
    last_event="policy.activate",
    last_event_at=1_800_000_000,
    root_epoch=1,
    material_revision=4,
    prepared_root=2,
    rotation_paused=True,
    serving=[
        pb.ServingRow(
            node_id="b" * 26, node_name="c1", connected=True, resources=3, resources_served=3
        ),
        pb.ServingRow(node_id="c" * 26, node_name="c2", resources=2, resources_served=0),
    ],
)


@frozen
class Outcome:
    """What a command left behind."""

    status: int
    stdout: str
    stderr: str


def terminal(*arguments: str, stdin: bytes = b"", admin: Any = None) -> Outcome:
    """Run ``svc`` with these words; *admin* answers in the control socket's place."""
    with CliRunner().isolation(input=stdin) as (out, err, _):
        with click.Context(svc) as outer:
            if admin is not None:
                outer.meta[ADMIN] = admin
            status = _status(list(arguments), outer)
        told = out.getvalue().decode()
        if "--json" in arguments and told and not {"show", "prove", "export"} & set(arguments):
            # Of the log's own records every name is another list's.
            strange = sorted(set(unknown(json.loads(told))))
            assert not strange, f"{arguments}: not in contrib.reference.json_names: {strange}"
        return Outcome(status, told, err.getvalue().decode())


def _status(arguments: list[str], outer: click.Context) -> int:
    try:
        result = svc.main(arguments, prog_name="svc", parent=outer, standalone_mode=False)
    except click.UsageError as e:
        click.echo(f"svc: {e.format_message()}", err=True)
        return USAGE_EXIT
    except SvcError as e:
        click.echo(f"svc: {e.text}", err=True)
        return e.exit_code
    return result if isinstance(result, int) else 0


class Place:
    """A configuration of an Authority, and the directories it names."""

    def __init__(self, case: SynchronousTestCase, *, within: str = "") -> None:
        self.base = Path(os.path.abspath(case.mktemp()))
        self.state = self.base / "state" / within
        self.state.mkdir(mode=0o700, parents=True)
        self.base.chmod(0o700)
        self.store = self.state / "store.db"
        self.url = f"sqlite://{self.store}"
        self.config = self.base / "authority.toml"
        self.config.write_text(
            f'cluster = "{CLUSTER}"\n'
            f'state_dir = "{self.base / "state"}"\n'
            f'store_url = "{self.url}"\n'
        )

    def run(self, *arguments: str, **options: Any) -> Outcome:
        """``svc --config <this> authority`` with these words."""
        return terminal("--config", str(self.config), "authority", *arguments, **options)


def recorder() -> Recorder:
    """Writes records of one Authority at one moment."""
    words = vocabulary()
    sealer = Sealer(Counted(), {fact.name: fact for fact in words.terms.facts})
    keys = _keys()
    ledger = StateLedger(origin_verifier(keys.root_der, CLUSTER))
    return Recorder(
        origin=NODE,
        sealer=sealer,
        now=lambda: NOW,
        entropy=Counted(),
        ledger=ledger,
        key=origin_key(keys),
    )


@cache
def _keys() -> ClusterKeys:
    return make_cluster(CLUSTER, lambda: NOW, Counted())


class Authority:
    """The services behind ``gate.v1.Admin`` over a store in memory."""

    def __init__(self, uid: int = 1000, rules: PolicyRules | None = None) -> None:
        self.uid, self.rules = uid, rules or PolicyRules()
        self.store: IStore = memory_store(chain_hash)
        self.writes = writes = recorder()
        self.state_cache = ClusterStateCache(
            self.store, writes.ledger, lambda: NOW, advanced=nothing
        )
        self.peers = PeerProxies()
        self.registrations = self.peers.registrations
        self.state_cache.on_change(self.registrations.follow)
        self.policy = _policy(vocabulary())
        now = lambda: NOW  # noqa: E731
        self.refusals = RefusalRecords(store=self.store, recorder=writes, clock=Clock(), now=now)
        self.operators = self._operators(now)
        kinds = load_kinds(["ssh", "tcp"]).by_name
        self.rights = self._rights(now)
        self.writer = StateWriter(
            cache=self.state_cache,
            store=self.store,
            recorder=writes,
            now=now,
            entropy=Counted(),
        )
        registry = registry_admin(
            writer=self.writer,
            peers=self.peers,
            ca_pin=PIN,
            token_secs=3600.0,
            leaf_secs=86400.0,
            proxy_revoked=nothing,
            rights=self.rights,
        )
        self.kinds = kinds
        self.policies = self._policies(now)
        proposals = self._proposals(now)
        self.service = AdminService(
            operators=self.operators,
            registry=registry,
            sessions=self._sessions(),
            credentials=CredentialAdmin(registry.tokens, self.asked, nothing),
            **self._catalog(kinds),
            policies=self.policies,
            checks=self._checks(kinds),
            proposals=proposals,
            decisions=PolicyDecisions(proposals, self.verifier, self.refusals),
            reviews=PolicyReview(proposals),
            outbox=QueueAdmin(self.store, writes, now),
            erasure=RequestErasure(self.store, writes),
            links=self._links(),
            accounts=self._accounts(registry.people),
            recordings=self._recordings(now),
            roots=self._roots(),
            records=AskedRecords(self.store, writes).show,
            status=_standing,
        )
        self._begin()

    def _roots(self) -> RootAdmin:
        key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
        ceremony = RootCeremony(CLUSTER, self.writer, Counted())
        own = OwnRoots(
            cluster=CLUSTER,
            credential=ReceiverCredential("authority-1", "", key),
            kept=RootFiles(Path("/nowhere")),
            state_cache=self.state_cache,
            loaded=lambda: bytes(32),
            in_thread=inline,
            deliver=ceremony.take,
        )
        return RootAdmin(ceremony, own, RotationAdmin(self.writer), is_automatic=False)

    def _recordings(self, now: Callable[[], float]) -> RecordingAdmin:
        return RecordingAdmin(
            store=self.store,
            recorder=self.writer.recorder,
            recordings=RecordingFiles(Path("/nowhere")),
            keys=lambda: RECORDING_KEYS,
            in_thread=inline,
            now=now,
        )

    def _catalog(self, kinds: Any) -> dict[str, Any]:
        discovery = discovering(self.writer, self.verifier, kinds, Clock())
        return {
            "catalog": CatalogAdmin(
                writer=self.writer,
                registrations=self.registrations,
                kinds=kinds,
                scope_of=discovery.ids.scope_of,
                settle=discovery.settle_again,
            ),
            "listing": CatalogListing(
                writer=self.writer, peers=self.peers, scope_of=discovery.ids.scope_of
            ),
            "scopes": ScopeAdmin(self.writer, discovery, self.writer.recorder.origin),
            "epochs": EpochAdmin(self.writer),
        }

    def _operators(self, now: Callable[[], float]) -> Operators:
        self.verifier = ChainVerifier(CLUSTER, _keys().root_der, now)
        return Operators(
            cluster=CLUSTER,
            own_uid=self.uid,
            engine=lambda: self.policy.engine,
            verifier=self.verifier,
            state_cache=self.state_cache,
            store=self.store,
            recorder=self.writes,
            refusals=self.refusals,
            now=now,
            rules=self.rules,
        )

    def _rights(self, now: Callable[[], float]) -> RightsCheck:
        return RightsCheck(
            cluster=CLUSTER,
            rules=self.rules,
            engine=lambda tx, people: self.lock_out.engine_over(tx, people),
            actions=self.policy.vocabulary.members["administer"],
            now=now,
        )

    def _policies(self, now: Callable[[], float]) -> PolicyAdmin:
        self.lock_out = LockOutCheck(
            cluster=CLUSTER,
            kinds=self.kinds,
            own_uid=self.uid,
            rules=self.rules,
            rows=self.writes.rows,
            engine=lambda: self.policy.engine,
            now=now,
        )
        self.activation = PolicyActivation(
            state_cache=self.state_cache,
            in_force=self.policy,
            lock_out=self.lock_out,
            store=self.store,
            recorder=self.writes,
            now=now,
        )
        return PolicyAdmin(
            state_cache=self.state_cache,
            activation=self.activation,
            rules=self.rules,
            store=self.store,
            recorder=self.writes,
        )

    def _proposals(self, now: Callable[[], float]) -> PolicyProposals:
        words = self.policy.vocabulary
        return PolicyProposals(
            cluster=CLUSTER,
            state_cache=self.state_cache,
            activation=self.activation,
            count=ApprovalCount(cluster=CLUSTER, engine=lambda: self.policy.engine, now=now),
            changes=KnownChanges(
                vocabulary=words,
                rules=self.rules,
                guard=self.policy.guard,
                in_thread=lambda call: succeed(call()),
            ),
            rules=self.rules,
            claims=ProposalClaims(
                cluster=CLUSTER,
                verifier=self.verifier,
                state_cache=self.state_cache,
                now=now,
            ),
            store=self.store,
            recorder=self.writes,
            now=now,
            entropy=Counted(),
        )

    def _sessions(self) -> SessionAdmin:
        self.asked: dict[str, str] = {}
        return SessionAdmin(
            store=self.store,
            recorder=self.writes,
            asked=self.asked,
            publish=nothing,
            peers=self.peers,
        )

    def _accounts(self, people: PeopleAdmin) -> AccountAdmin:
        now = lambda: NOW  # noqa: E731
        path = process_directory("svc-code-") / CODE_FILE
        return AccountAdmin(
            people=people,
            secrets=SealedSecrets(
                cluster=CLUSTER,
                seal=CredentialSeal(os.urandom, b"k" * 32),
                now=now,
                entropy=os.urandom,
            ),
            first=FirstAdministratorCode(path=path, now=now, entropy=os.urandom, in_thread=inline),
            ca_pin=PIN,
            now=now,
        )

    def _links(self) -> IdentityLinks:
        return IdentityLinks(self.writer, "https://id.example", self.rights)

    def _checks(self, kinds: Any) -> PolicyCheck:
        return PolicyCheck(
            cluster=CLUSTER,
            vocabulary=self.policy.vocabulary,
            kinds=kinds,
            refresh=self.state_cache.refresh,
            lock_out=self.lock_out,
            ask=partial(asked_inline, vocabulary=self.policy.vocabulary),
            in_thread=lambda call: succeed(call()),
            now=lambda: NOW,
        )

    def __call__(
        self, method: str, request: Message, response_type: Any, deadline: float = 10.0
    ) -> Any:
        """As the control socket: one connection, one call."""
        pair = Pair([self.service.service()], admit=self.operators.admit)
        pair.server.peer = evolve(pair.server.peer, uid=self.uid)
        (result,) = pair.settle(asked(pair.channel, method, request, response_type))
        if isinstance(result, Failure):
            result.raiseException()
        return result

    def change(self, fn: Callable[[Any], object]) -> None:
        """Change the store behind the services, then let them see it."""

        def signed(tx: Any) -> None:
            fn(tx)
            adopt(tx, self.writes, operator(self.uid), NOW)

        async def changed() -> None:
            await self.store.run("a test", signed)
            await self.state_cache.refresh()

        _at_once(changed())

    def _begin(self) -> None:
        async def begun() -> None:
            await self.policies.ensure_first(operator(self.uid))
            await self.policy.follow(self.state_cache.state)

        _at_once(begun())


def _at_once(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a store in memory does not wait")


async def _standing() -> pb.StatusResponse:
    return STATUS


def _policy(words: Vocabulary) -> PolicyInForce:
    async def guard(text: str) -> None:
        try_policy(text, words, PolicyLimits())

    return PolicyInForce(
        cluster=CLUSTER,
        vocabulary=words,
        kinds=load_kinds(["ssh", "tcp"]).by_name,
        guard=guard,
        in_thread=lambda call: succeed(call()),
        in_force=lambda engine, text: succeed(None),
    )

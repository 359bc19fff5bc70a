"""What a cluster that has lived for a while has in its store, written by the product's own code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field
from cryptography.hazmat.primitives.asymmetric import ed25519

from contrib.level_cluster import Cluster, InForce
from contrib.level_rows import (
    Ids,
    Row,
    access_rows,
    agent_rows,
    digest,
    made_ahead,
    root_rows,
    scope_row,
    sign_in_rows,
)
from svc.audit.spool.rows import RowMaker
from svc.authority.ingest.admin import QueueAdmin
from svc.authority.ingest.drain import QueueConsumer
from svc.authority.ingest.origins import OriginKeys
from svc.authority.state.adopt import adopt
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, operator, person
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import REQUEST_DECISION, SESSION_END, SESSION_START
from svc.model.audit.ledger import GENESIS, EntitySlice
from svc.model.audit.outbox import Hold, Offered
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.replay import Hole, SpoolMemory
from svc.model.audit.spool import SpoolPlace, SpoolRow, row_hash
from svc.model.canonical import decode
from svc.model.cluster.agent import Agent, AgentCertificate, Assertion, Delegation
from svc.model.cluster.health import CheckFound, NodeHealth
from svc.model.cluster.lease import Member
from svc.model.cluster.node import Leaf, Node, TokenRecord, TokenRole
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.registration import Epoch
from svc.model.cluster.resource import Resource, Undeclared
from svc.model.cluster.scope import DiscoveryScope, ScopeOrigin
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    OwnerState,
    RootOwner,
    RootShare,
    RootState,
    RotationPause,
)
from svc.model.doctor import CheckSeverity
from svc.model.ids import event_id, node_id, person_id, random_id
from svc.model.policy.access import EntityUid
from svc.model.policy.requested import KeptApproval, RequestedAccess, RequestState
from svc.model.policy.requests import context_at, may_open
from svc.model.session.session import Session, SessionEnd
from svc.policy.entities import cedar_json
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.store.sql.columns import words
from svc.store.sql.statements import Statements

POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("dev-uses-tcp")
permit (principal in Group::"dev", action in [Action::"tcpConnect", Action::"view"],
        resource is TcpService)
unless { resource.hasTag("zone") && resource.getTag("zone") == "vault" };
"""
DAY = 86400.0
LEDGER, VAULT, HOST, SPARE = "ledger", "vault", "host", "spare"
OPERATOR = operator(0)


def put(db: Statements, rows: Iterable[tuple[str, Row]]) -> None:
    """Put rows into tables that no facet writes."""
    for table, row in rows:
        marks = ", ".join("?" * len(row))
        sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
        db.change(sql, *row.values())


@define
class Life:
    """Fills one store; every call ends at once over a store in memory.

    Attributes:
        signs: Whether rows of the audit queue are signed by who wrote them at that level.
    """

    cluster: Cluster
    store: IStore
    signs: bool
    at: float = field(factory=time.time)
    people: dict[str, str] = field(factory=dict)
    nodes: dict[str, str] = field(factory=dict)
    recorder: Recorder = field(init=False)
    state_cache: ClusterStateCache = field(init=False)
    audit_key: ed25519.Ed25519PrivateKey = field(factory=ed25519.Ed25519PrivateKey.generate)
    session: str = field(factory=lambda: random_id(os.urandom))
    spool: str = field(factory=lambda: random_id(os.urandom))

    def __attrs_post_init__(self) -> None:
        self.recorder = self.cluster.recorder()
        self.state_cache = ClusterStateCache(
            self.store, self.recorder.ledger, time.time, advanced=lambda: None
        )

    async def live(self, db: Statements) -> None:
        """All of it; *db* is the same store for tables without a facet."""
        await self.store.run("found", self._found)
        await self.state_cache.refresh()
        issuers = self.cluster.issuers(self.store, self.state_cache, self.recorder)
        await issuers.follow(leads=True)
        await self._sessions(await self.cluster.in_force(self.store))
        if self.signs:
            await self._signed_queue()
        else:
            await self.store.run("queue of before", self._older_queue)
        await self.store.run("head", self.cluster.add_head)
        await self.store.run("Authorities", self._authorities)
        signed = {
            *sign_in_rows(""),
            *agent_rows(""),
            *access_rows("", "", b"", ""),
            *scope_row(),
            *root_rows(""),
        } | {"epochs"}
        others = (each for each in made_ahead(self.ids).items() if each[0] not in signed)
        put(db, ((t, row) for t, rows in others for row in rows))
        db.change("UPDATE agents SET last_seen = 84.5 WHERE id = 'agent1'")

    @property
    def ids(self) -> Ids:
        """What rows of tables without a facet refer to."""
        return Ids(
            authority=self.cluster.origin,
            connector=self.nodes["c1"],
            person=self.people["ada"],
            approver=self.people["ben"],
            group="dev",
            resource=LEDGER,
            session=self.session,
            certificate=digest("ben's certificate"),
            version=3,
            parent=2,
        )

    def _found(self, tx: ITransaction) -> None:
        """Who and what there is, all of it under one signed record."""
        tx.schema.settle("cluster", self.cluster.name)
        self._nodes(tx)
        self._people(tx)
        self._resources(tx)
        for number, is_active in ((1, True), (2, True), (3, False)):
            text = POLICY + f"// {number}\n"
            version = tx.policies.add(text, f"local:{os.geteuid()}", self.at).version
            if is_active:
                tx.policies.activate(version, self.at + number)
        self._roots(tx)
        adopt(tx, self.recorder, OPERATOR, self.at)

    def _roots(self, tx: ITransaction) -> None:
        rows = root_rows(self.cluster.origin)
        for row in rows["key_sets"]:
            tx.roots.put_key_set(KeySet(**row))
        for row in rows["root_epochs"]:
            tx.roots.put_root(DistributionRoot(**{**row, "state": RootState(row["state"])}))
        for row in rows["root_owners"]:
            read = {
                "state": OwnerState(row["state"]),
                "is_readmitted": bool(row["is_readmitted"]),
                "former_nodes": words(row["former_nodes"]),
            }
            tx.roots.put_owner(RootOwner(**{**row, **read}))
        for row in rows["root_acks"]:
            tx.roots.put_share(RootShare(**row))
        for row in rows["rotation_pauses"]:
            tx.keyrings.pause(RotationPause(**{**row, "is_paused": bool(row["is_paused"])}))

    def _nodes(self, tx: ITransaction) -> None:
        tx.nodes.register(self.cluster.node())
        for name, role in (("edge1", "proxy"), ("c1", "connector"), ("c0", "connector")):
            id, key = node_id(name.encode()), digest(name)
            leaf = Leaf(digest(name).hex()[:16], key, self.at + DAY)
            names: tuple[str, ...] = ()
            audit_key = digest(f"{name}'s audit key")
            if role == "proxy":
                names = ("edge1.example",)
                audit_key = self.audit_key.public_key().public_bytes_raw()
            tx.nodes.register(
                Node(
                    id=id,
                    name=name,
                    role=role,
                    key_sha256=key,
                    audit_key=audit_key,
                    leaf=leaf,
                    enrolled_at=self.at,
                    names=names,
                )
            )
            self.nodes[name] = id
        tx.nodes.revoke(self.nodes["c0"], self.at + 1)
        tx.nodes.seen(self.nodes["c1"], self.at + 2, "0.10.0")
        told = CheckFound("store.migrations", CheckSeverity.WARN)
        health = NodeHealth(
            node_id=self.nodes["c1"],
            at=self.at + 4,
            version="0.10.0",
            worst=told.severity,
            failed=0,
            warnings=1,
            found=(told,),
        )
        tx.health.put([health])
        for id, joins in (("waiting", TokenRole.CONNECTOR), ("spent", TokenRole.PROXY)):
            token = TokenRecord(
                id=id,
                secret_sha256=digest(id),
                role=joins,
                expires_at=self.at + DAY,
                bound_to=f"{id}1",
                names=("a.example",),
            )
            tx.tokens.add(token, self.at)
        tx.tokens.spend("spent", digest("spent"), self.at + 1)

    def _people(self, tx: ITransaction) -> None:
        for group in ("dev", "ops"):
            tx.people.add_group(group, self.at)
        groups = {"ada": ("dev",), "ben": ("dev", "ops"), "eve": (), "mallory": ("dev",)}
        for name, those in groups.items():
            id = self.people[name] = person_id(os.urandom)
            tx.people.add(Person(id, name, groups=those, salt=os.urandom(16)), self.at)
            sha256 = digest(f"{name}'s certificate")
            serial = sha256.hex()[:16]
            tx.certificates.issued(
                IssuedCertificate(
                    sha256=sha256,
                    serial=serial,
                    person_id=id,
                    issued_at=self.at,
                    expires=self.at + DAY,
                )
            )
        rows = sign_in_rows(self.people["ada"])
        for link in rows["person_identities"]:
            tx.sign_ins.link(IdentityLink(**link))
        for sign_in in rows["sign_ins"]:
            tx.sign_ins.put(SignIn(**sign_in))
        ben = digest("ben's certificate")
        rows = access_rows(self.people["ada"], self.people["ben"], ben, LEDGER)
        for row in rows["access_requests"]:
            state, parameters = RequestState(row["state"]), decode(row["parameters"].encode())
            one = RequestedAccess(**{**row, "state": state, "parameters": parameters})
            tx.access.put(one)
        for row in rows["access_approvals"]:
            tx.access.decide(KeptApproval(**row))
        self._agents(tx, agent_rows(self.people["ada"]))
        tx.people.revoke(self.people["mallory"], self.at + 1)
        tx.certificates.revoke(digest("eve's certificate"), self.at + 1)

    def _agents(self, tx: ITransaction, rows: Mapping[str, Sequence[Row]]) -> None:
        for row in rows["agents"]:
            claims = json.loads(row["claims"])
            tx.agents.add(
                Agent(
                    id=row["id"],
                    name=row["name"],
                    owner=row["owner"],
                    assertion=Assertion(row["issuer"], row["audience"], claims),
                    added_at=row["added_at"],
                )
            )
        for row in rows["agent_certificates"]:
            tx.agent_certificates.issued(AgentCertificate(**row))
        for row in rows["delegations"]:
            actions = tuple(row["actions"].split())
            tx.delegations.add(Delegation(**{**row, "actions": actions}))

    def _resources(self, tx: ITransaction) -> None:
        c1 = self.nodes["c1"]
        for one in (
            Resource(id=LEDGER, kind="tcp", labels={"zone": "books"}, assigned_to=c1),
            Resource(id=VAULT, kind="tcp", labels={"zone": "vault"}, assigned_to=c1),
            Resource(
                id=HOST,
                kind="ssh",
                labels={},
                assigned_to=c1,
                onward_auth=OnwardAuth.CERTIFICATE,
            ),
            Resource(SPARE, "tcp"),
        ):
            tx.catalog.add(one, self.at)
        tx.epochs.activate(
            Epoch(name="kube_gate", epoch=1, activated_at=61.0, activated_by="local:0")
        )
        for row in scope_row()["scopes"]:
            tx.scopes.put(
                DiscoveryScope(
                    **{
                        **row,
                        "kinds": tuple(row["kinds"].split()),
                        "onward_auth": tuple(map(OnwardAuth, row["onward_auth"].split())),
                        "connectors": tuple(row["connectors"].split()),
                        "match_labels": json.loads(row["match_labels"]),
                        "labels": json.loads(row["labels"]),
                        "origin": ScopeOrigin(row["origin"]),
                    }
                )
            )
        offered = [Undeclared(id="attic", kind="tcp", node_id=c1, seen_at=self.at + 3)]
        tx.catalog.registered(c1, [LEDGER, VAULT], offered, self.at + 3)

    async def _sessions(self, standing: InForce) -> None:
        """Two sessions, with what was decided and over which entities."""
        asked = may_open(
            "connect",
            "tcpConnect",
            self.people["ada"],
            EntityUid("TcpService", LEDGER),
            context_at(self.at, "192.0.2.7"),
        )
        decision = standing.engine.decide(asked)
        entities = EntitySlice(
            decision.entities_digest, cedar_json(standing.engine.entity_slice(asked))
        )

        def open_both(tx: ITransaction) -> None:
            for uid in (self.session, random_id(os.urandom)):
                decision_id = random_id(os.urandom)
                common: dict[str, Any] = {
                    "node_id": self.nodes["edge1"],
                    "resource_id": LEDGER,
                    "resource_kind": "tcp",
                    "session_uid": uid,
                    "decision_id": decision_id,
                }
                self.recorder.append(
                    tx,
                    SESSION_START,
                    person(self.people["ada"]),
                    **common,
                    decision="allow",
                    cedar_action="tcpConnect",
                    policies=decision.policies,
                    policy_version=decision.policy_version,
                    request=asked,
                    entities_digest=entities.digest,
                    entities=entities,
                    details={"proxy_id": self.nodes["edge1"], "connector_id": self.nodes["c1"]},
                )
                session = Session(
                    uid=uid,
                    person_id=self.people["ada"],
                    resource_id=LEDGER,
                    kind="tcp",
                    connector_id=self.nodes["c1"],
                    proxy_id=self.nodes["edge1"],
                    decision_id=decision_id,
                    started_at=self.at + 4,
                )
                tx.sessions.insert(session)
            tx.sessions.end(
                self.session,
                SessionEnd(at=self.at + 9, reason="closed", bytes_up=512, bytes_down=1024),
            )
            self.recorder.append(
                tx,
                SESSION_END,
                person(self.people["ada"]),
                session_uid=self.session,
                reason="closed",
                details={"bytes_up": 512, "bytes_down": 1024},
            )

        await self.store.run("sessions", open_both)

    def _spool(self, count: int) -> list[SpoolRow]:
        """The first rows of the Proxy's spool."""
        edge = self.nodes["edge1"]
        maker = RowMaker(
            origin=edge,
            key=self.audit_key,
            sealer=self.cluster.sealer(),
            now=time.time,
            entropy=os.urandom,
        )
        records = [maker.opening(self.spool, ())]
        while len(records) < count:
            made = AuditRecord(
                event_id=event_id(self.at, os.urandom),
                time=self.at,
                event=REQUEST_DECISION,
                actor=Actor("person", self.people["ada"]),
                origin=edge,
                resource_id=LEDGER,
                decision="allow",
                decision_id=random_id(os.urandom),
                cedar_action="tcpConnect",
                details={"proxy_id": edge, "source_address": "192.0.2.7"},
            )
            records.append(made)
        rows, tip = list[SpoolRow](), GENESIS
        for n, record in enumerate(records, 1):
            rows.append(maker.row(record, SpoolPlace(self.spool, n, tip)))
            tip = row_hash(rows[-1].canonical)
        return rows

    def _queued(self, tx: ITransaction, rows: Iterable[tuple[int, SpoolRow]]) -> None:
        origin = self.nodes["edge1"]
        tx.outbox.add(
            [Offered(row=row, origin=origin, spool_id=self.spool, n=n) for n, row in rows],
            self.at + 5,
        )

    async def _signed_queue(self) -> None:
        """Rows in the log, a held one, one that was thrown away, and one that waits."""
        first, second, third, fourth = self._spool(4)
        drain = QueueConsumer(
            store=self.store,
            recorder=self.recorder,
            keys=OriginKeys(self.state_cache),
            now=time.time,
            held=lambda reason: None,
        )
        await self.state_cache.refresh()
        bad = evolve(third, signature=bytes(64))
        come = [(1, first), (2, second), (3, bad), (3, bad)]
        await self.store.run("queue", lambda tx: self._queued(tx, come))
        await drain.drain()
        held = await self.store.read("held", lambda tx: tx.outbox.rows(0, 9)[0].id)
        admin = QueueAdmin(self.store, self.recorder, time.time)
        await admin.discard(pb.DiscardRowRequest(id=held, note="forged"), OPERATOR)
        await self.store.run("queue", lambda tx: self._queued(tx, [(4, fourth)]))

    def _older_queue(self, tx: ITransaction) -> None:
        """At levels where nothing stands for who wrote a row: one waits, and one is held."""
        first, second, third = self._spool(3)
        self._queued(tx, [(2, evolve(second, key_id="", signature=b"")), (3, third)])
        tx.outbox.hold(tx.outbox.rows(0, 9)[1].id, Hold.UNKNOWN_KEY, self.at + 6)
        hole = Hole(first=1, last=1, before=GENESIS, after=None, since=self.at + 5)
        memory = SpoolMemory(2, row_hash(first.canonical), (hole,))
        tx.spools.keep(self.nodes["edge1"], self.spool, memory)

    def _authorities(self, tx: ITransaction) -> None:
        """Who led has left the lease; its sign of life stays."""
        me = Member(owner="authority1", node_id=self.cluster.origin, instance="first", beats=7)
        tx.lease.appear(me, None)
        lease = tx.lease.take(me.owner, me.instance, tx.lease.held())
        assert lease is not None
        tx.lease.leave(lease)

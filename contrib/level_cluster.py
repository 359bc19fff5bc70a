"""A cluster without its processes: its keys and words, and what is in force by a store's rows."""

from __future__ import annotations

import os
import time
from collections.abc import Coroutine, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from attrs import define, frozen
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from svc.audit.checkpoint.head import NO_HEAD, AnchorKey, sign_head, to_line
from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.audit.log.record import Sealer
from svc.audit.state.in_force import StateLedger
from svc.authority.enroll.issuers import IssuerRotation
from svc.authority.policy.active import PolicyInForce
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.cluster import ClusterState
from svc.authority.state.recorder import Recorder
from svc.compose.authority.parts import load_cluster_keys, own_identity
from svc.compose.authority.state import origin_key
from svc.compose.drop_ins import load_kinds
from svc.config import RoleSettings
from svc.config.reading import load_settings
from svc.interfaces.kinds import ServedKind
from svc.interfaces.store import IReadOnlyStore, IStore, ITransaction
from svc.model.audit.record import Head, rfc3339
from svc.model.cluster.node import Leaf, Node
from svc.model.policy.access import EntityUid
from svc.model.policy.requests import context_at, may_open
from svc.model.signing import Purpose
from svc.pki.audit_signatures import origin_verifier
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.root import ClusterKeys
from svc.policy.engine import CompiledPolicy
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import Vocabulary, vocabulary
from svc.runtime.context import Runtime
from svc.runtime.state_directory import StateDirectory
from svc.runtime.threads import inline

_T = TypeVar("_T")


def finished(coro: Coroutine[Any, Any, _T]) -> _T:
    """What it returned; for what never waits, such as a store in memory."""
    got: list[Any] = []
    Deferred.fromCoroutine(coro).addBoth(got.append)
    (result,) = got
    if hasattr(result, "raiseException"):
        result.raiseException()
    found: _T = result
    return found


@frozen
class InForce:
    """What an Authority over a store would go by.

    Attributes:
        unsigned: The subjects of rows that no signed record stands behind.
    """

    facts: ClusterState
    engine: CompiledPolicy
    unsigned: tuple[str, ...]
    kinds: Mapping[str, ServedKind]

    def may_open(self, person: str, resource: str) -> bool:
        """Whether the person of that id may open a session to the resource."""
        kind = self.kinds[self.facts.catalog[resource].kind]
        target = EntityUid(kind.terms.entity_type, resource)
        asked = may_open(
            kind.request_kind, kind.terms.open_action, person, target, context_at(time.time())
        )
        return self.engine.decide(asked).allowed


@define
class Cluster:
    """What ``svc init`` made of a cluster, as its Authority has it; blocks where it reads."""

    settings: RoleSettings
    keys: ClusterKeys
    issuer: CertificateIssuer
    identity: TransportIdentity
    identity_store: IdentityStore
    kinds: Mapping[str, ServedKind]
    words: Vocabulary

    @classmethod
    def opened(cls, config: Path) -> Cluster:
        """The cluster of an Authority's configuration, which must not run.

        Raises:
            SvcError: what a start would be refused for, too.
        """
        settings = load_settings(str(config), "authority", {})
        runtime = Runtime(reactor=Clock(), now=time.time, entropy=os.urandom, environ={})
        kinds = load_kinds(settings.plugins.kinds).by_name
        assert settings.state_dir is not None
        state = StateDirectory(Path(settings.state_dir))
        state.claim()
        try:
            keys = load_cluster_keys(runtime, settings, state)
            issuer = CertificateIssuer(
                keys, settings.identity.node_leaf_secs, settings.identity.person_leaf_secs
            )
            identities = IdentityStore(state.path)
            identity = own_identity(runtime, settings, issuer, identities)
        finally:
            state.release()
        words = vocabulary(*(kind_terms(kind.terms) for kind in kinds.values()))
        return cls(
            settings=settings,
            keys=keys,
            issuer=issuer,
            identity=identity,
            identity_store=identities,
            kinds=kinds,
            words=words,
        )

    @property
    def name(self) -> str:
        """The cluster's."""
        return self.settings.cluster

    @property
    def origin(self) -> str:
        """The Authority's node id."""
        return self.identity.principal.id

    def node(self) -> Node:
        """The Authority's row of the registry."""
        facts = self.identity.facts
        key = facts.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        digest = sha256(key).digest()
        audit_key = self.identity_store.audit_key().public_key().public_bytes_raw()
        leaf = Leaf(facts.serial, digest, facts.not_after)
        name = f"authority-{self.origin[:8]}"
        return Node(
            id=self.origin,
            name=name,
            role="authority",
            key_sha256=digest,
            audit_key=audit_key,
            leaf=leaf,
            enrolled_at=time.time(),
        )

    def sealer(self) -> Sealer:
        """Seals records as this cluster classifies them."""
        return Sealer(os.urandom, {fact.name: fact for fact in self.words.terms.facts})

    def recorder(self) -> Recorder:
        """Writes this Authority's records; knows of no earlier one yet."""
        ledger = StateLedger(origin_verifier(self.keys.root_der, self.name))
        key = origin_key(self.keys)
        return Recorder(
            origin=self.origin,
            sealer=self.sealer(),
            now=time.time,
            entropy=os.urandom,
            ledger=ledger,
            key=key,
        )

    def issuers(
        self, store: IStore, state_cache: ClusterStateCache, recorder: Recorder
    ) -> IssuerRotation:
        """Enters the issuing CAs."""
        return IssuerRotation(
            issuer=self.issuer,
            state_cache=state_cache,
            store=store,
            recorder=recorder,
            now=time.time,
            load=lambda kind: self.issuer.keys.issuers[kind],
            in_thread=inline,
            is_stale=lambda kind, is_stale: None,
        )

    async def in_force(self, store: IReadOnlyStore) -> InForce:
        """What is in force by the rows of *store* and the signed records behind them."""
        state_cache = ClusterStateCache(
            store, self.recorder().ledger, time.time, advanced=lambda: None
        )
        read = await state_cache.reload()
        policy = PolicyInForce(
            cluster=self.name,
            vocabulary=self.words,
            kinds=self.kinds,
            guard=_let_in,
            in_thread=inline,
            in_force=_told,
        )
        await policy.follow(state_cache.state)
        assert policy.engine is not None
        unsigned = tuple(one.subject for one in read.unsigned)
        return InForce(
            facts=state_cache.state, engine=policy.engine, unsigned=unsigned, kinds=self.kinds
        )

    def add_head(self, tx: ITransaction) -> None:
        """Sign a head over all records, and put it where other Authorities find it."""
        tree = Tree()
        end = tx.audit.head()
        for row in tx.audit.rows(1, end.seq):
            tree.append(leaf_hash(row.canonical, row.signature))
        sign = self.keys.signer(Purpose.AUDIT_HEAD)
        key = AnchorKey(lambda data: sign(data).signature, sign(b"").chain)
        head = Head(
            cluster=self.name,
            log_id=self.name,
            tree_size=end.seq,
            root=tree.root,
            last_hash=end.hash,
            time=rfc3339(time.time()),
            lease_epoch=1,
            leader=self.origin,
            previous_head_hash=NO_HEAD,
            key_id=key.key_id,
        )
        tx.heads.add(end.seq, to_line(sign_head(head, key, tree.edge)), 4096)


async def _let_in(text: str) -> None:
    """The text of a policy is this program's own."""


async def _told(engine: CompiledPolicy, text: str) -> None:
    """Nobody is to be told."""

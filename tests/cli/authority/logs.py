"""A store on disk with an audit log in it, its heads and its trust, as an Authority leaves them."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from twisted.internet import reactor as installed
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.checkpoint.head import AnchorKey
from svc.audit.checkpoint.signer import HeadWriter
from svc.authority.state.guarded_store import StoredChain
from svc.authority.state.recorder import ANONYMOUS, node, operator, person
from svc.interfaces.store import IStore, StoreNeeds
from svc.model.audit.events import ENROLL_REFUSED, OPERATOR_REFUSED
from svc.model.audit.record import chain_hash
from svc.model.cluster.person import Person
from svc.model.signing import Purpose
from svc.pki.audit_signatures import head_verifier
from svc.pki.identity_store import IdentityStore
from svc.pki.root import ClusterKeys
from svc.runtime.services import BackgroundTasks
from svc.store.sqlite.factory import SqliteFactory
from tests.cli.authority.test_members import SEEN
from tests.cli.terminal import CLUSTER, NODE, NOW, Place, recorder
from tests.pki.support import World
from tests.support.nothing import nothing, nothing_later

ANA = Person("p" * 26, "ana")
DECISION = "d" * 32
EVIL = "\x1b]0;owned\x07\u202e"

reactor: Any = installed


class LoggedPlace(Place):
    """The place of an Authority that has been writing records."""

    factory: Any = SqliteFactory()
    at = NOW
    """When its heads were signed."""

    def __init__(self, case: SynchronousTestCase, *, within: str = "") -> None:
        super().__init__(case, within=within)
        self.world = World(CLUSTER)
        self.factory.migrate(self.url, "test", lambda: 0.0, lambda: 0.0)
        IdentityStore(self.state).pin(self.world.keys.root_der)
        self.writes = recorder()

    def open(self) -> IStore:
        """The store as its one writer; close it before the test ends."""
        needs = StoreNeeds(
            clock=reactor,
            now=lambda: NOW,
            call_from_thread=reactor.callFromThread,
            chain_hash=chain_hash,
        )
        store: IStore = self.factory.open(self.url, needs)
        return store

    async def fill(self, store: IStore, count: int, keys: ClusterKeys | None = None) -> None:
        """Append that many records of a refused joiner and sign a head over all there are."""

        def append(tx: Any) -> None:
            for n in range(count):
                details = {"source_address": f"10.0.0.{n % 250}"}
                self.writes.append(tx, ENROLL_REFUSED, ANONYMOUS, details=details)

        await store.run("fill", append)
        await self.sign(store, keys)

    async def introduce(self, store: IStore) -> None:
        """Append one record each of an operator, a person and a node, who have names."""

        def append(tx: Any) -> None:
            tx.people.add(ANA, NOW)
            tx.nodes.register(SEEN)
            uid = os.geteuid()
            self.writes.append(
                tx,
                OPERATOR_REFUSED,
                operator(uid),
                decision_id=DECISION,
                details={"local_uid": uid},
            )
            self.writes.append(
                tx,
                ENROLL_REFUSED,
                person(ANA.id),
                decision_id=DECISION,
                reason=EVIL,
                details={"source_address": EVIL},
            )
            self.writes.append(tx, ENROLL_REFUSED, node(SEEN.id))

        await store.run("introduce", append)
        await self.sign(store)

    async def sign(
        self, store: IStore, keys: ClusterKeys | None = None, restored_seq: int = 0
    ) -> None:
        """Sign a head with the anchor key of *keys*, by default the cluster's."""
        anchor = (keys or self.world.keys).signer(Purpose.AUDIT_HEAD)
        writer = HeadWriter(
            chain=StoredChain(store),
            keeper=AnchorDirectory(self.state / "anchor"),
            key=AnchorKey(lambda data: anchor(data).signature, anchor(b"").chain),
            verify_head=head_verifier(self.world.keys.root_der, CLUSTER),
            cluster=CLUSTER,
            log_id=CLUSTER,
            leader=NODE,
            clock=reactor,
            now=lambda: self.at,
            tasks=BackgroundTasks(),
            restored_seq=restored_seq,
            lease_epoch=lambda: 1,
            share=nothing_later,
            on_signed=nothing,
            ours=nothing,
            on_takeover=nothing,
            on_unsigned=nothing,
        )
        await writer.start()
        await writer.stop()

    def files(self) -> dict[str, str]:
        """Every file below the place, by the digest of its bytes."""
        return {
            str(path.relative_to(self.base)): sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.base.rglob("*"))
            if path.is_file()
        }

    def flip(self, place_of: Callable[[bytes], int], to: bytes | None = None) -> None:
        """Change one byte of the closed store's file, at the offset that *place_of* gives."""
        data = bytearray(self.store.read_bytes())
        at = place_of(bytes(data))
        data[at] = data[at] ^ 1 if to is None else to[0]
        self.store.write_bytes(data)

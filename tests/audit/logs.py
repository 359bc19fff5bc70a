"""An audit log in memory, with heads signed by a key of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256

from attrs import define, evolve, field
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from zope.interface import implementer

from svc.audit.checkpoint.head import NO_HEAD, AnchorKey, sign_head
from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.audit.log.record import seal
from svc.interfaces.audit import IChain, IHeadKeeper
from svc.model.audit import events
from svc.model.audit.ledger import ChainHead, ChainRow, PersonalValue
from svc.model.audit.record import (
    GENESIS,
    Actor,
    AuditRecord,
    Head,
    RestoredProof,
    SealedRecord,
    SignedHead,
    chain_hash,
    rfc3339,
)
from svc.model.canonical import Json
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.terms import AttributeTerm
from svc.model.signing import BadSignature, Purpose, Signed, sign, verify

KEY = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)
ANCHOR = AnchorKey(lambda data: sign(KEY, Purpose.AUDIT_HEAD, data), (b"anchor certificate",))
FACTS = {
    "weekday": AttributeTerm(
        name="weekday", type="String", classified="public", help="day of the week"
    ),
    "source_address": AttributeTerm(
        name="source_address", type="String", classified="personal", help="address"
    ),
    "proxy_reported": AttributeTerm(
        name="proxy_reported",
        type=(
            AttributeTerm(
                name="source_address", type="String", classified="personal", help="address"
            ),
            AttributeTerm(name="port", type="Long", classified="public", help="port"),
        ),
        classified="public",
        help="what the Proxy says",
    ),
}


def verify_head(signed: Signed, at: float) -> None:
    """Accept what the one key signed for heads."""
    if signed.chain != ANCHOR.chain:
        raise BadSignature("the chain does not end in the trusted root")
    verify(KEY.public_key(), Purpose.AUDIT_HEAD, signed.payload, signed.signature)


def record(n: int = 1) -> AuditRecord:
    """A record as a session's start leaves it."""
    return AuditRecord(
        event_id=f"0197-{n}",
        time=1_763_733_600.5 + n,
        event=events.SESSION_START,
        actor=Actor("person", "p" * 26),
        origin="a" * 26,
        resource_id="db1",
        resource_kind="tcp",
        session_uid=f"{n:032x}",
        cedar_action="tcpConnect",
        decision="allow",
        decision_id=f"{n + 1000:032x}",
        policies=("staff",),
        policy_version=3,
        request=AccessRequest(
            request_kind="connect",
            principal=EntityUid("User", "p" * 26),
            action="tcpConnect",
            resource=EntityUid("TcpService", "db1"),
            context={
                "weekday": "friday",
                "proxy_reported": {"source_address": "10.0.0.9", "port": n},
            },
        ),
        entities_digest="e" * 64,
        details={"source_address": "10.0.0.9", "proxy_id": "x" * 26},
    )


def short_record(n: int = 1) -> AuditRecord:
    """A record of few bytes, with a personal value."""
    return AuditRecord(
        event_id=f"0197-{n}",
        time=1_763_733_600.5 + n,
        event=events.ENROLL_REFUSED,
        actor=Actor("anonymous", "-"),
        origin="a" * 26,
        details={"source_address": "10.0.0.9"},
    )


def restored_record(n: int, lost: SignedHead, shared: int) -> AuditRecord:
    """An older store was put back, and the head *lost* is given up."""
    head = lost.head
    details: dict[str, Json] = {
        "lost_size": head.tree_size,
        "lost_hash": lost.hash.hex(),
        "shared_size": shared,
        "until": head.time,
        "note": "a disk failed",
    }
    return evolve(short_record(n), event=events.STORE_RESTORED, details=details)


@implementer(IChain)
@define
class MemoryLog:
    """Rows, their personal values, and salts that are different each time."""

    log: list[ChainRow] = field(factory=list)
    personal: dict[int, tuple[PersonalValue, ...]] = field(factory=dict)
    drawn: int = 0

    def entropy(self, count: int) -> bytes:
        """Bytes never given before."""
        self.drawn += 1
        return sha256(self.drawn.to_bytes(8, "big")).digest()[:count]

    def append(self, sealed: SealedRecord, signature: bytes = b"") -> ChainRow:
        """Link a record, as a store does; with the signature of another origin."""
        seq, prev = len(self.log) + 1, self.log[-1].hash if self.log else GENESIS
        found = chain_hash(seq, prev, sealed.canonical)
        row = ChainRow(
            seq=seq, prev_hash=prev, hash=found, canonical=sealed.canonical, signature=signature
        )
        self.log.append(row)
        self.personal[seq] = sealed.personal
        return row

    def fill(self, count: int, made: Callable[[int], AuditRecord] = record) -> None:
        """Append that many records."""
        for _ in range(count):
            self.append(seal(made(len(self.log) + 1), self.entropy, FACTS))

    def put_back(self, size: int) -> None:
        """An older state takes the place of this one."""
        self.log = self.log[:size]

    def go_on(
        self, size: int, lost: SignedHead, hours: int, shared: int | None = None
    ) -> SignedHead:
        """Put an older state back and record it; the head that proves it."""
        self.put_back(size)
        tree = Tree()
        for row in self.log:
            tree.append(leaf_hash(row.canonical))
        said = restored_record(size + 1, lost, size if shared is None else shared)
        row = self.append(seal(said, self.entropy, FACTS))
        (head,) = heads_over(self.log, size + 1, begin=hours)
        return evolve(head, restored=RestoredProof(row.canonical, tuple(tree.edge)))

    def personal_of(self, first: int, last: int) -> dict[int, tuple[PersonalValue, ...]]:
        """What is not erased."""
        return {seq: kept for seq, kept in self.personal.items() if first <= seq <= last}

    def entries(
        self, from_seq: int, limit: int
    ) -> list[tuple[ChainRow, tuple[PersonalValue, ...]]]:
        """See ``svc.audit.log.covered``; with the personal values."""
        rows = self.log[from_seq - 1 : from_seq - 1 + limit]
        return [(row, self.personal.get(row.seq, ())) for row in rows]

    def bare(self, from_seq: int, limit: int) -> list[tuple[ChainRow, tuple[PersonalValue, ...]]]:
        """As :meth:`entries`, without the personal values."""
        return [(row, ()) for row, _ in self.entries(from_seq, limit)]

    async def head(self) -> ChainHead:
        """See IChain."""
        return ChainHead(self.log[-1].seq, self.log[-1].hash) if self.log else ChainHead()

    async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        """See IChain."""
        return tuple(self.log[from_seq - 1 : from_seq - 1 + limit])


@implementer(IHeadKeeper)
@define
class MemoryHeads:
    """Heads in a list."""

    kept: list[SignedHead] = field(factory=list)

    def newest(self) -> SignedHead | None:
        """See IHeadKeeper."""
        return self.kept[-1] if self.kept else None

    def keep(self, head: SignedHead) -> None:
        """See IHeadKeeper."""
        self.kept.append(head)

    def heads(self) -> Iterator[SignedHead]:
        """See IHeadKeeper."""
        return iter(list(self.kept))

    def give_up(self, size: int) -> int:
        """See IHeadKeeper."""
        lost = [head for head in self.kept if head.head.tree_size > size]
        self.kept = self.kept[: len(self.kept) - len(lost)]
        return len(lost)


def heads_over(
    rows: list[ChainRow],
    *sizes: int,
    hours: int = 0,
    begin: int = 0,
    anchor: AnchorKey = ANCHOR,
    log_id: str = "log",
) -> list[SignedHead]:
    """Signed heads over the first so many rows, each so many hours after the one before.

    The first one is signed when *begin* hours are over.
    """
    tree, found = Tree(), list[SignedHead]()
    for row in rows:
        tree.append(leaf_hash(row.canonical, row.signature))
        if tree.size in sizes:
            head = Head(
                cluster="demo.example",
                log_id=log_id,
                tree_size=tree.size,
                root=tree.root,
                last_hash=row.hash,
                time=rfc3339(1_763_733_600 + 3600 * (begin + hours * len(found))),
                lease_epoch=1,
                leader="a" * 26,
                previous_head_hash=found[-1].hash if found else NO_HEAD,
                key_id=anchor.key_id,
            )
            found.append(sign_head(head, anchor, tree.edge))
    return found

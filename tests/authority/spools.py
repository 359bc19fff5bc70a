"""Origins of audit rows, and a leader that drains them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, evolve
from cryptography.hazmat.primitives.asymmetric import ed25519
from zope.interface import implementer

from svc.audit.ingest.requests import GatedKind
from svc.audit.ingest.validate import may_write_with
from svc.audit.log.kind_events import kind_events
from svc.audit.log.record import Sealer
from svc.audit.spool.entry.forms import seal_request
from svc.audit.spool.rows import RowMaker
from svc.authority.ingest.admin import QueueAdmin
from svc.authority.ingest.drain import QueueConsumer
from svc.authority.ingest.origins import OriginKeys
from svc.authority.ingest.queue import QueueIntake
from svc.authority.ingest.watch import QueueMeters, QueueWatch
from svc.authority.state.recorder import person
from svc.errors import SvcError
from svc.interfaces.kinds import KindEvent
from svc.interfaces.store import IStore, ITransaction
from svc.messages.spooled import SpoolState
from svc.model.audit.decision_ids import DecisionIds
from svc.model.audit.events import (
    RECORDING_DELIVERED,
    REFUSALS_SUMMARY,
    ROLE_START,
    ROLE_STOP,
    SESSION_START,
)
from svc.model.audit.ledger import GENESIS
from svc.model.audit.outbox import Offered, QueuedRow
from svc.model.audit.record import Actor, AuditRecord, Event
from svc.model.audit.request import RequestRecord, SealedRequest, SessionNumbers
from svc.model.audit.spool import SpoolPlace, SpoolRow, read_place, row_hash, row_signer
from svc.model.canonical import Json
from svc.model.ids import event_id, random_id
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.requests import context_at
from svc.model.principal import Role
from svc.model.session.session import Session
from tests.authority.house import ADA, WORDS, Holder, House, value_of

FACTS = {fact.name: fact for fact in WORDS.terms.facts}
NOTED = kind_events(
    "tcp",
    {"tcp.odd": KindEvent("something odd", {"size": "number public", "words": "text personal"})},
)
WITH_REQUESTS = may_write_with(
    (RECORDING_DELIVERED, ROLE_START, ROLE_STOP, *NOTED.values()),
    {"tcp": GatedKind("TcpService", {"tcpConnect": "connect"})},
)
"""With what Proxies write once there are kinds whose requests they decide."""


class Origin:
    """One Proxy (or Authority) and the spool of its life now."""

    def __init__(self, house: House, name: str, role: Role = Role.PROXY) -> None:
        self.house = house
        self.key = ed25519.Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))
        self.holder: Holder = house.node(role, name, self.key.public_key().public_bytes_raw())
        house.refresh()
        self.id = self.holder.id
        self.maker = RowMaker(
            origin=self.id,
            key=self.key,
            sealer=Sealer(house.entropy, FACTS),
            now=house.now,
            entropy=house.entropy,
        )
        self.ids = DecisionIds(self.id, house.now, house.entropy)
        self.opened = dict[str, str]()
        self.begin()

    def begin(self, *former: str) -> SpoolRow:
        """A new life: its first row."""
        self.spool_id = random_id(self.house.entropy)
        self.last, self.tip = 0, GENESIS
        self.first = self.add(self.maker.opening(self.spool_id, former))
        return self.first

    def add(self, record: AuditRecord) -> SpoolRow:
        """The next row."""
        place = SpoolPlace(self.spool_id, self.last + 1, self.tip)
        row = self.maker.row(record, place)
        self.last, self.tip = place.n, row_hash(row.canonical)
        return row

    def record(self, event: Event, actor: Actor, **fields: Any) -> AuditRecord:
        """A record of this origin."""
        at = self.house.now()
        return AuditRecord(
            event_id=event_id(at, self.house.entropy),
            time=at,
            event=event,
            actor=actor,
            origin=self.id,
            **fields,
        )

    def opened_on(self, resource: str = "db1") -> str:
        """The session that single records about a resource are of."""
        if resource not in self.opened:
            self.opened[resource] = self.session(resource_id=resource).session_uid
        return self.opened[resource]

    def noted(self, resource: str = "db1", **more: Any) -> SpoolRow:
        """Something that the gate of a kind noted in a session of ada's."""
        details: dict[str, Json] = {"size": 7, "words": "a b", "proxy_id": self.id}
        said = {
            "event": NOTED["tcp.odd"],
            "actor": Actor("person", ADA),
            "details": {**details, "source_address": "192.0.2.7"},
            "resource_id": resource,
            "resource_kind": "tcp",
            "session_uid": self.opened_on(resource),
            **more,
        }
        return self.add(self.record(**said))

    def session(self, **more: Any) -> SessionNumbers:
        """A session of ada's that Authority granted to this Proxy."""
        uid, house = random_id(self.house.entropy), self.house
        made = Session(
            uid=uid,
            person_id=ADA,
            resource_id="db1",
            kind="tcp",
            connector_id=house.connector.id,
            proxy_id=self.id,
            decision_id=random_id(house.entropy),
            started_at=house.now(),
        )
        made = evolve(made, **more)

        def open_(tx: ITransaction) -> None:
            tx.sessions.insert(made)
            house.recorder.append(
                tx,
                SESSION_START,
                person(made.person_id),
                decision_id=made.decision_id,
                resource_id=made.resource_id,
                resource_kind=made.kind,
                session_uid=uid,
                details={"proxy_id": made.proxy_id},
            )

        value_of(house.store.store.run("a session", open_))
        return SessionNumbers(uid)

    def request(self, numbers: SessionNumbers, **more: Any) -> RequestRecord:
        """A decided request of a session."""
        asked = AccessRequest(
            request_kind="connect",
            principal=EntityUid("User", ADA),
            action="tcpConnect",
            resource=EntityUid("TcpService", "db1"),
            context=context_at(self.house.now(), "192.0.2.7"),
        )
        made = RequestRecord(
            numbers=numbers,
            time=self.house.now(),
            request=asked,
            decision="allow",
            decision_id=self.ids.next(),
            policies=("dev-uses-tcp",),
            policy_version=1,
            entities_digest="e" * 64,
        )
        return evolve(made, **more)

    def sealed(self, made: RequestRecord) -> SealedRequest:
        """A request as an entry of a batch."""
        return seal_request(made, self.maker.sealer.entropy, self.maker.sealer.facts)

    def batch(self, *requests: RequestRecord) -> SpoolRow:
        """The row of requests that were decided together."""
        sealed = [self.sealed(one) for one in requests]
        place, numbers = SpoolPlace(self.spool_id, self.last + 1, self.tip), dict[Any, int]()
        row = self.maker.batch(sealed, place, numbers)
        for session, n in numbers.items():
            session.last = n
        self.last, self.tip = place.n, row_hash(row.canonical)
        return row

    def summary(self) -> SpoolRow:
        """Another sort of row."""
        details: dict[str, Json] = {"count": 3, "proxy_id": self.id, "person_id": ADA}
        return self.add(
            self.record(REFUSALS_SUMMARY, Actor("node", self.id), details=details, reason="opens")
        )

    def close(self) -> SpoolRow:
        """The last row."""
        return self.add(self.maker.closing(self.spool_id, self.last + 1))

    def signed(self, row: SpoolRow, canonical: bytes) -> SpoolRow:
        """*row* with another record, signed by this origin."""
        return evolve(row, canonical=canonical, signature=row_signer(self.key)(canonical))


def watcher(house: House, told: dict[str, float]) -> QueueWatch:
    """The watch of one instance; what it says goes into *told*."""

    def missing(count: float) -> None:
        told["missing"] += count

    def to(name: str) -> Any:
        return lambda value: told.__setitem__(name, value)

    meters = QueueMeters(depth=to("depth"), held=to("held"), oldest_age=to("age"), missing=missing)
    return QueueWatch(house.store, house.now, meters)


@implementer(IStore)
@define
class Reading:
    """A store whose reads are a test's."""

    store: IStore
    read: Any

    async def run(self, desc: str, fn: Any) -> Any:
        """As the store does."""
        return await self.store.run(desc, fn)

    async def close(self) -> None:
        """Nothing of ours."""


@implementer(IStore)
@define
class Writing:
    """A store whose writes are a test's."""

    store: IStore
    run: Any

    async def read(self, desc: str, fn: Any) -> Any:
        """As the store does."""
        return await self.store.read(desc, fn)

    async def close(self) -> None:
        """Nothing of ours."""


class Leader:
    """What the leader does with the queue."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.held: list[str] = []
        self.size = 0
        self.drains = QueueConsumer(
            store=house.store,
            recorder=house.recorder,
            keys=OriginKeys(house.state_cache),
            now=house.now,
            held=self.held.append,
            may_write=WITH_REQUESTS,
        )
        self.admin = QueueAdmin(
            store=house.store, recorder=house.recorder, now=house.now, may_write=WITH_REQUESTS
        )
        self.nudged = 0
        self.intake = QueueIntake(
            store=house.store,
            now=house.now,
            covered=lambda: self.size,
            arrived=self.nudge,
            rates=house.rates,
        )

    def nudge(self) -> None:
        """Rows came."""
        self.nudged += 1

    def inject(self, *rows: SpoolRow, place: tuple[str, str, int] = ("o", "s", 1)) -> None:
        """By SQL, past the intake."""
        offered = []
        for row in rows:
            try:
                origin, at = read_place(row.canonical)
                offered.append(Offered(row=row, origin=origin, spool_id=at.spool_id, n=at.n))
            except SvcError:
                offered.append(Offered(row, *place))
        now = self.house.now()
        value_of(self.house.store.store.run("inject", lambda tx: tx.outbox.add(offered, now)))

    def send(self, origin: Origin, rows: Sequence[SpoolRow] = ()) -> SpoolState:
        """As the Proxy brings them."""
        state: SpoolState = value_of(
            self.intake.take(self.house.row(origin.holder), origin.spool_id, rows)
        )
        return state

    def drain(self) -> None:
        """One pass."""
        value_of(self.drains.drain())

    def covers(self) -> None:
        """A head is signed over all there is."""
        self.size = value_of(self.house.store.store.read("size", lambda tx: tx.audit.head())).seq

    def queue(self) -> tuple[QueuedRow, ...]:
        """What is in the queue."""
        found: tuple[QueuedRow, ...] = value_of(
            self.house.store.store.read("look", lambda tx: tx.outbox.rows(0, 100_000))
        )
        return found

    def holds(self) -> list[str | None]:
        """Why each row of the queue is held, in order."""
        return [None if row.hold is None else row.hold.value for row in self.queue()]

    def logged(self, rows: Iterable[SpoolRow]) -> list[int]:
        """How often each row is in the log."""
        chain = value_of(self.house.store.store.read("all", lambda tx: tx.audit.rows(1, 100_000)))
        records = [link.canonical for link in chain]
        return [records.count(row.canonical) for row in rows]

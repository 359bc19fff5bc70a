"""A standby Authority's own records: it may not append, so it queues them.

Its spool needs no file, because a row is durable in the store or it is not
written at all.  Who is not in the registry yet (an Authority that never led)
has no key in force, and says it in its log only.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from svc.audit.spool.rows import RowMaker
from svc.errors import SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.ledger import GENESIS
from svc.model.audit.outbox import Offered
from svc.model.audit.record import Actor, AuditRecord, Event
from svc.model.audit.spool import FIRST_N, SpoolPlace, SpoolRow, audit_key_id, row_digest, row_hash
from svc.model.canonical import Json
from svc.model.cluster.node import NodeState
from svc.model.ids import event_id, random_id

MAX_PENDING = 16
"""Rows of which it is not known whether the store has them; past them nothing more is said."""

_log = Logger(namespace="svc_authority")


@define
class OwnSpool:
    """The spool of this process.

    Attributes:
        store: Written to without the lease: the queue is open to every instance.
    """

    store: IStore
    maker: RowMaker
    _spool_id: str = field(default="", init=False)
    _last: SpoolPlace | None = field(default=None, init=False)
    _tip: bytes = field(default=GENESIS, init=False)
    _pending: list[tuple[SpoolPlace, SpoolRow]] = field(factory=list, init=False)
    _is_closed: bool = field(default=False, init=False)
    _lock: DeferredLock = field(factory=DeferredLock, init=False)

    @property
    def waiting(self) -> int:
        """Rows of which it is not known whether the store has them."""
        return len(self._pending)

    async def record(
        self, event: Event, details: Mapping[str, Json], reason: str | None = None
    ) -> bool:
        """Queue a record about this Authority; whether it is durable, or waits for :meth:`flush`.

        Never raises SvcError.
        """
        at = self.maker.now()
        record = AuditRecord(
            event_id=event_id(at, self.maker.entropy),
            time=at,
            event=event,
            actor=Actor("node", self.maker.origin),
            origin=self.maker.origin,
            node_id=self.maker.origin,
            details=details,
            reason=reason,
        )
        return await self._write(event, record)

    async def flush(self) -> bool:
        """Write what the store has not answered for, though no word follows.

        Called again and again; never raises SvcError.

        Returns:
            False where what waited was given up: our key is not in force.
        """
        await self._lock.acquire()
        try:
            if self._pending and not await self._flush():
                self._forget()
                return False
            if self._is_closed:
                self._forget()
        except SvcError as failed:
            _log.debug("still not recorded", waiting=len(self._pending), reason=failed.reason)
        finally:
            self._lock.release()
        return True

    async def close(self) -> None:
        """End the spool in order; the next word begins another one.

        What the store does not take just now waits for :meth:`flush`.  Never raises SvcError.
        """
        await self._lock.acquire()
        try:
            if self._last is not None and not self._is_closed:
                # It may be one more than MAX_PENDING: none follows it.
                self._add(self.maker.closing(self._spool_id, self._last.n + 1))
                self._is_closed = True
        finally:
            self._lock.release()
        await self.flush()

    async def _write(self, event: Event, record: AuditRecord) -> bool:
        await self._lock.acquire()
        waits = False
        try:
            if self._is_closed:
                raise SvcError("the end of the spool is still waiting for the store")
            if len(self._pending) >= MAX_PENDING and not await self._flush():
                raise SvcError("too many rows are waiting for the store")
            if self._last is None:
                await self._open()
            self._add(record)
            waits = True
            if await self._flush():
                return True
            waits = False
            _log.debug("not recorded: this Authority has no active key yet", said=event.name)
            self._forget()
        except SvcError as failed:
            _log.warn("not recorded", said=event.name, reason=failed.reason, text=failed.text)
        finally:
            self._lock.release()
        return waits

    async def _open(self) -> None:
        """Begin a spool, naming those of former lives that have no end."""
        origin = self.maker.origin

        def former(tx: ITransaction) -> dict[str, int]:
            found = dict(tx.spools.queued(origin))
            for spool_id, memory in tx.spools.unended(origin).items():
                found[spool_id] = max(memory.high, found.get(spool_id, 0))
            return found

        spools = await self.store.read("former spools", former)
        self._spool_id = random_id(self.maker.entropy)
        named = tuple(f"{spool_id}:{last}" for spool_id, last in sorted(spools.items()))
        self._add(self.maker.opening(self._spool_id, named))

    def _add(self, record: AuditRecord) -> None:
        n = FIRST_N if self._last is None else self._last.n + 1
        place = SpoolPlace(self._spool_id, n, self._tip)
        row = self.maker.row(record, place)
        self._pending.append((place, row))
        self._last, self._tip = place, row_hash(row.canonical)

    async def _flush(self) -> bool:
        """Write what is pending; whether this Authority's key is in the registry."""
        origin, key_id = self.maker.origin, self.maker.key_id
        offered = [
            Offered(row=row, origin=origin, spool_id=place.spool_id, n=place.n)
            for place, row in self._pending
        ]

        def add(tx: ITransaction) -> bool:
            node = tx.nodes.get(origin)
            if node is None or node.state is not NodeState.ACTIVE:
                return False
            if audit_key_id(node.audit_key) != key_id:
                return False
            # An answer may have been lost: what is there already is not queued again.
            there = tx.spools.there(offered)
            fresh = [one for one in offered if row_digest(one.row) not in there]
            if fresh:
                tx.outbox.add(fresh, self.maker.now())
            return True

        if not await self.store.run("queue rows of our own", add):
            return False
        self._pending.clear()
        return True

    def _forget(self) -> None:
        self._spool_id, self._last, self._tip = "", None, GENESIS
        self._is_closed = False
        self._pending.clear()

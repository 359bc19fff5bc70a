"""Records the ends of tunnels, also those that the store does not take at once.

They wait in memory, in order.  While the store takes nothing no tunnel is registered either, so
no more of them wait than there were tunnels.

A fact of the store says of each registered tunnel where its record is in the log.  It is set with
that record and dropped with the record of the end.  So a leader that was killed leaves facts, from
which the next leader records the ends.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.authority.state.recorder import RecordedOnce, Recorder, node
from svc.errors import Malformed, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import TUNNEL_ENDED, TUNNEL_REGISTERED
from svc.model.audit.ledger import ChainRow
from svc.model.canonical import decode
from svc.runtime.backoff import Backoff
from svc.runtime.services import AsyncService, BackgroundTasks

MAX_WAITING = 20_000
"""Far more than tunnels that one Authority serves."""

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 30.0

_BATCH = 1000
"""Ends recorded in one transaction, of tunnels that another leader left."""

_FACT = "open_tunnel"

LEADER_GONE = "leader_gone"
"""Why a tunnel ended whose end the leader that registered it did not record."""

_log = Logger(namespace="svc_authority")


@define
class _EndedTunnel:
    """One tunnel that ended, or was registered again.

    Attributes:
        seq: Where the log has its registration.
        lasted_ms: None where it was registered again: that is no end.
    """

    seq: int
    node_id: str
    proxy_id: str
    lasted_ms: int | None
    record: RecordedOnce = field(factory=RecordedOnce)


def note_open(tx: ITransaction, registered: ChainRow) -> None:
    """Note a tunnel whose registration was just recorded: its end is to be recorded, too."""
    tx.schema.settle(_fact(registered.seq), "")


@define(slots=False, eq=False)
class TunnelEndRecords(AsyncService):
    """Writes each end; stopped before the store is."""

    store: IStore
    recorder: Recorder
    clock: IReactorTime
    tasks: BackgroundTasks
    _waiting: deque[_EndedTunnel] = field(factory=deque, init=False)
    _is_writing: bool = field(default=False, init=False)
    _lock: DeferredLock = field(factory=DeferredLock, init=False)

    @property
    def waiting(self) -> int:
        """Ends that are not on record yet."""
        return len(self._waiting)

    def ended(self, seq: int, *, node_id: str, proxy_id: str, lasted: float) -> None:
        """Record that a Connector's tunnel over a Proxy ended after *lasted* seconds."""
        lasted_ms = max(0, round(lasted * 1000))
        self._add(_EndedTunnel(seq=seq, node_id=node_id, proxy_id=proxy_id, lasted_ms=lasted_ms))

    def replaced(self, seq: int, *, node_id: str, proxy_id: str) -> None:
        """A tunnel was registered again, so that the end of this registration is none of its."""
        self._add(_EndedTunnel(seq=seq, node_id=node_id, proxy_id=proxy_id, lasted_ms=None))

    async def record_left(self) -> int:
        """Record the ends of the tunnels that the leaders before left open; how many.

        Called as this Authority begins to lead, before it registers any.  Raises SvcError.
        """
        names = await self.store.read("tunnels left open", lambda tx: tx.schema.facts(_FACT))
        count = 0
        for start in range(0, len(names), _BATCH):
            some = names[start : start + _BATCH]
            count += await self.store.run("end tunnels", partial(self._end_left, names=some))
        if count:
            _log.info("ends of tunnels recorded that another leader left", tunnels=count)
        return count

    def _end_left(self, tx: ITransaction, names: tuple[str, ...]) -> int:
        return sum(self._end_one_left(tx, name) for name in names)

    def _end_one_left(self, tx: ITransaction, name: str) -> bool:
        if not tx.schema.drop(name):
            return False
        # The fact is signed by nobody: only what the log says was registered has an end.
        registered = _registered(tx, name)
        if registered is None:
            _log.warn("a fact of the store names no registration of a tunnel", fact=name)
            return False
        node_id, proxy_id = registered
        self.recorder.append(
            tx,
            TUNNEL_ENDED,
            node(node_id),
            node_id=node_id,
            reason=LEADER_GONE,
            details={"proxy_id": proxy_id, "connector_id": node_id},
        )
        return True

    def _add(self, one: _EndedTunnel) -> None:
        if len(self._waiting) >= MAX_WAITING:
            _log.error("the end of a tunnel is not recorded: too many wait", node=one.node_id)
            return
        self._waiting.append(one)
        if not self._is_writing:
            self._is_writing = True
            self.tasks.spawn("record ends of tunnels", self._write_all())

    async def stop(self) -> None:
        """Try once more; what is not written is lost with the process."""
        try:
            await self._write()
        except SvcError as e:
            _log.error("ends of tunnels are not recorded", tunnels=self.waiting, reason=e.reason)

    async def _write_all(self) -> None:
        waits = Backoff(_FIRST_WAIT, _LONGEST_WAIT)
        try:
            while self._waiting:
                try:
                    await self._write()
                except SvcError as e:
                    _log.warn(
                        "ends of tunnels wait for the store",
                        tunnels=self.waiting,
                        reason=e.reason,
                    )
                    await deferLater(self.clock, waits.next())
        finally:
            self._is_writing = False

    async def _write(self) -> None:
        """Write all that wait.  Raises SvcError."""
        await self._lock.acquire()
        try:
            while self._waiting:
                await self._write_one(self._waiting[0])
                self._waiting.popleft()
        finally:
            self._lock.release()

    async def _write_one(self, one: _EndedTunnel) -> None:
        def append(tx: ITransaction) -> ChainRow | None:
            tx.schema.drop(_fact(one.seq))
            if one.lasted_ms is None:
                return None
            return self.recorder.append(
                tx,
                TUNNEL_ENDED,
                node(one.node_id),
                node_id=one.node_id,
                details={
                    "proxy_id": one.proxy_id,
                    "connector_id": one.node_id,
                    "duration_ms": one.lasted_ms,
                },
            )

        try:
            await self.store.run("end a tunnel", lambda tx: one.record.append(tx, append))
        except (CancelledError, SvcError):
            raise
        except Exception:
            # It would fail again, and must not keep back the others.
            _log.failure("the end of a tunnel cannot be recorded", node=one.node_id)


def _fact(seq: int) -> str:
    return f"{_FACT}.{seq}"


def _registered(tx: ITransaction, name: str) -> tuple[str, str] | None:
    """The Connector and the Proxy of the registration that a fact names, as the log has it."""
    seq = name.rpartition(".")[2]
    if not (seq.isascii() and seq.isdecimal() and len(seq) < 19):
        return None
    rows = [one for one in tx.audit.rows(int(seq), 1) if one.seq == int(seq)]
    try:
        record: Any = decode(rows[0].canonical) if rows else None
    except Malformed:
        return None  # what is wrong with the log is found where it is verified
    if not isinstance(record, dict) or record.get("event") != TUNNEL_REGISTERED.name:
        return None
    details = record.get("details")
    known = details if isinstance(details, dict) else {}
    node_id, proxy_id = known.get("connector_id"), known.get("proxy_id")
    if not isinstance(node_id, str) or not isinstance(proxy_id, str):
        return None
    return node_id, proxy_id

"""Records the ends of tunnels, also those that the store does not take at once.

They wait in memory, in order.  While the store takes nothing no tunnel is registered either, so
no more of them wait than there were tunnels.

Those that a killed leader left are recorded by the next, see ``svc.authority.registry.left_open``.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field
from twisted.internet.defer import CancelledError, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.authority.registry.left_open import OpenFacts, TunnelsLeftOpen, open_fact
from svc.authority.state.recorder import RecordedOnce, Recorder, node
from svc.errors import SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import TUNNEL_ENDED
from svc.model.audit.ledger import ChainRow
from svc.runtime.backoff import Backoff
from svc.runtime.services import AsyncService, BackgroundTasks

MAX_WAITING = 20_000
"""Far more than tunnels that one Authority serves."""

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 30.0

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
    tx.schema.settle(open_fact(registered.seq), "")


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

    async def record_left(self) -> None:
        """Record the ends of the tunnels that the leaders before left open.

        Called as this Authority begins to lead, before it registers any.  They are judged by the
        log: where a long part of that is to be read, nobody waits.  Raises SvcError.
        """
        left = TunnelsLeftOpen(self.store, self.recorder)
        facts = await left.look()
        if facts.is_near:
            await left.record_ends(facts)
        else:
            self.tasks.spawn("record ends of tunnels left open", self._record_later(left, facts))

    async def _record_later(self, left: TunnelsLeftOpen, facts: OpenFacts) -> None:
        try:
            await left.record_ends(facts)
        except SvcError as e:
            _log.warn(
                "ends of tunnels that another leader left wait for the next start", reason=e.reason
            )

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
            tx.schema.drop(open_fact(one.seq))
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

"""The Proxy's spool: its files, their thread, and the way of its rows to Authority."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define
from twisted.internet.defer import maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from svc.audit.record import Sealer
from svc.audit.spool import InThread, Spool
from svc.audit.spool_files import SpoolFiles
from svc.audit.spool_room import Room
from svc.audit.spool_rows import RowMaker
from svc.compose.runtime import Runtime, StateDirectory
from svc.config import RoleSettings
from svc.interfaces.rpc import IRpcChannel
from svc.pki.identity_store import IdentityStore
from svc.proxy.delivery import SpoolDelivery
from svc.proxy.ends import EndsFile, EndsJournal
from svc.proxy.reports import Reports
from svc.service import AsyncService, BackgroundTasks

SPOOL = "spool"
ENDS = "ends"


@define(slots=False, eq=False)
class Spooling(AsyncService):
    """Opens the spool before anything else runs, and ends its thread after everything else.

    Opening blocks, once: nothing else of the role runs yet, and the first greeting has to claim
    the sessions whose ends are still to be told.
    """

    thread: ThreadPool
    spool: Spool
    delivery: SpoolDelivery
    journal: EndsJournal
    reports: Reports | None = None

    async def start(self) -> None:
        """Find what a former process left to tell, and begin a spool."""
        owed = await self.journal.load()
        if self.reports is not None:
            self.reports.recover(owed)
        await self.spool.open()
        self.thread.start()

    async def stop(self) -> None:
        """End the thread; the spool itself was closed as the work ended."""
        self.delivery.stop()
        self.journal.stop()
        self.thread.stop()


def make_spooling(
    runtime: Runtime,
    settings: RoleSettings,
    state: StateDirectory,
    identities: IdentityStore,
    origin: str,
    channel: Callable[[], IRpcChannel],
    tasks: BackgroundTasks,
) -> Spooling:
    """Wire it; nothing is opened yet.

    Args:
        origin: The node's id.
        channel: Gives the channel to Authority or raises while there is none.

    Raises:
        ConfigError: the node's audit key cannot be trusted.
    """
    thread = ThreadPool(0, 1, "spool")
    in_thread = _runner(runtime.reactor, thread)
    sealer = Sealer(runtime.entropy)
    maker = RowMaker(origin, identities.audit_key(), sealer, runtime.now, runtime.entropy)
    root = state / SPOOL
    spool = Spool(SpoolFiles(root, maker, Room(settings.proxy.spool_max_bytes)), in_thread)
    delivery = SpoolDelivery(spool, channel, tasks, runtime.reactor)
    spool.committed = delivery.committed
    journal = EndsJournal(EndsFile(root / ENDS), in_thread, tasks, runtime.reactor)
    return Spooling(thread, spool, delivery, journal)


def _runner(reactor: Any, thread: ThreadPool) -> InThread:
    def run(call: Callable[[], Any]) -> Awaitable[Any]:
        if not thread.started:
            return maybeDeferred(call)
        return deferToThreadPool(reactor, thread, call)

    return run

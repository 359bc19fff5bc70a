"""Builds the Proxy's spool: its files, their thread, and the delivery to the Authority."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.audit.log.record import SALT_BYTES, Sealer
from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.quota import SpoolQuota
from svc.audit.spool.rows import RowMaker
from svc.audit.spool.spool import MEND_SECS, Spool
from svc.compose.drop_ins import Kinds
from svc.config import RoleSettings
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.model.ids import DrawnAhead
from svc.pki.identity_store import IdentityStore
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.proxy.shutdown import WRITE_SECS
from svc.proxy.uplink.deliver import SpoolDelivery
from svc.proxy.uplink.heads import KnownCheckpoints
from svc.proxy.uplink.journal import EndsFile, EndsJournal, OwedEnd
from svc.proxy.uplink.snapshot import SnapshotHolder
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncService, BackgroundTasks, PeriodicTask, bounded
from svc.runtime.state_directory import StateDirectory
from svc.runtime.threads import SerialThread, T, inline

SPOOL = "spool"
ENDS = "ends"

_log = Logger(namespace="svc_proxy")


@define(eq=False)
class SpoolThread:
    """Runs what blocks on the spool's disk: at once until it is open, in its own thread after.

    Opening blocks, once: nothing else of the role runs yet, and the first greeting has to claim
    the sessions whose ends are still to be told.
    """

    own: SerialThread
    _is_open: bool = field(default=False, init=False)

    def opened(self) -> None:
        """Use the thread from now on."""
        self._is_open = True

    def __call__(self, call: Callable[[], T], /) -> Deferred[T]:
        """Run *call*."""
        return self.own(call) if self._is_open else inline(call)


@define
class SpoolParts:
    """What a spool consists of."""

    thread: SpoolThread
    spool: Spool
    delivery: SpoolDelivery
    journal: EndsJournal

    def check_of(self, heads: KnownCheckpoints, holder: SnapshotHolder) -> Callable[[], None]:
        """Raises SvcError while the disk takes no record, or not the newest head or policy."""

        def check() -> None:
            self.spool.check()
            heads.check()
            holder.check_kept()

        return check

    def mending(self, heads: KnownCheckpoints, clock: IReactorTime) -> PeriodicTask:
        """Looks whether the disk has room, and writes again what it refused before."""

        async def mend() -> None:
            await self.spool.mend()
            await heads.mend()

        return PeriodicTask(
            clock=clock, interval=MEND_SECS, call=mend, what="audit spool", at_once=False
        )


@define(slots=False, eq=False)
class SpoolService(AsyncService):
    """Opens the spool before anything else runs, and ends its thread after everything else.

    Attributes:
        recover: Takes what a former process of this Proxy still had to tell.
    """

    parts: SpoolParts
    clock: IReactorTime
    recover: Callable[[Iterable[OwedEnd]], object]

    async def start(self) -> None:
        """Find what a former process left to tell, and begin a spool."""
        self.recover(await self.parts.journal.load())
        await self.parts.spool.open()
        self.parts.thread.opened()

    async def stop(self) -> None:
        """End the thread; the spool itself was closed as the work ended.

        A disk that hangs is waited for a few seconds: its thread does not hold the process.
        """
        parts = self.parts
        parts.delivery.stop()
        parts.journal.stop()
        try:
            await bounded(self.clock, WRITE_SECS, parts.thread.own.end(), "the spool's disk")
        except SvcError as e:
            _log.error(
                "the spool's disk does not respond; rows not yet durable are lost if this "
                "process ends",
                records=parts.spool.not_durable,
                ends=parts.journal.not_durable,
                reason=e.reason,
            )


def request_sealer(runtime: Runtime, kinds: Kinds) -> Sealer:
    """Hides what is personal in records of requests, by what the kinds say of their facts."""
    terms = [kind_terms(kind.terms) for kind in kinds.by_name.values()]
    salts = DrawnAhead(runtime.entropy, SALT_BYTES)
    return Sealer(salts, {fact.name: fact for fact in vocabulary(*terms).terms.facts})


def make_spooling(
    runtime: Runtime,
    settings: RoleSettings,
    state: StateDirectory,
    identities: IdentityStore,
    origin: str,
    channel: Callable[[], IRpcChannel],
    tasks: BackgroundTasks,
    sealer: Sealer,
    has_room: Callable[[], object],
) -> SpoolParts:
    """Wire it; nothing is opened yet.

    Args:
        origin: The node's id.
        channel: Gives the channel to Authority or raises while there is none.
        sealer: Hides what is personal in the records of requests.
        has_room: Called when there is a spool, and room for what others than the node cause.

    Raises:
        ConfigError: the node's audit key cannot be trusted.
    """
    in_thread = SpoolThread(SerialThread("spool", runtime.reactor.callFromThread))
    maker = RowMaker(
        origin=origin,
        key=identities.audit_key(),
        sealer=sealer,
        now=runtime.now,
        entropy=DrawnAhead(runtime.entropy, SALT_BYTES),
    )
    root = state / SPOOL
    spool = Spool(
        files=SpoolFiles(root, maker, SpoolQuota(settings.proxy.spool_max_bytes)),
        in_thread=in_thread,
        committed=lambda: delivery.committed(),
        has_room=has_room,
        clock=runtime.reactor,
        waits=settings.audit.requests == "durable",
    )
    delivery = SpoolDelivery(spool=spool, channel=channel, tasks=tasks, clock=runtime.reactor)
    journal = EndsJournal(
        file=EndsFile(root / ENDS), in_thread=in_thread, tasks=tasks, clock=runtime.reactor
    )
    return SpoolParts(thread=in_thread, spool=spool, delivery=delivery, journal=journal)

"""Opening an Authority's store at start: at once, or when its database answers.

What the store's URL, its migrations or its files refuse ends the start.  A
database that does not answer is waited for: the process is up and not ready.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from svc import __version__
from svc.compose.runtime import Runtime
from svc.config import RoleSettings
from svc.errors import ConfigError, StoreUnavailable
from svc.interfaces.store import IStore, IStoreFactory, ITransaction, StoreNeeds
from svc.model.audit import chain_hash
from svc.model.migration import Standing
from svc.plugin import Loaded, load

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
_log = Logger(namespace="svc_store")


@implementer(IStore)
@define(eq=False)
class AwaitedStore:
    """A store whose database may not have answered yet; until then every call is refused.

    Args:
        opening: Opens the store, and gives it with the migrations it applied; blocks.

    Attributes:
        migrated: What was migrated on the way.
    """

    _opening: Callable[[], tuple[IStore, tuple[str, ...]]]
    migrated: tuple[str, ...] = ()
    _store: IStore | None = None

    def open(self) -> None:
        """Open it now; raises what *opening* does."""
        self._store, self.migrated = self._opening()

    async def answered(
        self,
        clock: IReactorTime,
        in_thread: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        """Wait until the store is open.

        Raises:
            SvcError: the database answered, and the store is not to be opened.
        """
        pause, said = FIRST_PAUSE, ""
        while self._store is None:
            try:
                await in_thread(self.open)
            except StoreUnavailable as away:
                if away.retry_after is None:
                    raise
                if away.text != said:
                    said = away.text
                    _log.warn("the store does not answer; waiting for it", reason=said)
                await deferLater(clock, pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def run(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        """See :class:`IStore`."""
        return await self._answering(desc).run(desc, fn)

    async def read(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        """See :class:`IReadOnlyStore`."""
        return await self._answering(desc).read(desc, fn)

    async def close(self) -> None:
        """See :class:`IReadOnlyStore`."""
        if self._store is not None:
            await self._store.close()

    def _answering(self, desc: str) -> IStore:
        if self._store is None:
            raise StoreUnavailable(f"store: {desc}: it has not answered yet; nothing was written")
        return self._store


@define
class Opened:
    """The store as it was opened at start, or as it will be.

    Attributes:
        is_shared: Whether other Authorities may have it open too.
    """

    store: AwaitedStore
    is_shared: bool
    loaded: tuple[Loaded, ...] = field(default=())

    @property
    def migrated(self) -> tuple[str, ...]:
        """What was migrated on the way."""
        return self.store.migrated


def open_store(runtime: Runtime, settings: RoleSettings) -> Opened:
    """The store, migrated where the configuration lets us.

    Raises:
        SvcError: it cannot be opened, is newer than this build, or lacks migrations.
    """
    assert settings.store_url is not None  # the reading refuses a file without it
    url = f"{settings.store_url.scheme}://{settings.store_url.rest}"
    loaded = load(IStoreFactory, "store", settings.plugins.stores)
    factories = {one.record.name: one.provider for one in loaded}
    factory: Any = factories.get(settings.store_url.scheme)
    if factory is None:
        raise ConfigError(
            "store_url",
            f"scheme {settings.store_url.scheme}: no store drop-in of that name is enabled in "
            "plugins.stores",
        )
    factory.check(url)
    store = AwaitedStore(lambda: _open(runtime, settings, factory, url))
    try:
        store.open()
    except StoreUnavailable as away:
        if away.retry_after is None:
            raise
        _log.warn("the store does not answer; waiting for it", reason=away.text)
    return Opened(store, factory.is_shared, loaded)


def _open(
    runtime: Runtime, settings: RoleSettings, factory: Any, url: str
) -> tuple[IStore, tuple[str, ...]]:
    status = factory.migration_status(url)
    migrated: tuple[str, ...] = ()
    if status.standing is Standing.PENDING and settings.store_auto_migrate:
        report = factory.migrate(url, __version__, runtime.now, runtime.reactor.seconds)
        migrated = report.applied
    needs = StoreNeeds(
        runtime.reactor,
        runtime.now,
        runtime.reactor.callFromThread,
        chain_hash,
        crash_point=runtime.crash_point,
    )
    return factory.open(url, needs), migrated

"""Opens an Authority's store at start, immediately or as soon as it is possible.

What the store's URL or its files refuse ends the start, and so does a store
that is newer than this build.  A database that does not answer is waited for,
and so is the planned migration where the start is not to migrate by itself:
the process is up and not ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from svc import __version__
from svc.config import RoleSettings
from svc.errors import ConfigError, MigrationsPending, StoreUnavailable, SvcError
from svc.interfaces.store import IStore, IStoreFactory, ITransaction, StoreNeeds
from svc.model.audit.record import chain_hash
from svc.model.store.migration import StoreStanding
from svc.plugin import LoadedPlugin, load
from svc.runtime.backoff import Backoff
from svc.runtime.context import Runtime
from svc.runtime.threads import InThread

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
PENDING_SECS = 5.0
"""Between two looks at a store that lacks migrations (G-OPEN-43)."""
RELEASE_TIMEOUT_SECS = 120.0
"""How long whoever migrated may take to leave the store: as long as the lock is waited for."""

_log = Logger(namespace="svc_store")


@implementer(IStore)
@define(eq=False)
class AwaitedStore:
    """A store whose database may not have answered yet; until then every call is refused.

    Args:
        migrate: Applies what is pending, where the configuration lets us; blocks.
        opening: Opens the store; blocks.
    """

    _migrate: Callable[[], object]
    _opening: Callable[[], IStore]
    _store: IStore | None = None

    def open(self) -> None:
        """Open it now; raises what *migrate* and *opening* do."""
        # An attempt may migrate, find the store held by another Authority that looks for
        # migrations too, and open it only at the next attempt.
        self._migrate()
        self._store = self._opening()

    async def answered(
        self,
        clock: IReactorTime,
        in_thread: InThread,
    ) -> None:
        """Wait until the store is open.

        Raises:
            SvcError: the database answered, and the store is not to be opened.
        """
        waiting = _Waiting(clock)
        while self._store is None:
            try:
                await in_thread(self.open)
            except (StoreUnavailable, MigrationsPending) as refused:
                await deferLater(clock, waiting.pause(refused))
        if waiting.is_for_migrations:
            _log.info("the store is migrated; continuing the start")

    async def run(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        return await self._answering(desc).run(desc, fn)

    async def read(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        return await self._answering(desc).read(desc, fn)

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()

    def _answering(self, desc: str) -> IStore:
        if self._store is None:
            raise StoreUnavailable(
                f"store: {desc}: the store has not answered yet; nothing was written"
            )
        return self._store


@define
class _Waiting:
    """What a start that waits has been told so far, and what it says of that.

    Attributes:
        is_for_migrations: Whether it has waited for somebody to migrate the store.
    """

    _clock: IReactorTime
    is_for_migrations: bool = False
    _reported: str = ""
    _waits: Backoff = field(factory=lambda: Backoff(FIRST_PAUSE, LONGEST_PAUSE))
    _held_since: float | None = None

    def pause(self, refused: StoreUnavailable | MigrationsPending) -> float:
        """Seconds until the next attempt.

        Raises:
            StoreUnavailable: as it was given: no attempt will end otherwise.
        """
        if isinstance(refused, MigrationsPending):
            self.is_for_migrations, self._held_since = True, None
            self._report(refused, "migrations are pending; waiting until they are applied")
            return PENDING_SECS
        if refused.retry_after is None:
            self._require_release(refused)
        self._report(refused, "the store does not answer; waiting for it")
        return self._waits.next()

    def _require_release(self, refused: StoreUnavailable) -> None:
        """Nobody else may hold the store, but for a while whoever has just migrated it."""
        now = self._clock.seconds()
        if self._held_since is None:
            self._held_since = now
        if not self.is_for_migrations or now - self._held_since >= RELEASE_TIMEOUT_SECS:
            raise refused

    def _report(self, refused: SvcError, sentence: str) -> None:
        if refused.text != self._reported:
            self._reported = refused.text
            _log.warn(sentence, reason=refused.text)


@define
class OpenedStore:
    """The store as it was opened at start, or as it will be.

    Attributes:
        is_shared: Whether other Authorities may have it open too.
    """

    store: AwaitedStore
    is_shared: bool
    loaded: tuple[LoadedPlugin, ...] = field(default=())


def open_store(runtime: Runtime, settings: RoleSettings) -> OpenedStore:
    """The store, migrated where the configuration lets us.

    Raises:
        SvcError: it cannot be opened, or is newer than this build.
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
    store = AwaitedStore(
        lambda: _migrate(runtime, settings, factory, url), lambda: _open(runtime, factory, url)
    )
    try:
        store.open()
    except StoreUnavailable as away:
        if away.retry_after is None:
            raise
    except MigrationsPending:
        pass  # what is waited for is said by whoever waits
    return OpenedStore(store, factory.is_shared, loaded)


def _migrate(runtime: Runtime, settings: RoleSettings, factory: Any, url: str) -> None:
    status = factory.migration_status(url)
    if status.standing is StoreStanding.PENDING and settings.store_auto_migrate:
        factory.migrate(url, __version__, runtime.now, runtime.reactor.seconds)


def _open(runtime: Runtime, factory: Any, url: str) -> IStore:
    needs = StoreNeeds(
        clock=runtime.reactor,
        now=runtime.now,
        call_from_thread=runtime.reactor.callFromThread,
        chain_hash=chain_hash,
        crash_point=runtime.crash_point,
    )
    store: IStore = factory.open(url, needs)
    return store

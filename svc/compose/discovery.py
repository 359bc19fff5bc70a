"""Discovery at a Connector: the sources that the configuration names, and what publishes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, frozen
from twisted.application.service import Service
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from svc.compose.drop_ins import Kinds
from svc.config import RoleSettings
from svc.connector.discovery.publish import Publisher, SourcePublication
from svc.connector.discovery.sources import WatchedSource
from svc.connector.discovery.targets import ServedTargets
from svc.errors import ConfigError, SvcError
from svc.interfaces.discovery import IDiscoverySource, IFinder, SourceTools
from svc.interfaces.rpc import IRpcChannel
from svc.plugin import LoadedPlugin, load
from svc.runtime.backoff import Backoff, share
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncService, PeriodicTask, bounded
from svc.runtime.threads import in_pool

_log = Logger(namespace="svc_connector")

SOURCE = "source"
"""What the names of drop-ins with discovery sources begin with."""

_FIRST_LOOK_SECS = 5.0
_PUBLISH_SECS = 1.0


@frozen
class OpenedSource:
    """One table of ``connector.discovery_sources``, read by its drop-in."""

    name: str
    every_secs: float
    finder: IFinder


@frozen
class Sources:
    """Those of the configuration, and the drop-ins that they come from."""

    opened: Sequence[OpenedSource] = ()
    loaded: tuple[LoadedPlugin, ...] = ()


def open_sources(runtime: Runtime, settings: RoleSettings) -> Sources:
    """Import the drop-ins that are used, and have them read their tables.

    Raises:
        ConfigError: naming the key.
        PluginError: a drop-in cannot be loaded.
    """
    enabled, opened = settings.plugins.sources, list[OpenedSource]()
    used = {one.source for one in settings.connector.discovery_sources}
    loaded = load(IDiscoverySource, SOURCE, [one for one in enabled if one in used])
    by_name = {one.record.name: one.provider for one in loaded}
    tools = SourceTools(clock=runtime.reactor, in_thread=in_pool(runtime.reactor))
    for one in settings.connector.discovery_sources:
        source = by_name.get(one.source)
        if source is None:
            words = ", ".join(enabled) or "none"
            raise ConfigError(
                f"{one.key_path}.source", f"{one.source}: not enabled in plugins.sources ({words})"
            )
        finder = source.open(one.table, one.key_path, tools)  # type: ignore[attr-defined]
        opened.append(OpenedSource(one.name, one.every_secs, finder))
    return Sources(opened, loaded)


@define(slots=False, eq=False)
class FirstLook(AsyncService):
    """Looks at every source once before the first registration, so that it has what was found."""

    sources: Sequence[WatchedSource]
    runtime: Runtime

    async def start(self) -> None:
        """Wait for the sources, but not long."""
        for one in self.sources:
            try:
                await bounded(
                    self.runtime.reactor, _FIRST_LOOK_SECS, one.look(), "a discovery source"
                )
            except CancelledError:
                raise
            except SvcError as late:
                _log.warn("a discovery source is slow", source=one.name, text=late.text)
            except Exception:
                _log.failure("a discovery source failed", source=one.name)

    async def stop(self) -> None:
        """Nothing is left to do: leases run out by themselves."""


@define
class DiscoveryParts:
    """What a Connector's discovery is wired from.

    Attributes:
        dial: Opens a connection to the Authority's renewal listener.
        published: Called when something else than before was published.
    """

    runtime: Runtime
    settings: RoleSettings
    kinds: Kinds
    sources: Sources
    targets: ServedTargets
    dial: Callable[[], Awaitable[IRpcChannel]]
    published: Callable[[], object]

    def services(self) -> list[Service]:
        """In the order of their start; none where there are no sources."""
        if not self.sources.opened:
            return []
        clock, tunnel = self.runtime.reactor, self.settings.tunnel
        entropy = self.runtime.entropy

        def waits() -> Backoff:
            return Backoff(
                first=tunnel.backoff_first_secs,
                longest=tunnel.backoff_max_secs,
                jitter=lambda seconds: seconds * share(entropy),
            )

        watched = [self._watch(one, lambda: publishing.hurry()) for one in self.sources.opened]
        publisher = Publisher(
            publications=[SourcePublication(one, waits()) for one in watched],
            dial=self.dial,
            clock=clock,
            waits=waits(),
            published=self.published,
        )
        publishing = PeriodicTask(
            clock=clock,
            interval=_PUBLISH_SECS,
            call=publisher.look,
            what="publish what was discovered",
        )
        looking = [
            PeriodicTask(
                clock=clock,
                interval=opened.every_secs,
                call=one.look,
                what="look at a discovery source",
                at_once=False,
            )
            for opened, one in zip(self.sources.opened, watched, strict=True)
        ]
        return [FirstLook(watched, self.runtime), publishing, *looking]

    def _watch(self, opened: OpenedSource, on_change: Callable[[], object]) -> WatchedSource:
        return WatchedSource(
            name=opened.name,
            finder=opened.finder,
            targets=self.targets,
            kinds=self.kinds.by_name,
            clock=self.runtime.reactor,
            on_change=on_change,
        )

"""One process: its state directories, roles, telemetry and tracing under one root service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, evolve
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc import __version__
from svc.compose.checking import SelfChecks
from svc.compose.degraded import DegradedConditions
from svc.compose.descriptors import RefusedByTheSystem, make_room
from svc.compose.health import LastChecks
from svc.compose.listeners.addresses import ListeningFile
from svc.compose.listeners.rpc import RpcListener
from svc.compose.process_parts import ProcessParts
from svc.compose.reload.keys import ReloadableKeys
from svc.compose.reload.reloading import Reloading
from svc.compose.reload.socket import process_listener
from svc.compose.telemetry import ExposureWarning, reactor_lag, telemetry_listener
from svc.config import RoleSettings
from svc.errors import SvcError
from svc.interfaces.rpc import RpcService
from svc.lanes.pipes import MAX_PIPES
from svc.runtime.context import Runtime
from svc.runtime.services import (
    AllReady,
    AsyncMultiService,
    AsyncService,
    BoundPort,
    Readiness,
    bounded,
)
from svc.runtime.state_directory import StateDirectory, StateDirectoryHold
from svc.runtime.threads import in_pool
from svc.telemetry.metrics import Metrics
from svc.telemetry.spans import make_traces
from svc.telemetry.tracing import Tracing, make_tracer

_log = Logger(namespace="svc")

_LEAD_SECS = 5.0
ROLES_OF_ALL = ("authority", "proxy", "connector")


@define(slots=False, eq=False)
class Process(AsyncMultiService):
    """The root service of a role, or of all three.

    Attributes:
        readiness: Of the whole process.
        state: The locked state directory.
        listeners: By the names of ``listening.json``.
        reloading: Reads the configuration again.
    """

    readiness: AllReady
    listeners: Mapping[str, BoundPort]
    state: StateDirectory
    reloading: Reloading

    def __attrs_pre_init__(self) -> None:
        AsyncMultiService.__init__(self)

    def privilegedStartService(self) -> None:
        """Bind all addresses; if one fails, release the others."""
        try:
            AsyncMultiService.privilegedStartService(self)  # type: ignore[no-untyped-call]
        except SvcError:
            self.state.abandon()
            raise


def make_process(
    runtime: Runtime,
    settings: RoleSettings,
    stopped_by: Callable[[SvcError], object],
    services: Iterable[RpcService] = (),
) -> Process:
    """Everything of one role (or of ``all``), refused at once or ready to start.

    Called before the reactor runs; blocks for files.  What it opened on the
    way to a refusal is closed again.

    Args:
        stopped_by: Told why the process must end.
        services: Served beside a Proxy's own on its public listener.
    """
    roles = ROLES_OF_ALL if settings.role == "all" else (settings.role,)
    metrics = Metrics(roles, settings.profile)
    make_room(settings.limits.max_connections, of_lanes(settings))
    state = StateDirectory(Path(settings.state_dir))
    state.claim()
    try:
        tracing = make_tracer(
            runtime.reactor, settings.role, settings.profile, settings.telemetry.otel_endpoint
        )
        try:
            return _assembled(
                runtime=runtime,
                settings=settings,
                roles=roles,
                metrics=metrics,
                state=state,
                tracing=tracing,
                stopped_by=stopped_by,
                services=services,
            )
        except BaseException:
            tracing.abandon()
            raise
    except BaseException:
        state.abandon()
        raise


def _assembled(
    runtime: Runtime,
    settings: RoleSettings,
    roles: tuple[str, ...],
    metrics: Metrics,
    state: StateDirectory,
    tracing: Tracing,
    stopped_by: Callable[[SvcError], object],
    services: Iterable[RpcService],
) -> Process:
    if tracing.is_on:
        runtime = evolve(runtime, traces=make_traces(tracing.tracer))
    children: list[Any] = []
    ready: list[Readiness] = []
    lacking = DegradedConditions()
    listeners: dict[str, BoundPort] = {}
    documents: dict[bytes, Callable[[], bytes]] = {}
    # First what may be refused: a drop-in that is missing.
    shared = ProcessParts(
        checks=LastChecks(are_made=bool(settings.doctor.check_interval_secs)),
        reloads=ReloadableKeys(settings),
    )
    checking = SelfChecks(runtime, metrics, shared)
    for role in roles:
        made: Any
        own = state.within(role) if settings.role == "all" else StateDirectory(state.path)
        if role == "authority":
            # Each role is imported where it runs: it is a fifth of another one's start.
            from svc.compose.authority.role import make_authority

            made = make_authority(runtime, settings, metrics, own, stopped_by, shared)
            documents |= made.documents
            listeners |= _on_tcp(made.listeners)
            if made.page is not None:
                listeners["page"] = made.page
            if made.sign_in is not None:
                listeners["sign_in"] = made.sign_in
        elif role == "proxy":
            from svc.compose.proxy.role import make_proxy

            made = make_proxy(runtime, settings, metrics, own, stopped_by, shared, services)
            listeners |= _on_tcp(made.listeners)
            lacking = made.lacking
        else:
            from svc.compose.connector import make_connector

            made = make_connector(runtime, settings, metrics, own, stopped_by, shared)
        children.append(made)
        ready.append(made.ready)
        if settings.role == "all" and role == "proxy":
            children.append(ProxyFirst(made.ready, runtime.reactor))
    readiness = AllReady(ready)
    shared.reloads.read("telemetry.ready_follows")
    telemetry = telemetry_listener(
        runtime.reactor,
        settings,
        metrics,
        readiness,
        lacking,
        documents,
        follows=lambda: shared.reloads.settings.telemetry.ready_follows,
    )
    reloading = Reloading(
        keys=shared.reloads,
        environ=runtime.environ,
        clock=runtime.reactor,
        in_thread=in_pool(runtime.reactor),
    )
    asked = process_listener(runtime, settings, state, reloading)
    if telemetry is not None:
        listeners["telemetry"] = telemetry
    process = Process(readiness=readiness, listeners=listeners, state=state, reloading=reloading)
    listening = ListeningFile(state / "listening.json", listeners)
    watched = [] if telemetry is None else [telemetry, ExposureWarning(telemetry)]
    refused, lag = RefusedByTheSystem(runtime.reactor), reactor_lag(runtime.reactor, metrics)
    first = [
        StateDirectoryHold(state),
        reloading,
        asked,
        tracing,
        refused,
        lag,
        *watched,
        listening,
    ]
    children.append(checking)
    probed = tuple(listeners[name] for name in ("telemetry", "public") if name in listeners)
    for service in (*first, *children, FirstClosed(probed), ProcessLog(settings)):
        process.addService(service)
    return process


def of_lanes(settings: RoleSettings) -> int:
    """Descriptors that direct lanes and their pipes may take in a Proxy."""
    if settings.role not in ("proxy", "all"):
        return 0
    from svc.compose.proxy.lanes import lanes_of

    return 2 * (lanes_of(settings) + MAX_PIPES)


def _on_tcp(listeners: Mapping[str, RpcListener]) -> dict[str, BoundPort]:
    """What ``listening.json`` tells; the control socket is where it always is."""
    return {name: one.listener for name, one in listeners.items() if name != "control_socket"}


@define(slots=False, eq=False)
class FirstClosed(AsyncService):
    """Closes listening ports before anything else stops; open connections continue.

    A load balancer that cannot connect sends the next caller elsewhere; nobody is sent here
    to be told that this process stops (G-OPEN-76).
    """

    ports: tuple[BoundPort, ...]

    async def stop(self) -> None:
        """Accept no more."""
        for port in self.ports:
            await port.stopService()


@define(slots=False, eq=False)
class ProxyFirst(AsyncService):
    """Delays the Connector of ``all`` until the Proxy in the same process accepts registrations.

    Without it the first registration is always refused, and waits out a backoff.
    """

    ready: Readiness
    clock: IReactorTime

    async def start(self) -> None:
        """Wait a while; a Proxy that needs longer is found by redialing, as anywhere."""
        try:
            await bounded(self.clock, _LEAD_SECS, self.ready.wait(), "the Proxy")
        except SvcError as e:
            _log.info("the connector starts before the proxy is ready", reason=e.reason)


@define(slots=False, eq=False)
class ProcessLog(AsyncService):
    """The first and last word of a process in its log (G-LOG-11)."""

    settings: RoleSettings

    async def start(self) -> None:
        """Everything has started."""
        _log.info(
            "started",
            role=self.settings.role,
            version=__version__,
            cluster=self.settings.cluster,
        )

    async def stop(self) -> None:
        """The stop begins."""
        _log.info("stopping", role=self.settings.role)

"""The resident, wired: the local endpoints around a person's identity and a way to a Proxy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from twisted.application.service import IService, Service
from twisted.internet.endpoints import TCP4ServerEndpoint, UNIXServerEndpoint
from twisted.logger import Logger

from svc.client.heads import KnownHead
from svc.client.link import ProxyLink
from svc.client.own_certificate import EndWarnings, identity_watch
from svc.client.own_options import options_elsewhere
from svc.client.places import CONTROL_SOCKET, file_mark
from svc.client.resident.control import ControlFactory
from svc.client.resident.handed import HandedSessions
from svc.client.resident.local import SocketDirectory, TcpGuard, TcpPorts, UnixGuard
from svc.client.resident.peer_uid import AVAILABLE, listener_uid, peer_uid
from svc.client.resident.refused import RecentRefusals
from svc.client.resident.service import RETRY_SECS, Place, Resident
from svc.client.resident.status import StatusService
from svc.client.signin import SignInFile
from svc.compose.access import waiting_requests
from svc.compose.heads import latest_checkpoint
from svc.compose.person import PersonSide, load_person
from svc.compose.sign_in import sign_in_renewal
from svc.config import RoleSettings
from svc.errors import ConfigError, Fault, SvcError
from svc.messages.session import Listed
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncMultiService, BackgroundTasks, BoundPort, PeriodicTask
from svc.runtime.state_directory import StateDirectory, StateDirectoryHold, is_locked
from svc.tunnel.times import dial_secs

_LOOK_FOR_IDENTITY_SECS = 15.0
_REACH_SECS = 10.0

_log = Logger(namespace="svc_client")


class AlreadyRunning(SvcError):
    """Another resident serves from this directory."""

    fault = Fault.EXISTS
    reason = "already_running"


def make_client(runtime: Runtime, settings: RoleSettings) -> IService:
    """The resident, for ``svc up`` and ``twistd svc-client``.

    Synchronous: every refusal comes before the reactor runs.

    Raises:
        AlreadyRunning: another one serves from this directory.
        SvcError: whatever else keeps it from starting.
    """
    side = load_person(runtime, settings)
    state = StateDirectory(side.state)
    try:
        state.claim()
    except ConfigError:
        if is_locked(side.state):
            raise AlreadyRunning(
                f"svc up is already running from {side.state}; to see what it serves, type: svc "
                "status; to end it, press Ctrl-C where it runs, or stop its service"
            ) from None
        raise
    uid = os.geteuid()
    sockets = SocketDirectory(side.run_directory, uid)
    try:
        sockets.claim()
    except OSError as error:
        state.release()
        raise ConfigError("state_dir", f"{side.run_directory}: {error.strerror}") from None
    return _assembled(side, state, sockets, uid)


def _assembled(
    side: PersonSide, state: StateDirectory, sockets: SocketDirectory, uid: int
) -> IService:
    runtime = side.runtime
    reactor = runtime.reactor
    options = options_elsewhere(side.settings.path, runtime.environ)
    tasks, refusals, name = BackgroundTasks(), RecentRefusals(runtime.now, options), side.name
    root, cluster = side.identity.verifier.root, side.identity.principal.cluster
    head = KnownHead(latest_checkpoint(reactor, side.state / "audit-head", root, cluster))
    head.latest_checkpoint.load()
    aside = head.latest_checkpoint.set_aside_foreign()
    if aside is not None:
        _log.warn(
            "the audit head kept here is of another gateway: the one of this gateway is kept from "
            "now on",
            moved_to=str(aside),
        )

    def listed(seen: Mapping[str, Listed]) -> None:
        refusals.listed()
        resident.listed(seen)

    link = ProxyLink(
        clock=reactor,
        ways=side.ways,
        listed=listed,
        jitter=runtime.jitter,
        tasks=tasks,
        fresh=side.freshness(),
        dial_secs=dial_secs(side.settings.limits.handshake_secs, _REACH_SECS),
        head=lambda: head.line,
        heads=head.take,
        unserved=lambda seen: resident.listed(seen),
    )
    resident = _resident(side, link, sockets, refusals, tasks)
    handed = HandedSessions(
        config=_mark(side.settings.path),
        reactor=reactor,
        kinds=resident.kinds,
        dialer=resident.dialer,
        channel=link.channel,
        listed=lambda: link.resources,
        check=side.check_stored,
        refusals=refusals,
        cuts=resident.cuts,
        moved=link.moved,
        options=options,
    )
    status = StatusService(
        resident=resident,
        handed=handed,
        link=link,
        identity=side.identity,
        refusals=refusals,
        clock=reactor,
        head=head,
        renew=side.take_new_identity,
        renew_until=SignInFile(side.state).renew_until,
        # On disk it may be somebody else's by now.
        own_name=lambda: side.name or name,
        waiting=waiting_requests(side.identity, side.runtime, link.channel).count,
    )
    control = BoundPort(
        key="state_dir",
        address=str(sockets.path / CONTROL_SOCKET),
        endpoint=UNIXServerEndpoint(reactor, sockets.address(CONTROL_SOCKET), mode=0o600),
        factory=ControlFactory(
            guard=UnixGuard(uid),
            answer=status.answer,
            carry=handed.carry,
            spawn=tasks.spawn,
            clock=reactor,
        ),
    )
    fresh = PeriodicTask(
        clock=reactor,
        interval=_LOOK_FOR_IDENTITY_SECS,
        call=identity_watch(
            side.take_new_identity,
            side.chain_on_disk,
            side.identity,
            name,
        ),
        what="looking for a new identity",
    )
    tree = AsyncMultiService()
    parts: tuple[Any, ...] = (
        StateDirectoryHold(state),
        _Sockets(sockets),
        tasks,
        resident,
        control,
        link,
        fresh,
        PeriodicTask(
            clock=reactor,
            interval=RETRY_SECS,
            call=resident.retry,
            what="opening local endpoints",
            at_once=False,
        ),
        EndWarnings(side.identity, reactor),
        sign_in_renewal(
            runtime=runtime,
            proxies=side.settings.endpoints.proxy,
            state=side.state,
            store=side.store,
            identity=side.identity,
            check=side.check_stored,
        ),
    )
    for service in parts:
        service.setServiceParent(tree)
    return tree


def _resident(
    side: PersonSide,
    link: ProxyLink,
    sockets: SocketDirectory,
    refusals: RecentRefusals,
    tasks: BackgroundTasks,
) -> Resident:
    reactor, settings, uid = side.runtime.reactor, side.settings, sockets.uid
    return Resident(
        place=Place(
            cluster=side.identity.principal.cluster,
            uid=uid,
            state=side.state,
            offset=settings.client.native_port_offset,
            tcp=AVAILABLE or settings.client.unprotected_loopback,
            config=settings.path,
        ),
        kinds=side.kinds.by_name,
        dialer=side.dialer(link.channel, tasks),
        tcp_ports=TcpPorts(
            lambda address, port: TCP4ServerEndpoint(reactor, port, interface=address),
            listener_uid if AVAILABLE else lambda address, port: None,
            uid,
        ),
        tcp_guard=TcpGuard(uid, peer_uid if AVAILABLE else None),
        sockets=sockets,
        unix_endpoint=lambda address: UNIXServerEndpoint(reactor, address, mode=0o600),
        refusals=refusals,
        tasks=tasks,
        moved=link.moved,
    )


def _mark(config: str) -> str:
    try:
        return file_mark(config)
    except OSError:
        return ""  # It is gone: no command reads the same.


class _Sockets(Service):
    """Lets the directory of sockets go when every port in it is closed."""

    def __init__(self, sockets: SocketDirectory) -> None:
        self._sockets = sockets

    def stopService(self) -> None:
        """Release."""
        Service.stopService(self)
        self._sockets.release()

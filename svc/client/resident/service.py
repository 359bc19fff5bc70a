"""The resident: a local endpoint for every resource the person may view.

It follows the list, opens and closes local endpoints with it, and turns each
local connection into a session of its own.  A refused session resets the
connection; why is told to the person, not to the tool (which would not know
what to do with it).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from svc.client.ended import CutSessions, SessionSide
from svc.client.places import CLIENT_FILE
from svc.client.resident.addresses import addresses, ports
from svc.client.resident.checked import CheckedConnections, CheckedSide, Checking
from svc.client.resident.endpoint import Endpoint, not_enabled
from svc.client.resident.hosts import SharedPort, secret
from svc.client.resident.local import (
    LocalConnections,
    SocketDirectory,
    Speaking,
    SpokenSide,
    TcpGuard,
    TcpPorts,
    UnixGuard,
    close_port,
)
from svc.client.resident.local_tls import LocalTls
from svc.client.resident.published.cache import PublishedFiles, read_endpoints
from svc.client.resident.published.described import describe, forget
from svc.client.resident.refused import RecentRefusals
from svc.client.sessions import ClientSession, SessionDialer, SessionIntent
from svc.errors import SvcError, Unprocessed
from svc.interfaces.kinds import (
    ICheckedEndpoint,
    INamedEndpoint,
    ISpeakingEndpoint,
    ServedKind,
)
from svc.lanes.relay import Relay, only_side
from svc.messages.session import Listed
from svc.model.ids import is_resource_id
from svc.model.policy.requested import COMMAND_OPTIONS
from svc.runtime.services import AsyncService, BackgroundTasks

_log = Logger(namespace="svc_client")

LIBPQ_KINDS = frozenset({"postgres", "tcp"})
"""Nothing here tells a database from another TCP service: each gets what libpq looks for."""

RETRY_SECS = 15.0
"""What another program held is tried again this often."""

UNPROTECTED = (
    "TCP is disabled: this platform cannot report which user connects; use the Unix socket"
)


@define
class _OpenEndpoint:
    """An endpoint's ports, and what they were opened for."""

    endpoint: Endpoint
    native: int | None
    ports: list[IListeningPort] = field(factory=list)


@frozen
class Place:
    """The addresses and directories of this resident's endpoints.

    Attributes:
        state: The directory of ``endpoints.json``.
        offset: Added to native ports.
        tcp: Whether TCP ports may be opened at all.
        config: The file that says which kinds are enabled.
    """

    cluster: str
    uid: int
    state: Path
    offset: int
    tcp: bool = True
    config: str = CLIENT_FILE


@define(slots=False, eq=False)
class Resident(AsyncService):
    """Keeps the endpoints and serves their connections.

    Attributes:
        unix_endpoint: Makes the endpoint of a unix socket's address.
        refusals: Hears of every session that was not opened.
        cuts: Hears of every session that was cut off.
        moved: Returns once another connection to a Proxy is there.
    """

    place: Place
    kinds: Mapping[str, ServedKind]
    dialer: SessionDialer
    tcp_ports: TcpPorts
    tcp_guard: TcpGuard
    sockets: SocketDirectory
    unix_endpoint: Callable[[str], IStreamServerEndpoint]
    refusals: RecentRefusals
    tasks: BackgroundTasks
    moved: Callable[[], Awaitable[None]]
    cuts: CutSessions = field(init=False)
    _tls: LocalTls = field(init=False)
    _published: PublishedFiles = field(init=False)
    _kept: dict[str, str] = field(factory=dict, init=False)
    _key: bytes = field(default=b"", init=False)
    _shared: dict[str, SharedPort] = field(factory=dict, init=False)
    _open: dict[str, _OpenEndpoint] = field(factory=dict, init=False)
    _not_enabled: tuple[Endpoint, ...] = field(default=(), init=False)
    _relays: set[Relay] = field(factory=set, init=False)
    _cancelled_by: dict[tuple[str, bytes], ClientSession] = field(factory=dict, init=False)
    _wanted: Mapping[str, Listed] | None = field(default=None, init=False)
    _is_applying: bool = field(default=False, init=False)
    _has_stopped: bool = field(default=False, init=False)

    @cuts.default
    def _no_cuts(self) -> CutSessions:
        return CutSessions(self.refusals.now)

    @_tls.default
    def _own_tls(self) -> LocalTls:
        return LocalTls(now=self.refusals.now, entropy=self.dialer.entropy)

    @_published.default
    def _of_our_place(self) -> PublishedFiles:
        sides = {name: kind.local for name, kind in self.kinds.items()}
        return PublishedFiles(self.place.state, self.place.cluster, sides)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every endpoint, by resource; one whose kind is not enabled here only says so."""
        found = (*(one.endpoint for one in self._open.values()), *self._not_enabled)
        return tuple(sorted(found, key=lambda one: one.resource))

    @property
    def listing(self) -> str:
        """The URL of the page that lists the web applications; empty while there is none."""
        return next((one.listing for one in self._shared.values() if one.listing), "")

    @property
    def sessions(self) -> int:
        """How many local connections are being served."""
        return len(self._relays)

    async def start(self) -> None:
        """Read where things stood last."""
        self._kept = read_endpoints(self.place.state)
        self._key = secret(self.place.state, self.dialer.entropy)

    async def stop(self) -> None:
        """Close every endpoint and end every session."""
        self._has_stopped, self._wanted = True, None
        for shared in self._shared.values():
            await shared.close()
        for name in list(self._open):
            await self._close(name)
        for relay in list(self._relays):
            relay.abort()

    def listed(self, resources: Mapping[str, Listed]) -> None:
        """Make the endpoints those of *resources*; returns before that is done."""
        if self._has_stopped:
            return
        self._wanted = resources
        if not self._is_applying:
            self._is_applying = True
            self.tasks.spawn("local endpoints", self._apply())

    async def retry(self) -> None:
        """Try again what could not be opened; what held it may be gone."""
        if self._is_applying or self._has_stopped:
            return
        self._is_applying = True
        try:
            tried = [await self._retried(there) for there in list(self._open.values())]
            if any(tried) or self._published.is_behind:
                self._write()
        finally:
            self._is_applying = False
        if self._wanted is not None:
            self.listed(self._wanted)

    async def _retried(self, there: _OpenEndpoint) -> bool:
        """Whether that changed anything."""
        before = there.endpoint
        if self._has_stopped or before.problem in ("", UNPROTECTED):
            return False
        there.endpoint = evolve(before, problem="")
        await self._fill(there)
        now = there.endpoint
        if now == before:
            return False
        if now.problem:
            _log.warn(
                "local endpoint unavailable in part", resource=now.resource, problem=now.problem
            )
        else:
            _log.info("local endpoint available again", resource=now.resource, address=now.address)
        return True

    async def _apply(self) -> None:
        wanted = None
        try:
            while (wanted := self._wanted) is not None:
                self._wanted = None
                # The name becomes a file's: whatever a Proxy lists is looked at first.
                named = [one for one in wanted.values() if is_resource_id(one.id)]
                self._not_enabled = tuple(map(self._without_kind, filter(self._lacks_kind, named)))
                await self._become({one.id: one for one in named if not self._lacks_kind(one)})
        except Exception:
            # No other list may come for long: what is left of this one is tried again.
            self._wanted = self._wanted or wanted
            raise
        finally:
            self._is_applying = False

    def _lacks_kind(self, one: Listed) -> bool:
        return one.kind not in self.kinds

    def _without_kind(self, one: Listed) -> Endpoint:
        problem = not_enabled(one.kind, self.kinds, self.place.config)
        return Endpoint(one.id, one.kind, one.served, problem=problem)

    async def _become(self, wanted: Mapping[str, Listed]) -> None:
        for name in list(self._open):
            if name not in wanted or not self._is_same(self._open[name], wanted[name]):
                kind = self.kinds[self._open[name].endpoint.kind]
                forget(self.place.state, kind.local, name)
                await self._close(name)
        if self._has_stopped:
            return
        place = self.place
        self._kept = addresses(place.cluster, place.uid, wanted, self._kept)
        for name, one in wanted.items():
            there = self._open.get(name)
            if there is None:
                self._open[name] = await self._make(one)
            else:
                there.endpoint = evolve(there.endpoint, served=one.served)
        self._write()

    def _write(self) -> None:
        self._published.write([there.endpoint for there in self._open.values()])

    def _is_same(self, there: _OpenEndpoint, one: Listed) -> bool:
        return there.endpoint.kind == one.kind and there.native == self._native(one)

    def _native(self, one: Listed) -> int | None:
        port: int | None = self.kinds[one.kind].local.native_port(one.labels)
        return port

    async def _make(self, one: Listed) -> _OpenEndpoint:
        made = _OpenEndpoint(Endpoint(one.id, one.kind, one.served), self._native(one))
        await self._fill(made)
        endpoint = made.endpoint
        if endpoint.problem:
            _log.warn(
                "local endpoint unavailable in part", resource=one.id, problem=endpoint.problem
            )
        _log.info("local endpoint", resource=one.id, address=endpoint.address)
        return made

    async def _fill(self, there: _OpenEndpoint) -> None:
        """Open what of it is not open."""
        if not there.endpoint.socket:
            await self._make_socket(there)
        if not self.place.tcp:
            there.endpoint = evolve(there.endpoint, problem=UNPROTECTED)
        elif not there.endpoint.address:
            await self._make_tcp(there, self._kept[there.endpoint.resource])
        if self.place.tcp and not there.endpoint.url:
            await self._make_name(there)
        self._describe(there)

    def _describe(self, made: _OpenEndpoint) -> None:
        place, endpoint = self.place, made.endpoint
        local = self.kinds[endpoint.kind].local
        if endpoint.address:
            named = {"resource": endpoint.resource, "address": endpoint.address}
            named |= {"cluster": place.cluster, "options": self.dialer.command_options}
            problem = describe(place.state, local, **named)
            made.endpoint = evolve(endpoint, problem=endpoint.problem or problem)

    async def _make_tcp(self, made: _OpenEndpoint, address: str) -> None:
        place, resource = self.place, made.endpoint.resource
        tries = ports(place.cluster, resource, made.native, place.offset)
        names: dict[str, str] = {}
        factory = self._connections(self.tcp_guard, made.endpoint, names)
        opened = await self.tcp_ports.open(address, tries, factory)
        if opened.port is None:
            made.endpoint = evolve(made.endpoint, problem=opened.problem)
            return
        made.ports.append(opened.port)
        made.endpoint = evolve(made.endpoint, address=f"{address}:{opened.number}")
        names[made.endpoint.address] = resource

    async def _make_name(self, made: _OpenEndpoint) -> None:
        """A name for browsers, on the port that all resources of the kind share."""
        kind, place = made.endpoint.kind, self.place
        if not INamedEndpoint.providedBy(self.kinds[kind].local):
            return
        seed = f"names of {kind} for {place.uid}"
        shared = self._shared.setdefault(kind, SharedPort(self._key, place.cluster, seed))
        anyone = Endpoint("", kind, served=True)
        await shared.open(self.tcp_ports, self._connections(self.tcp_guard, anyone, shared.names))
        problem = made.endpoint.problem or shared.problem
        url = shared.add(made.endpoint.resource)
        made.endpoint = evolve(made.endpoint, url=url, problem=problem)

    async def _make_socket(self, made: _OpenEndpoint) -> None:
        name = f"{made.endpoint.resource}.sock"
        factory = self._connections(UnixGuard(self.place.uid), made.endpoint, None)
        try:
            port = await self.unix_endpoint(self.sockets.address(name)).listen(factory)
        except CannotListenError as error:
            problem = f"no socket: {error.socketError}"
            made.endpoint = evolve(made.endpoint, problem=problem)
            return
        made.ports.append(port)
        made.endpoint = evolve(made.endpoint, socket=str(self.sockets.path / name))
        if made.endpoint.kind in LIBPQ_KINDS:
            with suppress(OSError):  # psql has the port, then, as all others
                there = self.sockets.show_to_libpq(made.endpoint.resource)
                made.endpoint = evolve(made.endpoint, directory=str(there))

    async def _close(self, name: str) -> None:
        closing = self._open.pop(name)
        if closing.endpoint.directory:
            self.sockets.hide_from_libpq(name)
        if closing.endpoint.url:
            self._shared[closing.endpoint.kind].remove(name)
        for port in closing.ports:
            await close_port(port)

    def _connections(
        self, guard: Callable[[Any], bool], endpoint: Endpoint, names: Mapping[str, str] | None
    ) -> Factory:
        local, clock = self.kinds[endpoint.kind].local, self.dialer.clock
        begin, speaking = self._begin(endpoint.resource), None
        if ICheckedEndpoint.providedBy(local):
            make = partial(local.check, names, endpoint.resource)
            return CheckedConnections(guard, begin, Checking(make, clock, self.refusals.note))
        if ISpeakingEndpoint.providedBy(local):
            speaking = Speaking(
                dialogue=local.dialogue,
                clock=clock,
                cancel=partial(self._cancel, endpoint.resource),
                tls=self._tls.server,
            )
        return LocalConnections(guard, begin, speaking)

    def _cancel(self, resource: str, key: bytes) -> None:
        """Cancel in the session that was given this key at an endpoint of this resource."""
        session = self._cancelled_by.get((resource, key))
        if session is not None:
            session.cancel()

    def _begin(self, resource: str) -> Callable[[Relay], object]:
        return lambda relay: self.tasks.spawn("local session", self._serve(resource, relay))

    async def _serve(self, resource: str, relay: Relay) -> None:
        """One local connection, from its verdict to its end."""
        checked = relay.left if isinstance(relay.left, CheckedSide) else None
        resource = resource or (checked.check.resource if checked is not None else "")
        there = self._open.get(resource)
        spoken = relay.left if isinstance(relay.left, SpokenSide) else None
        self._relays.add(relay)
        try:
            if there is not None:
                asked = spoken.dialogue.parameters if spoken is not None else None
                kind = self.kinds[there.endpoint.kind]
                await self._connect(SessionIntent(resource, kind, asked or {}), relay)
                await relay.done
        except SvcError as refusal:
            self.refusals.note(resource, refusal)
            told = refusal.with_(**{COMMAND_OPTIONS: self.dialer.command_options})
            if spoken is not None:
                spoken.last_words(spoken.dialogue.refused(told))
                await relay.done
            if checked is not None:
                checked.say_last(told)
                await relay.done
        finally:
            if spoken is not None:
                self._cancelled_by.pop((resource, spoken.dialogue.key), None)
            self._relays.discard(relay)
            relay.abort()

    async def _connect(self, intent: SessionIntent, relay: Relay) -> None:
        try:
            await self._begun(intent, relay)
        except Unprocessed:
            # The Proxy leaves and did nothing for the session: the next one may.
            await self.moved()
            await self._begun(intent, relay)

    async def _begun(self, intent: SessionIntent, relay: Relay) -> None:
        session = self.dialer.endpoint(intent)
        spoken = relay.left if isinstance(relay.left, SpokenSide) else None
        passed = session.greeting if spoken is None else spoken.dialogue.answered
        relay.right = SessionSide(relay, lambda: self._cut(session, spoken), passed)
        if spoken is not None and spoken.dialogue.key:
            self._cancelled_by[intent.resource, spoken.dialogue.key] = session
        await session.connected(only_side(relay.right))
        self.refusals.opened()

    def _cut(self, session: ClientSession, spoken: SpokenSide | None) -> bool:
        over = session.over()
        self.cuts.note(session.intent.resource, over)
        is_told = spoken is not None and spoken.tell_why(over)
        # A connection that is reset takes the words with it that are still on their way.
        return is_told or session.has_said_why

"""A person's identity and configuration on this machine, and how a Proxy is reached with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from svc.client.lanes import PersonLanes
from svc.client.link import ConfiguredProxy, not_reached
from svc.client.own_certificate import check_own, dial_refusal
from svc.client.own_name import OwnName
from svc.client.own_options import options_elsewhere
from svc.client.places import CLIENT_FILE, RUN_DIRECTORY, chosen, home, selection_file
from svc.client.resident.published.described import keeping
from svc.client.sessions import SessionDialer
from svc.compose.drop_ins import Kinds, KindSide, load_kinds
from svc.compose.listeners.limits import log_problems, wire_limits
from svc.config import Address, ConfigErrors, RoleSettings, load_settings, naming_file
from svc.errors import ConfigError, Fault, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.model.principal import CALLERS, Role
from svc.pki.end_to_end import PersonEnd
from svc.pki.identity import TransportIdentity, check_material
from svc.pki.identity_store import IdentityStore, StoredIdentity
from svc.pki.tls import client_context
from svc.rpc.client.channel import dial
from svc.rpc.client.endpoints import dialed, lane_to
from svc.rpc.client.tls import TlsEndpoint
from svc.rpc.keepalive import CommonTicks, Keepalive
from svc.rpc.max_age import Freshness
from svc.runtime.backoff import share
from svc.runtime.context import Runtime
from svc.runtime.services import BackgroundTasks

HOW_TO_BEGIN = (
    "sign in with `svc login --proxy HOST:PORT --ca-pin PIN`, or join with a token and `svc join`"
)

_RUN_AGAIN = (
    "if `svc join` or `svc login` was interrupted here, run the same command again to complete it"
)


class PersonNotJoined(SvcError):
    """There is no person's identity here."""

    fault = Fault.PRECONDITION
    reason = "not_joined"


def find_config(given: str | None, environ: Mapping[str, str]) -> str:
    """The client's configuration, by the rules of :func:`svc.client.places.chosen`.

    Raises:
        PersonNotJoined: there is none.
        ConfigError: one is selected that does not exist.
    """
    choice = chosen(given, environ)
    found = choice[0] if choice else os.path.join(home(environ), CLIENT_FILE)
    if choice and choice[1] == "selected" and not os.path.lexists(found):
        raise ConfigError(
            selection_file(environ),
            f"selects {found}, which does not exist; run `svc contexts list`, and `svc contexts "
            "use NAME` with one of those",
        )
    if os.path.basename(found) != CLIENT_FILE or os.path.lexists(found):
        return found
    raise PersonNotJoined(f"{found}: does not exist, so nobody has signed in there; {HOW_TO_BEGIN}")


def client_settings(given: str | None, environ: Mapping[str, str]) -> RoleSettings:
    """The settings of the person's side.  Blocks; before the reactor runs.

    Raises:
        SvcError: no configuration, or one that is refused.
    """
    path = find_config(given, environ)
    try:
        return load_settings(path, "client", environ)
    except ConfigErrors as refused:
        raise (refused if given else naming_file(refused, path)) from None


def state_directory(settings: RoleSettings) -> Path:
    """The directory of identity and endpoints; next to the configuration unless that sets it."""
    return Path(settings.state_dir) if settings.state_dir else Path(settings.path).absolute().parent


@frozen
class PersonSide:
    """A person's identity and what it takes to use it."""

    runtime: Runtime
    settings: RoleSettings
    state: Path
    store: IdentityStore
    identity: TransportIdentity
    kinds: Kinds

    @property
    def run_directory(self) -> Path:
        """Where the resident's sockets are."""
        return self.state / RUN_DIRECTORY

    @property
    def name(self) -> str:
        """Of the person or agent, as Authority told it; empty where it is not known."""
        return OwnName(self.state).read(self.identity.principal.id)

    @property
    def ways(self) -> tuple[ConfiguredProxy, ...]:
        """The configured Proxies."""
        return tuple(self._way(address) for address in self.settings.endpoints.proxy)

    def _way(self, address: Address) -> ConfiguredProxy:
        pings = self._pings()
        return ConfiguredProxy(str(address), lambda: self.dial(address, pings))

    def _pings(self) -> Keepalive:
        tunnel = self.settings.tunnel
        return Keepalive(
            interval=tunnel.keepalive_secs,
            timeout=tunnel.keepalive_timeout_secs,
            ticks=CommonTicks(self.runtime.now),
        )

    async def dial(self, address: Address, pings: Keepalive | None = None) -> IRpcChannel:
        """A channel to one Proxy, its certificate checked.

        Args:
            pings: The same for all connections to this Proxy; as configured where not given.

        Raises:
            SvcError: nobody answers, or somebody who is no Proxy of our cluster; nobody is
                asked with a certificate that is not good now.
        """
        check_own(self.identity)
        refused: list[SvcError] = []
        reactor = self.runtime.reactor
        tls = client_context(
            self.identity.verifier,
            self.identity,
            roles=frozenset({Role.PROXY}),
            server_name=address.server_name,
            refused=refused.append,
        )
        try:
            return await dial(
                TlsEndpoint(tls.begin, dialed(reactor, address)),
                reactor,
                authority=str(address),
                keepalive=pings or self._pings(),
                handshake_secs=self.settings.limits.handshake_secs,
                limits=wire_limits(self.settings),
                on_problem=log_problems(reactor, "endpoints.proxy", str(address)),
            )
        except SvcError as failed:
            check_own(self.identity)
            raise dial_refusal(failed, refused, self.state) from None

    async def connect(self) -> IRpcChannel:
        """A channel to the first Proxy that answers, for a command.

        Raises:
            SvcError: of the last one, where none does.
        """
        problem: SvcError = Unavailable("no Proxy is configured", reason="proxy_unreachable")
        for way in self.ways:
            try:
                return await way.dial()
            except SvcError as e:
                problem = not_reached(way.address, e, self.settings.path)
        raise problem

    def freshness(self) -> Freshness:
        """Says when a connection to a Proxy is to be made again."""
        runtime = self.runtime
        return Freshness(
            clock=runtime.reactor,
            now=runtime.now,
            identity=self.identity,
            verifier=self.identity.verifier,
            roles=frozenset({Role.PROXY}),
            chance=lambda: share(runtime.entropy),
        )

    def dialer(self, channel: Any, tasks: BackgroundTasks | None = None) -> SessionDialer:
        """Opens sessions on whatever *channel()* gives.

        Args:
            tasks: Owns the lanes that sessions move to; without it they stay in the tunnel.
        """
        runtime, end = self.runtime, PersonEnd(self.identity)
        return SessionDialer(
            channel=channel,
            identity=self.identity,
            verifier=self.identity.verifier,
            connector_tls=end.begun,
            # Whoever keeps no tasks opens one session, and there is no next.
            prepare=(lambda: None) if tasks is None else end.prepare,
            clock=runtime.reactor,
            now=runtime.now,
            entropy=runtime.entropy,
            handshake_secs=self.settings.limits.handshake_secs,
            lanes=None
            if tasks is None
            else PersonLanes(
                to=lane_to(runtime.reactor),
                after=self.settings.client.direct_lane_after,
                tasks=tasks,
                clock=runtime.reactor,
            ),
            command_options=options_elsewhere(self.settings.path, runtime.environ),
            keep=keeping(self.state),
        )

    def take_new_identity(self) -> bool:
        """Use what ``svc join`` has written since; whether there was something.

        There is none after a sign-out, until somebody signs in again.

        Raises:
            ConfigError: what lies there cannot be trusted.
        """
        if not self.store.exists:
            return False
        stored = self.store.load()
        return stored.chain != self.identity.chain and self._take(stored)

    def chain_on_disk(self) -> Sequence[bytes]:
        """Of the identity there, whoever's it is; empty where there is none."""
        return self.store.load().chain if self.store.exists else ()

    def check_stored(self) -> None:
        """Return if the identity in use is the one on disk, or became it, and is good now.

        Raises:
            SvcError: it is not.
        """
        stored = self.store.load()
        if stored.root != self.identity.verifier.root or (
            stored.chain != self.identity.chain and not self._take(stored)
        ):
            raise PersonNotJoined("the identity on disk is another one")
        check_own(self.identity)

    def _take(self, stored: StoredIdentity) -> bool:
        if stored.root != self.identity.verifier.root:
            return False
        material = check_material(stored.key, stored.chain, self.identity.verifier)
        if material.facts.principal != self.identity.principal:
            return False
        self.identity.replace(material)
        return True


def load_person(
    runtime: Runtime, settings: RoleSettings, kinds: Iterable[str] | None = None
) -> PersonSide:
    """The person's identity from disk, and the kinds in use.  Blocks; at start.

    Args:
        kinds: Those to import, where not all that the configuration enables are needed.

    Raises:
        PluginError: a kind is refused.
        PersonNotJoined: there is no identity.
        ConfigError: it cannot be trusted, or is not a person's.
    """
    loaded = load_kinds(settings.plugins.kinds if kinds is None else kinds, KindSide.LOCAL)
    state = state_directory(settings)
    store = IdentityStore(state)
    if not store.exists:
        how = _RUN_AGAIN if store.keeps_answer else HOW_TO_BEGIN
        raise PersonNotJoined(f"{state}: contains no identity; {how}")
    try:
        identity = TransportIdentity.load(store, runtime.now, settings.cluster or None)
    except ConfigError as refused:
        if refused.where != "state_dir":
            raise
        # A file by itself is in order: it is not of the same cluster as the others.
        raise ConfigError(refused.where, f"{refused.what}; {_RUN_AGAIN}") from None
    if identity.principal.role not in CALLERS:
        raise ConfigError("state_dir", "it contains an identity that is not a person's")
    if not settings.endpoints.proxy:
        raise ConfigError("endpoints.proxy", "required for svc up: a Proxy to dial")
    return PersonSide(
        runtime=runtime,
        settings=settings,
        state=state,
        store=store,
        identity=identity,
        kinds=loaded,
    )

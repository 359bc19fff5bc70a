"""The parts of an Authority: keys, identity, store; opened before anything is wired."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import asdict, define, evolve, field

from svc.audit.state.anchor import StateKeeper
from svc.authority.ha.lease import Leadership
from svc.authority.policy.active import PolicyInForce
from svc.authority.recordings.key import keep_key_in_use
from svc.authority.state.guarded_store import LogGuardedStore
from svc.authority.state.recorder import Recorder
from svc.compose.authority.store import OpenedStore
from svc.compose.drop_ins import Kinds
from svc.config import RoleSettings
from svc.errors import ConfigError, LeaseLost, Unavailable
from svc.interfaces.rpc import Admit, IRpcCall, Peer, RpcService, Serve
from svc.model.certificate import CertificateFacts
from svc.ops.backup.place import RESTORING
from svc.pki.distribution import install
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.join import enroll_authority
from svc.pki.keyring import load_keys
from svc.pki.receiver import ReceiverCredential, load_receiver
from svc.pki.root import ClusterKeys
from svc.policy.vocabulary import Vocabulary
from svc.runtime.context import Runtime
from svc.runtime.services import BackgroundTasks
from svc.runtime.state_directory import StateDirectory
from svc.telemetry.metrics import Metrics

_NONE: Mapping[str, Admit] = MappingProxyType({})


@define
class ServingState:
    """Whether callers are served; until this Authority leads, they are told who does."""

    leadership: Leadership
    is_on: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Serve from now on."""
        self.is_on = True

    def guarded(
        self,
        admit: Admit,
        meanwhile: Mapping[str, Admit] = _NONE,
        advice: Callable[[str], str] = lambda leader: "",
    ) -> Admit:
        """*admit*, asked only while callers are served.

        Args:
            meanwhile: The methods that are answered while we stand by as well, by full name, with
                the admission they have then.
            advice: What a caller who is told who leads may do about it.
        """

        def admitted(method: str, peer: Peer) -> object:
            if self.is_on:
                return admit(method, peer)
            if method in meanwhile:
                return meanwhile[method](method, peer)
            leader = self.leadership.leader
            raise LeaseLost(leader, advice(leader))

        return admitted

    def forwarded(
        self, service: RpcService, methods: Mapping[str, Admit], forward: Serve
    ) -> RpcService:
        """*service*, whose *methods* (full names) are forwarded until it is our turn."""

        def chosen(serve: Serve) -> Serve:
            def served(call: IRpcCall) -> Coroutine[Any, Any, None]:
                return (serve if self.is_on else forward)(call)

            return served

        served = {
            name: chosen(serve) if f"/{service.name}/{name}" in methods else serve
            for name, serve in service.methods.items()
        }
        return evolve(service, methods=served)


@define
class LeafRenewal:
    """How an Authority renews its own certificate.

    Attributes:
        recorded: As for every node: with its record, in the registry.
    """

    identity: TransportIdentity
    issuer: CertificateIssuer
    serving: ServingState
    recorded: Callable[[CertificateFacts, bytes], Awaitable[tuple[bytes, ...]]]

    async def renew(self, csr: bytes) -> tuple[bytes, ...]:
        """The next chain.

        Raises:
            Unavailable: we begin to lead just now, and the registry is being caught up with.
        """
        facts = self.identity.facts
        if self.serving.is_on:
            return await self.recorded(facts, csr)
        if self.serving.leadership.lease is not None:
            raise Unavailable("this Authority is becoming the leader", reason="not_leader")
        # Who stands by has the keys, and may not write: the registry hears of it when it leads.
        return self.issuer.sign_for(facts.principal, csr, facts.generation + 1, ()).chain


@define
class Foundations:
    """What an Authority is built on: keys, identity, the store as it was opened.

    Attributes:
        checks: The records of the drop-ins whose checks run in it.
    """

    runtime: Runtime
    settings: RoleSettings
    metrics: Metrics
    state: StateDirectory
    keys: ClusterKeys
    kinds: Kinds
    words: Vocabulary
    identity_store: IdentityStore
    identity: TransportIdentity
    issuer: CertificateIssuer
    receiver: ReceiverCredential
    opened: OpenedStore
    leadership: Leadership
    serving: ServingState
    recorder: Recorder
    keeper: StateKeeper
    tasks: BackgroundTasks
    checks: Sequence[str] = ()

    def with_store(self, store: LogGuardedStore) -> Parts:
        """Everything that services are wired from."""
        return Parts(**asdict(self, recurse=False), store=store)


@define(kw_only=True)
class Parts(Foundations):
    """The foundations, with the store that every write of a service goes through."""

    store: LogGuardedStore


def load_cluster_keys(
    runtime: Runtime, settings: RoleSettings, state: StateDirectory
) -> ClusterKeys:
    """The cluster's keys.

    Raises:
        ConfigError: there are none, or they are not to be trusted.
    """
    if (state / RESTORING).exists():
        raise ConfigError(
            "state_dir",
            f"{state / RESTORING}: a restore into it was interrupted; run the same `svc "
            "authority backup restore` again",
        )
    directory = state / "keys"
    if not directory.exists():
        raise ConfigError(
            "state_dir", f"{directory}: contains no cluster keys; create them with `svc init`"
        )
    install(state.path, keep_key_in_use)  # distributed keys, whose way into the directory was cut
    keys = load_keys(directory, runtime.now, runtime.entropy, cluster=settings.cluster)
    # Where the root's key still lies here it is checked like the others, and not kept: nothing
    # that runs signs with it, and it can go offline at any time (rule R14).
    return evolve(keys, root_key=None)


def own_identity(
    runtime: Runtime, settings: RoleSettings, issuer: CertificateIssuer, store: IdentityStore
) -> TransportIdentity:
    """This Authority's own leaf: the one on disk, or a new one signed by itself."""
    if store.exists:
        identity = TransportIdentity.load(store, runtime.now, settings.cluster)
        if not identity.expired:
            return identity
    return enroll_authority(issuer, store, runtime.now)


def own_receiver(
    runtime: Runtime,
    settings: RoleSettings,
    state: StateDirectory,
    owner: str,
    identity: TransportIdentity,
) -> ReceiverCredential:
    """The credential by which this Authority receives distribution roots, made at its first start.

    Raises:
        ConfigError: it is another owner's, or cannot be trusted.
    """
    former = identity.principal.id
    return load_receiver(state.path, settings.cluster, owner, runtime.now(), former)


def engine_of(policy: PolicyInForce) -> Callable[[], Any]:
    """Gives the engine of the policy that is in force at the time."""
    return lambda: policy.engine

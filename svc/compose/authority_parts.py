"""What an Authority is made of: keys, identity, store; opened before anything is wired."""

from __future__ import annotations

from attrs import define, evolve

from svc.audit.state_anchor import StateKeeper
from svc.authority.leading import Leadership
from svc.authority.noticing import NoticingStore
from svc.authority.records import Recorder
from svc.compose.backup_place import RESTORING
from svc.compose.runtime import Kinds, Runtime, StateDirectory
from svc.compose.store_opening import Opened
from svc.config import RoleSettings
from svc.errors import ConfigError, LeaseLost
from svc.interfaces.rpc import Admit, Peer
from svc.pki.enroll import EnrollmentDesk
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.join import enroll_authority
from svc.pki.keyring import load_keys
from svc.pki.root import ClusterKeys
from svc.policy.vocabulary import Vocabulary
from svc.service import BackgroundTasks
from svc.telemetry.metrics import Metrics


@define
class Serving:
    """Whether callers are served; until it is our turn they are told who leads."""

    leadership: Leadership
    is_on: bool = False

    def guarded(self, admit: Admit) -> Admit:
        """*admit*, asked only while callers are served."""

        def admitted(method: str, peer: Peer) -> None:
            if not self.is_on:
                raise LeaseLost(self.leadership.leader)
            admit(method, peer)

        return admitted


@define
class Parts:
    """Everything an Authority is made of, wired once."""

    runtime: Runtime
    settings: RoleSettings
    metrics: Metrics
    state: StateDirectory
    keys: ClusterKeys
    kinds: Kinds
    words: Vocabulary
    identity_store: IdentityStore
    identity: TransportIdentity
    desk: EnrollmentDesk
    opened: Opened
    leadership: Leadership
    serving: Serving
    store: NoticingStore
    recorder: Recorder
    keeper: StateKeeper
    tasks: BackgroundTasks


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
            f"{state / RESTORING}: a restore into it has not ended; run the same "
            "`svc authority backup restore` again",
        )
    directory = state / "keys"
    if not directory.exists():
        raise ConfigError(
            "state_dir", f"{directory}: there are no cluster keys; make them with `svc init`"
        )
    keys = load_keys(directory, runtime.now, runtime.entropy, cluster=settings.cluster)
    # Where the root's key still lies here it is checked like the others, and not kept: nothing
    # that runs signs with it, and it can go offline at any time (rule R14).
    return evolve(keys, root_key=None)


def own_identity(
    runtime: Runtime, settings: RoleSettings, desk: EnrollmentDesk, store: IdentityStore
) -> TransportIdentity:
    """This Authority's own leaf: the one on disk, or a new one signed by itself."""
    if store.exists:
        identity = TransportIdentity.load(store, runtime.now, settings.cluster)
        if not identity.expired:
            return identity
    return enroll_authority(desk, store, runtime.now)

"""The source of a backup and the destination of a restore: an Authority's store and its state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import frozen

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.state.anchor import StateAnchor
from svc.config import RoleSettings
from svc.errors import BackupBroken, ConfigError, SvcError
from svc.interfaces.audit import HeadVerifier
from svc.interfaces.copies import IStoreCopies
from svc.model.audit.record import SignedHead
from svc.ops.backup.archive import Source
from svc.ops.backup.manifest import FILES, HeadFacts
from svc.ops.store import StorePlace, store_place
from svc.ops.verify.log import owner_of
from svc.pki.audit_signatures import head_verifier
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.keyring import load_keys
from svc.pki.root import ClusterKeys

RESTORING = ".restoring"
"""Inside an Authority's own directory: a restore that has not ended, or never will."""

KEPT = "restored-configuration"
"""Where a restore puts the configuration of that time, to be compared with today's."""

STATE, CONFIGURATION = "state", "configuration"
_CRITICAL = ("keys", "identity", "trust")
_PASSING = frozenset({"lock", "control.sock", "process.sock", "listening.json", RESTORING, KEPT})
"""What belongs to a running process or to a command, and is no state of the Authority."""


@frozen
class BackupPlace:
    """One Authority, as its configuration names it.

    Attributes:
        copies: The power of the store's factory to be copied.
        base: ``state_dir``; in ``svc all`` it holds the directories of three roles.
        own: The Authority's own directory.
        uid: Who owns what lies there.
    """

    settings: RoleSettings
    store: StorePlace
    copies: Any
    base: Path
    own: Path
    uid: int

    @property
    def within(self) -> str:
        """The path of the Authority's own files in an archive."""
        return "/".join((STATE, *self.own.relative_to(self.base).parts))

    def sources(self) -> Iterator[Source]:
        """Every file of the state directory, for a stream that is read while they may change.

        In reverse order of their names: of the anchor, ``latest`` is then read before
        ``heads.jsonl``, so no head is named that is not kept.
        """
        stores = {os.path.abspath(each) for each in self.copies.files(self.store.url)}
        for place in _files(self.base):
            # A configuration beside the state is kept as such; put back, it would lie over today's.
            is_settings = place.suffix == ".toml" and place.parent in (self.base, self.own)
            if str(place) not in stores and not is_settings:
                yield Source(f"{STATE}/{place.relative_to(self.base)}", place)

    def critical(self) -> dict[str, str]:
        """What must not change while a copy is made: each key and certificate by its digest."""
        found = {}
        for word in _CRITICAL:
            for place in _files(self.own / word):
                data = os.readlink(place).encode() if place.is_symlink() else place.read_bytes()
                found[str(place.relative_to(self.own))] = sha256(data).hexdigest()
        return found

    def wanted_uid(self) -> None:
        """Refuse another user than the owner and root.

        Raises:
            SvcError: whoever runs this is neither.
        """
        if os.geteuid() not in (0, self.uid):
            raise SvcError(
                f"{self.own}: is owned by uid {self.uid}; run this as that user or as root",
                reason="not_the_owner",
            )


@frozen
class AuthorityFiles:
    """Keys, identity and anchor of one Authority, that go together."""

    keys: ClusterKeys
    authority: str
    keeper: AnchorDirectory
    state_anchor: StateAnchor
    verify_head: HeadVerifier

    @property
    def newest(self) -> SignedHead | None:
        """The newest head kept."""
        return self.keeper.newest()


def backup_place(settings: RoleSettings, own: Path) -> BackupPlace:
    """The place that *settings* name.

    Args:
        own: The Authority's own directory inside ``state_dir``, or that itself.

    Raises:
        ConfigError: the store is not named rightly, or is of a sort that cannot be copied.
    """
    store = store_place(settings)
    if not IStoreCopies.providedBy(store.factory):
        raise ConfigError(
            "store_url",
            "this store's drop-in does not support backups; use the database's own tools",
        )
    base = Path(os.path.abspath(settings.state_dir))
    uid = owner_of(own) if own.exists() else os.geteuid()
    return BackupPlace(
        settings=settings,
        store=store,
        copies=store.factory,
        base=base,
        own=Path(os.path.abspath(own)),
        uid=uid,
    )


def load_material(
    directory: Path, cluster: str, uid: int, at: float, entropy: Callable[[int], bytes]
) -> AuthorityFiles:
    """Read and check everything that an Authority's start would, as of *at*.

    Raises:
        ConfigError: naming the file: missing, not the key of its certificate, of another cluster.
    """
    keys = load_keys(directory / "keys", lambda: at, entropy, cluster=cluster, uid=uid)
    identity = TransportIdentity.load(IdentityStore(directory, uid=uid), lambda: at, cluster)
    if identity.verifier.root != keys.root_der:
        raise ConfigError(
            str(directory / "trust" / "root.pem"), f"differs from the root in {directory / 'keys'}"
        )
    anchor = directory / "anchor"
    return AuthorityFiles(
        keys=keys,
        authority=identity.principal.id,
        keeper=AnchorDirectory(anchor),
        state_anchor=StateAnchor(anchor),
        verify_head=head_verifier(keys.root_der, cluster),
    )


def facts_of(head: SignedHead | None) -> HeadFacts | None:
    """What a manifest says of a head."""
    if head is None:
        return None
    said = head.head
    return HeadFacts(
        tree_size=said.tree_size, root=said.root.hex(), hash=head.hash.hex(), key_id=said.key_id
    )


def own_within(paths: list[str]) -> str:
    """The path of the Authority's own files in an archive.

    Raises:
        BackupBroken: nowhere: it is no backup of an Authority.
    """
    for path in paths:
        above, _, name = path.rpartition("/keys/")
        if name == "root.pem" and above.split("/")[0] == STATE:
            return above
    raise BackupBroken(f"{FILES}: it contains no keys/root.pem", reason="backup_incomplete")


def _files(directory: Path) -> Iterator[Path]:
    """Every file and link below, in reverse order of the names; none that is in passing."""
    if not directory.is_dir():
        return
    for place in sorted(directory.iterdir(), reverse=True):
        if place.name in _PASSING or place.name.endswith(".new"):
            continue
        if place.is_dir() and not place.is_symlink():
            yield from _files(place)
        elif place.is_symlink() or place.is_file():
            yield place

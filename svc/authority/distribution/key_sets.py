"""Counts the states of the keys that Authorities sign with, and distributes them sealed.

The leader enters what it has loaded and nobody has entered before, as the next revision.  With
automatic distribution it also seals the files under the root in force, and an Authority that
stands by takes them from there; without, an operator copies them, and the revision that each
Authority has loaded is only shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import define, evolve, field
from twisted.logger import Logger

from svc.audit.state.key_tables import KEY_SETS, ROOT_OWNERS
from svc.authority.recordings.key import keep_key_in_use
from svc.authority.state.recorder import node
from svc.authority.state.tables import StateUnsigned
from svc.authority.state.writer import StateWriter
from svc.errors import SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import KEY_SET_ENTER
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    in_force,
    newest,
    withdrawn_with,
)
from svc.pki.distribution import (
    RootFiles,
    install,
    key_files,
    open_key_set,
    seal_key_set,
    stage,
)
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_authority")


@define
class KeySets:
    """See the module.

    Attributes:
        state: The state directory, with ``keys/`` in it.
        loaded: Digest of the keys that this process has loaded.
        is_automatic: Whether keys are distributed, and taken, without an operator.
        check: Told a directory with a whole key set; raises SvcError where no start would take it.
    """

    cluster: str
    me: str
    owner: str
    state: Path
    kept: RootFiles
    writer: StateWriter
    loaded: Callable[[], bytes]
    is_automatic: bool
    check: Callable[[Path], object]
    in_thread: InThread
    _told: str = field(default="", init=False)

    async def lead(self) -> None:
        """One pass of the leader: enter what it has loaded, and distribute it.

        Raises:
            StoreUnavailable: the next pass tries again.
        """
        try:
            await self._enter()
            if self.is_automatic:
                await self._distribute()
        except StateUnsigned as refused:
            self._say(refused)

    async def follow(self) -> None:
        """One pass of an Authority: take the newest key set, if it is for us.

        What an earlier pass did not bring to its end is brought there first, whatever is said now:
        until then, ``keys/`` has files of two key sets.
        """
        try:
            if await self.in_thread(lambda: install(self.state, keep_key_in_use)):
                _log.info("keys taken, which were left half taken")
        except (SvcError, OSError) as refused:
            self._say(refused)
            return
        state = self.writer.cache.state
        material = newest(state.key_sets.values())
        if not self.is_automatic or material is None or state.pause is not None:
            return
        root = in_force(state.roots.values())
        if material.digest == self.loaded() or root is None or material.epoch != root.epoch:
            return
        if all(one.digest != self.loaded() for one in state.key_sets.values()):
            return  # keys that an operator has just made here, and the leader has not: they stay
        try:
            is_taken = await self.in_thread(lambda: self._take(root, material))
        except (SvcError, OSError) as refused:
            self._say(refused)
            return
        if is_taken:
            _log.info("keys taken", revision=material.revision, epoch=root.epoch)

    async def _enter(self) -> None:
        state, digest = self.writer.cache.state, self.loaded()
        if any(one.digest == digest for one in state.key_sets.values()):
            return

        def enter(tx: ITransaction) -> None:
            known = self.writer.rows(tx).every(KEY_SETS).values()
            if any(one.digest == digest for one in known):
                return
            last = newest(known)
            revision = 1 if last is None else last.revision + 1
            self._put(tx, KeySet(revision=revision, digest=digest, since=self.writer.now()))
            own = self.writer.rows(tx).every(ROOT_OWNERS).get(self.owner)
            if own is not None:  # at once: the leader never lags behind itself
                tx.roots.put_owner(evolve(own, key_set=digest))

        await self.writer.change("enter a key set", enter)

    async def _distribute(self) -> None:
        """Seal the newest key set under the root in force, unless that is done, or must not be."""
        state = self.writer.cache.state
        material, root = newest(state.key_sets.values()), in_force(state.roots.values())
        if material is None or root is None or state.pause is not None:
            return
        if material.digest != self.loaded() or (material.sealed and material.epoch == root.epoch):
            return
        outside = withdrawn_with(
            self.cluster, root, state.root_shares.values(), state.root_owners.values()
        )
        if outside:
            self._say(
                SvcError(
                    f"keys are not distributed under root {root.epoch}, which a credential of "
                    f"{', '.join(outside)} opens that was withdrawn; prepare and activate another "
                    "root",
                    reason="root_of_withdrawn_owner",
                )
            )
            return
        try:
            sealed = await self.in_thread(lambda: self._seal(root, material))
        except (SvcError, OSError) as refused:
            self._say(refused)
            return
        if sealed is None:
            return

        def put(tx: ITransaction) -> None:
            known = self.writer.rows(tx).every(KEY_SETS).get(str(material.revision))
            if known == material:
                self._put(tx, evolve(material, epoch=root.epoch, sealed=sealed))

        await self.writer.change("distribute a key set", put)
        self._told = ""

    def _put(self, tx: ITransaction, key_set: KeySet) -> None:
        tx.roots.put_key_set(key_set)
        self.writer.append(
            tx,
            KEY_SET_ENTER,
            node(self.me),
            node_id=self.me,
            details={
                "epoch": key_set.epoch,
                "material_revision": key_set.revision,
                "key_digest": key_set.digest.hex(),
            },
            state=[KEY_SETS.now(tx, str(key_set.revision))],
        )

    def _seal(self, root: DistributionRoot, material: KeySet) -> bytes | None:
        """Blocks.  None: we do not have the root, as one that was not its owner."""
        secret = self.kept.secret(root.epoch)
        if secret is None:
            return None
        contents = key_files(self.state / "keys")
        return seal_key_set(secret, self._place(root, material), contents, self.writer.entropy)

    def _take(self, root: DistributionRoot, material: KeySet) -> bool:
        """Blocks."""
        secret = self.kept.secret(root.epoch)
        if secret is None:
            return False
        contents = open_key_set(secret, self._place(root, material), material.sealed)
        if all(_is_there(self.state / "keys" / name, data) for name, data in contents.items()):
            return False
        stage(self.state, contents, self.check)
        return install(self.state, keep_key_in_use)

    def _place(self, root: DistributionRoot, material: KeySet) -> dict[str, str]:
        return {
            "cluster": self.cluster,
            "epoch": str(root.epoch),
            "revision": str(material.revision),
        }

    def _say(self, refused: Exception) -> None:
        text = str(refused)
        if text != self._told:
            _log.error("keys are not distributed", text=text)
        self._told = text


def _is_there(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False

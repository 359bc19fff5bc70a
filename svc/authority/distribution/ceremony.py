"""How the Authorities come to a new distribution root: prepare, acknowledge, activate; or cancel.

The leader prepares a root: a secret that it seals to each owner and forgets.  Each owner opens
its share, keeps it on its own disk, and signs that it has it; the signature is in the store before
anybody is told of it.  Only when every owner has signed can the root be activated.  An owner that
is silent has not agreed, and has not left: there is no time in here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from attrs import define, evolve, field

from svc.audit.state.key_tables import KEY_SETS, PAUSES, ROOT_OWNERS, ROOT_SHARES, ROOTS
from svc.authority.distribution.pause import require_rotation
from svc.authority.state.recorder import node
from svc.authority.state.writer import StateWriter
from svc.errors import Denied, Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.messages.forward import RootWord
from svc.model.audit.events import (
    ROOT_ACK,
    ROOT_ACTIVATE,
    ROOT_CANCEL,
    ROOT_PREPARE,
    ROOT_READMIT,
    ROOT_WITHDRAW,
)
from svc.model.audit.record import Actor, Event, rfc3339
from svc.model.distribution import (
    LEAST_OWNERS,
    ROOT_BYTES,
    DistributionRoot,
    KeySet,
    OwnerState,
    RootOwner,
    RootShare,
    RootState,
    has_acked,
    in_force,
    newest,
    of_root,
    pending,
    require_signed,
    retained,
    root_digest,
)
from svc.model.ids import Entropy
from svc.model.short_ids import LEAST_KEY_DIGITS
from svc.model.signing import Purpose
from svc.model.sodium import NotOpened, seal_to

_STATUS = "svc authority keys sync root status"


@define
class RootCeremony:
    """Changes the root's rows, each change in one transaction with its record; while we lead."""

    cluster: str
    writer: StateWriter
    entropy: Entropy = field(repr=False)

    async def prepare(self, actor: Actor) -> None:
        """Make the next root and seal it to every owner that is retained.

        Raises:
            SvcError: rotation is paused, a root is prepared already, an Authority has no receiver
                credential or other keys than the leader, or there are too few owners.
        """
        await self.writer.change("prepare a root", lambda tx: self._prepare(tx, actor))

    async def activate(self, actor: Actor) -> None:
        """Put the prepared root in force.

        Raises:
            SvcError: an owner has not acknowledged it, or the keys have changed since.
        """
        await self.writer.change("activate a root", lambda tx: self._activate(tx, actor))

    async def withdraw(self, owner: str, actor: Actor) -> None:
        """Seal no further root to an owner.

        Raises:
            SvcError: there is no such owner, a root is prepared, or too few would remain.
        """
        await self.writer.change("withdraw an owner", lambda tx: self._withdraw(tx, owner, actor))

    async def readmit(self, owner: str, key: str, actor: Actor) -> None:
        """Seal the next roots to an owner again that was withdrawn, by the credential it has now.

        Args:
            key: How the digest of the receiver key begins that is meant, in hex; empty: any.

        Raises:
            SvcError: there is no such owner, it has no receiver credential, or another one.
        """
        await self.writer.change(
            "readmit an owner", lambda tx: self._readmit(tx, owner, key.lower(), actor)
        )

    async def take(self, word: RootWord, actor: Actor) -> None:
        """Store an owner's word on the prepared root; once it is durable, return.

        Raises:
            Denied: the signature is not that owner's, or it is none of this root.
            SvcError: no such root is prepared.
        """
        await self.writer.change("take an owner's word", lambda tx: self._take(tx, word, actor))

    async def take_from(self, word: RootWord, node_id: str) -> None:
        """As :meth:`take`, of another Authority, which had its own operator's leave."""
        await self.take(word, node(node_id))

    def _prepare(self, tx: ITransaction, actor: Actor) -> None:
        rows = self.writer.rows(tx)
        require_rotation(rows.every(PAUSES).values(), "no root is prepared")
        roots, owners = rows.every(ROOTS).values(), rows.every(ROOT_OWNERS)
        kept, material = retained(owners.values()), newest(rows.every(KEY_SETS).values())
        self._require_none_pending(tx, roots, {one.owner for one in kept}, actor)
        missing = [one.owner for one in tx.lease.members() if one.owner not in owners]
        if missing:
            raise _refused(
                "receiver_missing",
                f"{', '.join(missing)}: has no receiver credential; upgrade and start that "
                "Authority, or, if it is gone for good, withdraw it",
            )
        if len(kept) < LEAST_OWNERS:
            raise _too_few(kept)
        assert material is not None, "a leader enters its keys before it serves anybody"
        _require_same_keys(kept, material)
        epoch, secret = max((one.epoch for one in roots), default=0) + 1, self.entropy(ROOT_BYTES)
        root = DistributionRoot(
            epoch=epoch,
            digest=root_digest(self.cluster, epoch, secret),
            material_revision=material.revision,
            state=RootState.PREPARED,
            prepared_at=self.writer.now(),
        )
        tx.roots.put_root(root)
        shares = [RootShare(epoch, one.owner, _sealed(one, secret)) for one in kept]
        for share in shares:
            tx.roots.put_share(share)
        self._record(tx, ROOT_PREPARE, actor, root, [one.owner for one in kept], shares=shares)

    def _require_none_pending(
        self,
        tx: ITransaction,
        roots: Iterable[DistributionRoot],
        kept: Container[str],
        actor: Actor,
    ) -> None:
        """Refuse a second root; one whose owners all have other names now is given up instead.

        Nobody else could: a cancellation is signed by an owner.
        """
        prepared = pending(roots)
        if prepared is None:
            return
        shares = of_root(prepared, self.writer.rows(tx).every(ROOT_SHARES).values())
        if any(one.owner in kept for one in shares):
            raise _refused(
                "root_pending",
                f"root {prepared.epoch} is prepared already; activate it or cancel it first",
            )
        cancelled = evolve(prepared, state=RootState.CANCELLED)
        tx.roots.put_root(cancelled)
        named = [one.owner for one in shares]
        self._record(tx, ROOT_CANCEL, actor, prepared, named, roots=[cancelled])

    def _activate(self, tx: ITransaction, actor: Actor) -> None:
        rows = self.writer.rows(tx)
        roots, owners = rows.every(ROOTS).values(), rows.every(ROOT_OWNERS)
        root = _require_pending(roots)
        shares = of_root(root, rows.every(ROOT_SHARES).values())
        known = {one.owner for one in retained(owners.values())}
        gone = [one.owner for one in shares if one.owner not in known]
        if gone:
            raise _refused(
                "root_of_withdrawn_owner",
                f"root {root.epoch} is sealed to {', '.join(gone)}, withdrawn since, as an "
                "Authority was given another name; cancel it and prepare another one",
            )
        waiting = [
            one.owner
            for one in shares
            if not has_acked(self.cluster, root, one, owners.get(one.owner))
        ]
        if waiting:
            raise _refused(
                "root_not_acknowledged",
                f"root {root.epoch}: not acknowledged by {', '.join(waiting)}; on the host of "
                "each: svc --config FILE authority keys sync root ack",
            )
        material = newest(rows.every(KEY_SETS).values())
        if material is None or material.revision != root.material_revision:
            raise _refused(
                "root_outdated",
                f"root {root.epoch} was acknowledged at material revision "
                f"{root.material_revision}, and the keys have changed since; cancel it and "
                "prepare another one",
            )
        changed = [evolve(root, state=RootState.ACTIVE, activated_at=self.writer.now())]
        if (former := in_force(roots)) is not None:
            changed.insert(0, evolve(former, state=RootState.RETIRED))
        for one in changed:
            tx.roots.put_root(one)
        named = [one.owner for one in shares]
        self._record(tx, ROOT_ACTIVATE, actor, root, named, roots=changed)

    def _withdraw(self, tx: ITransaction, name: str, actor: Actor) -> None:
        rows = self.writer.rows(tx)
        owners = rows.every(ROOT_OWNERS)
        members = {one.owner: one for one in tx.lease.members()}
        known = owners.get(name)
        if known is None and name not in members:
            raise _refused("unknown_owner", f"{name}: no Authority has this name; see {_STATUS}")
        if known is not None and known.state is OwnerState.WITHDRAWN:
            return
        if (prepared := pending(rows.every(ROOTS).values())) is not None:
            raise _refused(
                "root_pending",
                f"root {prepared.epoch} is prepared for {name} as well; cancel it first",
            )
        left = [one for one in retained(owners.values()) if one.owner != name]
        if len(left) < LEAST_OWNERS:
            raise _too_few(left)
        if known is None:
            known = RootOwner(
                owner=name,
                node_id=members[name].node_id,
                receiver_key=None,
                sealing_key=None,
                state=OwnerState.RETAINED,
                since=0.0,
            )
        gone = evolve(
            known, state=OwnerState.WITHDRAWN, since=self.writer.now(), is_readmitted=False
        )
        tx.roots.put_owner(gone)
        self.writer.append(
            tx,
            ROOT_WITHDRAW,
            actor,
            details={"owners": [name]},
            state=[ROOT_OWNERS.now(tx, name)],
        )

    def _readmit(self, tx: ITransaction, name: str, key: str, actor: Actor) -> None:
        if key and len(key) < LEAST_KEY_DIGITS:
            raise Malformed(f"key: at least {LEAST_KEY_DIGITS} digits of the digest are needed")
        known = self.writer.rows(tx).every(ROOT_OWNERS).get(name)
        if known is None:
            raise _refused("unknown_owner", f"{name}: no Authority has this name; see {_STATUS}")
        if known.receiver_key is not None and not known.key_digest.startswith(key):
            raise _refused(
                "receiver_differs",
                f"{name}: the receiver key that is registered has the digest "
                f"{known.key_digest[:LEAST_KEY_DIGITS]}, of the node {known.node_id} since "
                f"{rfc3339(known.since)}, and not {key[:LEAST_KEY_DIGITS]}; compare it with what "
                f"{_STATUS} shows on the host of that Authority",
            )
        if known.state is OwnerState.RETAINED:
            return
        if known.receiver_key is None:
            raise _refused(
                "receiver_missing",
                f"{name}: has no receiver credential; start that Authority first",
            )
        back = evolve(known, state=OwnerState.RETAINED, since=self.writer.now(), is_readmitted=True)
        tx.roots.put_owner(back)
        self.writer.append(
            tx,
            ROOT_READMIT,
            actor,
            details={"owners": [name], "key_digest": known.key_digest},
            state=[ROOT_OWNERS.now(tx, name)],
        )

    def _take(self, tx: ITransaction, word: RootWord, actor: Actor) -> None:
        rows = self.writer.rows(tx)
        root = _require_pending(rows.every(ROOTS).values())
        share = rows.every(ROOT_SHARES).get(f"{word.epoch}:{word.owner}")
        owner = rows.every(ROOT_OWNERS).get(word.owner)
        if root.epoch != word.epoch or share is None or owner is None:
            raise Denied(
                f"{word.owner} is no owner of root {root.epoch}, which is prepared",
                reason="not_an_owner",
            )
        purpose = Purpose.ROOT_CANCEL if word.cancel else Purpose.ROOT_ACK
        require_signed(self.cluster, root, owner, purpose, word.signature)
        asked_by = word.by if actor.kind == "node" else ""
        if word.cancel:
            cancelled = evolve(root, state=RootState.CANCELLED)
            tx.roots.put_root(cancelled)
            self._record(
                tx, ROOT_CANCEL, actor, root, [word.owner], roots=[cancelled], asked_by=asked_by
            )
        elif not has_acked(self.cluster, root, share, owner):
            acked = evolve(share, signature=word.signature, acked_at=self.writer.now())
            tx.roots.put_share(acked)
            named = [word.owner]
            self._record(
                tx, ROOT_ACK, actor, root, named, roots=(), shares=[acked], asked_by=asked_by
            )

    def _record(
        self,
        tx: ITransaction,
        event: Event,
        actor: Actor,
        root: DistributionRoot,
        owners: Sequence[str],
        *,
        roots: Iterable[DistributionRoot] | None = None,
        shares: Iterable[RootShare] = (),
        asked_by: str = "",
    ) -> None:
        changed: list[Any] = [
            ROOTS.now(tx, str(one.epoch)) for one in ([root] if roots is None else roots)
        ]
        changed += [ROOT_SHARES.now(tx, one.id) for one in shares]
        self.writer.append(
            tx,
            event,
            actor,
            details={
                "epoch": root.epoch,
                "material_revision": root.material_revision,
                "owners": list(owners),
                **({"asked_by": asked_by} if asked_by else {}),
            },
            state=changed,
        )


def _sealed(owner: RootOwner, secret: bytes) -> bytes:
    assert owner.sealing_key is not None, "a retained owner has a key; the store keeps it so"
    try:
        return seal_to(owner.sealing_key, secret)
    except NotOpened:
        raise _refused(
            "receiver_missing", f"{owner.owner}: nothing can be sealed to its receiver credential"
        ) from None


def _require_pending(roots: Iterable[DistributionRoot]) -> DistributionRoot:
    root = pending(roots)
    if root is None:
        raise _refused("no_root_prepared", f"no root is prepared; see {_STATUS}")
    return root


def _require_same_keys(owners: Iterable[RootOwner], material: KeySet) -> None:
    """Refuse while an owner has said that it has loaded other keys than the newest ones."""
    others = [one.owner for one in owners if one.key_set != material.digest]
    if others:
        raise _refused(
            "key_set_differs",
            f"{', '.join(others)}: has not loaded material revision {material.revision}; copy "
            f"keys/ of an Authority whose REVISION is {material.revision} there first: {_STATUS}",
        )


def _too_few(owners: Sequence[RootOwner]) -> SvcError:
    names = ", ".join(one.owner for one in owners) or "none"
    return _refused(
        "too_few_owners",
        f"a distribution root needs at least {LEAST_OWNERS} owners; there would be: {names}; start "
        "a further Authority first, or, where one has lost its receiver.key, give that one another "
        "authority.name",
    )


def _refused(reason: str, text: str) -> SvcError:
    return SvcError(text, reason=reason, fault=Fault.PRECONDITION)

"""Checks of the receiver credential, and of the distribution root that it is for."""

from __future__ import annotations

import os
from collections.abc import Iterator

from attrs import frozen

from svc.interfaces.store import ITransaction
from svc.model.cluster.lease import Member
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    RootOwner,
    RootShare,
    in_force,
    newest,
    pending,
    receiver_key_digest,
    retained,
    withdrawn_with,
)
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.model.short_ids import LEAST_KEY_DIGITS
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import CheckContext, NotChecked
from svc.pki.identity import TransportIdentity
from svc.pki.receiver import MOVE_AWAY, RECEIVER_FILE, read_receiver

_AUTHORITY = ("authority",)
_STATUS = "svc authority keys sync root status"


@frozen
class _Stored:
    """What the store says of roots and owners."""

    roots: tuple[DistributionRoot, ...]
    owners: tuple[RootOwner, ...]
    shares: tuple[RootShare, ...]
    key_sets: tuple[KeySet, ...]
    members: tuple[Member, ...]

    @classmethod
    def read(cls, tx: ITransaction) -> _Stored:
        """Read it."""
        kept = tx.roots
        return cls(
            roots=kept.roots(),
            owners=kept.owners(),
            shares=kept.shares(),
            key_sets=kept.key_sets(),
            members=tuple(tx.lease.members()),
        )


def _stored(context: CheckContext) -> _Stored:
    found: _Stored = context.store.once(
        "distribution root", lambda: context.store.look("doctor roots", _Stored.read)
    )
    return found


def _own_names(context: CheckContext) -> tuple[str, str]:
    """The name that this Authority has among the others, and its node id; empty: none yet."""
    node_id = ""
    if context.identities.exists:
        cluster = context.settings.cluster
        identity = TransportIdentity.load(context.identities, lambda: context.at, cluster)
        node_id = identity.principal.id
    return context.settings.authority.name or node_id, node_id


def _receiver(context: CheckContext) -> Iterator[Finding]:
    """The credential is this Authority's own, and registered as that of nobody else."""
    path = context.state / RECEIVER_FILE
    if not os.path.lexists(path):
        yield info("no receiver credential yet: the Authority makes its own at its next start")
        return
    found = read_receiver(path, context.settings.cluster, context.uid)
    owner, node_id = _own_names(context)
    if owner and found.owner not in (owner, node_id):
        yield fail(
            f"{path} is the receiver credential of {found.owner}, and this Authority is {owner}: "
            "it was copied",
            MOVE_AWAY,
        )
    yield ok(f"the receiver credential of {found.owner}, made {found.created}")
    try:
        stored = _stored(context)
    except NotChecked:
        return
    digest = receiver_key_digest(found.receiver_key)[:LEAST_KEY_DIGITS]
    for one in stored.owners:
        if one.receiver_key == found.receiver_key and one.owner != found.owner:
            yield fail(
                f"the receiver credential of {found.owner} is registered as that of {one.owner}: "
                "it was copied",
                f"{MOVE_AWAY}; do so at {found.owner}",
            )
        if one.owner == found.owner and one.receiver_key not in (None, found.receiver_key):
            yield fail(
                f"another receiver credential of {found.owner} is registered",
                "put the former file back; if it is lost: svc authority keys sync root withdraw "
                f"{found.owner}, restart that Authority, and let it back: svc authority keys sync "
                f"root readmit {found.owner} --key {digest}",
            )


def _root(context: CheckContext) -> Iterator[Finding]:
    """Which root is in force, what is prepared, and who has loaded other keys."""
    stored = _stored(context)
    root, prepared = in_force(stored.roots), pending(stored.roots)
    material = newest(stored.key_sets)
    revision = 0 if material is None else material.revision
    if prepared is not None:
        waiting = ", ".join(
            one.owner
            for one in stored.shares
            if one.epoch == prepared.epoch and one.signature is None
        )
        yield warn(
            f"root {prepared.epoch} is prepared and not in force"
            + (f"; not acknowledged by {waiting}" if waiting else ""),
            "on the host of each owner: svc --config FILE authority keys sync root ack; then "
            "activate, or cancel",
        )
    if root is not None:
        cluster = context.settings.cluster
        gone = withdrawn_with(cluster, root, stored.shares, stored.owners)
        if gone:
            yield warn(
                f"a credential of {', '.join(gone)} that was withdrawn opens root {root.epoch}, so "
                "no keys are distributed",
                "svc authority keys sync root prepare",
            )
    members = {one.owner for one in stored.members}
    behind = ", ".join(
        one.owner
        for one in retained(stored.owners)
        if material is not None and one.owner in members and one.key_set != material.digest
    )
    if behind:
        yield warn(
            f"{behind}: has not loaded the newest keys (material revision {revision})",
            f"copy keys/ of an Authority whose REVISION is {revision} there: {_STATUS}",
        )
    epoch = 0 if root is None else root.epoch
    yield ok(f"root epoch {epoch}, material revision {revision}, preparation: none")


OWN = (Check("identity.receiver", _AUTHORITY, _receiver, needs_state=True),)
CHECKS = (Check("cluster.distribution_root", _AUTHORITY, _root, needs_state=True),)

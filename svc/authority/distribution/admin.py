"""What operators ask of the distribution root, at any Authority."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define

from svc.authority.distribution.ceremony import RootCeremony
from svc.authority.distribution.own import OwnRoots
from svc.authority.distribution.pause import RotationAdmin
from svc.authority.state.cluster import ClusterState
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.cluster.lease import Member
from svc.model.distribution import (
    NONE_YET,
    DistributionRoot,
    has_acked,
    in_force,
    newest,
    of_root,
    pending,
    receiver_key_digest,
)
from svc.proto.gate.v1 import root_pb2 as pb

UNREGISTERED = "unregistered"
"""The state of a member that has no receiver credential."""


@define
class RootAdmin:
    """Answers operators; ``status``, ``ack`` and ``cancel`` at an Authority that stands by, too.

    Attributes:
        is_automatic: Whether this Authority distributes, or takes, keys by itself.
    """

    ceremony: RootCeremony
    own: OwnRoots
    rotation: RotationAdmin
    is_automatic: bool

    async def status(self, request: pb.RootStatusRequest, actor: Actor) -> pb.RootStatusResponse:
        """Root, material and preparation as the store has them now."""
        cache = self.ceremony.writer.cache
        members = await self.ceremony.writer.read("members", _members)
        return self._answer(await cache.refresh(), members)

    async def prepare(self, request: pb.PrepareRootRequest, actor: Actor) -> pb.RootStatusResponse:
        """See :meth:`RootCeremony.prepare`."""
        await self.ceremony.prepare(actor)
        return await self._now(actor)

    async def ack(self, request: pb.AckRootRequest, actor: Actor) -> pb.RootStatusResponse:
        """See :meth:`OwnRoots.acknowledge`."""
        await self.own.acknowledge(actor)
        return await self._now(actor)

    async def activate(
        self, request: pb.ActivateRootRequest, actor: Actor
    ) -> pb.RootStatusResponse:
        """See :meth:`RootCeremony.activate`."""
        await self.ceremony.activate(actor)
        return await self._now(actor)

    async def cancel(self, request: pb.CancelRootRequest, actor: Actor) -> pb.RootStatusResponse:
        """See :meth:`OwnRoots.cancel`."""
        await self.own.cancel(actor)
        return await self._now(actor)

    async def withdraw(
        self, request: pb.WithdrawOwnerRequest, actor: Actor
    ) -> pb.RootStatusResponse:
        """See :meth:`RootCeremony.withdraw`."""
        await self.ceremony.withdraw(request.owner, actor)
        return await self._now(actor)

    async def readmit(self, request: pb.ReadmitOwnerRequest, actor: Actor) -> pb.RootStatusResponse:
        """See :meth:`RootCeremony.readmit`."""
        await self.ceremony.readmit(request.owner, request.key_digest, actor)
        return await self._now(actor)

    async def _now(self, actor: Actor) -> pb.RootStatusResponse:
        return await self.status(pb.RootStatusRequest(), actor)

    def _answer(self, state: ClusterState, members: list[Member]) -> pb.RootStatusResponse:
        root, prepared = in_force(state.roots.values()), pending(state.roots.values())
        material = newest(state.key_sets.values())
        sealed = [
            one.revision
            for one in state.key_sets.values()
            if one.sealed and root is not None and one.epoch == root.epoch
        ]
        return pb.RootStatusResponse(
            epoch=NONE_YET if root is None else root.epoch,
            material_revision=0 if material is None else material.revision,
            prepared=None if prepared is None else self._prepared(state, prepared),
            owners=_owners(self.ceremony.cluster, state, members),
            owner=self.own.credential.owner,
            key_digest=receiver_key_digest(self.own.credential.receiver_key),
            distributed_revision=max(sealed, default=0),
            automatic_distribution=self.is_automatic,
            paused=state.pause is not None,
        )

    def _prepared(self, state: ClusterState, root: DistributionRoot) -> pb.PreparedRoot:
        acked, waiting = list[str](), list[str]()
        for one in of_root(root, state.root_shares.values()):
            owner = state.root_owners.get(one.owner)
            is_acked = has_acked(self.ceremony.cluster, root, one, owner)
            (acked if is_acked else waiting).append(one.owner)
        return pb.PreparedRoot(
            epoch=root.epoch,
            material_revision=root.material_revision,
            prepared_at=root.prepared_at,
            acknowledged=acked,
            waiting=waiting,
        )


def _members(tx: ITransaction) -> list[Member]:
    return list(tx.lease.members())


def _owners(cluster: str, state: ClusterState, members: list[Member]) -> Iterator[pb.RootOwnerRow]:
    """Every Authority that registered a credential or lives on the store, by name."""
    root = in_force(state.roots.values())
    has_root = set[str]()
    if root is not None:
        has_root = {
            one.owner
            for one in of_root(root, state.root_shares.values())
            if has_acked(cluster, root, one, state.root_owners.get(one.owner))
        }
    revisions = {one.digest: one.revision for one in state.key_sets.values()}
    ids = {one.owner: one.node_id for one in members}
    for name in sorted({*ids, *state.root_owners}):
        known = state.root_owners.get(name)
        if known is None:
            yield pb.RootOwnerRow(owner=name, node_id=ids[name], state=UNREGISTERED)
            continue
        yield pb.RootOwnerRow(
            owner=name,
            node_id=known.node_id,
            state=known.state.value,
            since=known.since,
            revision=revisions.get(known.key_set, 0),
            has_root=name in has_root,
            key_digest=known.key_digest,
        )

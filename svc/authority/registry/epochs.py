"""Switches on the SSH gate for the whole cluster, and says which Connectors are older than it."""

from __future__ import annotations

from collections import Counter

from attrs import define

from svc.authority.state.tables import EPOCHS
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import EPOCH_ACTIVATE
from svc.model.audit.record import Actor
from svc.model.cluster.node import NodeState
from svc.model.cluster.registration import GATED_KINDS, HIGHEST, SSH_GATE, Epoch
from svc.proto.gate.v1 import admin_pb2 as pb


@define
class EpochAdmin:
    """Answers for epochs."""

    writer: StateWriter

    async def status(self, request: pb.EpochStatusRequest, actor: Actor) -> pb.EpochStatusResponse:
        """The epoch in force, and the Connectors that would lose SSH resources at another."""
        wanted = _known(request.epoch)
        offers = await self.writer.read("epochs", lambda tx: tx.epochs.offers(SSH_GATE))
        state = self.writer.cache.state
        counts = Counter(
            one.assigned_to for one in state.catalog.values() if one.kind in GATED_KINDS
        )
        losing = [
            pb.EpochConnector(
                id=one.id, name=one.name, offered=offers.get(one.id, 0), resources=counts[one.id]
            )
            for one in sorted(state.nodes.values(), key=lambda one: (one.name, one.id))
            if one.state is NodeState.ACTIVE and counts[one.id] and offers.get(one.id, 0) < wanted
        ]
        return pb.EpochStatusResponse(
            epoch=state.gate_epoch,
            highest=HIGHEST,
            losing=losing,
        )

    async def activate(
        self, request: pb.ActivateEpochRequest, actor: Actor
    ) -> pb.ActivateEpochResponse:
        """Put an epoch in force; Connectors that are older then register again without SSH."""
        wanted = _known(request.epoch)

        def change(tx: ITransaction) -> bool:
            known = self.writer.rows(tx).epoch(SSH_GATE)
            now = 0 if known is None else known.epoch
            if wanted < now:
                raise SvcError(
                    f"epoch {now} is in force, and an epoch is never taken back",
                    reason="epoch_in_force",
                    fault=Fault.PRECONDITION,
                )
            if wanted == now:
                return False
            tx.epochs.activate(
                Epoch(
                    name=SSH_GATE,
                    epoch=wanted,
                    activated_at=self.writer.now(),
                    activated_by=actor.id,
                )
            )
            self.writer.append(
                tx,
                EPOCH_ACTIVATE,
                actor,
                details={"generation": wanted},
                state=[EPOCHS.now(tx, SSH_GATE)],
            )
            return True

        changed = await self.writer.change("activate an epoch", change)
        told = await self.status(pb.EpochStatusRequest(epoch=wanted), actor)
        return pb.ActivateEpochResponse(epoch=wanted, changed=changed, losing=told.losing)


def _known(wanted: int) -> int:
    """The epoch that is asked about; the highest, where none is named.  Raises Malformed."""
    if wanted > HIGHEST:
        raise Malformed(
            f"epoch {wanted}: this Authority knows epochs up to {HIGHEST}; upgrade it first"
        )
    return wanted or HIGHEST

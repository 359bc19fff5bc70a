"""The pause of rotation: while it lasts, no key, CA or root is replaced by another one."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define

from svc.audit.state.key_tables import PAUSES
from svc.authority.ingest.notes import checked_note
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ROTATION_PAUSE, ROTATION_RESUME
from svc.model.audit.record import Actor
from svc.model.distribution import RotationPause
from svc.proto.gate.v1 import root_pb2 as pb

ID = "rotation"


def require_rotation(pauses: Iterable[RotationPause], what: str) -> None:
    """Refuse *what* does not happen while rotation is paused.

    Raises:
        SvcError: ``rotation_paused``.
    """
    paused = next((one for one in pauses if one.is_paused), None)
    if paused is not None:
        why = f" ({paused.reason})" if paused.reason else ""
        raise SvcError(
            f"rotation is paused by {paused.by}{why}: {what}; to go on: svc authority ca rotation "
            "resume",
            reason="rotation_paused",
            fault=Fault.PRECONDITION,
        )


@define
class RotationAdmin:
    """Answers operators."""

    writer: StateWriter

    async def status(
        self, request: pb.RotationStatusRequest, actor: Actor
    ) -> pb.RotationStatusResponse:
        """Whether it is paused, since when and by whom."""
        state = self.writer.cache.state
        found = state.pause or state.pauses.get(ID)
        if found is None:
            return pb.RotationStatusResponse()
        return pb.RotationStatusResponse(
            paused=found.is_paused, since=found.since, by=found.by, reason=found.reason
        )

    async def pause(
        self, request: pb.PauseRotationRequest, actor: Actor
    ) -> pb.RotationStatusResponse:
        """Pause it; as it is already paused, nothing changes."""
        reason = checked_note(request.reason) if request.reason else ""
        await self._set(True, reason, actor)
        return await self.status(pb.RotationStatusRequest(), actor)

    async def resume(
        self, request: pb.ResumeRotationRequest, actor: Actor
    ) -> pb.RotationStatusResponse:
        """Resume it."""
        await self._set(False, "", actor)
        return await self.status(pb.RotationStatusRequest(), actor)

    async def _set(self, is_paused: bool, reason: str, actor: Actor) -> None:
        def change(tx: ITransaction) -> None:
            known = self.writer.rows(tx).every(PAUSES).get(ID)
            if is_paused == (known is not None and known.is_paused):
                return
            tx.keyrings.pause(
                RotationPause(
                    is_paused=is_paused, since=self.writer.now(), by=actor.id, reason=reason
                )
            )
            self.writer.append(
                tx,
                ROTATION_PAUSE if is_paused else ROTATION_RESUME,
                actor,
                details={"note": reason} if reason else {},
                state=[PAUSES.now(tx, ID)],
            )

        await self.writer.change("pause rotation" if is_paused else "resume rotation", change)

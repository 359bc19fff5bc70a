"""Ends recordings of which nothing arrives any more, and removes those kept long enough."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve
from twisted.logger import Logger

from svc.authority.recordings.receive import append_ended, ended_details
from svc.authority.state.recorder import Recorder, node
from svc.interfaces.recordings import IRecordingStore
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import RECORDING_LOST, RECORDING_REMOVED
from svc.model.recording import FINAL, Recording, RecordingState
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_authority")

LOOK_SECS = 60.0
_DAY = 86400.0
_AT_ONCE = 100


@define(eq=False)
class RecordingExpiry:
    """One pass, called again and again.

    Attributes:
        me: Our node id.
        leads: Whether it is our turn.
        lost_after: Seconds.
        keep_days: 0: for good.
        counted: Told how many there are in each state.
    """

    me: str
    store: IStore
    recorder: Recorder
    recordings: IRecordingStore
    in_thread: InThread
    now: Callable[[], float]
    leads: Callable[[], bool]
    lost_after: float
    keep_days: int
    counted: Callable[[str, int], object]

    async def look(self) -> None:
        """Do it, for so many at once."""
        if not self.leads():
            return
        found = await self.in_thread(lambda: list(self.recordings.all()))
        for state in RecordingState:
            self.counted(state.value, sum(one.state is state for one in found))
        now = self.now()
        silent = [
            one
            for one in found
            if one.state is RecordingState.RECEIVING and one.updated_at + self.lost_after < now
        ]
        for one in silent[:_AT_ONCE]:
            await self._lost(one)
        if self.keep_days:
            until = now - self.keep_days * _DAY
            old = [one for one in found if one.state in FINAL and one.began_ms / 1000 < until]
            for one in old[:_AT_ONCE]:
                await self._removed(one)

    async def _lost(self, one: Recording) -> None:
        if await self.in_thread(lambda: self.recordings.facts(one.id)) != one:
            return  # more of it has come since
        lost = evolve(one, state=RecordingState.LOST, reason="recording_late")
        _log.error("the rest of a recording did not arrive", recording=one.id)
        await self.store.run(
            "lose a recording", lambda tx: append_ended(tx, self.recorder, lost, RECORDING_LOST)
        )
        await self.in_thread(lambda: self.recordings.set_facts(lost))

    async def _removed(self, one: Recording) -> None:
        def append(tx: ITransaction) -> None:
            self.recorder.append(
                tx,
                RECORDING_REMOVED,
                node(self.me),
                session_uid=one.session_uid,
                resource_id=one.resource,
                resource_kind=one.kind,
                decision_id=one.decision_id or None,
                reason="recording_kept",
                details=ended_details(one),
            )

        await self.store.run("remove a recording", append)
        await self.in_thread(lambda: self.recordings.remove(one.id))

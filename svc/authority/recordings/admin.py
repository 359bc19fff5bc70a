"""What operators ask of recordings: to list, read and remove them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field

from svc.authority.ingest.notes import checked_note
from svc.authority.recordings.key import RecordingKeys
from svc.authority.recordings.receive import ended_details
from svc.authority.sessions.admin import caller_name
from svc.authority.state.recorder import Recorder
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.recordings import IRecordingStore
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import RECORDING_READ, RECORDING_REMOVED
from svc.model.audit.record import Actor
from svc.model.recording import Recording, RecordingState
from svc.model.short_ids import whole_id
from svc.proto.gate.v1 import recording_pb2 as pb
from svc.recording.file import OpenedRecording
from svc.runtime.threads import InThread

MOST = 1000
_ENOUGH = 1 << 19
"""Bytes of an answer, which one frame may go beyond."""

_READING_SECS = 600.0
"""A reading that has not gone on for so long is over; what is asked for then is another."""

_MOST_READINGS = 1024


@define(eq=False)
class _Reading:
    """An operator's, of one recording.

    Attributes:
        at: When it went on last.
        opened: The recording, opened to where the next part begins; None: while it is read.
    """

    at: float
    opened: OpenedRecording | None = None


@define(eq=False)
class RecordingAdmin:
    """Answers operators.

    Attributes:
        keys: Those that recordings can be sealed to.
        in_thread: Runs what blocks.
    """

    store: IStore
    recorder: Recorder
    recordings: IRecordingStore
    keys: Callable[[], RecordingKeys]
    in_thread: InThread
    now: Callable[[], float]
    _readings: dict[tuple[str, str, str], _Reading] = field(factory=dict, init=False)

    async def list_recordings(
        self, request: pb.ListRecordingsRequest, actor: Actor
    ) -> pb.ListRecordingsResponse:
        """The newest, of a session, a person, a resource or a state where one is named."""
        most = min(request.most or 100, MOST)
        person_id = await self._person_id(request.person)

        def look() -> list[Recording]:
            return [
                one
                for one in self.recordings.all()
                if one.session_uid.startswith(request.session)
                and request.resource in ("", one.resource)
                and request.state in ("", one.state.value)
                and person_id in ("", one.person_id)
            ]

        found = await self.in_thread(look)
        found.sort(key=lambda one: (one.began_ms, one.id), reverse=True)
        rows = await self._rows(found[:most])
        return pb.ListRecordingsResponse(recordings=rows, more=len(found) > most)

    async def read(
        self, request: pb.ReadRecordingRequest, actor: Actor
    ) -> pb.ReadRecordingResponse:
        """What was recorded, a part at a time; that it is read is on record before the first.

        Raises:
            SvcError: there is none of that id, or it is damaged.
        """
        going_on = self._goes_on(actor, request.id) if request.offset else None
        if going_on is not None:
            return await self._read(going_on, request.id, request.offset)
        # Wherever a reading begins: whoever asks for the middle first has read the middle.
        one = await self._named(request.id)

        def append(tx: ITransaction) -> None:
            self._append(tx, RECORDING_READ, actor, one, {})

        await self.store.run("record of a reading", append)
        reading = self._begun(actor, one.id, _Reading(self.now()))
        [row] = await self._rows([one])
        if not one.sealed_size and not await self.in_thread(lambda: self.recordings.held(one.id)):
            return pb.ReadRecordingResponse(recording=row)
        answer = await self._read(reading, one.id, request.offset)
        answer.recording.CopyFrom(row)
        return answer

    def _goes_on(self, actor: Actor, id: str) -> _Reading | None:
        """This operator's reading of it that is on record, if it has gone on lately."""
        begun = self._readings.get((actor.kind, actor.id, id))
        if begun is None or begun.at + _READING_SECS < self.now():
            return None
        begun.at = self.now()
        return self._begun(actor, id, begun)

    def _begun(self, actor: Actor, id: str, reading: _Reading) -> _Reading:
        who = (actor.kind, actor.id, id)
        self._readings.pop(who, None)
        if len(self._readings) >= _MOST_READINGS:
            del self._readings[next(iter(self._readings))]
        self._readings[who] = reading
        return reading

    async def _read(self, reading: _Reading, id: str, offset: int) -> pb.ReadRecordingResponse:
        """The part at *offset*; where the last one ended there, nothing is walked again."""
        opened, reading.opened = reading.opened, None

        def read() -> tuple[OpenedRecording, pb.ReadRecordingResponse]:
            there = opened if opened is not None and opened.at == offset else self._open(id, offset)
            return there, _part(there)

        reading.opened, answer = await self.in_thread(read)
        return answer

    async def remove(
        self, request: pb.RemoveRecordingRequest, actor: Actor
    ) -> pb.RemoveRecordingResponse:
        """Remove one for good; on record first.

        Raises:
            SvcError: there is none of that id, or it is still received.
        """
        one = await self._named(request.id)
        if one.state is RecordingState.RECEIVING:
            raise SvcError(
                f"recording {one.id}: is still received; remove it when it has ended",
                reason="recording_receiving",
                fault=Fault.PRECONDITION,
            )
        note = {"note": checked_note(request.note)} if request.note else {}

        def append(tx: ITransaction) -> None:
            self._append(tx, RECORDING_REMOVED, actor, one, note)

        await self.store.run("remove a recording", append)
        await self.in_thread(lambda: self.recordings.remove(one.id))
        return pb.RemoveRecordingResponse(id=one.id)

    def _append(
        self, tx: ITransaction, event: Any, actor: Actor, one: Recording, more: dict[str, Any]
    ) -> None:
        self.recorder.append(
            tx,
            event,
            actor,
            session_uid=one.session_uid,
            resource_id=one.resource,
            resource_kind=one.kind,
            decision_id=one.decision_id or None,
            details={**ended_details(one), **more},
        )

    def _open(self, id: str, offset: int) -> OpenedRecording:
        """Opened to the frame at *offset*: the bytes before are read, and none opened."""
        recording = OpenedRecording(
            lambda at, size: self.recordings.read(id, at, size), self.keys().opening
        )
        if offset:
            recording.skip_to(offset)
        return recording

    async def _named(self, word: str) -> Recording:
        def find() -> Recording | None:
            whole = self.recordings.facts(word)
            if whole is not None:
                return whole
            id = whole_id("recording", word, (one.id for one in self.recordings.all()))
            return None if id is None else self.recordings.facts(id)

        if len(word) < 4:
            raise Malformed("recording: give at least 4 characters of its id")
        found = await self.in_thread(find)
        if found is None:
            raise SvcError(
                f"recording {word}: there is none whose id begins so; list them: svc authority "
                "recordings list",
                reason="unknown_recording",
                fault=Fault.NOT_FOUND,
            )
        return found

    async def _person_id(self, word: str) -> str:
        if not word:
            return ""

        def look(tx: ITransaction) -> str:
            people, agents = tx.people, tx.agents
            found = people.get(word) or people.named(word) or agents.get(word) or agents.named(word)
            if found is None:
                raise SvcError(
                    f"person {word}: does not exist; list them: svc authority persons list",
                    reason="unknown_person",
                    fault=Fault.NOT_FOUND,
                )
            return found.id

        return await self.store.read("person of recordings", look)

    async def _rows(self, found: list[Recording]) -> list[pb.RecordingRow]:
        def names(tx: ITransaction) -> dict[str, str]:
            return {id: caller_name(tx, id) for id in {one.person_id for one in found}}

        named = await self.store.read("people of recordings", names)
        held = await self.in_thread(
            lambda: {one.id: self.recordings.held(one.id) for one in found if not one.sealed_size}
        )
        return [
            _row(evolve(one, sealed_size=held.get(one.id, one.sealed_size)), named[one.person_id])
            for one in found
        ]


def _part(recording: OpenedRecording) -> pb.ReadRecordingResponse:
    """From where it is opened to."""
    data: list[bytes] = []
    size = 0
    for each in recording.parts():
        data.append(each)
        size += len(each)
        if size >= _ENOUGH:
            return pb.ReadRecordingResponse(data=b"".join(data), next=recording.at)
    return pb.ReadRecordingResponse(data=b"".join(data))


def _row(one: Recording, person: str) -> pb.RecordingRow:
    return pb.RecordingRow(
        id=one.id,
        session_uid=one.session_uid,
        channel=one.channel,
        person_id=one.person_id,
        person=person,
        resource=one.resource,
        kind=one.kind,
        connector_id=one.connector_id,
        decision_id=one.decision_id,
        began_ms=one.began_ms,
        state=one.state.value,
        reason=one.reason,
        form=one.form,
        size=one.size,
        duration_ms=one.duration_ms,
        sha256=one.sha256,
        sealed_size=one.sealed_size,
        sealed_sha256=one.sealed_sha256,
    )

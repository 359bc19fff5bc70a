"""``gate.v1.Recordings``: takes recordings from Connectors, and puts on record what has arrived.

A Connector brings the grant that Authority signed, and is answered for its own sessions alone.  It
keeps its file until it is told that the record is durable.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, TypeVar

from attrs import define, evolve, field
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from svc.authority.access.opened import opened_by_grant
from svc.authority.recordings.key import RecordingKeys
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node
from svc.errors import Fault, Malformed, SvcError, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.recordings import IRecordingStore
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.messages.session import decode_grant
from svc.model.audit.events import RECORDING_DELIVERED
from svc.model.canonical import decode
from svc.model.principal import Role
from svc.model.recording import (
    ASCIICAST,
    FINAL,
    JSON_LINES,
    Recording,
    RecordingState,
    recording_id,
)
from svc.model.session.grant import Grant
from svc.model.signing import Purpose
from svc.proto.gate.v1 import recording_pb2 as pb
from svc.ratelimit.limits import Budget
from svc.recording.file import OpenedRecording
from svc.recording.part import RecordingPart, read_put
from svc.runtime import durable
from svc.runtime.threads import InThread

_log = Logger(namespace="svc_authority")

_MOST_LINE = 1 << 20
_ON_RECORD = FINAL - {RecordingState.LOST}
"""Of what has ended so nothing is taken any more; what was lost may come still."""

T = TypeVar("T")


@define(eq=False)
class RecordingReceiver:
    """Answers ``Recordings/Put``.

    Attributes:
        keys: Those that recordings can be sealed to.
        most: Bytes that all recordings may take.
        in_thread: Runs what blocks, several at a time.
        on_end: Told the state in which a recording has ended.
        asks: Of a Connector: each beginning and each end is a record, or a file to be opened.
    """

    cluster: str
    state_cache: ClusterStateCache
    verifier: IChainVerifier
    store: IStore
    recorder: Recorder
    recordings: IRecordingStore
    keys: Callable[[], RecordingKeys]
    most: int
    now: Callable[[], float]
    in_thread: InThread
    on_end: Callable[[str], object]
    asks: Budget
    _locks: dict[str, DeferredLock] = field(factory=dict, init=False)

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        methods = {"Put": unary(pb.PutRecordingRequest, self._put)}
        return RpcService("gate.v1.Recordings", methods)

    async def _put(
        self, request: pb.PutRecordingRequest, call: IRpcCall
    ) -> pb.PutRecordingResponse:
        facts = self.verifier.verify(call.peer.chain, {Role.CONNECTOR})
        connector = self.state_cache.node(facts.principal)
        held, done = await self.put(read_put(request), connector.id)
        return pb.PutRecordingResponse(held=held, done=done)

    async def put(self, part: RecordingPart, connector_id: str) -> tuple[int, bool]:
        """Keep a part; how much is held now, and whether all of it is, and on record.

        Raises:
            SvcError: it is of no session of this Connector, or there is no room for it.
        """
        grant = self._verified(part, connector_id)
        id = recording_id(grant.session_uid, part.channel)
        try:
            return await self._alone(id, lambda: self._kept(id, part, grant))
        except OSError as error:
            what = "the disk is full" if durable.is_full(error) else error.strerror
            _log.error("a recording cannot be kept", recording=id, error=what)
            raise Unavailable(
                f"Authority cannot keep the recording: {what}", reason="recording_unavailable"
            ) from None

    async def _alone(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Do it while nobody else does anything by this name."""
        lock = self._locks.setdefault(name, DeferredLock())
        await lock.acquire()
        try:
            return await call()
        finally:
            lock.release()
            if not lock.locked and not lock.waiting:
                self._locks.pop(name, None)

    def _verified(self, part: RecordingPart, connector_id: str) -> Grant:
        grant = decode_grant(part.signed.payload)
        # It may come long after: what counts is that the key was good when it signed.
        self.verifier.verify_signed_at(part.signed, Purpose.GRANT, grant.issued_at_ms / 1000)
        if (grant.cluster, grant.connector_id) != (self.cluster, connector_id):
            raise unknown()
        self.keys().opening(grant.recording_key)
        return grant

    async def _kept(self, id: str, part: RecordingPart, grant: Grant) -> tuple[int, bool]:
        known = await self.in_thread(lambda: self.recordings.facts(id))
        if known is None or part.is_last:
            self.asks.spend(node(grant.connector_id))
        if known is None:
            known = await self._begun(part, grant)
        if known.state in _ON_RECORD:
            return known.sealed_size, True
        held = await self.in_thread(lambda: self._appended(id, part))
        ends_at = part.offset + len(part.data)
        if not part.is_last or held != ends_at:
            if part.data:
                known = evolve(known, state=RecordingState.RECEIVING, updated_at=self.now())
                await self.in_thread(lambda: self.recordings.set_facts(known))
            return held, False
        ended = await self._alone(grant.connector_id, lambda: self._opened(known, part))
        await self._record(ended)
        await self.in_thread(lambda: self.recordings.set_facts(ended))
        self.on_end(ended.state.value)
        return held, True

    async def _opened(self, known: Recording, part: RecordingPart) -> Recording:
        """Of one Connector one at a time: each takes a thread, for as long as its file is."""
        return await self.in_thread(lambda: self._examined(known, part))

    def _appended(self, id: str, part: RecordingPart) -> int:
        if part.data and self.recordings.total() + len(part.data) > self.most:
            raise SvcError(
                "recordings take all the room that recordings.max_bytes gives them",
                reason="recordings_full",
                fault=Fault.EXHAUSTED,
            )
        return self.recordings.append(id, part.offset, part.data)

    async def _begun(self, part: RecordingPart, grant: Grant) -> Recording:
        def opened(tx: ITransaction) -> bool:
            return opened_by_grant(tx, grant) is not None

        if not await self.store.read("session of a recording", opened):
            raise unknown()
        begun = Recording(
            session_uid=grant.session_uid,
            channel=part.channel,
            person_id=grant.person_id,
            resource=grant.resource,
            kind=grant.kind,
            connector_id=grant.connector_id,
            decision_id=grant.decision_id,
            began_ms=int(self.now() * 1000),
            updated_at=self.now(),
        )
        await self.in_thread(lambda: self.recordings.set_facts(begun))
        return begun

    def _examined(self, known: Recording, part: RecordingPart) -> Recording:
        """What a whole file says of itself, having been opened to its end."""
        store, id = self.recordings, known.id
        sealed, at = sha256(), 0
        while data := store.read(id, at, 1 << 20):
            sealed.update(data)
            at += len(data)
        known = evolve(
            known, updated_at=self.now(), sealed_size=at, sealed_sha256=sealed.hexdigest()
        )
        found = _Contents()
        key = decode_grant(part.signed.payload).recording_key
        private = self.keys().opening(key)  # without it nothing can be said of the file

        def opening(public: bytes) -> bytes:
            if public != key:
                raise Malformed("recording: the file is sealed to another key than its grant names")
            return private

        try:
            opened = OpenedRecording(lambda at, size: store.read(id, at, size), opening)
            if opened.header.signed.payload != part.signed.payload:
                raise Malformed("recording: the file is of another session")
            if opened.header.channel != part.channel:
                raise Malformed("recording: the file is another one of the session's")
            # What is kept how long does not rest on the clock of a Connector.
            began_ms = min(opened.header.began_ms, known.began_ms)
            known = evolve(known, began_ms=max(began_ms, opened.header.grant.issued_at_ms))
            for each in opened.parts():
                found.add(each)
        except SvcError as fault:
            _log.error("a recording is damaged", recording=id, error=fault.text)
            return evolve(found.said_of(known), state=RecordingState.DAMAGED, reason=fault.reason)
        end = opened.end
        reason = part.reason or "unfinished" if end is None else end.reason
        state = RecordingState.CUT_SHORT if reason else RecordingState.COMPLETE
        return evolve(found.said_of(known), state=state, reason=reason)

    async def _record(self, ended: Recording) -> None:
        """Put on record how it ended, unless it is."""

        def append(tx: ITransaction) -> None:
            for row in tx.audit.by_decision(ended.decision_id):
                record: Any = decode(row.canonical)
                if (
                    record["event"] == RECORDING_DELIVERED.name
                    and record["details"].get("recording_id") == ended.id
                    and record["details"].get("sealed_sha256") == ended.sealed_sha256
                ):
                    return
            append_ended(tx, self.recorder, ended)

        await self.store.run("record of a recording", append)


@define
class _Contents:
    """What was recorded, as it is read."""

    _digest: Any = field(factory=sha256, init=False)
    _size: int = field(default=0, init=False)
    _first: bytearray = field(factory=bytearray, init=False)
    _last: bytearray = field(factory=bytearray, init=False)

    def add(self, data: bytes) -> None:
        """The next bytes."""
        self._digest.update(data)
        if self._size < _MOST_LINE:
            self._first += data[: _MOST_LINE - self._size]
        self._size += len(data)
        # Now and then, and not with each: there may be millions of a few bytes.
        self._last += data
        if len(self._last) > 2 * _MOST_LINE:
            del self._last[:-_MOST_LINE]

    def said_of(self, known: Recording) -> Recording:
        """With what was found."""
        return evolve(
            known,
            size=self._size,
            sha256=self._digest.hexdigest(),
            form=self._form(),
            duration_ms=self._duration_ms(),
        )

    def _form(self) -> str:
        head = _json(self._first.partition(b"\n")[0])
        if not isinstance(head, dict):
            return ""
        return ASCIICAST if head.get("version") == 2 else JSON_LINES

    def _duration_ms(self) -> int:
        last = _json(self._last[-_MOST_LINE:].rstrip(b"\n").rpartition(b"\n")[2])
        at = last[0] if isinstance(last, list) and last else 0
        if isinstance(last, dict):
            at = last.get("time", 0)
        return int(at * 1000) if isinstance(at, (int, float)) and 0 <= at < 1e9 else 0


def _json(line: bytearray) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def append_ended(tx: ITransaction, recorder: Recorder, ended: Recording, event: Any = None) -> None:
    """Put on record how a recording has ended."""
    recorder.append(
        tx,
        event or RECORDING_DELIVERED,
        node(ended.connector_id),
        node_id=ended.connector_id,
        session_uid=ended.session_uid,
        resource_id=ended.resource,
        resource_kind=ended.kind,
        decision_id=ended.decision_id or None,
        reason=ended.reason or None,
        details=ended_details(ended),
    )


def ended_details(ended: Recording) -> dict[str, Any]:
    """What records say of a recording."""
    return {
        "recording_id": ended.id,
        "recording_state": ended.state.value,
        "recording_sha256": ended.sha256 or None,
        "sealed_sha256": ended.sealed_sha256 or None,
        "recording_bytes": ended.size,
        "duration_ms": ended.duration_ms,
        "connector_id": ended.connector_id,
        "person_id": ended.person_id,
    }


def unknown() -> SvcError:
    """No session of the Connector who asks."""
    return SvcError(
        "no session of this Connector is known by that grant",
        reason="unknown_session",
        fault=Fault.NOT_FOUND,
    )

"""A gated session at the Proxy: two streams, a gate between them, and a record of each request.

Invariants: no byte passes that the gate did not name; an allowed request
passes only once its record is durable; what cannot be decided is denied; each
direction holds no more than a fixed number of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from re import Pattern
from typing import Any, cast

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Malformed, SvcError
from svc.interfaces.audit import IAuditSink
from svc.interfaces.gating import IGatedSession, IGatedStream, RequestVerdict
from svc.interfaces.kinds import ServedKind, ServeGated
from svc.interfaces.rpc import IRpcCall
from svc.lanes.join import RelayedBytes
from svc.messages.control import AuthorizeAnswer
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.record import Actor, AuditRecord, Event
from svc.model.canonical import Json
from svc.model.ids import Entropy, event_id, random_id
from svc.model.policy.access import AccessRequest, ContextValue
from svc.model.session.edits import MAX_EDIT_BYTES, MAX_VALUE_CHARACTERS, Edit
from svc.model.session.request import SessionRequest
from svc.model.signing import Signed
from svc.proxy.sessions.carry import Carried
from svc.proxy.sessions.directions import until_both, until_either
from svc.proxy.sessions.watched import WatchedRequests
from svc.rpc.call import MessageEnd
from svc.rpc.stream import StreamTransport

_log = Logger(namespace="svc_proxy")

MAX_HELD = 256 * 1024
"""Bytes of one direction that may wait for the gate; no request of a kind is longer."""

_LONGEST_MARK = 16
"""So many bytes are searched again when more have come: a mark may lie on the border."""


@implementer(IGatedStream, IHalfCloseableProtocol, IPushProducer)
class GatedStream(Protocol):
    """One direction: reads one call and writes to the other, as the gate says.

    Attributes:
        lost: Called when the call that it reads is over, before the gate hears of it.
    """

    transport: Any

    def __init__(self) -> None:
        self.lost: Callable[[], object] = lambda: None
        self.passed = 0
        self.out: StreamTransport | None = None
        self._held = bytearray()
        self._ended = False
        self._is_moot = False
        self._is_full = False
        self._is_paused = False
        self._waiting: Deferred[None] | None = None

    @property
    def held(self) -> bytes:
        """See IGatedStream."""
        return bytes(self._held)

    async def until(self, mark: bytes | Pattern[bytes], most: int) -> bytes | None:
        """See IGatedStream."""
        most = min(most, MAX_HELD)  # past it nothing more is read, so no mark would come
        pattern = re.compile(re.escape(mark)) if isinstance(mark, bytes) else mark
        searched = 0
        if self._is_moot:
            return None
        while (found := pattern.search(self._held, searched, most)) is None:
            if len(self._held) >= most:
                raise Malformed(f"a request or an answer is longer than {most} bytes")
            searched = max(0, len(self._held) - _LONGEST_MARK)
            if not await self._more():
                if self._held and not self._is_moot:
                    raise Malformed("the stream ended in the middle of a request or an answer")
                return None
        return bytes(self._held[: found.end()])

    async def some(self) -> bytes | None:
        """See IGatedStream."""
        while not self._held and await self._more():
            pass
        return b"" if self._is_moot else self.held or None

    async def at_least(self, size: int) -> bytes | None:
        """See IGatedStream."""
        if size > MAX_HELD:
            raise Malformed(f"a request or an answer is longer than {MAX_HELD} bytes")
        while len(self._held) < size and not self._is_moot:
            if not await self._more():
                if self._held and not self._is_moot:
                    raise Malformed("the stream ended in the middle of a request or an answer")
                return None
        return None if self._is_moot else bytes(self._held)

    async def pass_on(self, size: int) -> None:
        """See IGatedStream."""
        if size < 0:  # of a length that the peer wrote
            raise Malformed("a request or an answer says that it is shorter than nothing")
        while size:
            if not self._held and not await self._more():
                if self._is_moot:
                    return
                raise Malformed("the stream ended in the middle of a request or an answer")
            piece = bytes(self._held[:size])
            self._write(piece)
            size -= len(piece)

    def edit(self, size: int, name: str, values: Mapping[str, str]) -> None:
        """See IGatedStream."""
        if not 0 < size <= min(len(self._held), MAX_EDIT_BYTES):
            raise ValueError("an edit must concern bytes that are held")
        assert self.out is not None
        self._name(size, name, values)
        self._write(bytes(self._held[:size]))

    def insert(self, name: str, values: Mapping[str, str]) -> None:
        """See IGatedStream."""
        self._name(0, name, values)

    def _name(self, size: int, name: str, values: Mapping[str, str]) -> None:
        assert self.out is not None
        # What is longer would end the session at whoever makes the edit.
        short = {word: value[:MAX_VALUE_CHARACTERS] for word, value in values.items()}
        self.out.edit(Edit(offset=self.passed, size=size, name=name, values=short))

    def close(self) -> None:
        """See IGatedStream."""
        if self.out is not None:
            self.out.loseWriteConnection()

    def give_up(self) -> None:
        """Whoever it writes to is gone: no more is decided, and what is cut off is no fault."""
        self._is_moot = self._ended = True
        self._wake()

    # -- from the transport

    def dataReceived(self, data: bytes) -> None:
        self._held += data
        if len(self._held) >= MAX_HELD:
            self._is_full = True
            self._pace()
        self._wake()

    def readConnectionLost(self) -> None:
        """The peer writes no more."""
        self._ended = True
        self._wake()

    def writeConnectionLost(self) -> None:
        """We write no more."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The call is over."""
        self._ended = True
        self.lost()
        self._wake()

    # -- as the producer of the other side

    def pauseProducing(self) -> None:
        self._is_paused = True
        self._pace()

    def resumeProducing(self) -> None:
        self._is_paused = False
        self._pace()

    def stopProducing(self) -> None:
        """The other side has disconnected; its own transport reports that."""

    def _pace(self) -> None:
        if self.transport is None:
            return
        if self._is_full or self._is_paused:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    def _write(self, data: bytes) -> None:
        assert self.out is not None
        del self._held[: len(data)]
        self.passed += len(data)
        self.out.write(data)
        if self._is_full and len(self._held) < MAX_HELD:
            self._is_full = False
            self._pace()

    async def _more(self) -> bool:
        """Wait for bytes; False where none come any more."""
        if self._ended:
            return False
        before = len(self._held)
        self._waiting = Deferred()
        try:
            await self._waiting
        finally:
            self._waiting = None
        return len(self._held) > before or not self._ended

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)


@frozen
class GatedOpen:
    """What a gated session was opened with."""

    request: SessionRequest
    kind: ServedKind
    person_id: str
    source_address: str


@frozen
class GatedRequest:
    """A request as it was decided, to be recorded.

    Attributes:
        reason: Why it was denied; empty for what is allowed.
    """

    request: AccessRequest
    resource_kind: str
    decision: str
    decision_id: str
    policies: tuple[str, ...]
    policy_version: int
    entities_digest: str
    reason: str
    source_address: str


@frozen
class GatedNote:
    """An event of the kind itself, to be recorded."""

    event: Event
    details: Mapping[str, Json]
    opened: GatedOpen


DecideRequest = Callable[["GatedOpen", str, Mapping[str, ContextValue]], GatedRequest]
"""Decides one request of a session.  Raises SvcError where no decision is possible."""


WriteGated = Callable[[GatedRequest | GatedNote, str], Awaitable[object]]
"""Makes a record durable, given the session's uid."""


@implementer(IGatedSession)
@define(eq=False)
class GatedSession:
    """What a gate is given.

    Attributes:
        ceiling: Of its grant.
        decides: Decides by the newest policy, and counts.
        write: Records durably, or raises SvcError; is told the session's uid.
        watched: Its requests that take long.
    """

    opened: GatedOpen
    ceiling: Mapping[str, str]
    decides: DecideRequest
    write: WriteGated
    entropy: Entropy
    watched: WatchedRequests
    ending: str = field(default="", init=False)
    requests: GatedStream = field(factory=GatedStream, init=False)
    answers: GatedStream = field(factory=GatedStream, init=False)

    @property
    def resource(self) -> str:
        """See IGatedSession."""
        return self.opened.request.resource

    async def decide(self, action: str, facts: Mapping[str, ContextValue]) -> RequestVerdict:
        """See IGatedSession."""
        try:
            decided = self.decides(self.opened, action, facts)
            await self.write(decided, self.opened.request.session_uid)
        except CancelledError:
            raise
        except Exception as error:
            reason = error.reason if isinstance(error, SvcError) else "internal"
            if not isinstance(error, SvcError):
                _log.failure("a request could not be decided", resource=self.resource)
            return RequestVerdict(allowed=False, decision_id=random_id(self.entropy), reason=reason)
        return RequestVerdict(
            allowed=decided.decision == "allow",
            decision_id=decided.decision_id,
            policies=decided.policies,
            reason=decided.reason,
        )

    def watch(self, action: str, facts: Mapping[str, ContextValue]) -> Callable[[], None]:
        """See IGatedSession."""
        return self.watched.add(action, facts)

    async def record(self, event: str, details: Mapping[str, Json]) -> None:
        """See IGatedSession."""
        kind = self.opened.kind
        known = kind.events.get(event)
        if known is None:
            raise SvcError(f"{kind.name} has no event of this name", reason="unknown_event")
        note = GatedNote(known, details, self.opened)
        await self.write(note, self.opened.request.session_uid)

    async def both(self, requests: Awaitable[None], answers: Awaitable[None]) -> None:
        """See IGatedSession."""

        async def closed(serving: Awaitable[None], stream: GatedStream) -> None:
            await serving
            stream.close()

        await until_both(closed(requests, self.requests), closed(answers, self.answers))

    async def either(self, requests: Awaitable[None], answers: Awaitable[None]) -> None:
        """See IGatedSession."""
        await until_either(requests, answers)
        self.requests.close()
        self.answers.close()


class GatedCarried(Carried):
    """A session whose bytes pass through its kind's gate; it never leaves the tunnel."""

    def __init__(
        self,
        call: IRpcCall,
        grant: Signed,
        answer: AuthorizeAnswer,
        *,
        clock: IReactorTime,
        gate: ServeGated,
        session: GatedSession,
    ) -> None:
        super().__init__(call, grant, answer, clock=clock)
        self._gate = gate
        self._session = session

    def check(self) -> None:
        """See Carried."""
        self._session.watched.check()

    def break_off(self, reason: str) -> None:
        """See Carried; the gate can say why."""
        self._session.ending = self._session.ending or reason
        super().break_off(reason)

    @property
    def may_move(self) -> bool:
        """Always False: a gate must see every byte, so the session stays in this lane."""
        return False

    async def _join(self, carry: IRpcCall) -> RelayedBytes:
        session = self._session
        await self._call.send(self._opened)
        person = StreamTransport(cast(MessageEnd, self._call))
        connector = StreamTransport(cast(MessageEnd, carry))
        session.requests.out, session.answers.out = connector, person
        session.requests.lost = session.answers.give_up
        session.answers.lost = lambda: self._connector_left(connector)
        connector.registerProducer(session.requests, True)
        person.registerProducer(session.answers, True)
        person.start(session.requests)
        connector.start(session.answers)
        try:
            await self._served(session)
            for transport in (connector, person):
                transport.unregisterProducer()
                transport.loseConnection()
            for transport in (person, connector):
                await transport.closed
        finally:
            # Where it breaks, neither call is ended here: each ends with the word of the break.
            self._count(RelayedBytes(session.requests.passed, session.answers.passed))
            if connector.reported_end is not None:
                self._end_frame_reader.receive(connector.reported_end)
        return self._joined

    def _connector_left(self, connector: StreamTransport) -> None:
        """Its word ends the session at once: the end of its bytes alone would read as a close."""
        if connector.reported_end is not None:
            self._end_frame_reader.receive(connector.reported_end)
        if not self._broken_by_word():
            self._session.requests.give_up()

    async def _served(self, session: GatedSession) -> None:
        try:
            await self._gate(session)
        except Malformed as fault:
            _log.warn("a gate ended its session", resource=session.resource, text=fault.text)
            raise


def recording(
    sink: IAuditSink, origin: str, now: Callable[[], float], entropy: Entropy
) -> WriteGated:
    """Writes to this Proxy's sink, each record on the share of the person whose request it is."""

    async def write(decided: GatedRequest | GatedNote, session_uid: str) -> None:
        record = as_record(decided, origin, session_uid, now=now(), entropy=entropy)
        await sink.write(record, record.actor.id)

    return write


def as_record(
    decided: GatedRequest | GatedNote, origin: str, session_uid: str, now: float, entropy: Entropy
) -> AuditRecord:
    """The record of one request, or of an event of the kind's, as this Proxy writes it."""
    if isinstance(decided, GatedNote):
        return _as_note(decided, origin, now, entropy)
    request = decided.request
    details = {"proxy_id": origin}
    if decided.source_address:
        details["source_address"] = decided.source_address
    return AuditRecord(
        event_id=event_id(now, entropy),
        time=now,
        event=REQUEST_DECISION,
        actor=Actor("person", request.principal.id),
        origin=origin,
        session_uid=session_uid,
        resource_id=request.resource.id,
        resource_kind=decided.resource_kind,
        action=request.request_kind,
        cedar_action=request.action,
        request=request,
        decision=decided.decision,
        decision_id=decided.decision_id,
        policies=decided.policies,
        policy_version=decided.policy_version,
        entities_digest=decided.entities_digest,
        reason=decided.reason or None,
        details=details,
    )


def _as_note(note: GatedNote, origin: str, now: float, entropy: Entropy) -> AuditRecord:
    opened = note.opened
    # Last, so that a gate cannot say them otherwise.
    about = {"proxy_id": origin, "source_address": opened.source_address or None}
    return AuditRecord(
        event_id=event_id(now, entropy),
        time=now,
        event=note.event,
        actor=Actor("person", opened.person_id),
        origin=origin,
        session_uid=opened.request.session_uid,
        resource_id=opened.request.resource,
        resource_kind=opened.kind.name,
        details={**note.details, **about},
    )

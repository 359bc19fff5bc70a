"""A gated session at the Proxy: two streams, a gate between them, and a record of each request.

Invariants: no byte passes that the gate did not name; an allowed request
passes only once its record is durable; what cannot be decided is denied; each
direction holds no more than a fixed number of bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast

from attrs import define, evolve, field, frozen
from twisted.internet.defer import CancelledError, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from svc.errors import Malformed, SvcError
from svc.interfaces.gating import IGatedSession, RequestVerdict
from svc.interfaces.kinds import ServedKind, ServeGated
from svc.interfaces.rpc import IRpcCall
from svc.lanes.join import RelayedBytes
from svc.messages.access import ApprovalForRequests
from svc.model.audit.record import Event
from svc.model.audit.request import RepeatedRequest, RequestRecord, SessionNumbers
from svc.model.canonical import Json
from svc.model.ids import Entropy, random_id
from svc.model.policy.access import ContextValue
from svc.model.policy.requested import ApprovedAccess, can_be_asked, exact_command, text_digest
from svc.model.session.ending import GATED_FAULTS, NOT_RECORDED
from svc.model.session.ranges import RangeDecision
from svc.model.session.request import SessionRequest
from svc.proxy.sessions.carry import Carried, FirstWord
from svc.proxy.sessions.directions import until_both, until_either
from svc.proxy.sessions.gated_stream import GatedStream
from svc.proxy.sessions.remembered import RememberedDecisions
from svc.proxy.sessions.route import SessionRoute
from svc.proxy.sessions.watched import WatchedRequests
from svc.rpc.call import MessageEnd
from svc.rpc.client.channel import ClientStream
from svc.rpc.gated import PassingStream

_log = Logger(namespace="svc_proxy")


@frozen
class GatedOpen:
    """What a gated session was opened with; ``approved`` is the approval that it stands on."""

    request: SessionRequest
    kind: ServedKind
    person_id: str
    source_address: str
    approved: ApprovedAccess | None = None
    factor_at: int | None = None
    """When the person presented a second factor; None where nobody knows."""

    lasting: dict[str, ApprovedAccess] = field(factory=dict, eq=False)
    """By action: an approval that every request of it may stand on."""

    confirmed_at: dict[str, float] = field(factory=dict, eq=False)
    """By action: when Authority said that an approval of it is in force."""

    remembered: RememberedDecisions[GatedRequest] = field(
        factory=RememberedDecisions, init=False, eq=False, repr=False
    )
    facts: Mapping[str, str] = field(init=False, eq=False)
    """What policies may read of its parameters."""

    numbers: SessionNumbers = field(init=False, eq=False)
    """Of its recorded requests."""

    @property
    def is_approved(self) -> bool:
        """Whether some of its requests may stand on an approval."""
        return self.approved is not None or bool(self.lasting)

    def decided_before(
        self, basis: tuple[int, ...], action: str, facts: Mapping[str, ContextValue]
    ) -> GatedRequest | None:
        """What was decided on the same, where no request may stand on an approval."""
        if self.approved is not None or self.lasting:
            return None
        return self.remembered.find(basis, action, facts)

    @facts.default
    def _asked(self) -> Mapping[str, str]:
        return self.kind.asked(self.request).facts

    @numbers.default
    def _from_one(self) -> SessionNumbers:
        return SessionNumbers(self.request.session_uid)


@define(kw_only=True)
class GatedRequest(RequestRecord):
    """A request as it was decided, to be recorded.

    Attributes:
        request_hint: Of a denial that an approval would turn: what to type to ask for one.
        lacks_text: See :class:`svc.interfaces.gating.RequestVerdict`.
        basis: Policy, entities and second by which it was decided.
        approved: The approval that it was decided with, if any.
    """

    resource_kind: str
    source_address: str
    request_hint: str = ""
    lacks_text: bool = False
    basis: tuple[int, ...] = ()
    approved: ApprovedAccess | None = None

    @property
    def wants_exact(self) -> bool:
        """Whether it was denied and only an approval of its exact text would turn that."""
        return self.request_hint == exact_command(self.decision_id)

    def verdict(self, decision_id: str) -> RequestVerdict:
        """What the gate is told of a request that was so decided."""
        return RequestVerdict(
            allowed=self.decision == "allow",
            decision_id=decision_id,
            policies=self.policies,
            reason=self.reason,
            basis=self.basis,
            request_hint=self.request_hint,
            approved=self.approved,
            lacks_text=self.lacks_text,
        )

    def refused(self, decision_id: str, reason: str) -> GatedRequest:
        """A request that the gate refuses, whatever was decided of it."""
        return evolve(
            self,
            decision="deny",
            decision_id=decision_id,
            policies=() if self.decision == "allow" else self.policies,
            reason=reason,
            lacks_text=False,
        )


RepeatedGated = RepeatedRequest[GatedRequest]
"""One that was decided as another one before, where no approval may turn that."""


@frozen
class GatedNote:
    """An event of the kind itself, to be recorded."""

    event: Event
    details: Mapping[str, Json]
    opened: GatedOpen


DecideRequest = Callable[
    ["GatedOpen", str, Mapping[str, ContextValue], ApprovalForRequests | None, bytes],
    GatedRequest | RepeatedGated,
]
"""Decides one request of a session, with an approval for it alone where there is one; given its
exact text, if it has one.

Raises SvcError where no decision is possible.
"""

UseApproval = Callable[[str, str, str, bool], Awaitable[ApprovalForRequests]]
"""``await use(session_uid, action, text_sha256, only_exact)``: an approval, one use of it counted,
if any."""


async def unapproved(
    session_uid: str, action: str, text_sha256: str, only_exact: bool
) -> ApprovalForRequests:
    """Where no approval can be used."""
    return ApprovalForRequests(None)


KeepDenied = Callable[[str, str, bytes], object]
"""``keep(decision_id, action, text)``: what was denied can be asked for by its exact text."""


def not_kept(decision_id: str, action: str, text: bytes) -> None:
    """Where nobody can ask for it."""


Recordable = GatedRequest | RepeatedGated | GatedNote

WriteGated = Callable[[Recordable, str], Awaitable[object] | None]
"""Makes a record durable, given the session's uid, or raises SvcError.

What is to be awaited until the request may pass; None where it may at once.  Those of one session
may pass in the order in which they are numbered in their records.
"""


def is_free() -> None:
    """For a session whose requests nobody counts."""


def _is_forgotten(_: RequestVerdict) -> bool:
    """For a session that decides each message by itself."""
    return False


WorkElsewhere = Callable[[str, bytes, str], Awaitable[bytes]]
"""``elsewhere(work, data, person)``: what that function makes of the data, or SvcError."""


@implementer(IGatedSession)
@define(eq=False)
class GatedSession:
    """What a gate is given.

    Attributes:
        ceiling: Of its grant.
        decides: Decides by the newest policy, and counts.
        write: Records durably, or raises SvcError; is told the session's uid.
        watched: Its requests that take long.
        elsewhere: Does work in a process of its own.
        standing: Whether a verdict is still good.
        approval: Asked for where a denial would be turned by one.
        spend: Takes what a request costs its person, or raises TooMany.
        keep: Keeps the exact text of a request that an approval of it would turn.
        counted: Told each request's kind and final decision, once.
    """

    opened: GatedOpen
    ceiling: Mapping[str, str]
    decides: DecideRequest
    write: WriteGated
    entropy: Entropy
    watched: WatchedRequests
    elsewhere: WorkElsewhere
    standing: Callable[[RequestVerdict], bool] = _is_forgotten
    approval: UseApproval = unapproved
    spend: Callable[[], object] = is_free
    keep: KeepDenied = not_kept
    counted: Callable[[str, str], object] = lambda kind, word: None
    ending: str = field(default="", init=False)
    requests: GatedStream = field(factory=GatedStream, init=False)
    answers: GatedStream = field(factory=GatedStream, init=False)
    _announced: int = field(default=0, init=False)
    _is_astray: bool = field(default=False, init=False)

    @property
    def resource(self) -> str:
        """See IGatedSession."""
        return self.opened.request.resource

    async def apart(self, work: str, data: bytes) -> bytes:
        """See IGatedSession."""
        return await self.elsewhere(work, data, self.opened.person_id)

    def decide(
        self, action: str, facts: Mapping[str, ContextValue], size: int = 0, text: bytes = b""
    ) -> Coroutine[Any, Any, RequestVerdict]:
        """See IGatedSession."""
        return self._decided(action, facts, size, "", text)

    def refuse(
        self, action: str, facts: Mapping[str, ContextValue], size: int, reason: str
    ) -> Coroutine[Any, Any, RequestVerdict]:
        """See IGatedSession."""
        return self._decided(action, facts, size, reason)

    async def _decided(
        self,
        action: str,
        facts: Mapping[str, ContextValue],
        size: int,
        refused: str,
        text: bytes = b"",
    ) -> RequestVerdict:
        try:
            if self._is_astray:
                raise SvcError("the gate gave a request up", reason=NOT_RECORDED)
            self.spend()
            decided = self.decides(self.opened, action, facts, None, text)
            first = decided.first if isinstance(decided, RepeatedRequest) else decided
            if first.request_hint and not refused:
                assert isinstance(decided, GatedRequest)
                first = decided = await self._approved(decided, action, facts, text)
            if refused:
                first = decided = first.refused(decided.decision_id, refused)
            self.counted(first.request.request_kind, first.decision)
            decided.range, decided.frames = self.requests.request_range(size)
            waiting = self.write(decided, self.opened.request.session_uid)
            if waiting is not None:
                await self._recorded(waiting)
            self._announce(decided.range, allowed=first.decision == "allow")
            if first.request_hint and can_be_asked(text):
                self.keep(decided.decision_id, action, text)
        except CancelledError:
            raise
        except Exception as error:
            reason = error.reason if isinstance(error, SvcError) else "internal"
            if not isinstance(error, SvcError):
                _log.failure("a request could not be decided", resource=self.resource)
            return RequestVerdict(allowed=False, decision_id=random_id(self.entropy), reason=reason)
        return first.verdict(decided.decision_id)

    async def _recorded(self, waiting: Awaitable[object]) -> None:
        """Wait until a request is on record.

        A gate that gives up meanwhile ends its session: the record may be written all the same,
        and every number that the Connector is told after it would be another one's.
        """
        try:
            await waiting
        except CancelledError:
            self._is_astray = True
            self.ending = self.ending or NOT_RECORDED
            self.requests.give_up()
            self.answers.give_up()
            raise

    async def _approved(
        self, denied: GatedRequest, action: str, facts: Mapping[str, ContextValue], text: bytes
    ) -> GatedRequest:
        """The decision again, with an approval of its text or action where there is one."""
        opened = self.opened
        uid, digest = opened.request.session_uid, text_digest(text)
        found = await self.approval(uid, action, digest, denied.wants_exact)
        if found.approved is None:
            return denied
        decided = self.decides(opened, action, facts, found, text)
        assert isinstance(decided, GatedRequest)  # nothing that an approval turned is remembered
        return decided

    def _announce(self, range_: tuple[int, int], *, allowed: bool) -> None:
        """Tell the Connector of what is on record.

        Its number is the one that its record has: both count what became durable, in that order.
        """
        first, end = range_
        self._announced += 1
        self.requests.announce(
            RangeDecision(n=self._announced, offset=first, size=end - first, allowed=allowed)
        )

    def stands(self, verdict: RequestVerdict) -> bool:
        """See IGatedSession."""
        return verdict.allowed and self.standing(verdict)

    def allows(self, action: str, facts: Mapping[str, ContextValue]) -> bool:
        """See IGatedSession."""
        return self.watched.allows(action, facts, None)

    def watch(
        self, verdict: RequestVerdict, action: str, facts: Mapping[str, ContextValue]
    ) -> Callable[[], None]:
        """See IGatedSession."""
        return self.watched.add(action, facts, verdict.approved)

    async def record(self, event: str, details: Mapping[str, Json]) -> None:
        """See IGatedSession."""
        kind = self.opened.kind
        known = kind.events.get(event)
        if known is None:
            raise SvcError(f"{kind.name} has no event of this name", reason="unknown_event")
        note = GatedNote(known, details, self.opened)
        waiting = self.write(note, self.opened.request.session_uid)
        if waiting is not None:
            await waiting

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
        first_word: FirstWord,
        *,
        clock: IReactorTime,
        gate: ServeGated,
        session: GatedSession,
    ) -> None:
        super().__init__(call, first_word, clock=clock)
        self._gate = gate
        self._session = session

    def check(self) -> None:
        """See Carried."""
        self._session.watched.check()

    def break_off(self, reason: str) -> None:
        """See Carried; the gate can say why."""
        self._session.ending = self._session.ending or reason
        super().break_off(reason)

    def _first_flight(self, route: SessionRoute) -> bytes:
        """None: a gate must see what the client says."""
        return b""

    @property
    def may_move(self) -> bool:
        """Always False: a gate must see every byte, so the session stays in this lane."""
        return False

    async def _join(self, carry: IRpcCall | ClientStream) -> RelayedBytes:
        session = self._session
        await self._say_opened()
        person = PassingStream(cast(MessageEnd, self._call))
        connector = PassingStream(cast(MessageEnd, carry))
        session.requests.out, session.answers.out = connector, person
        session.requests.lost = session.answers.give_up
        session.answers.lost = lambda: self._connector_left(connector)
        connector.registerProducer(session.requests, True)
        person.registerProducer(session.answers, True)
        person.start(session.requests)
        connector.start(session.answers)
        try:
            await self._served(session)
            await gatherResults([session.requests.finished, session.answers.finished])
            for transport in (connector, person):
                transport.unregisterProducer()
                transport.loseConnection()
            for transport in (person, connector):
                await transport.closed
        finally:
            # Where it breaks, neither call is ended here: each ends with the word of the break.
            for transport in (person, connector):
                transport.say()  # the gate's last words, which are of this turn
            self._count(RelayedBytes(session.requests.passed, session.answers.passed))
            if connector.reported_end is not None:
                self._end_frame_reader.receive(connector.reported_end)
            elif person.reported_end is not None and person.reported_end.reason in GATED_FAULTS:
                self._end_frame_reader.receive(person.reported_end)
        return self._joined

    def _connector_left(self, connector: PassingStream) -> None:
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

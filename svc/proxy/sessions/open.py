"""``Session/Open`` on the Proxy, as named steps.

authenticate → budget → count → decide here → ask Authority → find the tunnel → open
the lane → join → report.  Every exit takes the gauge down and, once Authority
granted, reports the end.  The session code does not know which lane carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Denied, Fault, SvcError, TooMany, Unauthenticated, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall, IRpcChannel, Peer
from svc.interfaces.tracing import Span, Spans, no_span
from svc.messages.control import (
    AUTHORIZE_METHOD,
    Ask,
    AuthorizeAnswer,
    CountedEnd,
    ask_message,
    read_answer,
)
from svc.messages.session import OPEN_METHOD, decode_open, decode_request, encode_opened
from svc.model.certificate import CertificateFacts
from svc.model.principal import CALLERS, Principal
from svc.model.session.ending import (
    ASSIGNMENT_CHANGED,
    DRAINING,
    ENDINGS,
    NOT_OPENED,
    PROXY_REVOKED,
)
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proxy.sessions.carry import Carried
from svc.proxy.sessions.direct import DirectLanes
from svc.proxy.sessions.gate import Gate
from svc.proxy.sessions.gated import (
    GatedCarried,
    GatedOpen,
    Recordable,
    WriteGated,
)
from svc.proxy.sessions.granted import (
    MISSES,
    REFUSED,
    Granted,
    PendingSession,
    as_told,
    as_unanswered,
    peer_chain,
    read_granted,
    refusal_in,
    route_of,
)
from svc.proxy.sessions.limits import PersonRates
from svc.proxy.sessions.live import Live, LiveSessions
from svc.proxy.sessions.prolonged import ProlongedSessions, held_until, prolonged_session
from svc.proxy.sessions.route import NoOtherProxies, OtherProxies
from svc.proxy.uplink.approvals import SessionApprovals
from svc.proxy.uplink.reports import Reports
from svc.rpc.first_frame import read_open
from svc.tunnel.grant_end import GrantEnd
from svc.tunnel.routes import RouteTable

_log = Logger(namespace="svc_proxy")

_AUTHORIZE_SECS = 10.0

_SPAN = OPEN_METHOD.lstrip("/")


async def _not_recorded(decided: Recordable, session_uid: str) -> None:
    raise Unavailable("this Proxy does not record requests", reason="audit_spool_unavailable")


@frozen
class SessionMeters:
    """The metrics of sessions, each through a callable that knows the series.

    Attributes:
        opened: Protocol label of a session that was joined.
        active: Protocol label, and +1 or -1.
        missed: Stage and reason of a route miss.
    """

    opened: Callable[[str], object]
    active: Callable[[str, int], object]
    missed: Callable[[str, str], object]


@define
class SessionOpens:
    """Serves ``Session/Open``.

    Attributes:
        check_person: Refuses a person or certificate that Authority revoked, and a session that
            an operator ends; called with the certificate's SHA-256, and the uid if there is one.
        max_per_person: How many sessions one person may have open here, those included that ended
            and whose last bytes they have not read.
        rates: What a person may ask; :meth:`admit` and the outcome of each open spend it.
        spans: Makes the span of each open.
        direct: Knows which sessions may move to a direct lane.
        others: The other Proxies, which hold tunnels that this one has not.
        keep_denied: Keeps the text of a denied request that its person can ask for.
        record: Makes the record of what a gate decided or noted durable.
    """

    gate: Gate
    channel: Callable[[], IRpcChannel]
    routes: RouteTable
    reports: Reports
    verifier: IChainVerifier
    check_person: Callable[[Principal, bytes, str], object]
    meters: SessionMeters
    clock: IReactorTime
    now: Callable[[], float]
    max_per_person: Callable[[], int]
    rates: PersonRates
    spans: Spans = no_span
    direct: DirectLanes = field(factory=DirectLanes)
    record: WriteGated = _not_recorded
    keep_denied: Callable[[GatedOpen, str, str, bytes], object] = lambda *what: None
    others: OtherProxies = field(factory=NoOtherProxies)
    _per_person: dict[str, int] = field(factory=dict)
    _open: dict[str, str] = field(factory=dict)
    prolonged: ProlongedSessions = field(init=False)
    _live: LiveSessions = field(init=False)
    _is_draining: bool = False
    _over: str = ""
    """Why nothing goes on here any more, and nothing begins; empty while it does."""

    def __attrs_post_init__(self) -> None:
        self._live = LiveSessions(self.clock)
        self.prolonged = ProlongedSessions(lambda: self.channel())

    def recheck(self) -> None:
        """Policy or revocations changed: what may not go on is broken off."""
        self._live.recheck()

    def reassigned(self, node_id: str) -> None:
        """A Connector's inventory changed: end its sessions on resources it no longer serves."""
        self._live.reassigned(node_id)

    def unassigned(self, node_id: str) -> None:
        """A Connector is to serve nothing of what it offers: all that it carries is broken off."""
        self._live.end_of(node_id, ASSIGNMENT_CHANGED)

    def drain(self) -> None:
        """Open no new sessions; open sessions continue."""
        self._is_draining = True

    def end_all(self) -> None:
        """The Proxy stops now: end the sessions that are still open, with that reason."""
        self._end_all(DRAINING)

    def proxy_revoked(self) -> None:
        """The Authority revoked this Proxy: end all sessions, since a revocation is final."""
        self._end_all(PROXY_REVOKED)

    def _end_all(self, reason: str) -> None:
        # What waits for Authority's answer is not among those, and finds this when it has it.
        self._over = self._over or reason
        self._live.end_all(reason)

    @property
    def open_sessions(self) -> int:
        """How many are open, or being opened."""
        return len(self._open)

    @property
    def uids(self) -> tuple[str, ...]:
        """The sessions that a greeting claims: open ones, and those with an unreported end."""
        return (*self._open, *self.reports.uids)

    def admit(self, name: str, peer: Peer) -> CertificateFacts:
        """Spend what a call of this method costs; before its handler, its span, its decision.

        Returns:
            The person who makes the call, checked now (R13).

        Raises:
            SvcError: nobody who may ask at all, or TooMany.
        """
        person = self._person(peer)
        self.rates.spend(person.principal, name)
        return person

    def person(self, call: IRpcCall) -> CertificateFacts:
        """The person who makes a call, checked now (R13).

        Raises:
            SvcError: no certificate, one that is not good now, or revoked.
        """
        return self._person(call.peer)

    def _person(self, peer: Peer) -> CertificateFacts:
        if not peer.chain:
            raise Unauthenticated("a person's certificate is required; run `svc join`")
        facts = self.verifier.verify(peer.chain, CALLERS)
        self.check_person(facts.principal, facts.sha256, "")
        return facts

    async def open(self, call: IRpcCall) -> None:
        """Serve one session from its first frame to its end."""
        person = call.caller  # admitted in this turn
        if not isinstance(person, CertificateFacts):
            raise Unauthenticated("a person's certificate is required; run `svc join`")
        span = self.spans(_SPAN, call.metadata)
        try:
            await self._counted(call, person, span)  # which ends it once the session is open
        except BaseException as error:
            span.end(error)
            raise

    async def _counted(self, call: IRpcCall, person: CertificateFacts, span: Span) -> None:
        person_id = person.principal.id
        if self._is_draining:
            raise Unavailable("this Proxy is stopping; try another", reason="draining")
        if self._over:
            raise Unavailable("this Proxy no longer serves anybody; try another", reason=self._over)
        if self._per_person.get(person_id, 0) >= (most := self.max_per_person()):
            self.rates.crowded(person.principal)
            raise SvcError(
                f"you have {most} sessions open on this Proxy, the limit; close one",
                reason="too_many_sessions",
                fault=Fault.EXHAUSTED,
            )
        self._per_person[person_id] = self._per_person.get(person_id, 0) + 1
        try:
            await self._admitted(call, person, span)
        finally:
            # Not before: what the caller leaves unread is held here, and must have a limit too.
            call.on_gone(lambda: self._left(person_id))

    def _left(self, person_id: str) -> None:
        self._per_person[person_id] -= 1
        if not self._per_person[person_id]:
            del self._per_person[person_id]

    async def _admitted(self, call: IRpcCall, person: CertificateFacts, span: Span) -> None:
        self.reports.check()
        self.rates.deciding(person.principal)
        try:
            opening = await self._decided(call, person, span)
        finally:
            self.rates.decided(person.principal)
        request = opening.request
        self.reports.expect(request.session_uid, person.principal.id)
        self._open[request.session_uid] = opening.kind.protocol
        try:
            granted = await self._granted(opening)
            await self._serve(call, opening, granted)
        finally:
            del self._open[request.session_uid]

    async def _decided(
        self, call: IRpcCall, person: CertificateFacts, span: Span
    ) -> PendingSession:
        """Read what is asked and decide it; a denial is charged before anything is awaited."""
        data, signature = decode_open(await read_open(call, self.clock, "session"))
        request = decode_request(data, relayed=True)
        if request.session_uid in self._open:
            raise Denied("this session is already open", reason="request_replayed")
        # Again: those that came together with it may have been denied since it was admitted.
        who = person.principal
        self.rates.check(who)
        decided = self.gate.decide_open(
            request, person_id=who.id, factor_at=person.factor_at, source=call.peer.host
        )
        decision = decided.decision.decision
        span.note(
            action=decided.kind.request_kind,
            resource=request.resource,
            decision=decision,
            session_uid=request.session_uid,
        )
        if decision != "allow":
            # Before Authority answers: others of the person may be on their way already.
            self.rates.denied(who)
        return PendingSession(
            person=who,
            chain=peer_chain(call),
            data=data,
            signature=signature,
            request=request,
            decided=decided,
            span=span,
            certificate=person,
        )

    async def _granted(self, opening: PendingSession) -> Granted:
        """Ask Authority; where nothing is granted, no end of it is owed but a doubtful one."""
        try:
            return await self._authorize(opening)
        except BaseException:
            self.reports.not_owed(opening.request.session_uid)
            raise

    async def _authorize(self, opening: PendingSession) -> Granted:
        """Ask Authority.

        Raises:
            SvcError: it refused, with the id of the recorded decision; or it cannot be asked.
        """
        ask = Ask(
            request=opening.data,
            signature=opening.signature,
            person_chain=opening.chain,
            proxy_decision=opening.decision,
            seen_at_ms=int(self.now() * 1000),
        )
        channel = self.channel()
        try:
            message = await channel.unary(
                AUTHORIZE_METHOD, ask_message(ask), pb.AuthorizeResponse, timeout=_AUTHORIZE_SECS
            )
            answer = read_answer(message)
            granted = read_granted(answer, opening.request)
        except CancelledError:
            self._never_opened(opening)
            raise
        except SvcError as e:
            if e.reason == TooMany.reason:
                raise  # refused before anything was decided or written down
            if e.fault in REFUSED:
                self._count_denied(opening)
                raise as_told(e, opening.decision) from None
            self._never_opened(opening)
            raise as_unanswered(e) from None
        if granted is None:
            self._count_denied(opening)
            raise self._refused(answer, opening.span)
        if opening.decision.decision != "allow":
            self.rates.turned(opening.person)
        return granted

    def _count_denied(self, opening: PendingSession) -> None:
        if opening.decision.decision == "allow":
            self.rates.denied(opening.person)

    def _never_opened(self, opening: PendingSession) -> None:
        """Authority may have written the session down before it, or the client, went away."""
        self.reports.ended(CountedEnd(opening.request.session_uid, NOT_OPENED))

    def _refused(self, answer: AuthorizeAnswer, span: Span) -> SvcError:
        span.note(decision="not_served" if answer.reason in MISSES else "deny")
        if answer.reason in MISSES:
            self.meters.missed("issue", answer.reason)
        return refusal_in(answer)

    async def _serve(self, call: IRpcCall, opening: PendingSession, granted: Granted) -> None:
        """Open the lane and carry; Authority is told the end once, whatever it is."""
        carried = self._carried(call, opening, granted)
        uid, reason = opening.request.session_uid, "failed"
        # From here on each change is looked at for it, so also while its lane is opened.
        self._live.add(uid, self._live_one(opening, granted, carried))
        try:
            await self._open_lane(opening, granted, carried)
            opening.span.end()
            await self._passing(opening, granted, carried)
            reason = carried.closed_by
        except CancelledError:
            reason = "cancelled"
            raise
        except SvcError as e:
            reason = e.reason
            raise e.with_(decision_id=granted.answer.decision_id) from None
        finally:
            self._live.remove(uid)
            ended = carried.as_ended(uid, reason)
            if carried.is_left_behind:
                self.reports.left_behind(ended)
            else:
                self.reports.ended(ended)

    def _carried(self, call: IRpcCall, opening: PendingSession, granted: Granted) -> Carried:
        """By its kind: joined unread, or through the kind's gate."""
        kind, request = opening.kind, opening.request
        joined = call, partial(encode_opened, granted.signed, granted.answer.decision_id)
        if kind.gate is None:
            moved = partial(self.reports.moved, request.session_uid)
            return Carried(*joined, clock=self.clock, on_moved=moved)
        opened = GatedOpen(
            request,
            kind,
            person_id=opening.person.id,
            source_address=opening.decision.source_address,
            approved=granted.answer.approved,
            factor_at=opening.certificate.factor_at,
        )
        approvals = SessionApprovals(granted.signed, lambda: self.channel(), self.clock)
        spend = self.rates.requested(opening.person)
        keep, ceiling = partial(self.keep_denied, opened), granted.grant.ceiling
        session = self.gate.session(opened, ceiling, self.record, approvals.use, spend, keep)
        return GatedCarried(*joined, clock=self.clock, gate=kind.gate, session=session)

    async def _open_lane(self, opening: PendingSession, granted: Granted, carried: Carried) -> None:
        ways = partial(route_of, routes=self.routes, others=self.others)
        missed, own = self.meters.missed, partial(self._check_own, opening)
        route = ways(opening, granted, missed=missed, check=own)
        # What changed while Authority was asked was looked at for others, but not for it.
        # Here too a Proxy that denied it by the policy alone decides it with the approval.
        self._check(opening, granted)
        if granted.answer.approved is not None or not self.gate.stands(opening.decided):
            self._check_policy(opening, granted)
        await carried.open_through(route, partial(opening.order, granted.signed))

    async def _passing(self, opening: PendingSession, granted: Granted, carried: Carried) -> None:
        protocol = opening.kind.protocol
        uid, grant = opening.request.session_uid, granted.grant
        ending = GrantEnd(
            clock=self.clock,
            now=self.now,
            end=carried.break_off,
            certificate_end=opening.certificate.not_after,
            is_gated=grant.is_gated,
            approval_end=granted.approval_end,
        )
        ending.hold_until(held_until(opening, granted))
        if grant.is_gated and not grant.is_relayed:
            self.prolonged.add(uid, prolonged_session(opening, granted, ending))
        self.meters.opened(protocol)
        self.meters.active(protocol, 1)
        try:
            await carried.over
        finally:
            self.meters.active(protocol, -1)
            if grant.is_gated:
                self.prolonged.remove(uid)
            ending.stop()

    def _live_one(self, opening: PendingSession, granted: Granted, carried: Carried) -> Live:
        return Live(
            check=lambda: self._check_passing(opening, granted, carried),
            break_off=carried.break_off,
            node_id=granted.grant.connector_id,
            check_assigned=lambda: self._check_assigned(granted),
            person_id=opening.person.id,
            movable=carried if opening.kind.opaque else None,
        )

    def offer_lane(self, session_uid: str, person_id: str, connection: object) -> bytes:
        """See :meth:`DirectLanes.offer`."""
        session = self._live.get(session_uid)
        return self.direct.offer(session_uid, session, person_id, connection)

    def _check_passing(self, opening: PendingSession, granted: Granted, carried: Carried) -> None:
        self._check(opening, granted)
        self._check_policy(opening, granted)
        carried.check()

    def _check_assigned(self, granted: Granted) -> None:
        if not self.routes.still_assigned(granted.grant.connector_id, granted.assigned):
            raise Denied(ENDINGS[ASSIGNMENT_CHANGED], reason=ASSIGNMENT_CHANGED)

    def _check(self, opening: PendingSession, granted: Granted) -> None:
        """Whether a session may go on, or begin, but for what the policy says.

        Raises:
            Denied: it may not.
        """
        if self._over:
            raise Denied(ENDINGS[self._over], reason=self._over)
        self._check_own(opening)
        if granted.grant.is_relayed:
            self.others.check(granted.grant.egress_proxy_id, granted.grant.connector_id)
        self._check_assigned(granted)

    def _check_own(self, opening: PendingSession) -> None:
        """Whether the newest snapshot ends neither the session nor its person."""
        request = opening.request
        self.check_person(opening.person, request.certificate_sha256, request.session_uid)

    def _check_policy(self, opening: PendingSession, granted: Granted) -> None:
        """Whether the policy allows now what was asked for.

        Raises:
            Denied: it does not.
            SvcError: that cannot be decided now; what passes bytes goes on, nothing begins.
        """
        if not self.gate.still_allows(opening.decided, granted.answer.approved, granted.grant):
            raise Denied("the policy no longer allows it", reason="policy_changed")

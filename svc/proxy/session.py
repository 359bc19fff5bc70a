"""``Session/Open`` on the Proxy, as named steps.

authenticate → count → decide here → ask Authority → find the tunnel → open
the lane → join → report.  Every exit takes the gauge down and, once Authority
granted, reports the end.  The session code does not know which lane carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field, frozen
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger

from svc.errors import Denied, Fault, Malformed, SvcError, Unauthenticated, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import IResourceKind
from svc.interfaces.rpc import IRpcCall, IRpcChannel
from svc.interfaces.transport import OpenOrder
from svc.lanes.join import Joined, join_streams
from svc.messages.control import (
    AUTHORIZE_METHOD,
    Answer,
    Ask,
    Ended,
    ProxyDecision,
    ask_message,
    read_answer,
)
from svc.messages.session import decode_grant, decode_open, decode_request, encode_opened
from svc.model.certificate import CertificateFacts
from svc.model.principal import Principal, Role
from svc.model.session_request import SessionRequest
from svc.model.tunnels import Miss
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proxy.gate import Gate
from svc.proxy.reports import Reports
from svc.rpc.frames import FrameKind, open_frame, parse_frame
from svc.service import bounded
from svc.tunnel.routes import RouteTable

_log = Logger(namespace="svc_proxy")

_FIRST_FRAME_SECS = 10.0
_AUTHORIZE_SECS = 10.0

_MISSES = {"departed": Fault.UNAVAILABLE, "unknown": Fault.NOT_FOUND}


@frozen
class SessionMeters:
    """What sessions move: each told through a callable that knows the series.

    Attributes:
        opened: Protocol label of a session that was joined.
        active: Protocol label, and +1 or -1.
        missed: Stage and reason of a route miss.
    """

    opened: Callable[[str], object]
    active: Callable[[str, int], object]
    missed: Callable[[str, str], object]


@frozen
class Opening:
    """One session on its way."""

    person: CertificateFacts
    chain: tuple[bytes, ...]
    data: bytes
    signature: bytes
    request: SessionRequest
    kind: IResourceKind
    decision: ProxyDecision
    answer: Answer


@define
class SessionOpens:
    """Serves ``Session/Open``.

    Attributes:
        check_not_revoked: Refuses a principal that Authority revoked.
        max_per_person: Sessions one person may have open here.
    """

    gate: Gate
    channel: Callable[[], IRpcChannel]
    routes: RouteTable
    reports: Reports
    verifier: IChainVerifier
    check_not_revoked: Callable[[Principal], object]
    meters: SessionMeters
    clock: IReactorTime
    now: Callable[[], float]
    max_per_person: int
    _per_person: dict[str, int] = field(factory=dict)
    _open: dict[str, str] = field(factory=dict)

    @property
    def uids(self) -> tuple[str, ...]:
        """Sessions carried or being opened now: what a greeting claims."""
        return tuple(self._open)

    def person(self, call: IRpcCall) -> CertificateFacts:
        """The person behind a call, checked now (R13).

        Raises:
            SvcError: no certificate, one that is not good now, or revoked.
        """
        if not call.peer.chain:
            raise Unauthenticated("this needs a person's certificate; run `svc join`")
        facts = self.verifier.verify(call.peer.chain, {Role.USER})
        self.check_not_revoked(facts.principal)
        return facts

    async def open(self, call: IRpcCall) -> None:
        """Serve one session from its first frame to its end."""
        person = self.person(call)
        person_id = person.principal.id
        if self._per_person.get(person_id, 0) >= self.max_per_person:
            raise SvcError(
                f"more than {self.max_per_person} sessions of one person are open here",
                reason="too_many_sessions",
                fault=Fault.EXHAUSTED,
            )
        self._per_person[person_id] = self._per_person.get(person_id, 0) + 1
        try:
            await self._admitted(call, person)
        finally:
            self._per_person[person_id] -= 1
            if not self._per_person[person_id]:
                del self._per_person[person_id]

    async def _admitted(self, call: IRpcCall, person: CertificateFacts) -> None:
        data, signature = await self._first_frame(call)
        request = decode_request(data)
        if request.session_uid in self._open:
            raise Denied("this session is open already", reason="request_replayed")
        kind = self.gate.kind(request)
        decision = self.gate.decide_open(request, kind, person.principal.id, call.peer.host)
        chain = peer_chain(call)
        self._open[request.session_uid] = kind.protocol
        try:
            ask = Ask(data, signature, chain, decision)
            answer = await self._authorize(ask, request)
            opening = Opening(person, chain, data, signature, request, kind, decision, answer)
            await self._granted(call, opening)
        finally:
            del self._open[request.session_uid]

    async def _first_frame(self, call: IRpcCall) -> tuple[bytes, bytes]:
        data = await bounded(self.clock, _FIRST_FRAME_SECS, call.receive(), "session")
        if data is None:
            raise Malformed("session: no message came")
        kind, payload = parse_frame(data)
        if kind is not FrameKind.OPEN:
            raise Malformed("session: the first frame does not open")
        return decode_open(bytes(payload))

    async def _authorize(self, ask: Ask, request: SessionRequest) -> Answer:
        try:
            channel = self.channel()
            message = await channel.unary(
                AUTHORIZE_METHOD, ask_message(ask), pb.AuthorizeResponse, timeout=_AUTHORIZE_SECS
            )
            answer = read_answer(message)
        except SvcError as e:
            # Whatever became of it there, nothing opens here: Authority may have
            # written the session down, so it is told that it never opened.
            self.reports.ended(Ended(request.session_uid, "not_opened"))
            if e.fault in (Fault.DEADLINE, Fault.CANCELLED):
                raise Unavailable(
                    "Authority did not answer in time; try again", reason="authority_unreachable"
                ) from None
            raise
        if answer.grant is None:
            raise self._refused(answer)
        return answer

    def _refused(self, answer: Answer) -> SvcError:
        details = {"decision_id": answer.decision_id}
        if answer.reason in _MISSES:
            self.meters.missed("issue", answer.reason)
            return SvcError(
                answer.text, reason=answer.reason, fault=_MISSES[answer.reason], details=details
            )
        if answer.policies:
            details["policies"] = ",".join(answer.policies)
        return Denied(answer.text, reason=answer.reason or "denied", details=details)

    async def _granted(self, call: IRpcCall, opening: Opening) -> None:
        uid = opening.request.session_uid
        reason, joined = "failed", Joined(0, 0)
        carried = Carried(call, opening.answer)
        try:
            await self._open_lane(opening, carried)
            joined = await self._carry(opening, carried)
            reason = "closed"
        except SvcError as e:
            reason = e.reason
            joined = carried.counted
            raise _with_decision(e, opening.answer.decision_id) from None
        finally:
            self.reports.ended(Ended(uid, reason, joined.from_first, joined.from_second))

    async def _open_lane(self, opening: Opening, carried: Carried) -> None:
        assert opening.answer.grant is not None
        tunnel = self.routes.find(opening.request.resource)
        if isinstance(tunnel, Miss):
            self.meters.missed("open", tunnel.value)
            raise SvcError(
                "no Connector serves it through this Proxy now",
                reason=tunnel.value,
                fault=_MISSES[tunnel.value],
            )
        order = OpenOrder(
            opening.request.session_uid,
            opening.answer.grant,
            opening.data,
            opening.signature,
            opening.chain,
        )
        await tunnel.endpoint(order).connect(_Once(carried))

    async def _carry(self, opening: Opening, carried: Carried) -> Joined:
        assert opening.answer.grant is not None
        protocol = opening.kind.protocol
        grant = decode_grant(opening.answer.grant.payload)
        ending = self.clock.callLater(
            max(0.0, grant.end_before_ms / 1000 - self.now()), carried.break_off, "grant_ended"
        )
        self.meters.opened(protocol)
        self.meters.active(protocol, 1)
        try:
            return await carried.joined
        finally:
            self.meters.active(protocol, -1)
            _cancel(ending)


class Carried(Protocol):
    """The session's end at the tunnel: joins the client's call to the carry stream.

    A tunnel connects it as it would any protocol; instead of bytes it is given
    the carry call, and joins the two unread.
    """

    def __init__(self, call: IRpcCall, answer: Answer) -> None:
        self.joined: Deferred[Joined] = Deferred()
        self.counted = Joined(0, 0)
        self._call = call
        self._answer = answer
        self._joining: Deferred[Joined] | None = None
        self.transport = _Breaker(self)  # type: ignore[assignment]

    def carried_by(self, carry: IRpcCall) -> Deferred[object]:
        """Join; fires (or fails) when the session is over.  Called by ``Tunnel/Carry``."""
        self._joining = Deferred.fromCoroutine(self._join(carry))
        over: Deferred[object] = Deferred()
        self._joining.addCallbacks(self._ended, self._broken)
        self.joined.addBoth(_both(over))
        return over

    def break_off(self, reason: str) -> None:
        """End the session at once, for this reason."""
        if not self.joined.called:
            why = SvcError("the session was ended", reason=reason, fault=Fault.ABORTED)
            joining, self._joining = self._joining, None
            self.joined.errback(why)
            if joining is not None:
                joining.cancel()

    async def _join(self, carry: IRpcCall) -> Joined:
        assert self._answer.grant is not None
        opened = encode_opened(self._answer.grant, self._answer.decision_id)
        await self._call.send(open_frame(opened))
        return await join_streams(self._call, carry)  # type: ignore[arg-type]

    def _ended(self, joined: Joined) -> None:
        self.counted = joined
        if not self.joined.called:
            self.joined.callback(joined)

    def _broken(self, failure: object) -> None:
        value = getattr(failure, "value", None)
        if not self.joined.called:
            self.joined.errback(
                value
                if isinstance(value, SvcError)
                else SvcError("the session broke", reason="transport_error")
            )


@define
class _Breaker:
    """What a tunnel that ends aborts."""

    carried: Carried

    def abortConnection(self) -> None:
        """The tunnel is gone."""
        self.carried.break_off("tunnel_ended")


class _Once(Factory):
    """Gives the one protocol that waits for its stream."""

    noisy = False

    def __init__(self, protocol: Carried) -> None:
        self._carried = protocol

    def buildProtocol(self, addr: object) -> Protocol:
        """The one."""
        return self._carried


def _both(over: Deferred[object]) -> Callable[[object], object]:
    def tell(result: object) -> object:
        over.callback(None)
        return result

    return tell


def peer_chain(call: IRpcCall) -> tuple[bytes, ...]:
    """What the TLS peer showed, leaf and issuer, in DER."""
    return tuple(one.public_bytes(Encoding.DER) for one in call.peer.chain[:2])


def _with_decision(error: SvcError, decision_id: str) -> SvcError:
    details: Mapping[str, str] = {**error.details, "decision_id": decision_id}
    return SvcError(error.text, reason=error.reason, fault=error.fault, details=details)


def _cancel(call: IDelayedCall) -> None:
    if call.active():
        call.cancel()

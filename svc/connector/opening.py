"""Opens a session at the Connector: verifies it, dials the target, and relays.

Invariants: nothing is dialed before the session was admitted; nothing of the
target is sent before the person's own certificate was seen at the other end;
no session outlives its grant; whatever happens, both ends are let go and the
end is told exactly once for each beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from attrs import Factory, define, field
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.logger import Logger

from svc.connector.admission import Admission, AdmittedSession
from svc.connector.checkpoints import SessionCheckpoints
from svc.connector.dialing import dial_target, session_dialer
from svc.connector.ends import Carrying, TargetSide
from svc.connector.gated import GatedOpening, gated_opening
from svc.connector.last_checkpoints import LastCheckpoints
from svc.connector.reach import Reach, ReachReactor
from svc.connector.session_events import SessionEnded, SessionEvent, SessionOpened, SessionRefused
from svc.connector.uses import SessionUses
from svc.errors import SvcError
from svc.interfaces.kinds import Identify, ServedKind
from svc.interfaces.recordings import IRecorder
from svc.interfaces.rpc import Peer
from svc.interfaces.tracing import TRACEPARENT, Span, Spans, no_span
from svc.lanes.preface import Preface, Side
from svc.lanes.relay import Relay, only_side
from svc.messages.gated import CheckpointAnswer
from svc.messages.tunnel import LaneOffer, OpenNotice
from svc.model.audit.record import rfc3339
from svc.model.session.ending import BROKEN, CLOSED, CONNECTOR_STOPPING
from svc.model.session.grant import Grant
from svc.model.session.onward import credential
from svc.model.signing import Purpose, Signed
from svc.ratelimit.repeats import RepeatCounter
from svc.rpc.tls import HandshakeSource
from svc.runtime.services import bounded
from svc.tunnel.grant_end import GrantEnd
from svc.tunnel.moves import MovingEndpoint, move
from svc.tunnel.refusals import OpenRefusedHere, refused
from svc.tunnel.times import TunnelTimes
from svc.tunnel.tls_endpoint import SessionTlsEndpoint

_log = Logger(namespace="svc_connector")

SPAN = "gate.v1.OpenNotice"


MAX_UNDER_WAY = 512
"""Sessions of one Proxy that may be on their way to open: each holds a dial and a handshake."""


class NoticeLink(Protocol):
    """The tunnel an open notice came over."""

    @property
    def proxy_id(self) -> str:
        """The node at its other end, from its certificate."""

    @property
    def peer(self) -> Peer:
        """The Proxy's end of the connection."""

    def refuse(self, session_uid: str, word: str) -> None:
        """Tell the Proxy that the session does not open; never raises."""

    async def checkpoint(self, signed: Signed) -> CheckpointAnswer:
        """Take a checkpoint of a gated session to Authority.

        Raises:
            SvcError: no answer came.
        """

    def carry(self, session_uid: str, secret: bytes, answer: Signed | None = None) -> Carrying:
        """Open the session's own stream, on the same connection.

        Args:
            session_uid: Of the session.
            secret: Of its notice.
            answer: To the person, where the session is gated.
        """


@define
class _CarriedSession:
    """A session that passes bytes, and why it was made to end."""

    relay: Relay
    carry: Carrying
    reason: str = ""

    def end(self, reason: str) -> None:
        """Break it; the first reason stays."""
        self.reason = self.reason or reason
        self.carry.end_with(self.reason)
        self.relay.abort()


@define
class ConnectorSessions:
    """Every session of one Connector.

    Attributes:
        reactor: Dials targets (through the reach) and keeps time.
        session_tls: The server's side of the TLS inside a session, for
            exactly the person certificate of this SHA-256.
        now: Wall time, for the end of grants.
        on_event: Hears each beginning, end and refusal.
        spans: Makes the span of each open; it ends when the session is open, or refused.
        lane_to: Plain TCP to the public listener of the Proxy at the other end of a
            connection; None where sessions never leave the tunnel.
        sign: Signs with our node's key.
        last: Takes the last checkpoints of gated sessions.
        identify: What tells the target of a session who makes a request, by the session's grant.
        uses: Tells Authority what sessions did with their rights.
        recorder: Makes what records a session, by its grant.
        onward_key: What this process logs in with at targets that know Authority's certificates.
    """

    admission: Admission
    kinds: Mapping[str, ServedKind]
    reactor: Any
    reach: Callable[[], Reach]
    session_tls: Callable[[bytes], HandshakeSource]
    now: Callable[[], float]
    on_event: Callable[[SessionEvent], object]
    times: TunnelTimes = field(factory=TunnelTimes)
    spans: Spans = no_span
    lane_to: Callable[[Peer], IStreamClientEndpoint] | None = None
    sign: Callable[[Purpose, bytes], Signed] = field(kw_only=True)
    last: LastCheckpoints = field(kw_only=True)
    identify: Callable[[Signed], Identify] = field(kw_only=True)
    uses: SessionUses = field(kw_only=True)
    recorder: Callable[[Grant, Signed], IRecorder] = field(kw_only=True)
    onward_key: Ed25519PrivateKey = field(kw_only=True, repr=False)
    _open: dict[str, _CarriedSession] = field(factory=dict, init=False)
    _moving: dict[tuple[str, str], MovingEndpoint] = field(factory=dict, init=False)
    _coming: Counter[str] = field(factory=Counter, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)
    _closing: list[Carrying] = field(factory=list, init=False)
    _stopping: bool = field(default=False, init=False)
    _repeats: RepeatCounter = field(
        init=False, default=Factory(lambda self: RepeatCounter(self.now), takes_self=True)
    )

    @property
    def sessions(self) -> frozenset[str]:
        """Uids of the sessions open now."""
        return frozenset(self._open)

    @property
    def under_way(self) -> int:
        """How many sessions are on their way to open, of all Proxies."""
        return self._coming.total()

    async def open(self, notice: OpenNotice, link: NoticeLink) -> None:
        """Serve one open notice until its session is over.

        Run as a background task; raises nothing but cancellation.
        """
        arrived = self._under_way(link.proxy_id)
        span = self.spans(SPAN, {TRACEPARENT: notice.traceparent})
        opened = self._opened(notice, link, span, arrived)
        del notice  # of which the session keeps nothing while it lasts
        try:
            await opened
        except BaseException as error:  # where it returns it has done both by itself
            span.end(error)
            arrived()
            raise

    async def move(self, offer: LaneOffer, link: NoticeLink) -> None:
        """Move a session to the direct lane that its own Proxy offers.

        Once a session: a Proxy cannot make us dial it again and again.  Run as a
        background task; raises nothing but cancellation.
        """
        moving = self._moving.pop((link.proxy_id, offer.session_uid), None)
        if self.lane_to is not None and moving is not None and moving.stream is not None:
            preface = Preface(Side.CONNECTOR, offer.token)
            await move(moving.stream, self.lane_to(link.peer), preface, self.reactor)

    def _under_way(self, proxy_id: str) -> Callable[[], None]:
        """Count one more of this Proxy until what is given back is called."""
        self._coming[proxy_id] += 1
        left = [proxy_id]

        def arrived() -> None:
            if left:
                left.clear()
                self._coming[proxy_id] -= 1
                if not self._coming[proxy_id]:
                    del self._coming[proxy_id]

        return arrived

    async def _opened(
        self, notice: OpenNotice, link: NoticeLink, span: Span, arrived: Callable[[], None]
    ) -> None:
        relay, admitted, uid, used = Relay(), None, notice.session_uid, Counter[str]()
        relay.right = TargetSide(relay, "right")
        try:
            admitted = self._admit(notice, link)
            kind, resource = self.kinds[admitted.target.kind], admitted.grant.resource
            span.note(action=kind.request_kind, resource=resource, session_uid=uid)
            target = await self._dial(admitted, relay, notice.grant, used)
        except CancelledError:
            relay.abort()
            raise
        except Exception as error:
            span.end(error)
            word = self._refuse_to(link, uid, error, admitted)
            grant = admitted.grant if admitted else self.admission.spend(notice, link.proxy_id)
            arrived()
            await self.last.never_opened(grant, word, link, is_whole=True)
            return
        # Of a session without rights it keeps nothing: certificates and signatures are some KiB.
        signed = notice.grant if admitted.grant.decision_id else None
        try:
            serving = self._serve(notice, link, span, arrived, admitted, relay, target)
            del notice
            await serving
        finally:
            self._moving.pop((link.proxy_id, uid), None)
            relay.abort()
            if signed is not None:
                self.uses.tell(uid, signed, used)

    async def _serve(
        self,
        notice: OpenNotice,
        link: NoticeLink,
        span: Span,
        arrived: Callable[[], None],
        admitted: AdmittedSession,
        relay: Relay,
        target: IStreamClientEndpoint,
    ) -> None:
        """A session whose target is there, to its end."""
        try:
            gated = self._gated(notice, admitted, target)
            answer = None if gated is None else gated.answer
            carry = link.carry(notice.session_uid, notice.secret, answer)
            if gated is not None:
                carry.make = gated.ends.transport
            await self._carry(admitted, relay, carry, notice.first_flight)
            del notice
        except SvcError as refusal:
            span.end(refusal)
            self._refuse(admitted.grant.session_uid, refusal, admitted)
            relay.abort()
            arrived()
            # Its gate may have begun, and have recorded what never came here.
            await self.last.never_opened(admitted.grant, BROKEN, link, is_whole=False)
            return
        span.end()
        arrived()
        await self._prolonged(link, admitted, gated, _CarriedSession(relay, carry))

    def stop(self) -> None:
        """Refuse new sessions from now on."""
        self._stopping = True

    async def drained(self) -> None:
        """Wait until no session is open."""
        while self._open:
            idle: Deferred[None] = Deferred(self._idle.remove)
            self._idle.append(idle)
            await idle

    async def left(self) -> None:
        """Wait until the Proxies have answered the ends of what :meth:`close` broke."""
        for carry in list(self._closing):
            await carry.left()
        await self.last.told()
        await self.uses.left()

    def close(self) -> None:
        """Break every session still open."""
        self.last.stop()
        for session in list(self._open.values()):
            self._closing.append(session.carry)
            session.end(CONNECTOR_STOPPING)

    def _admit(self, notice: OpenNotice, link: NoticeLink) -> AdmittedSession:
        if self._stopping:
            raise refused("connector_stopping", "the Connector is stopping")
        if self._coming[link.proxy_id] > MAX_UNDER_WAY:
            raise refused("too_many_sessions", "this Proxy opens too many sessions at once")
        return self.admission.admit(notice, link.proxy_id)

    async def _dial(
        self, admitted: AdmittedSession, relay: Relay, signed: Signed, used: Counter[str]
    ) -> IStreamClientEndpoint:
        grant = admitted.grant
        kind, recorder = self.kinds[admitted.target.kind], self.recorder(grant, signed)
        login = credential(self.onward_key, grant.onward_certificate)
        return await dial_target(
            admitted,
            relay.right,
            dialer=session_dialer(kind, grant, self.identify(signed), used, recorder, login),
            guard=ReachReactor(self.reactor, self.reach()),
            clock=self.reactor,
            seconds=self.times.reach_target,
        )

    def _gated(
        self, notice: OpenNotice, admitted: AdmittedSession, target: IStreamClientEndpoint
    ) -> GatedOpening | None:
        kind = self.kinds[admitted.target.kind]
        if kind.opaque:
            return None
        return gated_opening(
            admitted,
            kind=kind,
            request=notice.request,
            sign=lambda data: self.sign(Purpose.SESSION_ANSWER, data),
            clock=self.reactor,
            target=target,
        )

    async def _carry(
        self, admitted: AdmittedSession, relay: Relay, carrying: Carrying, heard: bytes
    ) -> None:
        """Until the person's end is known; *heard* is what it said with the notice."""
        carry: Any = carrying
        if self.kinds[admitted.target.kind].opaque:
            moving = MovingEndpoint(carry, self.reactor)
            self._moving[admitted.grant.tunnel_proxy_id, admitted.grant.session_uid] = moving
            carry = SessionTlsEndpoint(
                below=moving,
                begin=self.session_tls(admitted.person.sha256).begin,
                clock=self.reactor,
                seconds=self.times.handshake,
                early=carrying.begin_with if heard else None,
                heard=heard,
                holds_last=True,
            )
        limit = self.times.open + self.times.handshake
        # The relay joins once its left side is connected: that is after the handshake.
        coming = carry.connected(only_side(relay.left))
        await bounded(self.reactor, limit, coming, "the carry stream")

    def _checkpoints(
        self, link: NoticeLink, admitted: AdmittedSession, gated: GatedOpening, end: GrantEnd
    ) -> SessionCheckpoints:
        return SessionCheckpoints(
            grant=admitted.grant,
            receiver=gated.ends.receiver,
            chain=gated.chain,
            send=link.checkpoint,
            last=lambda one: self.last.bring(one, link),
            sign=lambda data: self.sign(Purpose.SESSION_CHECKPOINT, data),
            verifier=self.admission.verifier,
            clock=self.reactor,
            end=end,
        )

    async def _prolonged(
        self,
        link: NoticeLink,
        admitted: AdmittedSession,
        gated: GatedOpening | None,
        carried: _CarriedSession,
    ) -> None:
        """Until it is over; whatever ends it, a gated session's last checkpoint is made."""
        end = GrantEnd(
            clock=self.reactor,
            now=self.now,
            end=carried.end,
            certificate_end=admitted.person.not_after,
            is_gated=gated is not None,
        )
        end.hold_until(admitted.grant.end_before_ms)
        checkpoints = None
        if gated is not None:
            checkpoints = self._checkpoints(link, admitted, gated, end)
            checkpoints.start()
        try:
            await self._until_over(admitted, carried)
        finally:
            end.stop()
            if checkpoints is not None:
                checkpoints.stop()
            if gated is not None and gated.cancel is not None:
                gated.cancel.stop()
        if checkpoints is not None:
            await checkpoints.finish(carried.reason)

    async def _until_over(self, admitted: AdmittedSession, session: _CarriedSession) -> None:
        relay, carry = session.relay, session.carry
        grant, began = admitted.grant, self.reactor.seconds()
        cast(TargetSide, relay.right).ends = carry.end_with
        self._open[grant.session_uid] = session
        self.on_event(SessionOpened(grant.session_uid, grant.resource, grant.kind))
        try:
            ended = await relay.done
            session.reason = session.reason or carry.fault or (CLOSED if ended.is_clean else BROKEN)
        finally:
            del self._open[grant.session_uid]
            self.on_event(
                SessionEnded(
                    session_uid=grant.session_uid,
                    resource=grant.resource,
                    kind=grant.kind,
                    seconds=self.reactor.seconds() - began,
                    bytes_up=relay.left.received,
                    bytes_down=relay.right.received,
                    reason=session.reason or CONNECTOR_STOPPING,
                )
            )
            self._tell_idle()

    def _tell_idle(self) -> None:
        if not self._open:
            waiting, self._idle[:] = list(self._idle), []
            for idle in waiting:
                idle.callback(None)

    def _refuse_to(
        self, link: NoticeLink, uid: str, error: Exception, admitted: AdmittedSession | None
    ) -> str:
        """Tell both sides why; a failure nobody planned for is logged, and refuses as well."""
        if not isinstance(error, OpenRefusedHere):
            _log.failure("opening a session failed", session=uid, reason="connector_failed")
            error = refused("connector_failed", "an internal error; see the log entry above")
        self._refuse(uid, error, admitted)
        link.refuse(uid, error.reason)
        return error.reason

    def _refuse(self, uid: str, refusal: SvcError, admitted: AdmittedSession | None) -> None:
        """Log it for the operator, who alone is told the address; what repeats, once a minute."""
        about: dict[str, object] = {}
        if admitted is not None:
            about = {"resource": admitted.grant.resource, "target": str(admitted.target.address)}
        series = self._repeats.note((refusal.reason, refusal.text, *about.values()))
        if series is not None and series.count > 1:
            about |= {"times": series.unreported, "since": rfc3339(series.first)}
        if series is not None:
            _log.warn(
                "session not opened", session=uid, reason=refusal.reason, text=refusal.text, **about
            )
        self.on_event(SessionRefused(uid, refusal.reason))

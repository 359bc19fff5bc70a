"""``gate.v1.Peer``: opens sessions of other Proxies through the tunnels of this one.

authenticate → budget → read → check the grant → find a tunnel of ours → open → join.  Where the
session entered, it is decided, recorded and reported; here its bytes pass unread, and what ends it
at one side ends it at the other, for the same reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from attrs import define, evolve, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Denied, Fault, SvcError, Unauthenticated, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind
from svc.interfaces.rpc import IRpcCall, Peer, RpcService, streaming, unary
from svc.interfaces.tracing import TRACEPARENT, Span, Spans, no_span
from svc.messages.peer import (
    PEER_OPEN_METHOD,
    PeerOpened,
    decode_peer_open,
    encode_peer_opened,
    read_peer_end,
)
from svc.model.principal import Principal, Role
from svc.model.session.ending import (
    ASSIGNMENT_CHANGED,
    DRAINING,
    ENDINGS,
    PEER_PROXY_REVOKED,
    PROXY_REVOKED,
)
from svc.model.session.tunnels import Miss
from svc.model.signing import Signed
from svc.proto.gate.v1 import peer_pb2 as pb
from svc.proxy.peers.relayed import RelayAdmission, RelayedSession
from svc.proxy.sessions.carry import Carried
from svc.proxy.sessions.granted import MISSES
from svc.proxy.sessions.limits import node_of
from svc.proxy.sessions.live import Live, LiveSessions
from svc.proxy.sessions.prolonged import ProlongedSession, ProlongedSessions
from svc.ratelimit.limits import Budget
from svc.rpc.first_frame import read_open
from svc.rpc.frames import MAX_OPENING
from svc.tunnel.grant_end import GrantEnd
from svc.tunnel.routes import RouteTable
from svc.tunnel.times import TunnelTimes
from svc.tunnel.transport import RegisteredTunnel
from svc.wire.limits import KIB, WireLimits

_log = Logger(namespace="svc_proxy")

_PROXIES = frozenset({Role.PROXY})
_SPAN = PEER_OPEN_METHOD.lstrip("/")

MAX_PER_PROXY = 20_000
"""Sessions that one other Proxy may have open here."""

_ENDS = 1000
"""Calls that one may have open beside its sessions: to say why some of them end."""


@define
class PeerService:
    """Serves other Proxies on the private listener.

    Attributes:
        admission: Checks the grants.
        check_not_revoked: Raises Denied for a Proxy that the newest snapshot revokes.
        check_person: Likewise for a person or certificate, and a session that an operator ends.
        prolonged: Takes the checkpoints of gated sessions.
        kinds: Those enabled here, for the metric label of a session.
        active: Told the label, and +1 or -1.
        outcome: Told ``accepted`` or ``rejected`` of each session whose first frame came.
        missed: Told stage and reason where no tunnel here serves what a grant is for.
        budget: What a Proxy may ask.
        times: Of tunnels; a Proxy that falls silent is found as a Connector is.
    """

    routes: RouteTable
    admission: RelayAdmission
    verifier: IChainVerifier
    check_not_revoked: Callable[[Principal], object]
    check_person: Callable[[Principal, bytes, str], object]
    prolonged: ProlongedSessions
    kinds: Mapping[str, ServedKind]
    active: Callable[[str, int], object]
    outcome: Callable[[str], object]
    missed: Callable[[str, str], object]
    budget: Budget
    clock: IReactorTime
    now: Callable[[], float]
    times: TunnelTimes
    spans: Spans = no_span
    _open: dict[str, RelayedSession] = field(factory=dict, init=False)
    _left: set[str] = field(factory=set, init=False)
    _per_proxy: Counter[str] = field(factory=Counter, init=False)
    _live: LiveSessions = field(init=False)
    _is_draining: bool = field(default=False, init=False)
    _over: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self._live = LiveSessions(self.clock)

    def limits(self, limits: WireLimits) -> WireLimits:
        """Those of a connection of another Proxy: all of its sessions share one.

        Its persons are whoever breaks openings off, and none of them may end the others' sessions:
        what the budget lets through may be broken off, too.
        """
        rate, streams = self.budget.buckets.rate, MAX_PER_PROXY + _ENDS
        return evolve(
            limits,
            max_streams=streams,
            held_heads=max(limits.held_heads, streams * KIB),
            resets=int(rate.burst + rate.per_minute / 60 * limits.nuisance_seconds),
        )

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        methods = {"Open": streaming(self._serve), "End": unary(pb.PeerEndRequest, self._end)}
        longest = {"Open": MAX_OPENING, "End": MAX_OPENING}
        return RpcService("gate.v1.Peer", methods, longest=longest)

    def admit(self, method: str, peer: Peer) -> Principal:
        """Refuse every caller but another active Proxy of this cluster, as a call starts (R13).

        Returns:
            The Proxy.

        Raises:
            SvcError: it is none, it was revoked, or it asks too often.
        """
        if not peer.chain:
            raise Unauthenticated("the peer listener requires a Proxy's certificate")
        proxy = self.verifier.verify(peer.chain, _PROXIES).principal
        if proxy.id == self.admission.proxy_id:
            raise Denied("this Proxy does not relay to itself", reason="peer_is_itself")
        self.check_not_revoked(proxy)
        self.budget.spend(node_of(proxy))
        return proxy

    @property
    def open_sessions(self) -> int:
        """How many are open, or being opened."""
        return len(self._open)

    def others(self, uids: tuple[str, ...]) -> tuple[str, ...]:
        """Those that are not from other Proxies, which report them themselves.

        Called with the sessions that a tunnel left as it ended.
        """
        kept = tuple(uid for uid in uids if uid not in self._open and uid not in self._left)
        self._left.difference_update(uids)
        return kept

    def recheck(self) -> None:
        """Revocations may have changed: what may not go on is broken off."""
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
        """The Authority revoked this Proxy: end all sessions."""
        self._end_all(PROXY_REVOKED)

    def _end_all(self, reason: str) -> None:
        self._over = self._over or reason
        self._live.end_all(reason)

    async def _end(self, request: pb.PeerEndRequest, call: IRpcCall) -> pb.PeerEndResponse:
        told = read_peer_end(request)
        session, live = self._open.get(told.session_uid), self._live.get(told.session_uid)
        # Of another Proxy's session it is answered as of one that is over.
        if session is not None and live is not None and session.ingress == call.caller:
            live.break_off(told.reason)
        return pb.PeerEndResponse()

    async def _serve(self, call: IRpcCall) -> None:
        ingress = call.caller  # admitted in this turn
        if not isinstance(ingress, Principal):
            raise Unauthenticated("the peer listener requires a Proxy's certificate")
        self._check_open(ingress)
        call.keep_alive(self.times.keepalive_interval, self.times.keepalive_timeout)
        self._per_proxy[ingress.id] += 1
        try:
            await self._read(call, ingress)
        finally:
            call.on_gone(lambda: self._gone(ingress.id))

    def _check_open(self, ingress: Principal) -> None:
        if self._is_draining or self._over:
            word = self._over or DRAINING
            raise Unavailable(ENDINGS[word], reason=word)
        if self._per_proxy[ingress.id] >= MAX_PER_PROXY:
            raise SvcError(
                f"one Proxy may have {MAX_PER_PROXY} sessions open here",
                reason="too_many_relayed",
                fault=Fault.EXHAUSTED,
            )

    def _gone(self, proxy_id: str) -> None:
        self._per_proxy[proxy_id] -= 1
        if not self._per_proxy[proxy_id]:
            del self._per_proxy[proxy_id]

    async def _read(self, call: IRpcCall, ingress: Principal) -> None:
        """From the first frame on each session has one outcome."""
        data = await read_open(call, self.clock, "peer")
        try:
            session = self.admission.admit(decode_peer_open(data), ingress)
            if session.uid in self._open:
                raise Denied("this session is already open", reason="request_replayed")
        except SvcError as e:
            self._rejected(ingress, "", e)
            raise
        self._open[session.uid] = session
        span = self.spans(_SPAN, {TRACEPARENT: session.opened.traceparent})
        span.note(resource=session.grant.resource, session_uid=session.uid)
        try:
            await self._relayed(call, session, span)
        finally:
            del self._open[session.uid]

    def _rejected(self, ingress: Principal, uid: str, refusal: SvcError) -> None:
        self.outcome("rejected")
        _log.info(
            "a session of another Proxy was not opened",
            proxy=ingress.id,
            session=uid,
            reason=refusal.reason,
            text=refusal.text,
        )

    async def _relayed(self, call: IRpcCall, session: RelayedSession, span: Span) -> None:
        carried = Carried(call, _first_word, clock=self.clock)
        self._live.add(session.uid, self._live_one(session, carried))
        is_open = False
        try:
            tunnel = self._tunnel(session)
            self._check(session)
            await carried.open_through(tunnel, partial(session.order, span.traceparent))
            is_open = True
            self.outcome("accepted")
            span.end()
            await self._passing(session, carried)
        except BaseException as error:
            if not is_open:
                span.end(error)
            if not is_open and isinstance(error, SvcError):
                self._rejected(session.ingress, session.uid, error)
            raise
        finally:
            self._live.remove(session.uid)
            if carried.is_left_behind:
                # Its tunnel's end is told in this turn, and names it.
                self._left.add(session.uid)
                self.clock.callLater(0, self._left.discard, session.uid)

    def _tunnel(self, session: RelayedSession) -> RegisteredTunnel:
        """A tunnel of this Proxy's own: no session goes any further."""
        grant = session.grant
        tunnel = self.routes.find(grant.resource)
        if isinstance(tunnel, Miss):
            self.missed("peer", tunnel.value)
            raise SvcError(
                "no Connector serves this resource through this Proxy",
                reason=tunnel.value,
                fault=MISSES[tunnel.value],
            )
        if tunnel.node_id != grant.connector_id or not tunnel.inventory.holds(grant.assigned):
            raise Denied(ENDINGS[ASSIGNMENT_CHANGED], reason=ASSIGNMENT_CHANGED)
        return tunnel

    async def _passing(self, session: RelayedSession, carried: Carried) -> None:
        grant, label = session.grant, self._label(session)
        ending = GrantEnd(
            clock=self.clock,
            now=self.now,
            end=carried.break_off,
            certificate_end=session.person.not_after,
            is_gated=grant.is_gated,
        )
        ending.hold_until(grant.end_before_ms)
        if grant.is_gated:
            opened = session.opened
            self.prolonged.add(
                session.uid,
                ProlongedSession(
                    grant=opened.grant,
                    request=opened.request,
                    person_chain=opened.person_chain,
                    source_address=opened.source_address,
                    end=ending,
                ),
            )
        self.active(label, 1)
        try:
            await carried.over
        finally:
            self.active(label, -1)
            if grant.is_gated:
                self.prolonged.remove(session.uid)
            ending.stop()

    def _label(self, session: RelayedSession) -> str:
        known = self.kinds.get(session.grant.kind)
        return "other" if known is None else known.protocol

    def _live_one(self, session: RelayedSession, carried: Carried) -> Live:
        return Live(
            check=partial(self._check, session),
            break_off=carried.break_off,
            node_id=session.grant.connector_id,
            check_assigned=partial(self._check_assigned, session),
        )

    def _check(self, session: RelayedSession) -> None:
        """Whether a session may go on, or begin, but for what the policy says.

        Raises:
            Denied: it may not.
        """
        if self._over:
            raise Denied(ENDINGS[self._over], reason=self._over)
        try:
            self.check_not_revoked(session.ingress)
        except Denied:
            raise Denied(ENDINGS[PEER_PROXY_REVOKED], reason=PEER_PROXY_REVOKED) from None
        self.check_person(session.person.principal, session.person.sha256, session.uid)
        self._check_assigned(session)

    def _check_assigned(self, session: RelayedSession) -> None:
        grant = session.grant
        if not self.routes.still_assigned(grant.connector_id, grant.assigned):
            raise Denied(ENDINGS[ASSIGNMENT_CHANGED], reason=ASSIGNMENT_CHANGED)


def _first_word(answer: Signed | None) -> bytes:
    return encode_peer_opened(PeerOpened(answer))

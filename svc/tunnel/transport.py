"""A registered tunnel at its Proxy: it is asked to open sessions, and ends once.

Two invariants live here.  A carry stream is joined only to the open notice
that this very connection was sent, by that notice's secret, once (rule R2);
and a tunnel ends with exactly one reason, the first, which tells the sessions
it still carried.  One that handed over to another connection of the same
process has ended too, but its sessions go on: they end by themselves.

It knows no RPC: what travels is handed to ``send``, and whoever serves
``Tunnel/Register`` and ``Tunnel/Carry`` calls in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from hmac import compare_digest
from typing import Protocol, cast

from attrs import define, field, frozen
from twisted.internet.address import HostnameAddress
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import (
    IDelayedCall,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from zope.interface import implementer

from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.transport import ICarriedSession, ITunnelTransport, OpenOrder
from svc.messages.tunnel import SECRET_BYTES, Down, DrainNotice, LaneOffer, OpenNotice
from svc.model.cluster.registration import NO_INVENTORY, Inventory
from svc.model.ids import Entropy
from svc.model.session.ending import BROKEN
from svc.model.session.tunnels import EndReason
from svc.tunnel.refusals import received_refusal
from svc.tunnel.times import TunnelTimes, end_reason

TUNNEL_WORD = "tunnel_"
"""Before the reason of a tunnel's end: the word of a session that ended with it."""

CARRY_REFUSED = "carry_refused"
"""The word to a stream that no open session waits for."""

MAX_PENDING_OPENS = 256
"""Open notices a tunnel may have unanswered; the next order is refused."""

MAX_UNASSIGNED_STREAMS = MAX_PENDING_OPENS
"""Carry streams that have not said which session they are for: no more could be asked for."""

Attach = Callable[[IProtocol], Awaitable[object]]
"""Connects a protocol to a carry stream at once, and waits until that stream is over."""


class TunnelEndListener(Protocol):
    """Who hears that a tunnel is over: called once, after nothing is left of it."""

    def __call__(
        self, tunnel: RegisteredTunnel, reason: EndReason, seconds: float, sessions: tuple[str, ...]
    ) -> None:
        """*sessions* are those it still carried."""


@define
class _Pending:
    """An order whose carry stream has not come."""

    secret: bytes = field(repr=False)
    factory: IProtocolFactory
    opened: Deferred[IProtocol]
    too_late: IDelayedCall


class TunnelLease:
    """Runs from the start on.

    Args:
        clock: Where it is measured.
        seconds: How long it holds after the start and after each renewal.
        expired: Called once, if it runs out.
    """

    def __init__(self, clock: IReactorTime, seconds: float, expired: Callable[[], object]) -> None:
        self._seconds = seconds
        self._running = clock.callLater(seconds, expired)

    def renew(self) -> None:
        """Begin it again.  An ended lease stays ended."""
        if self._running.active():
            self._running.reset(self._seconds)

    def stop(self) -> None:
        """End it without a word.  Idempotent."""
        if self._running.active():
            self._running.cancel()


@implementer(ITunnelTransport)
class RegisteredTunnel:
    """One accepted registration.

    Args:
        node_id: Of the Connector, from its certificate.
        instance_id: Of the Connector's process.
        generation: Of the registration that was accepted.
        resources: Ids it serves, each once: what Authority answered, not what was declared.
        connection: What stands for the connection; compared by identity only.
        clock: For the lease, the open deadline and how long it lasted.
        entropy: For the one-use secrets.
        send: Queues one message for the Connector; never raises, never blocks.
            At most :data:`MAX_PENDING_OPENS` notices are unanswered at a time.
        hang_up: Ends the ``Register`` call (and so its connection) for this
            reason; never raises; called once.
        takes_lanes: Its sessions may move to a direct lane.
        takes_first_flight: A notice may hold what the person's end says first.
        inventory: By which assignments it serves them.
    """

    def __init__(
        self,
        node_id: str,
        instance_id: str,
        generation: int,
        resources: Collection[str],
        *,
        connection: object,
        clock: IReactorTime,
        entropy: Entropy,
        send: Callable[[Down], None],
        hang_up: Callable[[EndReason], None],
        times: TunnelTimes = TunnelTimes(),  # noqa: B008 - a frozen value
        takes_lanes: bool = False,
        takes_first_flight: bool = False,
        inventory: Inventory = NO_INVENTORY,
    ) -> None:
        self.node_id = node_id
        self.takes_lanes = takes_lanes
        self.takes_first_flight = takes_first_flight
        self.instance_id = instance_id
        self.generation = generation
        self.resources = resources
        self.inventory = inventory
        self.connection = connection
        self._clock = clock
        self._entropy = entropy
        self._send = send
        self._hang_up = hang_up
        self._times = times
        self._since = clock.seconds()
        self._pending: dict[str, _Pending] = {}
        self._carried: dict[str, IProtocol] = {}
        self._unassigned_streams = 0
        self._over = False
        self._draining = False
        self._hung_up = False
        self._left: Callable[[RegisteredTunnel], None] | None = None
        self._ended: TunnelEndListener | None = None
        self._lease: TunnelLease | None = None

    def start(self, ended: TunnelEndListener) -> None:
        """Begin the lease.  Called by the route table, which hears of the end."""
        self._ended = ended
        self._since = self._clock.seconds()
        self._lease = TunnelLease(self._clock, self._times.lease, self._lease_expired)

    def _lease_expired(self) -> None:
        self.close(EndReason.LEASE_EXPIRED)

    @property
    def sessions(self) -> frozenset[str]:
        """Uids of the sessions carried now."""
        return frozenset(self._carried)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, though sessions may live on after a handover."""
        return self._over

    @property
    def open_for_sessions(self) -> bool:
        """Whether a new order makes sense: neither ended nor draining."""
        return not (self._over or self._draining)

    def renew(self) -> None:
        """The Connector renewed its lease.  Called by the ``Register`` call."""
        if self._lease is not None:
            self._lease.renew()

    @contextmanager
    def unassigned_stream(self) -> Iterator[None]:
        """A carry stream that has not said which session it is for.  Called by ``Carry``.

        Raises:
            SvcError: ``too_many_carries``: nobody asked for so many.
        """
        if self._unassigned_streams >= MAX_UNASSIGNED_STREAMS:
            raise SvcError(
                "too many streams of one tunnel are for no session",
                reason="too_many_carries",
                fault=Fault.EXHAUSTED,
            )
        self._unassigned_streams += 1
        try:
            yield
        finally:
            self._unassigned_streams -= 1

    def drain(self) -> None:
        """Take no more orders and tell the Connector; what is open may finish."""
        if self.open_for_sessions:
            self._draining = True
            self._send(DrainNotice())

    def endpoint(self, order: OpenOrder) -> IStreamClientEndpoint:
        return _SessionEndpoint(self, order)

    def connect(self, order: OpenOrder, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Send the notice and wait for its carry stream.  Called by the endpoint."""
        refusal = self._why_not(order.session_uid)
        if refusal is not None:
            return fail(refusal)
        uid, secret = order.session_uid, self._entropy(SECRET_BYTES)
        opened: Deferred[IProtocol] = Deferred(lambda _: self._cancel(uid))
        too_late = self._clock.callLater(self._times.open, self._expire, uid)
        self._pending[uid] = _Pending(
            secret=secret, factory=factory, opened=opened, too_late=too_late
        )
        self._send(
            OpenNotice(
                session_uid=uid,
                grant=order.grant,
                request=order.request,
                signature=order.signature,
                person_chain=order.person_chain,
                secret=secret,
                traceparent=order.traceparent,
                first_flight=order.first_flight,
            )
        )
        return opened

    def offer_lane(self, session_uid: str, token: bytes) -> None:
        """Tell the Connector that a session it carries may move; it need not answer.

        Called only where :attr:`takes_lanes`, at most once a session.
        """
        self._send(LaneOffer(session_uid, token))

    def lost_word(self, lost: SvcError) -> str:
        """The word of a session's end whose stream broke so: by itself, or with the connection."""
        if lost.fault is not Fault.UNAVAILABLE:
            return BROKEN
        return TUNNEL_WORD + end_reason(lost.reason).value

    def refused(self, session_uid: str, word: str) -> None:
        """The Connector does not open this session.

        A uid nobody waits for is ignored: its order was cancelled or ran out
        while the answer travelled.
        """
        pending = self._forget(session_uid)
        if pending is not None:
            pending.opened.errback(received_refusal(word))

    async def carry(self, session_uid: str, secret: bytes, attach: Attach) -> None:
        """Join a carry stream to its order; returns when the stream is over.

        Called by whoever serves ``Tunnel/Carry``, for the tunnel of the very
        connection the stream came on.

        Raises:
            SvcError: ``carry_refused``, one text for every cause; nothing was attached.
        """
        pending = self._pending.get(session_uid)
        expected = pending.secret if pending is not None else bytes(SECRET_BYTES)
        if not compare_digest(secret, expected) or pending is None:
            raise SvcError(
                "no open session waits for this stream", reason=CARRY_REFUSED, fault=Fault.DENIED
            )
        self._forget(session_uid)
        protocol = pending.factory.buildProtocol(HostnameAddress(b"session", 0))
        if protocol is None:
            pending.opened.errback(Unavailable("the session was cancelled", reason="cancelled"))
            return
        self._carried[session_uid] = protocol
        try:
            over = attach(protocol)
        except BaseException:
            del self._carried[session_uid]
            pending.opened.errback(
                Unavailable("the session's stream broke at once", reason="carry_broken")
            )
            raise
        pending.opened.callback(protocol)
        await self._until(session_uid, over)

    def close(self, reason: EndReason) -> None:
        """See :class:`ITunnelTransport`; one that handed over only forgets its open orders."""
        if self._over:
            self._fail_pending()
            return
        self._over = True
        if self._lease is not None:
            self._lease.stop()
        sessions = self._abort_carried(reason)
        self._fail_pending()
        if self._ended is not None:
            self._ended(self, reason, self._clock.seconds() - self._since, sessions)
        self._hang_up_once(reason)

    def hand_over(self, left: Callable[[RegisteredTunnel], None]) -> None:
        """End as superseded by another connection of the same process.

        Called by the route table, once.  It takes no more orders; those sent
        may still be answered, and what it carries goes on.

        Args:
            left: Called when nothing is left of it, maybe at once.
        """
        self._over, self._left = True, left
        if self._lease is not None:
            self._lease.stop()
        if self._ended is not None:
            self._ended(self, EndReason.SUPERSEDED, self._clock.seconds() - self._since, ())
        self._answered()

    def abandon(self, reason: EndReason) -> tuple[str, ...]:
        """Break off what lives on after a handover; the uids of those sessions."""
        sessions = self._abort_carried(reason)
        self._fail_pending()
        return sessions

    def _abort_carried(self, reason: EndReason) -> tuple[str, ...]:
        carried, self._carried = self._carried, {}
        for protocol in carried.values():
            _abort(protocol, reason)
        return tuple(carried)

    def _fail_pending(self) -> None:
        for uid in list(self._pending):
            pending = self._forget(uid)
            if pending is not None:
                pending.opened.errback(
                    Unavailable("the tunnel ended before it opened", reason="tunnel_ended")
                )

    def _answered(self) -> None:
        """After a handover the call is hung up once no order is open, and forgotten when idle."""
        if self._left is None or self._pending:
            return
        self._hang_up_once(EndReason.SUPERSEDED)
        if not self._carried:
            left, self._left = self._left, None
            left(self)

    def _hang_up_once(self, reason: EndReason) -> None:
        if not self._hung_up:
            self._hung_up = True
            self._hang_up(reason)

    def _why_not(self, uid: str) -> SvcError | None:
        if not self.open_for_sessions:
            return Unavailable("the tunnel is ending", reason="tunnel_ended")
        if uid in self._pending or uid in self._carried:
            return SvcError(
                "this session is open already", reason="duplicate_session", fault=Fault.EXISTS
            )
        if len(self._pending) >= MAX_PENDING_OPENS:
            return SvcError(
                "too many sessions are being opened through one Connector",
                reason="too_many_opens",
                fault=Fault.EXHAUSTED,
            )
        return None

    async def _until(self, uid: str, over: Awaitable[object]) -> None:
        """Wait for the end of a stream, and only then carry its session no more.

        A dying connection breaks its streams before anybody says that the
        tunnel ended, and these sessions belong into its departure notice: so
        a session is dropped one turn after its stream.
        """
        try:
            await over
        finally:
            self._clock.callLater(0, self._drop, uid)

    def _drop(self, uid: str) -> None:
        self._carried.pop(uid, None)
        self._answered()

    def _expire(self, uid: str) -> None:
        pending = self._pending.pop(uid)
        if self._left is not None:
            self._clock.callLater(0, self._answered)
        pending.opened.errback(
            SvcError(
                "the Connector did not open the session in time",
                reason="open_deadline",
                fault=Fault.DEADLINE,
            )
        )

    def _cancel(self, uid: str) -> None:
        self._forget(uid)

    def _forget(self, uid: str) -> _Pending | None:
        pending = self._pending.pop(uid, None)
        if pending is not None and pending.too_late.active():
            pending.too_late.cancel()
        if pending is not None and self._left is not None:
            self._clock.callLater(0, self._answered)
        return pending


@implementer(IStreamClientEndpoint)
@frozen
class _SessionEndpoint:
    """Where one order is reached, through one tunnel."""

    tunnel: RegisteredTunnel
    order: OpenOrder

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Open the session; see :meth:`ITunnelTransport.endpoint`."""
        return self.tunnel.connect(self.order, factory)


def _abort(protocol: IProtocol, reason: EndReason) -> None:
    if ICarriedSession.providedBy(protocol):
        cast(ICarriedSession, protocol).tunnel_ended(reason)
        return
    transport = getattr(protocol, "transport", None)
    if transport is not None:
        transport.abortConnection()

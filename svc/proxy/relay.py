"""``Relay/Open``: relays opaque bytes from the public listener to one Authority listener.

What is inside is TLS between the caller and Authority; the Proxy adds nothing
and learns nothing (rules R5, R18).  Each lane leads to the one listener that
serves only that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from svc.errors import Fault, SvcError, Unauthenticated
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall, Peer
from svc.lanes.relay import Relay, RelaySide
from svc.messages.control import AuthorityGreeting
from svc.messages.relay import Lane, decode_relay_open
from svc.model.principal import NODE_ROLES, Principal
from svc.proxy.anonymous import AnonymousCalls
from svc.ratelimit.places import Places
from svc.ratelimit.source import source_of
from svc.rpc.first_frame import read_open
from svc.rpc.frames import open_frame
from svc.rpc.stream import StreamTransport
from svc.runtime.dial_failure import dial_failure
from svc.runtime.services import bounded

_log = Logger(namespace="svc_proxy")

OPEN_NAME = "Relay/Open"
_DIAL_SECS = 10.0


@frozen
class LaneTerms:
    """What connections of one lane may take.

    Attributes:
        label: Of its metrics.
        secs: How long one may stay open.
        least_secs: One opened so recently is not ended for somebody else.
    """

    label: str
    secs: float
    least_secs: float


_TERMS = {
    # A joiner has one thing to say, and joining takes less than three seconds.  Joins are counted
    # under the renewal lane's label (D10).
    Lane.JOIN: LaneTerms("renewal", 30.0, 3.0),
    Lane.RENEWAL: LaneTerms("renewal", 60.0, 3.0),
    # Most commands take less than a second, but one may go through a log of millions of records
    # (`users forget-name --records`) or follow it.  After an hour a command that follows is asked
    # again with a certificate that was checked again here.
    Lane.ADMIN: LaneTerms("admin", 3600.0, 60.0),
}


class LaneFull(SvcError):
    """All places of a lane are in use, or the caller's share of them."""

    fault = Fault.EXHAUSTED
    reason = "lane_full"


@define
class LaneMeters:
    """What lanes move.

    Attributes:
        outcome: Lane label and ``open``, ``refused``, ``dial_failed`` or ``unconfigured``.
        active: Lane label, and +1 or -1.
    """

    outcome: Callable[[str, str], object]
    active: Callable[[str, int], object]

    @contextmanager
    def open(self, label: str) -> Iterator[None]:
        """One connection that is open: the gauge comes down however it ends."""
        self.outcome(label, "open")
        self.active(label, 1)
        try:
            yield
        finally:
            self.active(label, -1)


@define
class RelayLanes:
    """Serves ``Relay/Open``.

    Attributes:
        lanes: What Authority said of itself at the last greeting, or None.
        endpoint: Makes the endpoint of an Authority port.
        limit: How many connections of each lane may be open at once.  Where all are taken, the
            oldest of whoever holds the most is ended for somebody else.
        share: How many of them one node, or one address without a certificate, may hold.
        anonymous: Charged for who joins with a certificate in hand: joining proves nothing by
            it, and a certificate must not buy more joins than none does.
        check_not_revoked: Raises Denied for a node that the newest snapshot revokes.
        admit_administrator: Who may open the admin lane; raises SvcError for everybody else.
    """

    lanes: Callable[[], AuthorityGreeting | None]
    endpoint: Callable[[int], IStreamClientEndpoint]
    verifier: IChainVerifier
    meters: LaneMeters
    clock: IReactorTime
    anonymous: AnonymousCalls
    check_not_revoked: Callable[[Principal], object]
    admit_administrator: Callable[[Peer], Principal]
    limit: int = 64
    share: int = 8
    places: dict[Lane, Places] = field(init=False)

    @places.default
    def _all_free(self) -> dict[Lane, Places]:
        return {
            lane: Places(self.limit, self.share, terms.least_secs) for lane, terms in _TERMS.items()
        }

    async def open(self, call: IRpcCall) -> None:
        """Serve one relayed connection."""
        lane = decode_relay_open(await read_open(call, self.clock, "relay"))
        label = _TERMS[lane].label
        try:
            holder = self._known(lane, call.peer)
        except SvcError:
            self.meters.outcome(label, "refused")
            raise
        port = self._port(lane, label)
        await self._in_place(call, lane, label, port, holder)

    async def _in_place(
        self, call: IRpcCall, lane: Lane, label: str, port: int, holder: str
    ) -> None:
        """Serve it in one of the lane's places, which may be given up for somebody else."""
        places, place = self.places[lane], _Place()
        if not places.take(place, holder, place.give_up, self.clock.seconds()):
            self.meters.outcome(label, "refused")
            raise LaneFull("too many connections of this lane are open; try again")
        try:
            await self._relay(call, lane, label, port, place)
        finally:
            places.leave(place, holder)
            place.ended.addErrback(lambda _: None)  # given up before anybody waited for it

    def _known(self, lane: Lane, peer: Peer) -> str:
        """Whose place it takes; raises SvcError for whoever may not open this lane."""
        if lane is Lane.ADMIN:
            return self.admit_administrator(peer).id
        if lane is Lane.JOIN:
            if peer.chain:
                self.anonymous.charge(OPEN_NAME, peer.host)
            return source_of(peer.host)
        if not peer.chain:
            raise Unauthenticated("this lane requires a node's certificate")
        principal = self.verifier.verify(peer.chain, NODE_ROLES).principal
        self.check_not_revoked(principal)
        return principal.id

    def _port(self, lane: Lane, label: str) -> int:
        lanes = self.lanes()
        port = 0 if lanes is None else _port_of(lanes, lane)
        if port:
            return port
        self.meters.outcome(label, "unconfigured")
        if lanes is not None and lane is Lane.ADMIN:
            raise SvcError(
                "the Authority serves no administrators from elsewhere: endpoints.admin_listen is "
                "empty in its configuration, or it is of an earlier version",
                reason="admin_lane_off",
                fault=Fault.PRECONDITION,
            )
        raise SvcError(
            "no Authority is serving this lane; try again",
            reason="authority_unreachable",
            fault=Fault.UNAVAILABLE,
        )

    async def _relay(
        self, call: IRpcCall, lane: Lane, label: str, port: int, place: _Place
    ) -> None:
        relay = Relay()
        try:
            place.dialing = self.endpoint(port).connect(_Given(relay.right))
            await bounded(self.clock, _DIAL_SECS, place.dialing, "Authority")
        except CancelledError:
            await self._check_given_up(place, label)
            # The caller went away; nobody is left to be refused.
            raise
        except Exception as e:
            # A dial that is cancelled may end as one that failed.
            await self._check_given_up(place, label)
            _log.warn("a lane did not reach Authority", lane=lane.value, error=dial_failure(e))
            self.meters.outcome(label, "dial_failed")
            raise SvcError(
                "Authority cannot be reached from this Proxy; try again",
                reason="authority_unreachable",
                fault=Fault.UNAVAILABLE,
            ) from None
        try:
            with self.meters.open(label):
                await call.send(open_frame(b""))
                transport = StreamTransport(call)  # type: ignore[arg-type]
                transport.start(relay.left)

                transport.closed.addBoth(place.closed)
                await bounded(self.clock, _TERMS[lane].secs, place.ended, "lane")
        except LaneFull:
            # The caller is told by the call's own status, which an abort would cut off.
            relay.right.out.abortConnection()
            raise
        except BaseException:
            relay.abort()
            raise
        relay.abort()

    async def _check_given_up(self, place: _Place, label: str) -> None:
        """Raises LaneFull where the place was given up before Authority was reached."""
        if place.ended.called:
            self.meters.outcome(label, "refused")
            await place.ended


def _port_of(lanes: AuthorityGreeting, lane: Lane) -> int:
    """Of Authority's listener that serves only this lane; 0: it has none."""
    return {
        Lane.JOIN: lanes.join_port,
        Lane.RENEWAL: lanes.renewal_port,
        Lane.ADMIN: lanes.admin_port,
    }[lane]


@define(eq=False)
class _Place:
    """One connection of a lane.

    Attributes:
        ended: Fires when it was closed; fails with LaneFull when it is given up.
        dialing: The way to Authority, while it is being opened.
    """

    ended: Deferred[None] = field(factory=Deferred)
    dialing: Deferred[Any] | None = None

    def give_up(self) -> None:
        """Give the place up for another caller."""
        if not self.ended.called:
            self.ended.errback(LaneFull("the place was given to another caller; try again"))
        if self.dialing is not None:
            self.dialing.cancel()

    def closed(self, _result: object) -> None:
        """Either end has closed it."""
        if not self.ended.called:
            self.ended.callback(None)


class _Given(Factory):
    """Connects one side of a relay."""

    noisy = False

    def __init__(self, side: RelaySide) -> None:
        self._side = side

    def buildProtocol(self, addr: object) -> RelaySide:
        """The side."""
        return self._side

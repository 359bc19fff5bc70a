"""The way to a Connector through another Proxy, as its sessions know it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, frozen
from twisted.internet.address import HostnameAddress
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Denied, Malformed, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.interfaces.transport import OpenOrder
from svc.messages.peer import (
    PEER_END_METHOD,
    PEER_OPEN_METHOD,
    PeerEnd,
    PeerOpen,
    decode_peer_opened,
    encode_peer_open,
    peer_end_message,
)
from svc.model.principal import Role
from svc.model.session.ending import (
    BROKEN,
    CANCELLED,
    ENDINGS,
    PEER_PROXY_LOST,
    PEER_PROXY_REVOKED,
)
from svc.model.session.tunnels import EndReason
from svc.model.signing import Signed
from svc.proto.gate.v1 import peer_pb2 as pb
from svc.proxy.peers.links import PeerLinks
from svc.proxy.peers.words import believed_ending, believed_refusal
from svc.rpc.client.channel import ClientStream
from svc.rpc.frames import FrameKind, open_frame, parse_frame
from svc.runtime.services import BackgroundTasks, bounded
from svc.tunnel.transport import TUNNEL_WORD

_log = Logger(namespace="svc_proxy")

END_SECS = 2.0
"""How long the other Proxy may take to hear why a session ends here."""

_CONNECTOR_REVOKED = TUNNEL_WORD + EndReason.EVICTED.value


@define
class PeerRoutes:
    """Makes the ways to Connectors of other Proxies.

    Attributes:
        links: The connections to other Proxies.
        open_secs: From the order to its answer.
        outcome: Told ``accepted`` or ``rejected`` of each session that was to be relayed.
        check_not_revoked: Raises Denied for a Proxy or Connector, by its id, that the newest
            snapshot revokes.
    """

    links: PeerLinks
    tasks: BackgroundTasks
    clock: IReactorTime
    open_secs: float
    outcome: Callable[[str], object]
    check_not_revoked: Callable[[Role, str], object]

    def route(
        self, proxy_id: str, address: str, source_address: str, check: Callable[[], object]
    ) -> PeerRoute:
        """See :class:`svc.proxy.sessions.route.OtherProxies`."""
        return PeerRoute(
            routes=self,
            proxy_id=proxy_id,
            address=address,
            source_address=source_address,
            check=check,
        )

    def check(self, proxy_id: str, connector_id: str) -> None:
        """See :class:`svc.proxy.sessions.route.OtherProxies`."""
        self._check(Role.PROXY, proxy_id, PEER_PROXY_REVOKED)
        self._check(Role.CONNECTOR, connector_id, _CONNECTOR_REVOKED)

    def _check(self, role: Role, node_id: str, word: str) -> None:
        try:
            self.check_not_revoked(role, node_id)
        except Denied:
            raise Denied(ENDINGS[word], reason=word) from None


@define(eq=False)
class PeerRoute:
    """See the module; a :class:`svc.proxy.sessions.route.SessionRoute`."""

    _routes: PeerRoutes
    _proxy_id: str
    _address: str
    _source_address: str
    _check: Callable[[], object]

    takes_lanes = False
    takes_first_flight = False
    open_for_sessions = True

    def endpoint(self, order: OpenOrder) -> IStreamClientEndpoint:
        """Where the session of this order is reached; good for one connect."""
        return _PeerEndpoint(self, order)

    def offer_lane(self, session_uid: str, token: bytes) -> None:
        """Never called: it takes no lanes."""

    def lost_word(self, lost: SvcError) -> str:
        """How a session ends whose stream the other Proxy ended so."""
        return believed_ending(lost.reason, self._check)

    async def connect(self, order: OpenOrder, factory: IProtocolFactory) -> IProtocol:
        """Open the session at the other Proxy, and join it to the protocol.

        Raises:
            SvcError: in words of ours, whatever the other one said.
        """
        routes = self._routes
        try:
            channel, stream, answer = await self._opened(order)
        except CancelledError:
            raise
        except SvcError as e:
            routes.outcome("rejected")
            _log.info(
                "a session was not relayed",
                session=order.session_uid,
                proxy=self._proxy_id,
                reason=e.reason,
                text=e.text,
            )
            raise believed_refusal(e, self._check) from None
        routes.outcome("accepted")
        # What breaks here is told there first, and then the stream is reset.
        stream.breaks_with_relay = False
        try:
            protocol: Any = factory.buildProtocol(HostnameAddress(b"session", 0))
            over: Deferred[object] = protocol.carried_by(stream, answer)
        except BaseException:
            stream.cancel()
            raise
        broken = partial(self._broken, channel, stream, order.session_uid)
        over.addCallbacks(lambda _: stream.cancel(), broken)
        return protocol  # type: ignore[no-any-return]

    async def _opened(self, order: OpenOrder) -> tuple[IRpcChannel, ClientStream, Signed | None]:
        routes = self._routes
        channel = await routes.links.channel(self._proxy_id, self._address)
        stream: Any = channel.stream(PEER_OPEN_METHOD)
        try:
            await stream.send(open_frame(encode_peer_open(self._message(order))))
            answering = stream.receive()
            data = await bounded(routes.clock, routes.open_secs, answering, "the other Proxy")
            if data is None:
                raise Unavailable("the other Proxy ended the call", reason=PEER_PROXY_LOST)
            kind, payload = parse_frame(data)
            if kind is not FrameKind.OPEN:
                raise Malformed("peer: the first frame is not an open frame")
            return channel, stream, decode_peer_opened(bytes(payload)).answer
        except BaseException:
            stream.cancel()
            raise

    def _message(self, order: OpenOrder) -> PeerOpen:
        return PeerOpen(
            grant=order.grant,
            request=order.request,
            signature=order.signature,
            person_chain=order.person_chain,
            source_address=self._source_address,
            traceparent=order.traceparent,
        )

    def _broken(
        self, channel: IRpcChannel, stream: ClientStream, session_uid: str, failure: Failure
    ) -> None:
        reason = getattr(failure.value, "reason", BROKEN)
        if stream.outcome is not None or reason == CANCELLED:
            stream.cancel()
            return
        self._routes.tasks.spawn(
            "end of a relayed session", self._tell(channel, stream, session_uid, reason)
        )

    async def _tell(
        self, channel: IRpcChannel, stream: ClientStream, session_uid: str, reason: str
    ) -> None:
        """Say why, wait until it was heard, and only then let go of the stream."""
        message = peer_end_message(PeerEnd(session_uid, reason))
        try:
            await channel.unary(PEER_END_METHOD, message, pb.PeerEndResponse, timeout=END_SECS)
        except SvcError as e:
            _log.debug("the other Proxy was not told of an end", reason=e.reason)
        finally:
            stream.cancel()


@implementer(IStreamClientEndpoint)
@frozen
class _PeerEndpoint:
    """Where one order is reached, through another Proxy."""

    route: PeerRoute
    order: OpenOrder

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Open the session; see :meth:`PeerRoute.connect`."""
        return Deferred.fromCoroutine(self.route.connect(self.order, factory))

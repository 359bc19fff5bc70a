"""A direct lane as a Connector takes it: from the session's own Proxy, once."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.interfaces.rpc import Peer
from svc.lanes.preface import Preface, Side
from svc.messages.tunnel import LaneOffer
from tests.connector.test_through_proxy import _JoiningGateway

TOKEN = b"t" * 32
PEER = Peer("192.0.2.1", 443)


@frozen
class From:
    """A tunnel of some Proxy."""

    proxy_id: str
    peer: Peer


class LaneOfferTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gateway = _JoiningGateway()
        self.gateway.start()
        self.addCleanup(self.gateway.stop)
        [self.person] = self.gateway.open_through()
        self.dialed: list[Peer] = []
        self.factories: list[Any] = []
        self.gateway.connector_sessions.lane_to = self.lane_to
        [self.uid] = self.gateway.connector_sessions.sessions
        self.proxy = self.gateway.cluster.proxy_id

    def lane_to(self, peer: Peer) -> Any:
        self.dialed.append(peer)
        return self

    def connect(self, factory: Any) -> Deferred[Any]:
        self.factories.append(factory)
        return Deferred()

    def offer(self, uid: str, proxy_id: str) -> None:
        link: Any = From(proxy_id, PEER)
        moving = self.gateway.connector_sessions.move(LaneOffer(uid, TOKEN), link)
        Deferred.fromCoroutine(moving).addErrback(lambda _: None)

    def test_its_own_proxy_once(self) -> None:
        """Another Proxy, one that names no session of ours, and a second offer dial nothing."""
        self.offer(self.uid, "another-proxy")
        self.offer("f" * 32, self.proxy)
        self.assertEqual(self.dialed, [])
        self.offer(self.uid, self.proxy)
        self.offer(self.uid, self.proxy)
        self.assertEqual(self.dialed, [PEER])
        half = self.factories[0].buildProtocol(None)
        self.assertEqual(half._preface, Preface(Side.CONNECTOR, TOKEN))
        self.gateway.clock.advance(10)

    def test_off(self) -> None:
        """A Connector that takes no lanes dials for none."""
        self.gateway.connector_sessions.lane_to = None
        self.offer(self.uid, self.proxy)
        self.assertEqual(self.dialed, [])

    def test_a_session_that_is_over(self) -> None:
        """An offer for what has ended is let pass."""
        self.person.transport.abortConnection()
        self.gateway.turn()
        self.offer(self.uid, self.proxy)
        self.assertEqual(self.dialed, [])

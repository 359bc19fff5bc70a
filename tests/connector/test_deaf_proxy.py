"""A Proxy that asks and reads nothing, or asks for too much at once: neither is unbounded."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.connector import leg
from svc.connector.opening import MAX_UNDER_WAY
from svc.messages.tunnel import Nonce, OpenRefused
from svc.model.ids import random_id
from tests.connector.gateway import GatewayCase


class DeafTests(GatewayCase):
    """What a Connector owes a Proxy that does not read."""

    def setUp(self) -> None:
        async def read(call: Any, tunnel: Any) -> None:
            """Nothing, ever: but HTTP/2 goes on, and so do the Proxy's own messages."""

        self.gateway = self.started(_read=read)
        self.client = self.gateway.pairs[0].client

    @property
    def queued(self) -> int:
        """Bytes that wait for the Proxy on all streams."""
        return sum(stream.queued for stream in self.client.wire.streams.values())

    def test_refusals_do_not_pile_up(self) -> None:
        """Refused again and again, a Proxy that does not read loses its registration."""
        notice = self.gateway.cluster.notice(proxy_id="q" * 26)
        wire = self.client.wire
        limit = wire.limits.send_queue // 8
        for stream in wire.streams.values():
            stream.queue_limit = limit
        most, sent = 0, 0
        while self.gateway.told == [("registered", "")]:
            for _ in range(100):
                self.gateway.calls[0].put(notice)
            sent += 100
            self.gateway.turn()
            most = max(most, self.queued)
            self.assertLess(sent, 20_000, "it is still listened to")
        self.assertEqual(
            self.gateway.told[1:],
            [("ended", "proxy_reads_nothing"), ("reconnect", "proxy_reads_nothing")],
        )
        self.assertLess(most, limit + leg.MAX_UNSENT * 1024)

    def test_registrations_do_not_pile_up(self) -> None:
        """Nor are registrations signed for ever for a Proxy that only sends nonces."""
        sent = 0
        while self.gateway.told == [("registered", "")]:
            for number in range(20):
                self.gateway.calls[0].put(Nonce(number.to_bytes(32, "big")))
            sent += 20
            self.gateway.turn()
            self.assertLess(sent, 5000, "it is still listened to")
        self.assertIn(("ended", "proxy_reads_nothing"), self.gateway.told)
        self.assertEqual(self.queued, 0)

    def test_slow_is_not_deaf(self) -> None:
        """A Proxy that reads late hears every refusal."""
        self.gateway = self.started()
        client, notice = (
            self.gateway.pairs[0].client,
            self.gateway.cluster.notice(proxy_id="q" * 26),
        )
        client.pauseProducing()
        for _ in range(200):
            self.gateway.calls[0].put(notice)
        self.gateway.turn()
        client.resumeProducing()
        self.gateway.turn()
        heard = [one for one in self.gateway.heard if isinstance(one, OpenRefused)]
        self.assertEqual(len(heard), 200)
        self.assertEqual(self.gateway.told, [("registered", "")])


class UnderWayTests(GatewayCase):
    """How many sessions of one Proxy are on their way at once."""

    def ask(self, count: int) -> None:
        cluster, entropy = self.gateway.cluster, self.gateway.cluster.world.entropy
        for _ in range(count):
            uid = random_id(entropy)
            notice = cluster.notice({"session_uid": uid}, session_uid=uid)
            self.gateway.calls[0].put(evolve(notice, session_uid=uid))
            self.gateway.turn(1)

    def test_past_the_limit(self) -> None:
        """The next is refused, and dials nothing; those on their way end, and there is room."""
        self.gateway.kind.answers = "never"
        self.ask(MAX_UNDER_WAY)
        self.gateway.turn()
        self.assertEqual((len(self.gateway.kind.dialing), self.refusals()), (MAX_UNDER_WAY, []))
        self.ask(1)
        self.gateway.turn()
        self.assertEqual(len(self.gateway.kind.dialing), MAX_UNDER_WAY)
        self.assertEqual(self.refusals(), ["too_many_sessions"])
        self.gateway.advance(self.gateway.tunnels.times.reach_target)
        self.assertEqual(set(self.refusals()[1:]), {"target_deadline"})
        self.gateway.kind.answers = "yes"
        person, _target = self.opened()
        self.assertIsNotNone(person)

    def test_open_ones_do_not_count(self) -> None:
        """A session that is open is no longer on its way, nor is one that was refused."""
        self.opened()
        self.assertEqual(self.gateway.connector_sessions.under_way, 0)
        self.gateway.open(self.gateway.cluster.notice(proxy_id="q" * 26))
        self.assertEqual(self.gateway.connector_sessions.under_way, 0)

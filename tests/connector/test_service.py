"""The Connector's service: it dials for ever, and stops in order."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.service import ConnectorService
from svc.connector.session_events import SessionEnded
from svc.errors import Unavailable
from svc.messages.tunnel import Goodbye, Nonce, decode_registration
from svc.model.cluster.registration import AcceptedRegistration, Inventory
from svc.model.cluster.resource import Assigned
from svc.model.signing import Signed
from svc.runtime.backoff import Backoff
from svc.tunnel.times import TunnelTimes
from tests.connector.gateway import Gateway
from tests.support.proof import proves


class ServiceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gateway = Gateway()
        self.ready: list[int] = []
        self.service = self.made()

    def made(self, times: TunnelTimes = TunnelTimes()) -> ConnectorService:  # noqa: B008 - frozen
        """A service over the gateway's one tunnel."""
        gateway = self.gateway
        return ConnectorService(
            tunnels=[gateway.tunnels],
            sessions=gateway.connector_sessions,
            clock=gateway.clock,
            backoff=lambda: Backoff(first=1.0, longest=60.0),
            on_event=lambda *event: gateway.told.append(event),
            serving=lambda: self.ready.append(len(gateway.heard)),
            times=times,
        )

    def start(self) -> None:
        self.successResultOf(self.service.startService())
        self.gateway.turn()

    def stop(self) -> Deferred[None]:
        stopped = self.service.stopService()
        self.gateway.turn()
        return stopped

    def test_ready_before_it_dials(self) -> None:
        """The role is ready right before its first dial, whatever becomes of that."""
        self.start()
        self.assertEqual(self.ready, [0])
        self.assertEqual(len(self.gateway.routes), 1)
        self.successResultOf(self.stop())

    def test_told_what_to_serve(self) -> None:
        """A registration names the inventory that this Proxy told last; the first names none."""
        self.start()
        say = self.gateway.calls[-1].put
        say(AcceptedRegistration(90, (), Inventory(7, frozenset({Assigned("db1", "i", 2)}))))
        say(Nonce(bytes(32)))
        self.gateway.turn()
        named = [
            decode_registration(one.payload).inventory_generation
            for one in self.gateway.heard
            if isinstance(one, Signed)
        ]
        self.assertEqual(named, [0, 7])
        self.successResultOf(self.stop())

    @proves("G-TUN-11")
    def test_idle_stop(self) -> None:
        """Without sessions it says goodbye at once and leaves no timer behind."""
        self.start()
        self.successResultOf(self.stop())
        self.assertIn(Goodbye(), self.gateway.heard)
        self.assertEqual(len(self.gateway.routes), 0)
        self.gateway.tasks.stopService()
        self.gateway.turn()
        self.gateway.pairs[0].server_side.abortConnection()
        self.gateway.turn()
        self.assertEqual(self.gateway.clock.getDelayedCalls(), [])

    def test_stop_with_a_session(self) -> None:
        """An open session may finish for as long as is configured; then it is broken off."""
        self.service = self.made(TunnelTimes(drain=1200))
        self.start()
        [person] = self.gateway.open()
        stopped = self.stop()
        for _ in range(20):
            self.assertNoResult(stopped)
            self.assertIsNone(person.lost)
            self.gateway.advance(60)
        self.gateway.turn()
        self.successResultOf(stopped)
        end = self.gateway.sessions[-1]
        assert isinstance(end, SessionEnded)
        self.assertEqual(end.reason, "connector_stopping")

    def test_session_that_finishes(self) -> None:
        """A session that ends while the Connector stops ends by itself."""
        self.start()
        [person] = self.gateway.open()
        stopped = self.stop()
        person.transport.loseConnection()
        self.gateway.turn()
        self.successResultOf(stopped)
        end = self.gateway.sessions[-1]
        assert isinstance(end, SessionEnded)
        self.assertEqual(end.reason, "closed")

    def test_dead_proxy(self) -> None:
        """A Proxy that is away is dialed again and again, and found when it comes back."""
        dial: Any = self.gateway.dial

        async def away() -> Any:
            raise Unavailable("nobody there", reason="cannot_connect")

        self.gateway.dial = away  # type: ignore[method-assign]
        self.start()
        for seconds in (1, 2, 4):
            self.gateway.advance(seconds)
        self.assertEqual([word for word, _ in self.gateway.told], ["reconnect"] * 4)
        self.gateway.dial = dial  # type: ignore[method-assign]
        self.gateway.advance(8)
        self.assertEqual(self.gateway.told[-1], ("registered", ""))
        self.successResultOf(self.stop())

    def test_silent_proxy(self) -> None:
        """A Proxy whose connection never stands is given up after its time, and on a stop."""

        async def never() -> Any:
            await Deferred()

        self.gateway.dial = never  # type: ignore[method-assign]
        self.start()
        self.gateway.advance(15)
        self.assertEqual(self.gateway.told, [("reconnect", "deadline")])
        self.gateway.advance(1)
        stopped = self.stop()
        self.gateway.advance(3)
        self.successResultOf(stopped)

    def test_unexpected_failure(self) -> None:
        """A failure nobody planned for is logged, and the Connector dials again."""

        async def broken() -> Any:
            raise ZeroDivisionError

        self.gateway.dial = broken  # type: ignore[method-assign]
        self.start()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.gateway.told, [("reconnect", "internal")])
        self.successResultOf(self.stop())

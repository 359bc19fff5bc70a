"""The Connector's tunnel dials for ever, with backoff, and tells what to count."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.runtime.backoff import Backoff
from svc.tunnel.machine import TunnelCore, TunnelMachine, make_tunnel
from tests.support.proof import proves


class RecordedCycle:
    """A cycle that only remembers that it was stopped."""

    def __init__(self) -> None:
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


class MachineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.cycles: list[RecordedCycle] = []
        self.told: list[tuple[str, str]] = []
        core = TunnelCore(
            clock=self.clock,
            begin=self._begin,
            waits=Backoff(first=1.0, longest=60.0),
            on_event=lambda *event: self.told.append(event),
        )
        self.tunnel = make_tunnel(core)

    def _begin(self, tunnel: TunnelMachine) -> RecordedCycle:
        self.cycles.append(RecordedCycle())
        return self.cycles[-1]

    def _words(self) -> list[str]:
        return [word for word, _ in self.told]

    def _register(self) -> None:
        self.tunnel.dialed()
        self.tunnel.registered()

    @proves("G-MET-14")
    def test_dead_proxy(self) -> None:
        """Each failed dial of a dead Proxy is one reconnect, and is no refusal."""
        self.tunnel.start()
        for wait in (1, 2, 4):
            self.tunnel.ended("refused by the host")
            self.clock.advance(wait)
        self.assertEqual(self._words(), ["reconnect"] * 3)
        self.assertEqual(len(self.cycles), 4)

    def test_waits_before_it_dials_again(self) -> None:
        """A lost tunnel dials again when its backoff is over and not before."""
        self.tunnel.start()
        self.tunnel.ended("lost")
        self.clock.advance(0.9)
        self.assertEqual(len(self.cycles), 1)
        self.clock.advance(0.2)
        self.assertEqual(len(self.cycles), 2)

    @proves("G-MET-15", "G-OPEN-46", "X-88")
    def test_refused_registration(self) -> None:
        """A tunnel closed within 10 s without acknowledgement counts as refused and reconnect."""
        self.tunnel.start()
        self.tunnel.dialed()
        self.clock.advance(9.9)
        self.tunnel.ended("revoked_node")
        self.assertEqual(self.told, [("refused", "revoked_node"), ("reconnect", "revoked_node")])

    @proves("G-OPEN-46")
    def test_slow_refusal(self) -> None:
        """A tunnel that ends unacknowledged after 10 s is a reconnect and no refusal."""
        self.tunnel.start()
        self.tunnel.dialed()
        self.clock.advance(10)
        self.tunnel.ended("lost")
        self.assertEqual(self._words(), ["reconnect"])

    @proves("G-MET-14", "G-MET-15", "G-TUN-17")
    def test_acknowledged_tunnel_dropped(self) -> None:
        """A tunnel dropped after its acknowledgement is a reconnect and no refusal."""
        self.tunnel.start()
        self._register()
        self.tunnel.ended("lost")
        self.assertEqual(self._words(), ["registered", "ended", "reconnect"])
        self.clock.advance(1)
        self.assertEqual(len(self.cycles), 2)

    def test_acknowledged_again(self) -> None:
        """A registration renewed on the same tunnel is told once."""
        self.tunnel.start()
        self._register()
        self.tunnel.registered()
        self.assertEqual(self._words(), ["registered"])

    @proves("G-OPEN-45")
    def test_steady_tunnel_wipes_failures(self) -> None:
        """After 60 s of registration the backoff begins again; after 59 s it goes on."""
        for held, waits in ((59.0, 8.0), (60.0, 1.0)):
            self.setUp()
            self.tunnel.start()
            for wait in (1, 2, 4):
                self.tunnel.ended("lost")
                self.clock.advance(wait)
            self._register()
            self.clock.advance(held)
            self.tunnel.ended("lost")
            [waiting] = self.clock.getDelayedCalls()
            self.assertEqual(waiting.getTime() - self.clock.seconds(), waits)

    def test_stays_away_as_told(self) -> None:
        """A Proxy that says when to come again is obeyed, within reason; then it backs off."""
        for told, waits in ((0.0, 1.0), (7.5, 8.5), (300.0, 301.0), (1e9, 301.0)):
            for reach in (0, 1, 2):
                self.setUp()
                self.tunnel.start()
                for step in (self.tunnel.dialed, self.tunnel.registered)[:reach]:
                    step()
                self.tunnel.ended("too_many_requests", told)
                [waiting] = self.clock.getDelayedCalls()
                self.assertEqual(waiting.getTime() - self.clock.seconds(), waits)

    def test_stop_from_anywhere(self) -> None:
        """Stopping ends whatever runs, in every state, and leaves no timer behind."""
        for reach in range(5):
            self.setUp()
            steps = [self.tunnel.start, self.tunnel.dialed, self.tunnel.registered]
            steps.append(lambda: self.tunnel.ended("lost"))
            for step in steps[:reach]:
                step()
            self.tunnel.stop()
            self.assertEqual(self.clock.getDelayedCalls(), [])
            self.assertEqual(sum(c.stopped for c in self.cycles), 1 if reach in (1, 2, 3) else 0)

    def test_late_words_after_stop(self) -> None:
        """What a cycle reports after the stop moves no counter and dials nothing."""
        self.tunnel.start()
        self.tunnel.stop()
        self.tunnel.dialed()
        self.tunnel.registered()
        self.tunnel.ended("closed")
        self.tunnel.stop()
        self.assertEqual((self.told, len(self.cycles)), ([], 1))

    def test_unknown_order(self) -> None:
        """An input that makes no sense in a state is an error, never a silent nothing."""
        from automat import NoTransition

        self.assertRaises(NoTransition, self.tunnel.registered)

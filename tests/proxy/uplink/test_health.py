"""A Proxy brings the health reports of its Connectors to Authority."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Unavailable
from svc.messages.health import MAX_REPORTS, HealthReceipt, read_health_reports, receipt_message
from svc.model.signing import Signed
from svc.proxy.uplink.health import GATHER_SECS, HealthRelay
from svc.runtime.services import BackgroundTasks


class RelayTests(SynchronousTestCase):
    """The relay over an Authority that only notes what comes."""

    def setUp(self) -> None:
        self.clock, self.is_away = Clock(), False
        self.brought: list[tuple[Signed, ...]] = []
        tasks = BackgroundTasks()
        tasks.startService()
        self.addCleanup(tasks.stopService)
        self.relay = HealthRelay(self.channel, tasks, self.clock)

    def channel(self) -> Any:
        """To Authority, unless it is away."""
        if self.is_away:
            raise Unavailable("away for a test")
        return self

    async def unary(self, method: str, message: Any, answer: Any, timeout: float) -> Any:
        """As of a channel."""
        self.brought.append(read_health_reports(message))
        return receipt_message(HealthReceipt())

    def signed(self, number: int) -> Signed:
        """A report; nobody here looks into it."""
        return Signed(b"%d" % number, b"signature", (b"certificate",))

    def test_gathered(self) -> None:
        """Those of a moment travel together, of each node the newest, in calls of bounded size."""
        count = MAX_REPORTS + 1
        for number in range(count):
            self.relay.bring(f"node{number}", self.signed(-1))
            self.relay.bring(f"node{number}", self.signed(number))
        self.assertEqual(self.brought, [])
        self.clock.advance(GATHER_SECS)
        self.assertEqual([len(each) for each in self.brought], [MAX_REPORTS, 1])
        every = [one for each in self.brought for one in each]
        self.assertEqual(every, [self.signed(number) for number in range(count)])
        self.relay.bring("node1", self.signed(7))
        self.clock.advance(GATHER_SECS)
        self.assertEqual(self.brought[2:], [(self.signed(7),)])

    def test_authority_is_away(self) -> None:
        """Whoever brings a report is told to try elsewhere; what was gathered is not kept."""
        self.relay.bring("node1", self.signed(1))
        self.is_away = True
        with self.assertRaises(Unavailable):
            self.relay.bring("node2", self.signed(2))
        self.clock.advance(GATHER_SECS)
        self.is_away = False
        self.relay.bring("node3", self.signed(3))
        self.clock.advance(GATHER_SECS)
        self.assertEqual(self.brought, [(self.signed(3),)])

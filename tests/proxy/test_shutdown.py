"""A Proxy that stops: it says so, lets sessions finish, and tells how all of it ended."""

from __future__ import annotations

from typing import Any

from svc.messages.session import LIST_METHOD
from svc.messages.tunnel import DrainNotice
from svc.model.session.tunnels import EndReason, TunnelEnded
from svc.proxy.shutdown import ProxyShutdown
from svc.proxy.uplink.deliver import TOGETHER_SECS
from tests.proxy.pieces import ProxyTests, Talk


class StoppingTests(ProxyTests):
    def stop(self, seconds: float = 10.0) -> Any:
        site = self.site
        stopping = ProxyShutdown(site.clock, seconds)
        stopping.begun(site.work)
        stopping.startService()
        stopped = stopping.stopService()
        site.turn()
        return stopped

    def test_finishes(self) -> None:
        """Open sessions may finish; nothing new begins, and everybody is told so."""
        node, client, carry = self.carried()
        lists = Talk(self.site.connect(self.site.cluster.person).channel.stream(LIST_METHOD))
        lists.say(b"")
        self.site.turn()
        stopped = self.stop()
        self.assertEqual(self.site.health._answer().status, 2)
        self.assertIsInstance(node.said[-1], DrainNotice)
        self.assertEqual((lists.reason, self.site.open().reason), ("draining", "draining"))
        self.site.pass_time(3)
        self.assertNoResult(stopped)
        self.assertFalse(carry.is_over)
        client.stream.end()
        self.site.pass_time(1, step=0.05)
        self.successResultOf(stopped)
        self.assertEqual([one.reason for one in self.authority.ended], ["closed"])
        self.assertEqual([one.reason for one in self.events(TunnelEnded)], [EndReason.CLOSED])
        self.assertEqual((node.is_over, node.reason), (True, ""))

    def test_cut_off(self) -> None:
        """What does not finish in time is cut off, and Authority hears of it before the end."""
        _, client, _ = self.carried()
        stopped = self.stop(2.0)
        self.site.pass_time(3, step=0.05)
        self.successResultOf(stopped)
        self.assertEqual(client.reason, "draining")
        [departure] = self.authority.departures
        self.assertEqual(departure.reason, "closed")

    def test_idle(self) -> None:
        """An idle Proxy is stopped at once."""
        self.site.node()
        stopped = self.stop()
        self.site.pass_time(0.05, step=0.05)
        self.successResultOf(stopped)

    def test_last_rows(self) -> None:
        """Rows that are kept back for a moment, to travel with others, go before it has ended."""
        self.site.delivery.gather = TOGETHER_SECS
        _, client, _ = self.carried()
        client.stream.end()
        self.site.turn()
        stopped = self.stop()
        self.site.pass_time(0.1, step=0.05)
        self.assertNoResult(stopped)
        self.site.pass_time(2 * TOGETHER_SECS, step=0.05)
        self.successResultOf(stopped)
        self.assertEqual(len(self.authority.recorded("spool.close")), 1)

    def test_without_an_identity(self) -> None:
        """A Proxy that never joined has nothing to end."""
        stopping = ProxyShutdown(self.site.clock, 10.0)
        stopping.startService()
        self.successResultOf(stopping.stopService())

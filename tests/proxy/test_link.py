"""The way to Authority: dialed for ever, never waited for, and left clean; and its reports."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Fault, SvcError, Unavailable
from svc.messages.control import CountedEnd, Departure
from svc.proxy.uplink.link import AuthorityLink
from svc.proxy.uplink.reports import MAX_NOTICES
from tests.proxy.pieces import ProxyTests
from tests.support.nothing import nothing
from tests.support.proof import proves


class LinkTests(ProxyTests):
    def test_connected(self) -> None:
        """A greeted Authority gives a channel, its lanes, and a policy that is fresh at once."""
        self.assertTrue(self.site.link.is_connected)
        assert self.site.link.lanes is not None
        self.assertEqual(self.site.link.lanes.join_port, 7001)
        self.assertEqual(self.site.holder.engine().version, 3)

    def test_away_and_back(self) -> None:
        """While Authority is away whoever asks is refused at once; waiters get the next channel."""
        waiting = self.site.link.next_channel()
        self.assertIs(self.successResultOf(waiting), self.site.link.channel())
        self.site.lose_authority()
        error = self.assertRaises(Unavailable, self.site.link.channel)
        self.assertEqual(error.reason, "authority_unreachable")
        later, given_up = self.site.link.next_channel(), self.site.link.next_channel()
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        self.authority.is_up = True
        self.site.pass_time(6)
        self.assertIs(self.successResultOf(later), self.site.link.channel())
        self.assertEqual(len(self.authority.follows), 1)

    def link(self, dial: Any) -> AuthorityLink:
        """Another link of this Proxy, which dials so."""
        return AuthorityLink(
            clock=self.site.clock,
            dial=dial,
            take=lambda frame: self.site.holder.take(frame),
            have=lambda: b"",
            claims=lambda: (),
            jitter=lambda seconds: seconds,
            version="0.11.0",
            instance_id="proxy-2",
            head=bytes,
            revoked=nothing,
        )

    def test_unconfigured(self) -> None:
        """Where no Authority is configured nobody is dialed, and whoever asks is told so."""
        before = self.site.dials
        link = self.link(None)
        link.startService()
        self.site.pass_time(60)
        error = self.assertRaises(Unavailable, link.channel)
        self.assertEqual((error.reason, self.site.dials), ("authority_unconfigured", before))
        self.assertFalse(link.is_connected)
        self.successResultOf(link.stopService())

    def test_stopped_amid_a_dial(self) -> None:
        """A stop ends it also where the dial makes a failure of being cancelled."""

        def dial() -> Deferred[Any]:
            return Deferred(lambda dialing: dialing.errback(Unavailable("no such host")))

        link = self.link(dial)
        link.startService()
        self.successResultOf(link.stopService())

    def test_backoff(self) -> None:
        """An Authority that is away is dialed again and again, not in a storm."""
        self.site.lose_authority()
        before = self.site.dials
        self.site.pass_time(100)
        self.assertTrue(18 <= self.site.dials - before <= 28, self.site.dials - before)

    def test_steady(self) -> None:
        """A connection that stood for a while is a success: its end is waited for briefly."""
        self.site.lose_authority()
        self.site.pass_time(60)
        self.authority.is_up = True
        self.site.pass_time(30)
        self.site.links[-1].server_side.abortConnection()
        self.site.turn()
        self.assertFalse(self.site.link.is_connected)
        self.site.pass_time(1)
        self.assertTrue(self.site.link.is_connected)

    def test_flapping(self) -> None:
        """A connection that breaks as soon as it stands is no success: the waits grow."""
        before = self.site.dials
        for _ in range(100):
            if self.site.link.is_connected:
                self.site.links[-1].server_side.abortConnection()
            self.site.pass_time(1)
        self.assertLess(self.site.dials - before, 35)

    def test_silent(self) -> None:
        """A snapshot stream without a heartbeat for twenty seconds is dialed again."""
        self.site.pass_time(3)
        self.site.pass_time(19, beating=False)
        self.assertEqual(self.site.dials, 1)
        self.site.pass_time(3, beating=False)
        self.assertEqual(self.site.dials, 2)

    def test_no_policy_yet(self) -> None:
        """An Authority without a policy is reached all the same: Connectors may register."""
        self.site.lose_authority()
        self.authority.is_up, self.authority.has_policy = True, False
        self.site.pass_time(120, beating=False)
        self.assertTrue(self.site.link.is_connected)
        self.assertEqual(self.site.dials, 2)
        self.assertEqual(self.site.node().reason, "")

    def test_bad_snapshot(self) -> None:
        """A snapshot that is refused ends the connection; the next one begins with all of it."""
        newer = self.authority._bundle(("db1", "db9"), 8)
        self.authority.publish(self.authority.frame(newer, parts="delta", bundle_sha256=bytes(32)))
        self.site.turn()
        self.assertFalse(self.site.link.is_connected)
        self.site.pass_time(6)
        self.assertTrue(self.site.link.is_connected)
        self.assertFalse(self.site.links[0].client.end_reason is None)

    def test_defect_in_taking(self) -> None:
        """Whatever breaks a connection, another is dialed."""
        self.site.holder.on_change(lambda: 1 / 0)
        self.authority.bundle = self.authority._bundle(("db1",), 8)
        self.authority.publish(self.authority.frame())
        self.site.turn()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.site.holder._on_change.pop()
        self.site.pass_time(6)
        self.assertTrue(self.site.link.is_connected)

    def test_cancelled_by_another(self) -> None:
        """Another is dialed where what the link waits for was cancelled, and it was not stopped."""
        usual = self.site.link.dial

        async def cancelled() -> Any:
            raise CancelledError

        self.site.link.dial = cancelled
        self.site.links[-1].server_side.abortConnection()
        self.site.pass_time(3)
        self.assertGreater(len(self.flushLoggedErrors(CancelledError)), 1)
        self.site.link.dial = usual
        self.site.pass_time(6)
        self.assertTrue(self.site.link.is_connected)

    def test_stop(self) -> None:
        """A stop closes the connection, and is over when it is closed."""
        stopping = self.site.link.stopService()
        self.site.turn()
        self.successResultOf(stopping)
        self.assertFalse(self.site.link.is_connected)
        self.site.pass_time(30)
        self.assertEqual(self.site.dials, 1)


class StoppingTests(SynchronousTestCase):
    def test_stop_while_dialing(self) -> None:
        """A stop gives up a dial under way, and logs nothing."""
        clock = Clock()
        dialing: list[Deferred[Any]] = []

        async def dial() -> Any:
            dialing.append(Deferred())
            return await dialing[-1]

        async def take(_frame: object) -> None:
            """Nothing comes."""

        link = AuthorityLink(
            clock=clock,
            dial=dial,
            take=take,
            have=lambda: b"",
            claims=tuple,
            jitter=lambda seconds: seconds,
            version="1",
            instance_id="i",
            head=bytes,
            revoked=nothing,
        )
        self.successResultOf(link.stopService())
        link.startService()
        self.successResultOf(link.stopService())
        self.assertTrue(dialing[0].called)
        self.assertEqual(clock.getDelayedCalls(), [])


class ReportTests(ProxyTests):
    def departed(self, *uids: str) -> None:
        self.site.reports.departed(Departure("n" * 26, "closed", uids))
        self.site.turn()

    @proves("G-MET-21", "G-OPEN-48")
    def test_answers(self) -> None:
        """Each session of a notice is counted by Authority's answer; deferred ones are retried."""
        self.authority.outcomes.extend(["closed", "recorded", "unknown", "deferred", "closed"])
        self.departed("u1", "u2", "u3", "u4")
        counts = {
            word: self.site.counts[("abandoned", word)]
            for word in ("closed", "recorded", "unknown", "deferred")
        }
        self.assertEqual(counts, {"closed": 2, "recorded": 1, "unknown": 1, "deferred": 1})
        self.assertEqual(
            [one.session_uids for one in self.authority.departures],
            [("u1", "u2", "u3", "u4"), ("u4",)],
        )

    def test_all_deferred(self) -> None:
        """A notice that is deferred whole waits before it is told again."""
        self.authority.outcomes.extend(["deferred"])
        self.departed("u1")
        self.assertEqual(len(self.authority.departures), 1)
        self.site.pass_time(6)
        self.assertEqual(len(self.authority.departures), 2)
        self.assertEqual(self.site.reports.waiting, 0)

    @proves("G-MET-22", "G-OPEN-48")
    def test_full(self) -> None:
        """The newest notice is dropped when the queue is full; its sessions end all the same."""
        self.site.lose_authority()
        for number in range(MAX_NOTICES + 2):
            self.site.reports.departed(Departure("n" * 26, "closed", (f"u{number}",)))
        self.assertEqual(self.site.counts[("dropped",)], 2)
        self.assertEqual(self.site.reports.waiting, MAX_NOTICES + 2)
        self.authority.is_up = True
        self.site.pass_time(6)
        for _ in range(100):
            self.site.turn()
        told = [one.session_uids[0] for one in self.authority.departures]
        self.assertEqual(told, [f"u{number}" for number in range(MAX_NOTICES)])
        self.assertEqual(
            [(one.session_uid, one.reason) for one in self.authority.ended],
            [("u1024", "tunnel_closed"), ("u1025", "tunnel_closed")],
        )

    def test_unwell(self) -> None:
        """An Authority that is there but cannot write is asked again by itself."""
        self.authority.report_error = SvcError(
            "store", reason="store_unavailable", fault=Fault.UNAVAILABLE
        )
        self.site.reports.ended(CountedEnd("u1", "closed"))
        self.site.pass_time(2)
        self.authority.report_error = None
        self.site.pass_time(5)
        self.assertEqual([one.session_uid for one in self.authority.ended], ["u1"])

    def test_never_taken(self) -> None:
        """A report that Authority will never take does not hold up the others."""
        self.authority.report_error = SvcError("odd", reason="malformed", fault=Fault.INVALID)
        self.departed("u1")
        self.authority.report_error = None
        self.departed("u2")
        self.assertEqual([one.session_uids for one in self.authority.departures], [("u2",)])
        self.assertEqual(self.site.reports.waiting, 0)

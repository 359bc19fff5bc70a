"""What persons and Connectors may ask of a Proxy, and how it tells what it refused."""

from __future__ import annotations

import errno
from typing import Any

from twisted.internet.defer import Deferred

from svc.errors import Fault, SvcError, TooMany
from svc.messages.control import AuthorizeAnswer, CountedEnd
from svc.messages.session import LIST_METHOD, OPEN_METHOD, encode_open, encode_request
from svc.messages.tunnel import CARRY_METHOD, REGISTER_METHOD, OpenNotice, Renew, encode_carry_open
from svc.model.audit.record import Actor, rfc3339
from svc.model.policy.requested import ApprovedAccess
from svc.model.principal import Role
from svc.model.session.tunnels import TunnelEnded
from svc.model.signing import Purpose
from svc.pki.identity import TransportIdentity
from svc.proxy.shutdown import ProxyShutdown
from svc.proxy.uplink.reports import GATHER_SECS, MAX_ENDS
from svc.ratelimit.counter import OTHERS
from svc.ratelimit.limits import Rate
from svc.rpc.frames import open_frame
from svc.runtime.services import PeriodicTask
from tests.audit.spools import files, names
from tests.proxy.pieces import ProxyTests, Talk
from tests.telemetry.recorded import Recorded

SEEN_ONLY = '@id("seen") permit (principal, action == Action::"view", resource);'
ON_REQUEST = (
    '@id("on-request") @requestable permit (principal, action == Action::"tcpConnect", resource)'
    " when { context has approved_request };"
)
TOO_MANY = "too_many_requests"


class RateTests(ProxyTests):
    """A Proxy whose budgets hold little."""

    def setUp(self) -> None:
        super().setUp()
        site = self.site
        site.person_rates.opens.buckets.rate = Rate(60, 6)
        site.person_rates.denials.buckets.rate = Rate(60, 3)
        site.connector_rates.registrations.buckets.rate = Rate(60, 2)
        self.ann = site.cluster.person
        self.wire = site.connect(self.ann)

    def bob(self) -> TransportIdentity:
        """Another person."""
        return self.site.cluster.world.identity(Role.USER, id="b" * 26)

    def deny(self) -> None:
        """From now on the Proxy's policy allows nobody anything."""
        denying = self.authority._bundle(("db1", "db2"), 8, version=4, text=SEEN_ONLY)
        self.authority.refusal = AuthorizeAnswer(
            "d" * 32, reason="denied", text="no", may_view=True
        )
        self.authority.publish(self.authority.frame(denying))
        self.authority.bundle = denying
        self.site.turn()

    def reasons(self, count: int, **changed: Any) -> list[str]:
        """What each of so many opens is refused with."""
        return [self.open(**changed).reason for _ in range(count)]

    def open(self, **changed: Any) -> Talk:
        """One open; who is read slowly is waited for."""
        talk = self.site.open(self.wire, **changed)
        while not talk.is_over and self.wire.server._slow is not None:
            self.site.clock.advance(0.005)
            self.site.turn(4)
        return talk


class PersonTests(RateTests):
    def test_denied_too_often(self) -> None:
        """Who was denied a lot is refused undecided: no decision, no question, no span."""
        self.deny()
        recorded = Recorded()
        self.site.sessions.spans = recorded.traces.spans
        self.site.server.traced = recorded.traces.traced
        self.assertEqual(self.reasons(3), ["denied"] * 3)
        decided, asked, spans = self.site.counts.copy(), len(self.authority.asked), recorded.spans
        talk = self.open()
        assert talk.error is not None
        self.assertEqual((talk.reason, talk.error.fault), (TOO_MANY, Fault.EXHAUSTED))
        self.assertAlmostEqual(talk.error.retry_after or 0, 1, places=3)
        self.assertNotIn("decision_id", talk.error.details)
        self.assertEqual((self.reasons(1), recorded.spans), ([TOO_MANY], spans))
        self.assertEqual(len(self.authority.asked), asked)
        self.assertEqual(self.site.counts - decided, {("budget", "denials"): 2})

    def test_time_heals(self) -> None:
        """After the time that the refusal names the person is decided again."""
        self.deny()
        self.reasons(4)
        self.site.pass_time(1.1)
        self.assertEqual(self.reasons(2), ["denied", TOO_MANY])

    def test_refused_by_authority_alone(self) -> None:
        """What only Authority refuses counts alike, whichever way it refuses it."""
        for refusal in (
            AuthorizeAnswer("d" * 32, reason="denied", text="no"),
            AuthorizeAnswer("d" * 32, reason="unknown", text="no", may_view=True),
            SvcError("no", reason="request_stale", fault=Fault.DENIED),
        ):
            self.authority.refusal = refusal
            self.reasons(1)
        self.assertEqual(self.reasons(1), [TOO_MANY])

    def test_allowed_costs_no_denial(self) -> None:
        """A person whose sessions are granted never meets the budget of denials."""
        self.site.node()
        for _ in range(5):
            talk = self.site.open(self.wire)
            self.assertEqual(talk.reason, "")
            talk.stream.cancel()
            self.site.turn()

    def test_approved_costs_no_denial(self) -> None:
        """What an approval opens was denied by the Proxy's policy alone: that is no denial."""
        self.site.node()
        asking = self.authority._bundle(("db1", "db2"), 8, version=4, text=ON_REQUEST)
        self.authority.publish(self.authority.frame(asking))
        self.authority.approved = ApprovedAccess(request_id="r1", approver="p" * 26, ends_at=2**40)
        self.site.turn()
        for _ in range(5):
            talk = self.site.open(self.wire)
            self.assertEqual(talk.reason, "")
            talk.stream.cancel()
            self.site.turn()

    def test_too_many_opens(self) -> None:
        """Past the budget of opens nothing is asked, and no end is owed."""
        self.site.node()
        talks = []
        for _ in range(7):
            talks.append(self.site.open(self.wire))
            talks[-1].stream.cancel()
            self.site.turn()
        self.assertEqual(len(self.authority.asked), 6)
        self.assertEqual(self.site.counts[("budget", "opens")], 1)
        self.site.pass_time(GATHER_SECS)
        self.assertEqual(len(self.authority.ended), 6)

    def test_all_at_once(self) -> None:
        """Calls that come together are decided as often as calls that come one by one."""
        self.site.sessions.max_per_person = lambda: 100
        self.deny()
        talks = [Talk(self.wire.channel.stream(OPEN_METHOD)) for _ in range(6)]
        self.site.turn()
        for talk in talks:
            requested = encode_request(self.site.cluster.request(session_uid=self.site.uid()))
            signed = self.ann.sign(Purpose.SESSION_REQUEST, requested)
            talk.say(open_frame(encode_open(requested, signed.signature)))
        self.site.turn()
        reasons = [talk.reason for talk in talks]
        self.assertEqual(sorted(reasons), ["denied"] * 3 + [TOO_MANY] * 3)
        self.assertEqual(self.site.counts[("gate", "connect", "deny")], 3)

    def test_beginnings_at_once(self) -> None:
        """Of calls that begin together, no more are let begin than may yet be denied."""
        self.site.sessions.max_per_person = lambda: 100
        self.deny()
        self.reasons(4)
        self.site.pass_time(1.1)
        talks = [Talk(self.wire.channel.stream(OPEN_METHOD)) for _ in range(6)]
        self.site.pass_time(0.1, step=0.01)
        self.assertEqual([talk.reason for talk in talks], ["", *[TOO_MANY] * 5])
        requested = encode_request(self.site.cluster.request(session_uid=self.site.uid()))
        signed = self.ann.sign(Purpose.SESSION_REQUEST, requested)
        talks[0].say(open_frame(encode_open(requested, signed.signature)))
        self.site.pass_time(0.1, step=0.01)
        self.assertEqual(talks[0].reason, "denied")
        self.assertEqual(self.site.person_rates._undecided, {})

    def test_never_denied(self) -> None:
        """Who has not been denied begins as many at once as there are opens, whatever comes."""
        self.site.sessions.max_per_person = lambda: 100
        talks = [Talk(self.wire.channel.stream(OPEN_METHOD)) for _ in range(6)]
        self.site.turn()
        self.assertEqual([talk.reason for talk in talks], [""] * 6)
        for talk in talks:
            talk.stream.cancel()
        self.site.turn()
        self.assertEqual(self.site.person_rates._undecided, {})

    def test_fair(self) -> None:
        """One person's flood takes nothing from another's opens."""
        self.deny()
        self.assertEqual(self.reasons(100)[-1], TOO_MANY)
        bob = self.bob()
        self.assertEqual(self.site.open(None, bob).reason, "denied")

    def test_key_is_the_certificate(self) -> None:
        """What the caller writes changes nothing: over whichever connection, it is one person."""
        self.deny()
        self.reasons(4)
        self.wire = self.site.connect(self.ann, "198.51.100.9")
        self.assertEqual(self.reasons(1, certificate_sha256=bytes(32), resource="x"), [TOO_MANY])

    def test_lists(self) -> None:
        """A list is a decision on each resource, and costs as many opens as it is worth."""
        self.site.person_rates.opens.buckets.rate = Rate(60, 20)
        reasons = []
        for _ in range(3):
            talk = Talk(self.wire.channel.stream(LIST_METHOD))
            talk.say(b"")
            self.site.turn()
            reasons.append(talk.reason)
            talk.stream.cancel()
        self.assertEqual(reasons, ["", "", TOO_MANY])

    def test_small_burst(self) -> None:
        """However small the budget, a full one lets a list through."""
        self.site.person_rates.opens.buckets.rate = Rate(60, 3)
        talk = Talk(self.wire.channel.stream(LIST_METHOD))
        talk.say(b"")
        self.site.turn()
        self.assertEqual(talk.reason, "")
        talk.stream.cancel()

    def test_denied_may_list(self) -> None:
        """Who was denied too often still learns what may be seen."""
        self.site.person_rates.opens.buckets.rate = Rate(60, 100)
        self.deny()
        self.reasons(4)
        self.site.pass_time(0.1)
        talk = Talk(self.wire.channel.stream(LIST_METHOD))
        talk.say(b"")
        self.site.turn()
        self.assertEqual((talk.reason, len(talk.heard)), ("", 1))
        talk.stream.cancel()

    def test_too_many_sessions(self) -> None:
        """Sessions past what one person may have open are counted for the summary, too."""
        node = self.site.node()
        for _ in range(3):
            self.site.open(self.wire)
            node.carry(node.last(OpenNotice))
        self.assertEqual(self.site.open(self.wire).reason, "too_many_sessions")
        [one] = self.site.refusals.refusal_counter.take()
        self.assertEqual((one.caller.id, one.budget), (self.ann.facts.principal.id, "sessions"))

    def test_authoritys_budget(self) -> None:
        """Authority's own refusal is passed on with its time; no end of it is owed."""
        self.authority.refusal = TooMany("too many", retry_after=3.0)
        talk = self.site.open(self.wire)
        assert talk.error is not None
        self.assertEqual((talk.reason, talk.error.retry_after), (TOO_MANY, 3.0))
        self.assertEqual((self.authority.ended, self.site.reports.waiting), ([], 0))
        self.assertEqual(self.site.reports._places.held, 0)

    def test_slow_reading(self) -> None:
        """A flood over one connection is answered whole, while its time is shared out."""
        self.deny()
        talks = [self.site.open(self.wire, session_uid=f"{n:032x}") for n in range(40)]
        self.assertFalse(talks[-1].is_over)
        other = self.site.open(None, self.bob())
        self.assertEqual(other.reason, "denied")
        self.site.pass_time(1, step=0.01)
        self.assertEqual({talk.reason for talk in talks}, {"denied", TOO_MANY})


class PlaceTests(RateTests):
    """The queue of sessions' ends."""

    def setUp(self) -> None:
        super().setUp()
        self.site.reports._places.places = 80
        self.site.reports._places.most = 10
        self.site.person_rates.opens.buckets.rate = Rate(6000, 1000)

    def owe(self, count: int, who: str) -> int:
        """How many more places somebody gets."""
        got = 0
        for number in range(count):
            try:
                self.site.reports.expect(f"{who}{number}", who)
            except TooMany:
                break
            got += 1
        return got

    def test_one_person(self) -> None:
        """While Authority takes no ends, one person has its share of the places and no more."""
        self.assertEqual(self.owe(100, self.ann.facts.principal.id), 10)
        self.assertEqual(self.reasons(1), [TOO_MANY])
        self.assertEqual(self.owe(5, "bob"), 5)

    def test_kept(self) -> None:
        """However many persons there are, a quarter of the places is left for what must be told."""
        self.assertEqual(sum(self.owe(100, who) for who in "abcdefghi"), 60)
        self.assertLess(60, MAX_ENDS)
        self.site.reports.ended(CountedEnd("u", "closed"))
        self.site.turn()
        self.assertEqual([one.session_uid for one in self.authority.ended], ["u"])

    def test_given_back(self) -> None:
        """A place is free once Authority has taken the end, however the session ended."""
        node, client, _ = self.carried()
        self.assertEqual(self.site.reports._places.held, 1)
        client.stream.end()
        self.site.turn()
        self.assertEqual(self.site.reports._places.held, 0)
        self.site.open()
        node.carry(node.last(OpenNotice))
        node.wire.cut()
        self.site.turn()
        self.assertEqual(len(self.authority.departures), 1)
        self.assertEqual(self.site.reports._places.held, 0)
        self.deny()
        self.reasons(1)
        self.assertEqual(self.site.reports._places.held, 0)

    def test_doubtful(self) -> None:
        """A session that Authority may have entered keeps its place until its end is taken."""
        self.authority.report_error = SvcError("x", reason="away", fault=Fault.UNAVAILABLE)
        self.authority.refusal = SvcError("?", reason="odd", fault=Fault.UNAVAILABLE)
        self.reasons(1)
        self.assertEqual(self.site.reports._places.held, 1)
        self.authority.report_error = None
        self.site.pass_time(6)
        self.assertEqual(self.site.reports._places.held, 0)


class ConnectorTests(RateTests):
    def test_registrations(self) -> None:
        """A Connector that registers without end is told when to come again, and not asked for."""
        nodes = [self.site.node() for _ in range(2)]
        wire = self.site.connect(self.site.cluster.connector)
        talk = Talk(wire.channel.stream(REGISTER_METHOD))
        self.site.turn()
        self.assertEqual((talk.reason, len(self.authority.tunnels)), (TOO_MANY, 2))
        self.assertEqual(self.site.counts[("budget", "registrations")], 1)
        self.assertFalse(nodes[0].is_over)
        self.site.pass_time(2)
        self.site.node()
        self.assertEqual(len(self.authority.tunnels), 3)

    def test_stray_carries(self) -> None:
        """Carry streams that nobody waits for are looked at so often, and good ones always."""
        self.site.connector_rates.strays.buckets.rate = Rate(60, 2)
        node = self.site.node()
        reasons = []
        for _ in range(3):
            talk = Talk(node.wire.channel.stream(CARRY_METHOD))
            talk.say(open_frame(encode_carry_open("f" * 32, bytes(32))))
            self.site.turn()
            reasons.append(talk.reason)
        self.assertEqual(reasons, ["carry_refused", "carry_refused", TOO_MANY])
        self.site.pass_time(1.1)
        client = self.site.open(self.wire)
        self.assertFalse(node.carry(node.last(OpenNotice)).is_over)
        self.assertEqual(client.reason, "")

    def test_messages(self) -> None:
        """A tunnel on which a Connector says too much is ended."""
        self.site.connector_rates.messages.buckets.rate = Rate(60, 5)
        node = self.site.node()
        while not node.is_over:
            node.tell(Renew())
        self.assertEqual(node.reason, "transport_error")
        self.assertEqual(self.site.counts[("budget", "messages")], 1)
        self.assertEqual(len(self.events(TunnelEnded)), 1)

    def test_authoritys_budget(self) -> None:
        """Authority's own refusal reaches the Connector, and ends no tunnel that stands."""
        self.authority.registration_error = TooMany("too many", retry_after=3.0)
        self.assertEqual(self.site.node().reason, TOO_MANY)
        self.authority.registration_error = None
        node = self.site.node()
        self.authority.registration_error = TooMany("too many", retry_after=3.0)
        self.site.lose_authority()
        self.authority.is_up = True
        self.site.pass_time(3)
        self.assertFalse(node.is_over)


class SummaryTests(RateTests):
    def setUp(self) -> None:
        super().setUp()
        refused, clock = self.site.refused, self.site.clock
        self.minutely = PeriodicTask(
            clock=clock, interval=60, call=refused.tell, what="refusals summary", at_once=False
        )
        self.minutely.startService()
        self.addCleanup(self.minutely.stopService)
        self.deny()

    def told(self) -> list[tuple[str, str, int]]:
        """Every count Authority has taken."""
        summaries = self.authority.recorded("refusals.summary")
        return [
            (one["details"].get("person_id", OTHERS.id), one["reason"], one["details"]["count"])
            for one in summaries
        ]

    def test_once_a_minute(self) -> None:
        """Each minute's refusals are told once, as a count with its first and last time."""
        ann = self.ann.facts.principal.id
        began = self.site.cluster.world.now()
        self.reasons(13)
        self.site.pass_time(59)
        self.assertEqual(self.told(), [])
        self.site.pass_time(1)
        self.assertEqual(self.told(), [(ann, "denials", 10)])
        [record] = self.authority.recorded("refusals.summary")
        proxy = self.site.cluster.proxy_id
        self.assertEqual(record["actor"], {"id": proxy, "kind": "node"})
        details = record["details"]
        self.assertEqual((details["person_id"], details["proxy_id"]), (ann, proxy))
        self.assertEqual(details["since"], rfc3339(began))
        self.assertLess(details["since"], details["until"])
        self.assertLess(details["until"], rfc3339(began + 1))
        self.site.pass_time(60)
        self.assertEqual(len(self.told()), 1)
        self.reasons(5)
        self.site.pass_time(60)
        self.assertEqual(self.told()[1:], [(ann, "denials", 2)])

    def test_authority_is_away(self) -> None:
        """What was summed up while Authority was away is told when it is back, once."""
        ann = self.ann.facts.principal.id
        self.reasons(5)
        self.authority.spooled_error = SvcError("?", reason="away", fault=Fault.UNAVAILABLE)
        self.site.pass_time(60)
        self.reasons(4)
        self.site.pass_time(60)
        self.assertEqual(self.told(), [])
        self.authority.spooled_error = None
        self.site.pass_time(60)
        self.assertEqual(self.told(), [(ann, "denials", 2), (ann, "denials", 1)])

    def test_not_written(self) -> None:
        """What the disk does not take is counted on, and written a minute later."""
        ann = self.ann.facts.principal.id
        self.reasons(5)
        self.site.disk.errors["sync"] = OSError(errno.ENOSPC, "no")
        self.site.pass_time(60)
        self.assertEqual(self.told(), [])
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
        self.reasons(5)
        self.site.pass_time(60)
        self.assertEqual(self.told(), [(ann, "denials", 4)])

    def test_at_the_stop(self) -> None:
        """What the last minute refused is told before the Proxy is gone."""
        site = self.site
        self.reasons(6)
        stopping = ProxyShutdown(site.clock, 1.0)
        stopping.begun(site.work)
        stopping.startService()
        stopped = stopping.stopService()
        site.pass_time(1, step=0.05)
        self.successResultOf(stopped)
        self.assertEqual(self.told(), [(self.ann.facts.principal.id, "denials", 3)])
        self.assertEqual(len(self.authority.recorded("spool.close")), 1)

    def test_authority_away_at_the_stop(self) -> None:
        """A Proxy whose Authority is away stops all the same, and the next process tells."""
        site = self.site
        self.reasons(4)
        site.lose_authority()
        stopping = ProxyShutdown(site.clock, 1.0)
        stopping.begun(site.work)
        stopping.startService()
        stopped = stopping.stopService()
        site.pass_time(5)
        self.successResultOf(stopped)
        self.assertFalse(site.refused.waiting)
        again = files(site.spools)
        again.open()
        self.assertEqual(names(again)[0][-1][1], "spool.close")

    def test_many_callers(self) -> None:
        """However many callers there are, so many are named, and the rest are counted."""
        for number in range(100):
            name = f"{number:026}".translate(str.maketrans("0123456789", "abcdefghij"))
            self.site.refusals.refusal("opens", Actor("person", name), 1.0)
        self.site.pass_time(60)
        told = self.told()
        self.assertEqual(len(told), 65)
        self.assertEqual(told[-1], (OTHERS.id, "opens", 36))

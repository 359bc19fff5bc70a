"""Sessions through a Proxy: what passes, who is refused with which word, and how each ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from svc.errors import Denied, Fault, SvcError
from svc.messages.control import AGAIN, AuthorizeAnswer, RegistrationVerdict
from svc.messages.session import OPEN_METHOD, decode_opened
from svc.messages.tunnel import OpenNotice
from svc.model.cluster.registration import AcceptedRegistration, Inventory
from svc.model.cluster.resource import Assigned
from svc.model.policy.requested import ApprovedAccess
from svc.model.session.tunnels import EndReason, TunnelEnded
from svc.proxy.uplink.reports import GATHER_SECS
from svc.rpc.frames import EOF, FrameKind, parse_frame
from tests.proxy.pieces import Node, ProxyTests, Talk, Wire, data
from tests.support.proof import proves

DECISION = "d" * 32
NOBODY = '@id("nobody") forbid (principal, action, resource);'
ON_REQUEST = (
    '@id("on-request") @requestable permit (principal, action == Action::"tcpConnect", resource)'
    " when { context has approved_request };"
)


class CarriedTests(ProxyTests):
    @proves("G-MET-12", "X-13")
    def test_both_ways(self) -> None:
        """The grant comes first, bytes pass both ways, and the end is reported once with counts."""
        node, client, carry = self.carried()
        kind, payload = parse_frame(client.heard[0])
        self.assertIs(kind, FrameKind.OPEN)
        grant, decision_id = decode_opened(bytes(payload))
        self.assertEqual((grant, decision_id), (node.last(OpenNotice).grant, DECISION))
        client.say(data(b"question"))
        carry.say(data(b"answer"))
        self.site.turn()
        self.assertEqual((carry.data, client.data), (b"question", b"answer"))
        client.stream.end()
        self.site.turn()
        self.assertEqual((client.is_over, client.reason), (True, ""))
        self.assertEqual((carry.is_over, carry.reason), (True, ""))
        [ended] = self.authority.ended
        self.assertEqual(ended.reason, "closed")
        self.assertEqual((ended.bytes_up, ended.bytes_down), (5 + 2 + 8, 5 + 2 + 6))
        self.assertEqual(self.site.counts[("session", "tcp")], 1)
        self.assertEqual(self.site.counts[("gate", "connect", "allow")], 1)
        self.assertEqual(self.site.gauges[("sessions",)], 0)

    def test_early_bytes(self) -> None:
        """What a client sends before its session is open arrives whole, after it is."""
        node = self.site.node()
        client = self.site.open()
        client.say(data(b"early"))
        self.site.turn()
        carry = node.carry(node.last(OpenNotice))
        self.assertEqual(carry.data, b"early")

    def test_half_close(self) -> None:
        """The end of writing passes in band, and the other direction goes on."""
        _, client, carry = self.carried()
        client.say(EOF)
        self.site.turn()
        self.assertEqual(carry.heard, [EOF])
        carry.say(data(b"late"))
        self.site.turn()
        self.assertEqual(client.data, b"late")
        self.assertFalse(client.is_over)

    def test_client_breaks_off(self) -> None:
        """A client that breaks off ends the carry stream as a break, and its bytes count."""
        _, client, carry = self.carried()
        client.say(data(b"question"))
        self.site.turn()
        client.stream.cancel()
        self.site.turn()
        self.assertEqual(
            (carry.is_over, carry.error and carry.error.fault), (True, Fault.CANCELLED)
        )
        [ended] = self.authority.ended
        self.assertEqual((ended.reason, ended.bytes_up), ("cancelled", 15))

    def test_client_dies(self) -> None:
        """A client that dies takes its session with it."""
        self.site.node()
        wire = self.site.connect(self.site.cluster.person)
        self.site.open(wire)
        wire.cut()
        self.site.turn()
        self.assertEqual([one.reason for one in self.authority.ended], ["cancelled"])

    def test_connector_breaks_off(self) -> None:
        """A target that resets gives the client a break with the decision's id, not a close."""
        _, client, carry = self.carried()
        carry.say(data(b"answer"))
        self.site.turn()
        carry.stream.cancel()
        self.site.turn()
        self.assertRefused(client, "broken", Fault.ABORTED)
        [ended] = self.authority.ended
        self.assertEqual((ended.reason, ended.bytes_down), ("broken", 13))

    def test_connector_closes(self) -> None:
        """A target that closes ends the session in order."""
        _, client, carry = self.carried()
        carry.say(data(b"bye"))
        carry.stream.end()
        self.site.turn()
        self.assertEqual((client.data, client.is_over, client.reason), (b"bye", True, ""))
        self.assertEqual([one.reason for one in self.authority.ended], ["closed"])

    @proves("G-TUN-19", "G-MET-20", "X-11")
    def test_tunnel_dies(self) -> None:
        """Sessions of a tunnel that dies end as UNAVAILABLE, and one notice names them all."""
        node, first, _ = self.carried()
        second = self.site.open()
        node.carry(node.last(OpenNotice))
        node.wire.cut()
        self.site.turn()
        for client in (first, second):
            self.assertRefused(client, "tunnel_transport_error", Fault.UNAVAILABLE)
        [departure] = self.authority.departures
        self.assertEqual(departure.reason, "transport_error")
        self.assertEqual(len(departure.session_uids), 2)
        self.assertEqual(self.authority.ended, [])
        self.assertEqual(self.site.counts[("abandoned", "closed")], 2)

    @proves("X-10")
    def test_idle_tunnel_dies(self) -> None:
        """A tunnel that carried nothing sends no notice."""
        self.site.node().wire.cut()
        self.site.turn()
        self.assertEqual(self.authority.departures, [])

    def test_grant_ends(self) -> None:
        """No session outlives its grant."""
        grants: Any = self.site.cluster.grant
        soon = int(self.site.cluster.world.now() * 1000) + 20_000
        self.patch(
            self.site.cluster,
            "grant",
            lambda requested, **changed: grants(requested, end_before_ms=soon, **changed),
        )
        _, client, carry = self.carried()
        self.site.pass_time(19)
        self.assertFalse(client.is_over)
        self.site.pass_time(2)
        self.assertRefused(client, "grant_ended", Fault.ABORTED)
        self.assertTrue(carry.is_over)

    def test_policy_changes(self) -> None:
        """A policy that allows a session no more breaks it off; another change leaves it alone."""
        _, client, carry = self.carried()
        self.authority.publish(self.authority.frame(self.authority._bundle(("db1",), 8)))
        self.site.turn()
        self.assertFalse(client.is_over)
        nobody = '@id("nobody") forbid (principal, action, resource);'
        bundle = self.authority._bundle(("db1",), 9, version=4, text=nobody)
        self.authority.publish(self.authority.frame(bundle))
        self.site.turn()
        self.assertRefused(client, "policy_changed", Fault.ABORTED)
        self.assertTrue(carry.is_over)
        self.assertEqual([one.reason for one in self.authority.ended], ["policy_changed"])

    def follow(self, text: str, version: int = 4) -> None:
        """The Proxy has this policy from now on."""
        bundle = self.authority._bundle(("db1",), 5 + version, version=version, text=text)
        self.authority.publish(self.authority.frame(bundle))
        self.site.turn()

    def test_an_approval(self) -> None:
        """What the snapshot denies opens by the approval in Authority's answer, and lasts by it."""
        self.follow(ON_REQUEST)
        self.authority.approved = ApprovedAccess(request_id="r1", approver="p" * 26, ends_at=2**40)
        _, client, _ = self.carried()
        self.assertEqual([one.proxy_decision.decision for one in self.authority.asked], ["deny"])
        self.follow(ON_REQUEST, 5)
        self.assertFalse(client.is_over)
        self.follow(f'{ON_REQUEST} @id("nobody") forbid (principal, action, resource);', 6)
        self.assertRefused(client, "policy_changed", Fault.ABORTED)

    def test_an_approval_that_turns_nothing_here(self) -> None:
        """The Proxy's own policy must allow it too, whatever Authority grants or has approved."""
        self.site.node()
        approved = ApprovedAccess(request_id="r1", approver="p" * 26, ends_at=2**40)
        for version, text in enumerate((NOBODY, NOBODY, "", f"{ON_REQUEST}{NOBODY}"), 4):
            self.authority.approved = approved if version > 4 else None
            self.follow(text, version)
            talk = self.site.open()
            self.assertEqual(talk.reason, "policy_changed", text)
        self.assertEqual({one.reason for one in self.authority.ended}, {"policy_changed"})

    def test_how_to_ask(self) -> None:
        """A refusal that an approval would turn brings what the person types."""
        self.site.node()
        self.authority.refusal = AuthorizeAnswer(
            decision_id=DECISION,
            reason="denied",
            text="access denied",
            request_hint="svc request db1",
        )
        talk = self.site.open()
        assert talk.error is not None
        self.assertEqual(talk.error.details["request"], "svc request db1")

    def test_assigned_anew(self) -> None:
        """A session by an assignment that is over is broken off; one by another goes on."""
        grants: Any = self.site.cluster.grant
        mine = {"resource_identity": "i", "assignment_revision": 1}
        self.patch(
            self.site.cluster, "grant", lambda requested, **more: grants(requested, **mine, **more)
        )
        kept = Assigned("db1", "i", 1)
        self.authority.verdict = RegistrationVerdict(
            True, served=("db1",), inventory=Inventory(1, frozenset({kept}))
        )
        node, client, carry = self.carried()
        for generation, assigned in ((2, kept), (3, Assigned("db1", "i", 2))):
            self.assertFalse(client.is_over)
            self.authority.verdict = RegistrationVerdict(
                True, served=("db1",), inventory=Inventory(generation, frozenset({assigned}))
            )
            Deferred.fromCoroutine(self.authority.evict(AGAIN))
            self.site.turn()
            node.tell(node.registration())
            self.site.turn()
            self.assertEqual(node.last(AcceptedRegistration).inventory.generation, generation)
        self.assertRefused(client, "assignment_changed", Fault.ABORTED)
        self.assertTrue(carry.is_over)
        late = self.site.open()
        self.assertRefused(late, "assignment_changed", Fault.DENIED)

    def test_nothing_assigned_any_more(self) -> None:
        """A Connector without its only resource: its session says that, not that it was revoked."""
        for reason in ("catalog_permits_none", "resource_owned_by_peer"):
            self.authority.verdict = RegistrationVerdict(True, served=("db1",))
            self.authority.departures.clear()
            node, client, carry = self.carried()
            self.authority.verdict = RegistrationVerdict(False, reason, "because")
            Deferred.fromCoroutine(self.authority.evict(AGAIN))
            self.site.turn()
            node.tell(node.registration())
            self.site.turn()
            self.assertRefused(client, "assignment_changed", Fault.ABORTED)
            self.assertTrue(carry.is_over)
            self.assertEqual(self.events(TunnelEnded)[-1].reason, EndReason.EVICTED)
            [notice] = self.authority.departures
            self.assertEqual([one.reason for one in notice.ended], ["assignment_changed"])
            self.assertEqual(self.authority.ended[-1].reason, "assignment_changed")

    def test_person_revoked(self) -> None:
        """A person who is revoked loses what is open with the next heartbeat."""
        _, client, _ = self.carried()
        self.authority.beat(self.site.cluster.person.facts.principal.uri)
        self.site.turn()
        self.assertRefused(client, "revoked", Fault.ABORTED)

    def test_goes_on_without_authority(self) -> None:
        """An open session goes on while Authority is away; its end is told when it is back."""
        _, client, carry = self.carried()
        self.site.lose_authority()
        client.say(data(b"still"))
        self.site.turn()
        self.assertEqual(carry.data, b"still")
        client.stream.end()
        self.site.turn()
        self.assertEqual(self.authority.ended, [])
        self.authority.is_up = True
        self.site.pass_time(10)
        self.assertEqual([one.reason for one in self.authority.ended], ["closed"])
        # It was claimed at the greeting: its end was not yet told.
        self.assertEqual(len(self.authority.claims[-1]), 1)

    def test_stalled_client(self) -> None:
        """A client that takes nothing holds back its Connector; nothing piles up between them."""
        _, client, carry = self.carried()
        client.stalled = Deferred()
        sent = 0
        while not carry.stream.is_full and sent < 10_000_000:
            carry.say(data(bytes(100_000)))
            sent += 100_000
            self.site.turn(4)
        self.assertLess(sent, 3_000_000)
        client.stalled.callback(None)
        client.stalled = None
        for _ in range(20):
            self.site.turn()
        self.assertEqual(sum(len(one) - 4 for one in client.heard[1:]), sent)

    def assertRefused(self, talk: Talk, reason: str, fault: Fault) -> None:
        assert talk.error is not None
        self.assertEqual((talk.reason, talk.error.fault), (reason, fault))
        self.assertEqual(talk.error.details["decision_id"], DECISION)


class OpeningTests(ProxyTests):
    """What is decided while a session waits for Authority, or for its Connector's stream."""

    def asked(self) -> tuple[Node, Talk, Deferred[None]]:
        """A session that waits for Authority's answer, and what gives it."""
        node = self.site.node()
        answers: Deferred[None] = Deferred()
        self.authority.holding = answers
        talk = self.site.open()
        self.assertEqual(len(self.authority.asked), 1)
        self.assertFalse(talk.is_over)
        return node, talk, answers

    def ordered(self) -> tuple[Node, Talk]:
        """A session that waits for its stream, its first bytes on the way."""
        node = self.site.node()
        talk = self.site.open()
        talk.say(data(b"early"))
        self.site.turn()
        self.assertEqual(len(self.notices(node)), 1)
        return node, talk

    def notices(self, node: Node) -> list[OpenNotice]:
        return [one for one in node.said if isinstance(one, OpenNotice)]

    def revoke(self) -> None:
        self.authority.beat(self.site.cluster.person.facts.principal.uri)

    def forbid(self) -> None:
        nobody = '@id("nobody") forbid (principal, action, resource);'
        bundle = self.authority._bundle(("db1",), 9, version=4, text=nobody)
        self.authority.publish(self.authority.frame(bundle))

    def changes(self) -> tuple[tuple[str, Callable[[], object]], ...]:
        """What ends a session, by the reason that is told."""
        return (
            ("revoked", self.revoke),
            ("policy_changed", self.forbid),
            ("proxy_revoked", lambda: self.site.sessions.proxy_revoked()),
            ("draining", lambda: self.site.sessions.end_all()),
        )

    def test_while_authority_is_asked(self) -> None:
        """What came meanwhile holds for the session: its Connector never hears of it."""
        for reason, change in self.changes():
            node, talk, answers = self.asked()
            change()
            self.site.turn()
            answers.callback(None)
            self.site.turn()
            self.assertDenied(talk, reason)
            self.assertEqual(self.notices(node), [])
            self.again()

    def test_while_the_stream_is_awaited(self) -> None:
        """It is ended at once; a stream that comes is refused, and takes no byte."""
        for reason, change in self.changes():
            node, talk = self.ordered()
            change()
            self.site.turn()
            self.assertDenied(talk, reason)
            carry = node.carry(node.last(OpenNotice))
            self.assertEqual((carry.reason, carry.data), ("carry_refused", b""))
            self.again()

    def test_without_a_policy(self) -> None:
        """Nothing is opened by a policy that became too old while Authority was asked."""
        self.authority.publish(self.authority.frame(parts="nothing", valid_secs=5))
        self.site.turn()
        node, talk, answers = self.asked()
        self.site.pass_time(6, beating=False)
        answers.callback(None)
        self.site.turn()
        self.assertDenied(talk, "policy_stale")
        self.assertEqual(self.notices(node), [])

    def test_another_change(self) -> None:
        """One that takes nothing from it leaves it alone."""
        node, talk = self.ordered()
        self.authority.publish(self.authority.frame(self.authority._bundle(("db1",), 8)))
        self.site.turn()
        self.assertEqual(node.carry(node.last(OpenNotice)).data, b"early")
        self.assertFalse(talk.is_over)

    def test_after_the_proxy_was_revoked(self) -> None:
        """Though an Authority that has not heard of it would grant, no session begins."""
        self.site.node()
        self.site.sessions.proxy_revoked()
        self.assertEqual(self.site.open().reason, "proxy_revoked")
        self.assertEqual(self.authority.asked, [])

    def assertDenied(self, talk: Talk, reason: str) -> None:
        """The person is told why, and Authority is told the end with the same word."""
        assert talk.error is not None
        self.assertEqual((talk.reason, talk.data), (reason, b""))
        self.assertEqual(talk.error.details["decision_id"], DECISION)
        self.assertEqual([one.reason for one in self.authority.ended], [reason])
        self.assertEqual(self.site.sessions.open_sessions, 0)


class RefusedTests(ProxyTests):
    def assertRefused(
        self, talk: Talk, reason: str, fault: Fault, decision_id: str | None = None
    ) -> None:
        assert talk.error is not None
        self.assertEqual((talk.reason, talk.error.fault), (reason, fault))
        self.assertEqual(talk.error.details.get("decision_id"), decision_id)
        self.assertEqual(self.site.counts[("session", "tcp")], 0)

    @proves("G-MET-12")
    def test_denied(self) -> None:
        """A denial carries the recorded decision's id and policies, and opens nothing."""
        node = self.site.node()
        self.authority.refusal = AuthorizeAnswer(
            decision_id=DECISION,
            grant=None,
            reason="denied",
            text="access denied",
            policies=("no", "way"),
        )
        talk = self.site.open()
        self.assertRefused(talk, "denied", Fault.DENIED, DECISION)
        assert talk.error is not None
        self.assertEqual(talk.error.details["policies"], "no,way")
        self.assertEqual([one for one in node.said if isinstance(one, OpenNotice)], [])
        self.assertEqual(self.authority.ended, [])

    @proves("G-OPEN-36")
    def test_denied_here(self) -> None:
        """What the snapshot denies is put before Authority as denied, and counted so."""
        self.site.node()
        self.authority.refusal = AuthorizeAnswer(
            decision_id=DECISION, grant=None, reason="denied", text="access denied"
        )
        nobody = '@id("nobody") forbid (principal, action, resource);'
        self.authority.publish(
            self.authority.frame(self.authority._bundle(("db1",), 8, version=4, text=nobody))
        )
        self.site.turn()
        self.assertRefused(self.site.open(), "denied", Fault.DENIED, DECISION)
        said = [one.proxy_decision for one in self.authority.asked]
        self.assertEqual([one.decision for one in said], ["deny"])
        self.assertEqual((said[0].policies, said[0].policy_version), (("nobody",), 4))
        self.assertEqual(said[0].source_address, "192.0.2.7")
        self.assertEqual(self.site.counts[("gate", "connect", "deny")], 1)

    def test_unknown_parameters(self) -> None:
        """A request with what its kind does not take is neither decided nor brought further."""
        self.site.node()
        refused = self.site.open(parameters={"login_user": "root"})
        self.assertEqual(refused.reason, "unknown_parameter")
        self.assertEqual(self.authority.asked, [])
        self.assertEqual([count for count in self.site.counts if count[0] == "gate"], [])

    @proves("G-MET-24", "G-SES-07", "G-ERR-12")
    def test_misses(self) -> None:
        """What nobody serves is ``unknown``; what somebody served is ``departed``."""
        talk = self.site.open()
        self.assertRefused(talk, "unknown", Fault.NOT_FOUND, DECISION)
        self.site.node().wire.cut()
        self.site.turn()
        self.assertRefused(self.site.open(), "departed", Fault.UNAVAILABLE, DECISION)
        for reason, fault in (("departed", Fault.UNAVAILABLE), ("unknown", Fault.NOT_FOUND)):
            self.authority.refusal = AuthorizeAnswer(
                decision_id=DECISION, grant=None, reason=reason, text="no Connector", may_view=True
            )
            self.assertRefused(self.site.open(), reason, fault, DECISION)
            self.assertEqual(self.site.counts[("miss", "open", reason)], 1)
            self.assertEqual(self.site.counts[("miss", "issue", reason)], 1)
        self.site.pass_time(GATHER_SECS)
        self.assertEqual([one.reason for one in self.authority.ended], ["unknown", "departed"])

    def test_refused_request(self) -> None:
        """A request that Authority does not take is told with the id it was recorded under."""
        self.site.node()
        self.authority.refusal = Denied("too old", reason="request_stale")
        talk = self.site.open()
        asked = self.authority.asked[0].proxy_decision.decision_id
        self.assertRefused(talk, "request_stale", Fault.DENIED, asked)
        self.assertEqual(self.authority.ended, [])

    def test_proxy_not_admitted(self) -> None:
        """A Proxy that Authority revoked does not call the person revoked."""
        self.site.node()
        self.authority.refusal = Denied("revoked", reason="revoked_node")
        self.assertRefused(self.site.open(), "authority_unreachable", Fault.UNAVAILABLE)

    def test_authority_away(self) -> None:
        """Without Authority an open is refused at once, and past a minute the policy is stale."""
        self.site.node()
        self.site.lose_authority()
        for _ in range(3):
            talk = self.site.open()
            self.assertRefused(talk, "authority_unreachable", Fault.UNAVAILABLE)
        self.assertEqual(self.site.reports.waiting, 0)
        self.site.pass_time(59, step=10)
        self.assertEqual(self.site.open().reason, "authority_unreachable")
        self.site.pass_time(2)
        self.assertRefused(self.site.open(), "policy_stale", Fault.UNAVAILABLE)
        self.assertEqual(self.site.counts[("gate", "connect", "error")], 1)

    def test_authority_silent(self) -> None:
        """An Authority that never answers costs ten seconds, and is told that nothing opened."""
        self.site.node()
        self.authority.holding = Deferred()
        talk = self.site.open()
        self.site.pass_time(11)
        self.assertRefused(talk, "authority_unreachable", Fault.UNAVAILABLE)
        self.assertEqual([one.reason for one in self.authority.ended], ["not_opened"])

    def test_client_leaves_meanwhile(self) -> None:
        """A client that leaves before the answer opens nothing, and Authority is told."""
        node = self.site.node()
        self.authority.holding = Deferred()
        talk = self.site.open()
        talk.stream.cancel()
        self.site.turn()
        self.assertEqual([one.reason for one in self.authority.ended], ["not_opened"])
        self.assertEqual([one for one in node.said if isinstance(one, OpenNotice)], [])

    def test_client_leaves_before_the_lane(self) -> None:
        """A client that leaves before its stream comes leaves no order behind."""
        node = self.site.node()
        talk = self.site.open()
        talk.stream.cancel()
        self.site.turn()
        self.assertEqual(node.carry(node.last(OpenNotice)).reason, "carry_refused")
        self.assertEqual([one.reason for one in self.authority.ended], ["cancelled"])

    def test_no_stream_comes(self) -> None:
        """A Connector that never opens the stream costs its deadline, and the end is told."""
        self.site.node()
        talk = self.site.open()
        self.site.pass_time(16)
        self.assertRefused(talk, "open_deadline", Fault.DEADLINE, DECISION)
        self.assertEqual([one.reason for one in self.authority.ended], ["open_deadline"])

    def test_too_many(self) -> None:
        """A person has at most so many sessions, also while they are being opened."""
        self.site.node()
        wire = self.site.connect(self.site.cluster.person)
        talks = [self.site.open(wire) for _ in range(4)]
        self.assertRefused(talks[3], "too_many_sessions", Fault.EXHAUSTED)
        talks[0].stream.cancel()
        self.site.turn()
        self.assertEqual(self.site.open(wire).reason, "")

    def leave_unread(self, wire: Wire) -> Talk:
        """A session that its Connector closed while its client has not read the last bytes."""
        node = self.nodes[-1]
        client = self.site.open(wire)
        self.assertEqual(client.reason, "")
        carry = node.carry(node.last(OpenNotice))
        client.stalled = Deferred()
        for _ in range(8):
            carry.say(data(bytes(100)) * 600)
            self.site.turn(4)
        carry.stream.end()
        self.site.turn()
        self.assertEqual(self.site.gauges[("sessions",)], 0)
        self.assertFalse(client.is_over)
        return client

    def test_unread_ends(self) -> None:
        """An ended session counts until its client has read its end, or its connection is gone."""
        self.nodes = [self.site.node()]
        wire = self.site.connect(self.site.cluster.person)
        first, *_ = (self.leave_unread(wire) for _ in range(3))
        self.assertEqual(self.site.open(wire).reason, "too_many_sessions")
        self.assertEqual(self.site.open().reason, "too_many_sessions")
        reading, first.stalled = first.stalled, None
        assert reading is not None
        reading.callback(None)
        for _ in range(10):
            self.site.turn()
        self.assertTrue(first.is_over)
        self.leave_unread(wire)
        self.assertEqual(self.site.open(wire).reason, "too_many_sessions")
        wire.cut()
        self.site.turn()
        self.assertEqual(self.site.sessions._per_person, {})

    def test_same_uid(self) -> None:
        """A session's uid is good for one session at a time."""
        node, _, carry = self.carried()
        uid = node.last(OpenNotice).session_uid
        talk = self.site.open(session_uid=uid)
        self.assertEqual(talk.reason, "request_replayed")
        self.assertFalse(carry.is_over)
        self.assertEqual(self.authority.ended, [])

    def test_revoked_person(self) -> None:
        """A person revoked by a heartbeat opens nothing from then on."""
        self.site.node()
        self.authority.beat(self.site.cluster.person.facts.principal.uri)
        self.site.turn()
        self.assertRefused(self.site.open(), "revoked", Fault.DENIED)

    def test_nodes_are_no_persons(self) -> None:
        """A node's certificate opens no session."""
        talk = self.site.open(person=self.site.cluster.connector)
        self.assertEqual(talk.reason, "certificate_role")

    def test_unreadable(self) -> None:
        """Garbage, an unknown kind and silence are refused as what they are."""
        wire = self.site.connect(self.site.cluster.person)
        garbage = Talk(wire.channel.stream(OPEN_METHOD))
        garbage.say(b"\x00garbage")
        silent = Talk(wire.channel.stream(OPEN_METHOD))
        odd = self.site.open(wire, kind="telnet")
        self.site.pass_time(11)
        self.assertEqual((garbage.reason, odd.reason), ("malformed", "unknown_kind"))
        self.assertEqual((silent.reason, silent.is_over), ("deadline", True))

    def test_grant_of_another_session(self) -> None:
        """A grant that is not for this session opens nothing."""
        self.site.node()
        grants: Any = self.site.cluster.grant
        self.patch(self.site.cluster, "grant", lambda requested, **changed: grants(requested))
        talk = self.site.open()
        self.assertEqual(talk.reason, "grant_session")
        self.assertEqual([one.reason for one in self.authority.ended], ["not_opened"])

    def test_what_authority_lacks(self) -> None:
        """An Authority that is there and cannot grant now says so by its own word."""
        self.site.node()
        for reason in ("store_unavailable", "audit_head_unsigned"):
            self.authority.refusal = SvcError("lacks", reason=reason, fault=Fault.UNAVAILABLE)
            self.assertRefused(self.site.open(), reason, Fault.UNAVAILABLE)

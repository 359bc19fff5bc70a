"""Proxies follow, claim, report; what they say of sessions, and what becomes of those left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.head import to_line
from svc.authority.control import MAX_FOLLOWED, ControlService
from svc.authority.ingest.heads import HeadsToSend
from svc.authority.ingest.queue import QueueIntake
from svc.authority.sessions.end import SessionEnds
from svc.authority.sessions.explain import Explainer
from svc.errors import AuditBroken, Denied, LeaseLost, Malformed, SvcError, TooMany, Unauthenticated
from svc.interfaces.rpc import Peer
from svc.interfaces.store import ITransaction
from svc.messages.access import USE_APPROVAL_METHOD
from svc.messages.control import (
    AUTHORIZE_METHOD,
    END_METHOD,
    AuthorityGreeting,
    CountedEnd,
    Departure,
    ask_message,
    departure_message,
    ended_message,
    hello_message,
)
from svc.messages.health import health_reports
from svc.messages.snapshot import SnapshotFrame, decode_frame, decode_snapshot
from svc.messages.spooled import SpoolState, read_state, spooled_message
from svc.model.principal import Role
from svc.model.session.session import Session, SessionState
from svc.model.signing import Purpose, Signed
from svc.proto.gate.v1 import control_pb2 as pb
from svc.ratelimit.limits import Rate
from svc.runtime.services import BackgroundTasks
from tests.audit.logs import MemoryLog, heads_over, short_record
from tests.authority.house import ADA, KINDS, Call, House, outcome, value_of
from tests.authority.registry.support import reported_health
from tests.authority.spools import Origin
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing_later
from tests.support.proof import proves


def _insert(session: Session, tx: ITransaction) -> None:
    tx.sessions.insert(session)


def control_service(
    house: House,
    tasks: BackgroundTasks,
    ends: SessionEnds,
    seen: Callable[[str, str], Awaitable[None]],
) -> ControlService:
    """What serves Proxies, of this Authority."""
    explainer = Explainer(
        cluster=CLUSTER,
        state_cache=house.state_cache,
        engine=lambda: house.policy.engine,
        kinds=KINDS,
        store=house.store,
        verifier=house.world.verifier,
        now=house.now,
        reasons=house.reasons(),
    )
    issuance = house.issuance()
    return ControlService(
        heads=HeadsToSend(nothing_later),
        health=reported_health(house),
        peers=issuance.peers,
        state_cache=house.state_cache,
        verifier=house.world.verifier,
        issuance=issuance,
        intake=house.intake(tasks),
        ends=ends,
        snapshots=house.publisher,
        explainer=explainer,
        access=house.access_calls(),
        approvals=house.request_approvals(),
        gated=house.gated_sessions(),
        lanes=lambda: AuthorityGreeting(CLUSTER, "a" * 26, "0.11.0"),
        clock=house.clock,
        seen=seen,
        rates=house.rates,
        spooled=QueueIntake(
            store=house.store,
            now=house.now,
            covered=lambda: 0,
            arrived=lambda: None,
            rates=house.rates,
        ),
    )


class ControlTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = house = House()
        self.tasks = BackgroundTasks()
        self.ends = SessionEnds(
            store=house.store,
            recorder=house.recorder,
            clock=house.clock,
            now=house.now,
            tasks=self.tasks,
            reclaim_secs=60.0,
        )
        self.control = control_service(house, self.tasks, self.ends, self.seen)
        self.methods = self.control.service().methods
        self.peer = house.peer(house.proxy)

    def refused(self, method: str, *messages: Any) -> str:
        _, got = self.call(method, *messages)
        error: Any = self.failureResultOf(got).value
        return str(error.reason)

    def test_greetings(self) -> None:
        """A Proxy that greets without end is told to wait, and the store is left alone."""
        hello = hello_message("0.11.0", "first", ())
        for _ in range(60):
            self.successResultOf(self.call("Hello", hello)[1])
        written = self.house.store.written
        self.assertEqual(self.refused("Hello", hello), "too_many_requests")
        self.assertEqual(self.house.store.written, written)

    def test_ends_have_their_own_places(self) -> None:
        """While all the requests a Proxy may have are in work, its sessions' ends are taken."""
        self.open("u1")
        held = [self.house.rates.asking(self.house.proxy.id) for _ in range(512)]
        for one in held:
            one.__enter__()
        asked = ask_message(self.house.ask(self.house.ada))
        self.assertEqual(self.refused("Authorize", asked), "too_many_requests")
        call, got = self.call("EndSessions", ended_message([CountedEnd("u1", "closed")]))
        self.successResultOf(got)
        [ended] = pb.EndSessionsResponse.FromString(call.sent[0]).outcomes
        self.assertEqual(ended.outcome, "closed")

    def test_reports_at_once(self) -> None:
        """A Proxy has few reports in work."""
        self.house.store.mood = "silent"
        ended = ended_message([CountedEnd("u1", "closed")])
        waiting = [self.call("EndSessions", ended)[1] for _ in range(8)]
        self.assertEqual(self.refused("EndSessions", ended), "too_many_requests")
        for one in waiting:
            one.addErrback(lambda _: None)
            one.cancel()
        self.house.store.mood = "well"
        self.successResultOf(self.call("EndSessions", ended)[1])

    def test_proves_nothing_too_often(self) -> None:
        """Only what has to prove something is shut off from a Proxy that proved too little."""
        self.house.rates.unproven.buckets.rate = Rate(60, 0.5)
        for method in (AUTHORIZE_METHOD, USE_APPROVAL_METHOD):
            with self.assertRaises(TooMany):
                self.control.admit(method, self.peer)
        self.control.admit(END_METHOD, self.peer)

    def test_false_health_reports(self) -> None:
        """Each that is no node's own costs the Proxy, until no more of them are looked at."""
        self.house.rates.unproven.buckets.rate = Rate(60, 3)
        report = Signed(b"no report", b"s" * 64, self.house.connector.chain)
        message = health_reports([report, report])
        for _ in range(2):
            self.successResultOf(self.call("ReportHealth", message)[1])
        self.assertEqual(self.refused("ReportHealth", message), "too_many_requests")

    def test_rows_of_a_spool(self) -> None:
        """Rows are in the queue when they are answered; only the caller's own are taken."""
        origin = Origin(self.house, "edge7")
        rows, peer = [origin.first, origin.summary()], self.house.peer(origin.holder)
        message = spooled_message(origin.spool_id, rows)
        for sent in (message, spooled_message(origin.spool_id, []), message):
            call, got = self.call("Spooled", sent, peer=peer)
            self.successResultOf(got)
            state = read_state(pb.SpooledResponse.FromString(call.sent[0]))
            self.assertEqual(state, SpoolState(2, 0))
        self.assertEqual(self.refused("Spooled", message), "other_origin")
        queued = self.house.run(lambda tx: tx.outbox.rows(0, 9))
        self.assertEqual([row.row for row in queued], rows)

    async def seen(self, node_id: str, version: str) -> None:
        at = self.house.now()
        await self.house.store.run("seen", lambda tx: tx.nodes.seen(node_id, at, version))

    def call(self, method: str, *messages: Any, peer: Peer | None = None) -> tuple[Call, Any]:
        call = Call(peer or self.peer)
        data = [one if isinstance(one, bytes) else one.SerializeToString() for one in messages]
        call.give(*data, None)
        return call, Deferred.fromCoroutine(self.methods[method](call))

    def open(self, *uids: str, proxy: str = "") -> None:
        for uid in uids:
            session = Session(
                uid=uid,
                person_id=ADA,
                resource_id="db1",
                kind="tcp",
                connector_id=self.house.connector.id,
                proxy_id=proxy or self.house.proxy.id,
                decision_id="d" * 32,
                started_at=self.house.now(),
            )
            self.house.run(partial(_insert, session))

    def states(self) -> dict[str, SessionState]:
        rows = ("s1", "s2", "s3")
        found = self.house.run(lambda tx: [tx.sessions.get(uid) for uid in rows])
        return {one.uid: one.state for one in found if one is not None}

    def hello(self, *uids: str) -> None:
        _, done = self.call("Hello", hello_message("0.11.0", "i", uids))
        self.successResultOf(done)

    def follow(self) -> tuple[Call, Any]:
        return self.call("Snapshot", pb.SnapshotRequest())

    # -- who may call

    def test_only_active_proxies_may_call(self) -> None:
        """Nobody without a Proxy's certificate, and no revoked Proxy, starts a call."""
        self.control.admit("/m", self.peer)
        with self.assertRaises(Unauthenticated):
            self.control.admit("/m", Peer("192.0.2.1", 1))
        with self.assertRaises(SvcError):
            self.control.admit("/m", self.house.peer(self.house.connector))
        with self.assertRaises(Denied):
            self.control.admit("/m", self.house.peer(self.house.holder(Role.PROXY)))
        self.house.run(lambda tx: tx.nodes.revoke(self.house.proxy.id, 1.0))
        self.house.refresh()
        with self.assertRaises(Denied):
            self.control.admit("/m", self.peer)

    def test_what_is_not_of_its_form_is_malformed(self) -> None:
        """Garbage on any method is refused as malformed, never as a failure of ours."""
        odd = {
            "Hello": hello_message("", "i", ()),
            "Authorize": pb.AuthorizeRequest(request=b"x"),
            "Snapshot": pb.SnapshotRequest(have_digest=b"short"),
            "EndSessions": pb.EndSessionsRequest(sessions=[pb.EndedSession()]),
            "Departed": pb.DepartureNotice(),
        }
        for method in self.methods:
            for message in (b"\xff", odd.get(method, b"\xff")):
                _, done = self.call(method, message)
                self.failureResultOf(done, Malformed)

    def test_a_proxys_own_word_is_bounded(self) -> None:
        """A decision word, id or version that no record could hold is malformed."""
        for field, value in (
            ("decision", "maybe"),
            ("decision_id", "d1"),
            ("policy_version", 2**60),
        ):
            message = ask_message(self.house.ask(self.house.ada))
            setattr(message.proxy_decision, field, value)
            _, done = self.call("Authorize", message)
            self.failureResultOf(done, Malformed)

    # -- sessions

    @proves("G-MET-21", "G-OPEN-48")
    def test_reported_ends(self) -> None:
        """An end is recorded once; a second is known, another Proxy's session is unknown."""
        self.open("s1")
        self.open("s2", proxy="z" * 26)
        report = ended_message(
            [
                CountedEnd(session_uid="s1", reason="closed", bytes_up=5, bytes_down=7),
                CountedEnd("s2", "closed"),
                CountedEnd("x", "y"),
            ]
        )
        for words in (["closed", "unknown", "unknown"], ["recorded", "unknown", "unknown"]):
            call, done = self.call("EndSessions", report)
            self.successResultOf(done)
            said = pb.EndSessionsResponse.FromString(call.sent[0])
            self.assertEqual([one.outcome for one in said.outcomes], words)
        (record,) = self.house.records("session.end")
        self.assertEqual((record["session_uid"], record["details"]["bytes_down"]), ("s1", 7))

    def test_lanes(self) -> None:
        """The record of an end names the lane that the Proxy tells, in a notice too."""
        self.open("s1", "s2", "s3")
        ends = [CountedEnd("s1", "closed"), CountedEnd("s2", "closed", lane="direct")]
        self.successResultOf(self.call("EndSessions", ended_message(ends))[1])
        left = CountedEnd(
            session_uid="s3", reason="tunnel_closed", bytes_up=5, bytes_down=7, lane="direct"
        )
        notice = Departure(
            tunnel_node_id=self.house.connector.id,
            reason="closed",
            session_uids=("s3",),
            ended=(left,),
        )
        self.successResultOf(self.call("Departed", departure_message(notice))[1])
        records = self.house.records("session.end")
        lanes = [one["details"]["lane"] for one in records]
        self.assertEqual(lanes, ["in_tunnel", "direct", "direct"])
        self.assertEqual(records[-1]["details"]["bytes_down"], 7)

    def test_lane_of_what_is_abandoned(self) -> None:
        """A session that nobody claims went through the lane that its Proxy told last."""
        self.hello()
        self.open("s1", "s2")
        self.open("s3", proxy="z" * 26)
        self.successResultOf(self.call("EndSessions", ended_message((), ("s2", "s3", "x")))[1])
        _, done = self.call("Hello", hello_message("0.11.0", "another", ()))
        self.successResultOf(done)
        records = self.house.records("session.abandoned")
        lanes = {one["session_uid"]: one["details"]["lane"] for one in records}
        self.assertEqual(lanes, {"s1": "in_tunnel", "s2": "direct"})

    def test_lane_that_nobody_told(self) -> None:
        """An Authority that never heard a session's Proxy does not guess its lane."""
        self.open("s1")
        self.hello()
        (record,) = self.house.records("session.abandoned")
        self.assertEqual(record["details"]["lane"], "unknown")

    def test_departure(self) -> None:
        """Sessions of a tunnel that ended are ended for that reason."""
        self.open("s1")
        notice = departure_message(Departure(self.house.connector.id, "transport_error", ("s1",)))
        _, done = self.call("Departed", notice)
        self.successResultOf(done)
        self.assertEqual(self.house.records()[-1]["reason"], "tunnel_transport_error")

    def test_more_ends_than_one_transaction_takes(self) -> None:
        """Many ends are taken in several transactions, in the order reported."""
        before = self.house.store.written
        many = [CountedEnd(f"u{n}", "closed") for n in range(2500)]
        outcomes = value_of(self.ends.reported(self.house.proxy.id, many))
        self.assertEqual([uid for uid, _ in outcomes], [one.session_uid for one in many])
        self.assertEqual(self.house.store.written - before, 3)

    def test_greeting_abandons_what_is_not_claimed(self) -> None:
        """A Proxy that comes back keeps what it claims; the rest of its own is abandoned."""
        self.open("s1", "s2")
        self.open("s3", proxy="z" * 26)
        self.hello("s1")
        open_, gone = SessionState.OPEN, SessionState.ABANDONED
        self.assertEqual(self.states(), {"s1": open_, "s2": gone, "s3": open_})
        self.assertEqual(self.house.records("session.abandoned")[0]["reason"], "proxy_gone")

    def test_unclaimed_by_the_same_process(self) -> None:
        """What a process that was known before does not claim was not lost with a process."""
        self.hello()
        self.open("s1")
        self.hello()
        (record,) = self.house.records("session.abandoned")
        self.assertEqual(record["reason"], "not_claimed")
        self.open("s2")
        _, done = self.call("Hello", hello_message("0.11.0", "another", ()))
        self.successResultOf(done)
        self.assertEqual(self.house.records("session.abandoned")[1]["reason"], "proxy_gone")

    def test_greeting_is_a_report(self) -> None:
        """A Proxy that greets is in the registry as seen now, with its version."""
        self.hello()
        row = self.house.row(self.house.proxy)
        found = self.house.run(lambda tx: tx.nodes.get(row.id))
        self.assertEqual((found.last_seen, found.version), (self.house.now(), "0.11.0"))

    def test_greeting_over_another_connection(self) -> None:
        """A Proxy that is here and greets again has lost nothing, whatever it claims."""
        self.hello()
        self.follow()
        self.open("s1", "s2")
        self.hello("s1")
        self.assertEqual(set(self.states().values()), {SessionState.OPEN})
        _, done = self.call("Hello", hello_message("0.11.0", "another", ("s1",)))
        self.successResultOf(done)
        self.assertEqual(self.states()["s2"], SessionState.ABANDONED)

    def test_restarted_authority_waits_for_claims(self) -> None:
        """After a restart a Proxy has a minute to claim; then its sessions are abandoned."""
        self.open("s1")
        value_of(self.ends.await_claims())
        self.house.clock.advance(59)
        self.assertEqual(self.states()["s1"], SessionState.OPEN)
        self.house.clock.advance(1)
        self.assertEqual(self.states()["s1"], SessionState.ABANDONED)

    def test_claimed_and_followed_in_time(self) -> None:
        """A Proxy that claims and follows keeps its sessions for as long as it follows."""
        self.open("s1")
        value_of(self.ends.await_claims())
        self.hello("s1")
        call, following = self.follow()
        self.house.clock.advance(300)
        self.assertEqual(self.states()["s1"], SessionState.OPEN)
        # Silent for so many seconds, it is away.
        self.assertEqual((self.control.proxies, sum(call.kept_alive)), (1, 30.0))
        following.cancel()
        self.failureResultOf(following)
        self.assertEqual(self.control.proxies, 0)
        trust = self.control.gated.trust
        self.assertFalse(trust.was_here_since(self.house.proxy.id, self.house.now()))
        self.house.clock.advance(60)
        self.assertEqual(self.states()["s1"], SessionState.ABANDONED)

    def test_back_before_the_waiting_begins(self) -> None:
        """A Proxy that follows before a restarted Authority waits for claims loses nothing."""
        self.open("s1")
        self.hello("s1")
        self.follow()
        value_of(self.ends.await_claims())
        self.house.clock.advance(300)
        self.assertEqual(self.states()["s1"], SessionState.OPEN)

    def test_claimed_and_gone_again(self) -> None:
        """A Proxy that greets and never follows does not hold its sessions open for ever."""
        self.open("s1")
        self.hello("s1")
        self.house.clock.advance(60)
        self.assertEqual(self.states()["s1"], SessionState.ABANDONED)

    def test_a_second_stream_keeps_a_proxy_present(self) -> None:
        """A Proxy that reconnects before its old stream ended is not away."""
        _, first = self.follow()
        self.follow()
        first.cancel()
        self.failureResultOf(first)
        self.assertEqual(self.control.proxies, 1)
        self.assertEqual(self.house.clock.getDelayedCalls(), [])
        began, trust = self.house.now(), self.control.gated.trust
        self.house.clock.advance(30)
        self.assertTrue(trust.was_here_since(self.house.proxy.id, began))

    def test_store_away_when_sessions_are_to_be_abandoned(self) -> None:
        """What the store did not take is tried again later."""
        self.open("s1")
        self.ends.away(self.house.proxy.id)
        self.house.store.mood = "down"
        self.house.clock.advance(60)
        self.house.store.mood = "well"
        self.house.clock.advance(60)
        self.assertEqual(self.states()["s1"], SessionState.ABANDONED)
        self.ends.stop()
        self.assertEqual(self.house.clock.getDelayedCalls(), [])

    def test_store_away_when_a_proxy_claims(self) -> None:
        """A Proxy whose greeting failed, and that never comes back, holds nothing open."""
        self.open("s1")
        self.ends.away(self.house.proxy.id)
        self.house.store.mood = "down"
        request = hello_message("0.11.0", "i1", ["s1"])
        self.assertEqual(self.refused("Hello", request), "store_unavailable")
        self.house.store.mood = "well"
        self.house.clock.advance(60)
        self.assertEqual(self.states()["s1"], SessionState.ABANDONED)

    def test_store_away_when_a_present_proxy_claims(self) -> None:
        """One that follows us meanwhile keeps its sessions."""
        self.open("s1")
        self.follow()
        self.house.store.mood = "down"
        self.assertEqual(
            self.refused("Hello", hello_message("0.11.0", "i2", [])), "store_unavailable"
        )
        self.house.store.mood = "well"
        self.house.clock.advance(60)
        self.assertEqual(self.states()["s1"], SessionState.OPEN)

    def test_store_away_when_a_proxy_was_revoked(self) -> None:
        """Why its sessions are abandoned is on record, however late."""
        self.open("s1")
        self.house.store.mood = "down"
        self.ends.revoked(self.house.proxy.id)
        self.ends.away(self.house.proxy.id)
        self.house.store.mood = "well"
        self.house.clock.advance(60)
        (record,) = self.house.records("session.abandoned")
        self.assertEqual(record["reason"], "proxy_revoked")

    # -- snapshots

    def frames(self, call: Call) -> list[SnapshotFrame]:
        return [decode_frame(one) for one in call.sent]

    def test_snapshot_is_followed(self) -> None:
        """A Proxy gets the whole once, then heartbeats, then changes as deltas; all signed."""
        call, _ = self.follow()
        self.house.publisher.beat()
        self.house.run(lambda tx: tx.people.add_group("ops", 2.0))
        self.house.refresh()
        whole, beat, change = self.frames(call)
        self.assertTrue(whole.bundle)
        self.assertEqual((beat.bundle, beat.delta), (b"", b""))
        self.assertTrue(change.delta and not change.bundle)
        serials = []
        for frame in (whole, beat, change):
            self.house.world.verifier.verify_signed(frame.signed, Purpose.SNAPSHOT)
            serials.append(decode_snapshot(frame.signed.payload).serial)
        self.assertEqual(serials, sorted(set(serials)))

    def test_what_is_reached_through_other_proxies(self) -> None:
        """Told to a Proxy that relays, with the first frame and then only where it changes."""
        far, registrations = self.house.node(Role.PROXY, "p2"), self.house.registrations
        self.house.refresh()
        registrations.remove(here := self.house.serve("db1"))
        for holder in (self.house.proxy, far):
            greeting = hello_message("0.11.0", "i", (), peer_address=f"{holder.id}:1")
            self.successResultOf(self.call("Hello", greeting, peer=self.house.peer(holder))[1])
        (call, _), there = self.follow(), evolve(here, proxy_id=far.id)
        for change in (lambda _: None, registrations.add, registrations.remove):
            change(there)
            self.house.publisher.beat()
        told = [one.served_by_peers for one in self.frames(call)]
        self.assertEqual(told, [frozenset(), None, {"db1"}, frozenset()])

    def test_who_begins_to_follow_gets_what_was_signed_just_now(self) -> None:
        """It is above all that another Authority signed until it asked; nobody else is told."""
        older, _ = self.follow()
        self.house.clock.advance(4)
        another = self.house.publisher.now()
        call, _ = self.follow()
        first = decode_snapshot(self.frames(call)[0].signed.payload)
        self.assertGreaterEqual(first.serial, int(another * 1000))
        self.assertEqual(len(older.sent), 1)

    def test_who_leads_no_more_signs_no_more(self) -> None:
        """Nobody is told anything, and who begins to follow hears who leads; then all goes on."""

        def lost() -> int:
            raise LeaseLost("b")

        call, _ = self.follow()
        first = decode_snapshot(self.frames(call)[0].signed.payload)
        leads, self.house.publisher.epoch = self.house.publisher.epoch, lost
        self.house.publisher.beat()
        self.house.add_group("ops")
        self.house.refresh()
        self.assertEqual(len(call.sent), 1)
        self.assertEqual(self.refused("Snapshot", pb.SnapshotRequest()), "not_leader")
        self.house.publisher.epoch = leads
        self.house.publisher.beat()
        _, then = self.frames(call)
        newest = decode_snapshot(then.signed.payload)
        self.assertGreater(newest.entity_revision, first.entity_revision)
        self.assertEqual(newest.lease_epoch, leads())

    def test_slow_proxy_gets_the_newest_and_can_go_on_from_it(self) -> None:
        """What a Proxy is sent next builds on what it was sent, not on what it missed."""
        call = Call(self.peer)
        room: Deferred[None] = Deferred()
        call.room = room
        call.give(pb.SnapshotRequest().SerializeToString())
        Deferred.fromCoroutine(self.methods["Snapshot"](call))
        for group in ("ops", "qa"):
            self.house.add_group(group)
            self.house.refresh()
        call.room = None
        room.callback(None)
        self.house.publisher.beat()
        first, second, *_ = self.frames(call)
        self.assertTrue(first.bundle)
        self.assertTrue(second.bundle)
        self.assertNotEqual(first.bundle, second.bundle)

    def test_heads_are_told_once(self) -> None:
        """The proofs of a restored store and the newest head come with the next frame, once."""
        log = MemoryLog()
        log.fill(9, short_record)
        first, second = heads_over(log.log, 4, 9, hours=1)
        self.control.heads.signed(first)
        call, _ = self.follow()
        self.house.publisher.beat()
        self.control.heads.signed(second)
        proof = log.go_on(6, second, hours=9)
        self.control.heads.signed(proof)
        self.house.publisher.beat()
        told = [frame.heads for frame in self.frames(call)]
        self.assertEqual(told, [(to_line(first),), (), (to_line(proof),)])
        again, _ = self.follow()
        self.assertEqual(self.frames(again)[0].heads, (to_line(proof),))

    def test_a_head_we_are_behind(self) -> None:
        """A Proxy that keeps more than our log has is refused before anything is written."""
        heard: list[bytes] = []

        async def receive_head(line: bytes) -> None:
            heard.append(line)
            raise AuditBroken("the store is behind", reason="audit_rolled_back")

        self.control.heads.receive_head = receive_head
        written = self.house.store.written
        greeting = hello_message("0.11.0", "first", ("u1",), b"line")
        self.assertEqual(self.refused("Hello", greeting), "audit_rolled_back")
        self.assertEqual((heard, self.house.store.written), ([b"line"], written))
        self.successResultOf(self.call("Hello", hello_message("0.11.0", "first", ()))[1])

    def test_a_proxy_that_takes_nothing_is_let_go(self) -> None:
        """A Proxy that does not take a frame for a minute loses its stream."""
        call = Call(self.peer)
        call.room = Deferred()
        call.give(pb.SnapshotRequest().SerializeToString())
        serving: Any = self.methods["Snapshot"](call)
        following: Deferred[None] = Deferred.fromCoroutine(serving)
        self.house.clock.advance(60)
        self.assertEqual(self.failureResultOf(following, SvcError).value.reason, "deadline")
        self.assertEqual(self.control.proxies, 0)

    def test_revoked_proxy_is_told_no_more(self) -> None:
        """Revoking a Proxy ends its stream at once."""
        call, following = self.follow()
        self.house.run(lambda tx: tx.nodes.revoke(self.house.proxy.id, 1.0))
        self.house.refresh()
        self.failureResultOf(following, Denied)
        self.assertEqual(len(call.sent), 1)

    def test_revocations_are_published_at_once(self) -> None:
        """A revoked person stands in the next frame, without another bundle."""
        call, _ = self.follow()
        self.house.run(lambda tx: tx.people.revoke(ADA, 1.0))
        self.house.refresh()
        last = decode_snapshot(self.frames(call)[-1].signed.payload)
        self.assertEqual(
            [one.principal for one in last.revocations], [f"spiffe://{CLUSTER}/user/{ADA}"]
        )

    def test_one_proxy_follows_so_many_snapshots(self) -> None:
        """A Proxy that asks for the whole bundle again and again is refused, until one ends."""
        followed = [self.follow()[1] for _ in range(MAX_FOLLOWED)]
        failure = self.failureResultOf(self.follow()[1])
        self.assertEqual(failure.value.reason, "too_many_snapshots")
        followed[0].addErrback(lambda _: None)
        followed[0].cancel()
        self.assertNoResult(self.follow()[1])

    def test_time_set_back_makes_no_older_snapshot(self) -> None:
        """A host clock set back gives neither an older time nor an older serial."""
        before = self.house.publisher._signed
        assert before is not None
        was = decode_snapshot(before.payload)
        self.house.publisher.now = lambda: self.house.now() - 3600
        self.house.publisher.beat()
        after = self.house.publisher._signed
        assert after is not None
        now = decode_snapshot(after.payload)
        self.assertGreater(now.serial, was.serial)
        self.assertGreaterEqual(now.issued_at_ms, was.issued_at_ms)

    def test_nothing_waits_once_everybody_left(self) -> None:
        """A stream that ends leaves nothing behind in the publisher."""
        _, following = self.follow()
        following.cancel()
        self.failureResultOf(following)
        self.assertEqual(self.house.publisher._waiting, [])
        self.assertEqual(outcome(self.ends.await_claims()), [None])

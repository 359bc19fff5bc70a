"""What an Authority does until it is its turn to write, and how ready it says it is."""

from __future__ import annotations

import json
import os
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.exchange import HeadExchange
from svc.audit.checkpoint.head import to_line
from svc.audit.log.record import Sealer
from svc.audit.spool.rows import RowMaker
from svc.authority.ha.lease import TERM_SECS, Leadership
from svc.authority.ingest.own import OwnSpool
from svc.compose.authority.lifecycle import LEADER, LISTENERS, POLICY, STORE
from svc.compose.authority.parts import LeafRenewal, ServingState
from svc.compose.authority.turns import CHECK_SECS, LeaderGate, StoreReadiness
from svc.compose.listeners.rpc import LateFactory, RpcListener
from svc.errors import LeaseLost, SvcError, Unavailable
from svc.interfaces.rpc import RpcService
from svc.model.audit.events import AUTHORITY_DOUBT
from svc.model.audit.record import chain_hash
from svc.model.certificate import CertificateFacts
from svc.model.cluster.lease import LeaderLease
from svc.model.cluster.node import Leaf, Node
from svc.model.principal import Role
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.runtime.services import Readiness
from svc.runtime.threads import inline
from svc.store.sqlite.memory import memory_store
from tests.audit.logs import MemoryHeads, MemoryLog, heads_over, short_record
from tests.authority.ha.test_lease import Cut
from tests.pki.support import World
from tests.support.proof import proves

FOLLOW_SECS = 10.0
US = "u" * 26


class TurnTests(SynchronousTestCase):
    """One Authority beside another one that is only a lease."""

    def setUp(self) -> None:
        """Somebody else leads."""
        self.clock: Any = Clock()
        self.store = memory_store(chain_hash)
        self.way = Cut(self.store)
        self.change(lambda tx: tx.lease.take("them", "t1", LeaderLease()))
        self.leadership = Leadership(store=self.way, owner="us", instance="u1", clock=self.clock)
        self.ready = Readiness(STORE, LEADER, POLICY, LISTENERS)
        late = LateFactory(self.clock, 16)
        nothing: Any = None
        self.listener = RpcListener(nothing, late, 1.0)
        self.ended: list[SvcError] = []
        self.key = ed25519.Ed25519PrivateKey.generate()
        maker = RowMaker(
            origin=US,
            key=self.key,
            sealer=Sealer(os.urandom),
            now=self.clock.seconds,
            entropy=os.urandom,
        )
        self.turn = LeaderGate(
            leadership=self.leadership,
            exchange=None,
            ready=self.ready,
            listeners={"control": self.listener},
            stopped_by=self.ended.append,
            follow=self.follow,
            follow_secs=FOLLOW_SECS,
            own=OwnSpool(self.way, maker),
        )
        self.starting: Deferred[None] = Deferred()
        self.passes = 0
        self.writes = 0
        self.standing = StoreReadiness(
            store=self.way,
            leadership=self.leadership,
            ready=self.ready,
            clock=self.clock,
            is_leader_there=self.is_there,
            write=self.write,
        )
        self.successResultOf(self.leadership.startService())
        self.successResultOf(self.standing.startService())

    def stand_by(self) -> Deferred[None]:
        """Begin, and stop standing by as the test ends."""
        starting = self.turn.startService()
        starting.addErrback(lambda failure: failure.trap(CancelledError) and None)
        self.addCleanup(starting.cancel)
        return starting

    async def write(self) -> None:
        """Count the tries whether the store takes a write."""
        self.writes += 1

    async def follow(self) -> None:
        """Count the passes of who stands by."""
        self.passes += 1

    async def is_there(self) -> bool:
        """Whether somebody leads: the way there is another test's."""
        return self.leadership.leader != ""

    def change(self, fn: Any) -> Any:
        """A transaction of somebody else."""
        return self.successResultOf(Deferred.fromCoroutine(self.store.run("change", fn)))

    def beats(self, seconds: float) -> None:
        """The other one beats for so long."""
        for _ in range(round(seconds)):
            self.change(lambda tx: tx.lease.beat(tx.lease.held()))
            self.clock.advance(1)

    @proves("G-RDY-07", "X-65", "U-NOTE-19")
    def test_standing_by(self) -> None:
        """Who stands by is ready, and leads once the leader is silent."""
        starting = self.turn.startService()
        self.assertEqual(self.ready.missing, ())
        self.assertTrue(self.listener.late.is_open)
        self.beats(4 * TERM_SECS)
        self.assertNoResult(starting)
        self.assertEqual(self.ready.missing, ())
        self.assertEqual(self.passes, 1 + 4 * TERM_SECS // FOLLOW_SECS)
        self.clock.pump([1] * round(TERM_SECS + 1))
        self.successResultOf(starting)
        passes = self.passes
        self.clock.pump([1] * round(2 * FOLLOW_SECS))
        self.assertEqual(self.passes, passes, "who leads follows nobody")
        self.assertEqual(self.ready.missing, (POLICY, LISTENERS), "what it must now do itself")

    @proves("G-RDY-05", "G-RDY-06", "G-OPEN-39")
    def test_the_store_goes_and_comes(self) -> None:
        """Without the store, or without a leader, nobody is ready; with both again everybody is."""
        self.stand_by()
        self.way.is_cut = True
        self.beats(5)
        self.assertIn(STORE, self.ready.missing)
        self.way.is_cut = False
        self.beats(5)
        self.assertEqual(self.ready.missing, ())
        self.way.held = []
        self.beats(5 + 2)
        self.assertIn(STORE, self.ready.missing, "it does not answer in time")

    def said(self) -> list[tuple[str, int]]:
        """The events in the queue, with their numbers."""
        rows = self.change(lambda tx: tx.outbox.rows(0, 99))
        records = [json.loads(row.row.canonical) for row in rows]
        return [(one["event"], one["spool"]["n"]) for one in records]

    def register(self) -> None:
        """We are in the registry, with our audit key."""
        public = self.key.public_key().public_bytes_raw()
        leaf = Leaf("01", bytes(32), 9e9)
        node = Node(
            id=US,
            name="authority-u",
            role="authority",
            key_sha256=bytes(32),
            audit_key=public,
            leaf=leaf,
            enrolled_at=1.0,
        )
        self.change(lambda tx: tx.nodes.register(node))

    def test_what_it_says(self) -> None:
        """Who stands by says so through the queue, once, and ends its spool when it leads."""
        starting = self.turn.startService()
        self.beats(3 * CHECK_SECS)
        self.assertEqual(self.said(), [], "its key is not known yet")
        self.register()
        self.beats(3 * CHECK_SECS)
        self.assertEqual(self.said(), [("spool.open", 1), ("authority.standby", 2)])
        self.clock.pump([1] * round(TERM_SECS + 1))
        self.successResultOf(starting)
        self.assertEqual(self.said()[2:], [("spool.close", 3)])

    def test_it_says_so_once(self) -> None:
        """Who stands by says so once, however often the store's answer to it is lost."""
        self.register()
        self.way.loses = True
        self.stand_by()
        self.beats(3 * CHECK_SECS)
        self.way.loses = False
        self.beats(2 * CHECK_SECS)
        self.assertEqual(self.said(), [("spool.open", 1), ("authority.standby", 2)])

    def test_nothing_follows(self) -> None:
        """A word that the store did not take is on record once it answers, though none follows."""
        self.register()
        self.stand_by()
        self.beats(CHECK_SECS + 1)
        self.way.is_cut = True
        say = Deferred.fromCoroutine(self.turn.own.record(AUTHORITY_DOUBT, {}, "audit_broken"))
        self.assertTrue(self.successResultOf(say), "it waits")
        self.beats(CHECK_SECS + 1)
        self.way.is_cut = False
        self.beats(CHECK_SECS + 1)
        wanted = [("spool.open", 1), ("authority.standby", 2), ("authority.doubt", 3)]
        self.assertEqual(self.said(), wanted)
        self.beats(3 * CHECK_SECS)
        self.assertEqual(self.said(), wanted)

    def to_be_written(self) -> Cut:
        """We stand by, and the store takes no more of what we say; its takeovers it does."""
        self.register()
        way = self.turn.own.store = Cut(self.store)
        self.starting = self.turn.startService()
        self.beats(CHECK_SECS + 1)
        way.is_cut = True
        say = Deferred.fromCoroutine(self.turn.own.record(AUTHORITY_DOUBT, {}, "audit_broken"))
        self.successResultOf(say)
        return way

    def test_takeover_that_the_store_does_not_hear_of(self) -> None:
        """What the store did not take as we took over is written later, once and in order."""
        way = self.to_be_written()
        self.clock.pump([1] * round(TERM_SECS + 1))
        self.successResultOf(self.starting)
        self.assertEqual(self.said(), [("spool.open", 1), ("authority.standby", 2)])
        way.is_cut, way.loses = False, True
        self.clock.pump([1] * round(CHECK_SECS + 1))
        way.loses = False
        self.clock.pump([1] * round(3 * CHECK_SECS))
        self.assertEqual(self.said()[2:], [("authority.doubt", 3), ("spool.close", 4)])
        self.successResultOf(self.turn.stopService())
        self.assertEqual(len(self.said()), 4)

    def test_leader_that_stops(self) -> None:
        """A stop writes what still waits from before the takeover."""
        way = self.to_be_written()
        self.clock.pump([1] * round(TERM_SECS + 1))
        way.is_cut = False
        stopped = self.turn.stopService()
        self.clock.advance(0)
        self.successResultOf(stopped)
        self.assertEqual(self.said()[2:], [("authority.doubt", 3), ("spool.close", 4)])

    def test_standby_that_stops(self) -> None:
        """A standby that stops while the store takes nothing tries for some seconds, and ends."""
        way = self.to_be_written()
        self.starting.cancel()
        self.assertNoResult(self.starting)
        self.clock.advance(0)
        way.is_cut = False
        self.clock.advance(0.5)
        self.failureResultOf(self.starting, CancelledError)
        self.assertEqual(self.said()[2:], [("authority.doubt", 3), ("spool.close", 4)])

    def test_standby_that_stops_in_vain(self) -> None:
        """What is lost with the process is counted in its log."""
        self.to_be_written()
        self.starting.cancel()
        with capturedLogs() as events:
            self.clock.pump([0, 0.5, 1, 2])
        self.failureResultOf(self.starting, CancelledError)
        self.assertEqual([event["rows"] for event in events if "rows" in event], [2])

    def test_a_head_that_is_not_believed(self) -> None:
        """Who stands by and meets a bad head in the store says so, once for each fault."""
        keeper, nothing = MemoryHeads(), cast("Any", None)

        self.turn.exchange = HeadExchange(
            store=self.way,
            keeper=keeper,
            verify_head=nothing,
            cluster="c",
            log_id="log",
            in_thread=inline,
            is_given_up=lambda _: False,
            went_on=lambda _: None,
        )
        self.change(lambda tx: tx.heads.add(3, b"no head", 99))
        self.stand_by()
        self.assertEqual(self.said(), [], "its key is not known yet")
        self.register()
        self.beats(4 * CHECK_SECS)
        self.assertEqual(self.said()[2:], [("authority.doubt", 3)])
        (row,) = self.change(lambda tx: tx.outbox.rows(2, 9))
        record = json.loads(row.row.canonical)
        self.assertEqual(record["reason"], "audit_broken")
        self.assertEqual(record["details"]["leader_id"], "them")
        (log,) = heads_over(self.other_log(), 3)
        self.change(lambda tx: (tx.heads.drop_after(0), tx.heads.add(3, to_line(log), 99)))
        self.beats(2 * CHECK_SECS)
        self.assertEqual(self.said()[3:], [("authority.doubt", 4)])
        self.assertEqual(keeper.newest(), None)
        self.flushLoggedErrors()

    def other_log(self) -> Any:
        """Three records."""
        log = MemoryLog()
        log.fill(3, short_record)
        return log.log

    def test_an_answer_that_is_lost(self) -> None:
        """A row whose answer was lost is not queued twice, and the next spool names this one."""
        self.register()
        own = self.turn.own
        self.way.loses = True
        for _ in range(2):
            say = Deferred.fromCoroutine(own.record(AUTHORITY_DOUBT, {}, "audit_broken"))
            self.assertTrue(self.successResultOf(say), "it waits")
        self.way.loses = False
        self.assertTrue(
            self.successResultOf(Deferred.fromCoroutine(own.record(AUTHORITY_DOUBT, {})))
        )
        doubts = [("authority.doubt", n) for n in (2, 3, 4)]
        self.assertEqual(self.said(), [("spool.open", 1), *doubts])
        again = OwnSpool(self.way, own.maker)
        self.successResultOf(Deferred.fromCoroutine(again.record(AUTHORITY_DOUBT, {})))
        opening = self.change(lambda tx: tx.outbox.rows(4, 1))[0]
        details = json.loads(opening.row.canonical)["details"]
        first = json.loads(self.change(lambda tx: tx.outbox.rows(0, 1))[0].row.canonical)
        self.assertEqual(details["former_spools"], [f"{first['spool']['id']}:4"])

    def test_stopped(self) -> None:
        """A stop while standing by waits for nothing."""
        starting = self.turn.startService()
        starting.cancel()
        self.failureResultOf(starting, CancelledError)

    def test_superseded(self) -> None:
        """Who is superseded ends its process, and says who leads."""
        self.change(lambda tx: tx.lease.leave(tx.lease.held()))
        self.clock.advance(TERM_SECS)
        self.successResultOf(self.turn.startService())
        self.change(lambda tx: tx.lease.take("them", "t2", tx.lease.held()))
        self.assertEqual(self.ended, [])
        self.clock.advance(TERM_SECS)
        self.assertEqual([each.details["leader"] for each in self.ended], ["them"])

    @proves("G-HA-01")
    def test_callers_are_told_who_leads(self) -> None:
        """Until it is our turn a call is refused with the leader's id; then it is admitted."""
        serving, admitted = ServingState(self.leadership), list[str]()
        admit = serving.guarded(lambda method, peer: admitted.append(method))
        nobody: Any = None
        refusal = self.assertRaises(LeaseLost, admit, "/a/B", nobody)
        self.assertEqual((refusal.leader, admitted), ("them", []))
        serving.is_on = True
        admit("/a/B", nobody)
        self.assertEqual(admitted, ["/a/B"])

    @proves("G-HA-01", "G-OPEN-50")
    def test_what_is_answered_meanwhile(self) -> None:
        """Until it is our turn some methods are forwarded or answered, each with its admission."""
        serving, asked = ServingState(self.leadership), list[str]()
        nobody: Any = None

        def serve(name: str) -> Any:
            async def noted(_call: object) -> None:
                asked.append(name)

            return noted

        def found(whose: str) -> str:
            asked.append(whose)
            return whose

        admit = serving.guarded(
            lambda method, peer: found("ours"),
            {"/a/B": lambda method, peer: found("theirs")},
            lambda leader: f"go to {leader}",
        )
        service = serving.forwarded(
            RpcService("a", {"B": serve("served"), "C": serve("stream")}, frozenset({"C"})),
            {"/a/B": admit},
            serve("forwarded"),
        )
        self.assertEqual(admit("/a/B", nobody), "theirs")
        refusal = self.assertRaises(LeaseLost, admit, "/a/C", nobody)
        self.assertIn("the leader is them; go to them", refusal.text)
        for turn in (False, True):
            serving.is_on = turn
            admit("/a/B", nobody)
            for name in ("B", "C"):
                method: Any = service.methods[name]
                self.successResultOf(Deferred.fromCoroutine(method(nobody)))
        told = ["theirs", "theirs", "forwarded", "stream", "ours", "served", "stream"]
        self.assertEqual(asked, told)
        self.assertEqual(service.lasting, {"C"})

    def test_our_own_leaf(self) -> None:
        """Who stands by renews its certificate by itself; who leads has it on record."""
        world, serving = World(), ServingState(self.leadership)
        identity, recorded = world.identity(Role.AUTHORITY), list[int]()

        async def record(facts: CertificateFacts, csr: bytes) -> tuple[bytes, ...]:
            recorded.append(facts.generation)
            return ()

        own = LeafRenewal(
            identity=identity,
            issuer=CertificateIssuer(world.keys, 600, 600),
            serving=serving,
            recorded=record,
        )
        key = new_key()

        def renew() -> Deferred[tuple[bytes, ...]]:
            return Deferred.fromCoroutine(own.renew(make_request(key)))

        identity.replace(identity.accept(key, self.successResultOf(renew())))
        self.assertEqual((identity.facts.generation, recorded), (2, []))
        serving.is_on = True
        self.successResultOf(renew())
        self.assertEqual(recorded, [2])
        serving.is_on = False
        self.change(lambda tx: tx.lease.leave(tx.lease.held()))
        self.clock.advance(TERM_SECS)
        self.failureResultOf(renew(), Unavailable)

    def test_no_store_at_first(self) -> None:
        """A check that fails is no failure of the start."""
        self.way.is_cut = True
        ready = Readiness(STORE, LEADER)
        standing = StoreReadiness(
            store=self.way,
            leadership=self.leadership,
            ready=ready,
            clock=self.clock,
            is_leader_there=self.is_there,
            write=self.write,
        )
        self.successResultOf(standing.startService())
        self.assertEqual(ready.missing, (STORE,))

    def test_writes_are_tried(self) -> None:
        """Each check of a store that answers tries a write too; of one that does not, none."""
        before = self.writes
        self.clock.advance(CHECK_SECS)
        self.assertEqual(self.writes, before + 1)
        self.way.is_cut = True
        self.clock.advance(CHECK_SECS)
        self.assertEqual(self.writes, before + 1)

"""Several Authorities: the Proxy stays with one that answers and turns to another that does."""

from __future__ import annotations

from errno import EMFILE
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.ha.membership import leader_service
from svc.errors import LeaseLost, Unavailable
from svc.messages.forward import LeaderClaim
from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.proxy.uplink.pool import AuthorityPool
from svc.proxy.uplink.probe import PoolProbes
from svc.rpc.client.channel import RpcChannel
from svc.rpc.server.server import RpcServerFactory
from tests.proxy.pieces import ProxyTests, Wire
from tests.support.nothing import nothing
from tests.support.proof import proves


class PoolTests(SynchronousTestCase):
    """The order in which members are turned to."""

    def test_rounds(self) -> None:
        """Each member is tried once before a round has failed; one that held begins another."""
        pool = AuthorityPool(("a", "b", "c"))
        tried = []
        for _ in range(7):
            tried.append((pool.current, pool.failed()))
        self.assertEqual("".join(name for name, _ in tried), "abcabca")
        self.assertEqual([over for _, over in tried], [False, False, True] * 2 + [False])
        pool.answered()
        self.assertEqual([pool.failed() for _ in range(2)], [False, True])
        pool.failed()
        pool.held()
        self.assertEqual([pool.failed() for _ in range(3)], [False, False, True])

    def test_alone(self) -> None:
        """With one member each failure is a whole round."""
        pool = AuthorityPool(("a",))
        self.assertEqual([pool.failed(), pool.failed()], [True, True])


class PoolStories(SynchronousTestCase):
    """Any order of what is heard and what fails."""

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(("heard", "unheard", "failed", "turn")),
                st.integers(0, 2),
                st.integers(0, 4),
            ),
            max_size=40,
        )
    )
    def test_only_newer_epochs_are_preferred(self, story: list[tuple[str, int, int]]) -> None:
        """The pool prefers a member only if that leads in a newer epoch than the current's."""
        pool, said = AuthorityPool("abc"), dict[int, int]()
        for what, at, epoch in story:
            if what == "heard":
                pool.claimed(at, epoch)
                said[at] = epoch
            elif what == "unheard":
                pool.unanswered(at)
                if at != pool.turn:
                    said.pop(at, None)
            elif what == "failed":
                said.pop(pool.turn, None)
                pool.failed()
            elif pool.preferred is not None:
                pool.turn_to(pool.preferred)
            newest = max(said.values(), default=0)
            if newest > said.get(pool.turn, 0):
                assert pool.preferred is not None
                self.assertEqual(said[pool.preferred], newest)
            else:
                self.assertIsNone(pool.preferred)

    @given(st.dictionaries(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 3))
    def test_a_round_tries_everybody(self, epochs: dict[int, int], begin: int) -> None:
        """Whatever members say of themselves, each fails once before a round is over."""
        pool = AuthorityPool("abcd")
        pool.turn_to(begin)
        for at, epoch in epochs.items():
            pool.claimed(at, epoch)
        tried, is_over = [pool.turn], pool.failed()
        while not is_over:
            tried.append(pool.turn)
            is_over = pool.failed()
        self.assertEqual(sorted(tried), [0, 1, 2, 3])


class Members(ProxyTests):
    """A Proxy's link over a pool of three."""

    def setUp(self) -> None:
        """Three addresses, each of which leads to Authority while it is named in ``leading``."""
        super().setUp()
        self.moves = 0
        self.leading = "a"
        self.refusing: set[str] = set()
        self.silent: set[str] = set()
        self.wrong: set[str] = set()
        self.failing: dict[str, Exception] = {}
        self.epochs = {"a": 1}
        self.dialed: list[str] = []
        self.probed: list[str] = []
        self.wires_to: dict[str, list[Wire]] = {"a": [*self.site.links], "b": [], "c": []}
        link = self.site.link
        link.pool = AuthorityPool(("a", "b", "c"), self._moved)
        link.pool.answered()
        link.dial = self._dial
        self.servers = {name: self._server(name) for name in "abc"}

    def _server(self, name: str) -> RpcServerFactory:
        def claim() -> LeaderClaim:
            epoch = self.epochs.get(name, 0)
            return LeaderClaim(leads=epoch > 0, epoch=epoch, leader="", authority_id=name)

        services = [self.authority.service(), leader_service(claim)]
        return RpcServerFactory(services, self.site.clock, plaintext=True, admit=nothing)

    async def _dial(self) -> RpcChannel:
        name = self.site.link.pool.current
        self.dialed.append(name)
        return await self._reach(name)

    async def _reach(self, name: str) -> RpcChannel:
        if name in self.silent:
            await Deferred()
        if name in self.failing:
            raise self.failing[name]
        if name in self.wrong:
            raise CertificateRefused(f"{name} is another", reason="certificate_role")
        if name in self.refusing:
            raise LeaseLost(self.leading)
        if name not in self.leading:
            raise Unavailable("nobody answers", reason="cannot_connect")
        wire = Wire(self.site.clock, self.servers[name])
        self.site.links.append(wire)
        self.site.wires.append(wire)
        self.wires_to[name].append(wire)
        await wire.client.ready
        return wire.channel

    def _moved(self) -> None:
        self.moves += 1

    def _cut(self) -> None:
        self.site.links[-1].server_side.abortConnection()
        self.site.turn()


class MovingTests(Members):
    """What failures of the connection do."""

    @proves("G-HA-03", "G-MET-25")
    def test_unreachable(self) -> None:
        """An instance that is gone: the next one that answers is turned to, as one move."""
        self.leading = "c"
        self._cut()
        self.site.pass_time(2)
        self.assertTrue(self.site.link.is_connected)
        self.assertEqual((self.dialed, self.moves), (["b", "c"], 1))

    @proves("G-HA-02")
    def test_refused(self) -> None:
        """A follower's refusal turns the Proxy to the next member at once."""
        self.leading, self.refusing = "c", {"a", "b"}
        self._cut()
        self.site.pass_time(2)
        self.assertTrue(self.site.link.is_connected)
        self.assertEqual((self.dialed[-2:], self.moves), (["b", "c"], 1))

    def test_back_to_the_same(self) -> None:
        """A connection that broke, to an instance that still leads, is no move."""
        self._cut()
        self.site.pass_time(3)
        self.assertTrue(self.site.link.is_connected)
        self.assertEqual((self.dialed, self.moves), (["b", "c", "a"], 0))

    def test_answered_and_refused(self) -> None:
        """Members that answer and then fail are asked in rounds, with waits, and nothing moves."""
        self.leading = "abc"
        broken = self.site.link.take

        async def refused(frame: object) -> None:
            raise Unavailable("this snapshot is older", reason="snapshot_older")

        self.site.link.take = refused
        self._cut()
        self.site.pass_time(60)
        self.assertLess(len(self.dialed), 3 * 70)
        self.assertEqual(self.moves, 0)
        self.site.link.take = broken
        self.site.pass_time(3)
        self.assertTrue(self.site.link.is_connected)

    def test_nobody(self) -> None:
        """While no member answers they are asked in rounds, with growing waits between."""
        self.leading = ""
        self._cut()
        self.site.pass_time(100)
        self.assertLess(len(self.dialed), 3 * 110)
        self.leading = "b"
        self.site.pass_time(2)
        self.assertTrue(self.site.link.is_connected)
        self.assertEqual(self.moves, 1)

    @proves("X-28")
    def test_one_address_that_does_not_lead(self) -> None:
        """Who knows one address, which happens to lead to a follower, is told which key to set."""
        self.site.link.pool = AuthorityPool(("b",), self._moved)
        self.refusing = {"b"}
        with capturedLogs() as logs:
            self._cut()
            self.site.pass_time(2)
        self.assertFalse(self.site.link.is_connected)
        of_it = [event for event in logs if event.get("reason") == "not_leader"]
        keys = {event["key"] for event in of_it if "key" in event}
        self.assertEqual(keys, {"endpoints.authority"})

    def test_ports_of_the_member_that_told_them(self) -> None:
        """While another member is tried, lanes lead where the ports were told of, or nowhere."""
        link = self.site.link
        self.leading = "c"
        self._cut()
        self.site.pass_time(2)
        self.assertEqual((link.member, link.pool.current), ("c", "c"))
        self.leading, seen = "", set()

        async def dial() -> RpcChannel:
            lanes: Any = link.lanes
            seen.add((link.pool.current, link.member, lanes.join_port))
            return await self._dial()

        link.dial = dial
        self._cut()
        self.site.pass_time(6)
        self.assertEqual(seen, {("a", "c", 7001), ("b", "c", 7001), ("c", "c", 7001)})


class ProbeTests(Members):
    """What the members say of themselves, asked every few seconds."""

    def setUp(self) -> None:
        """Connected to the first one, which leads; the probes run."""
        super().setUp()
        self.leading = "abc"
        self._cut()
        self.site.pass_time(3)
        self.moves, self.dialed = 0, []
        self.assertEqual(self.site.link.member, self.site.link.pool.current)
        self.home = self.site.link.member
        self.epochs = {self.home: 1}
        self.others = [name for name in "abc" if name != self.home]
        self.probes = PoolProbes(self.site.clock, self._probe, self.site.link)
        self.probes.startService()
        self.addCleanup(self._stop_probes)
        self.site.turn()

    def _stop_probes(self) -> None:
        stopped = self.probes.stopService()
        self.site.turn()
        self.successResultOf(stopped)

    async def _probe(self, name: str) -> RpcChannel:
        self.probed.append(name)
        return await self._reach(name)

    @proves("G-CFG-10", "G-OPEN-51")
    def test_everybody_is_asked(self) -> None:
        """Each member is asked again and again, over one connection; nobody moves."""
        self.site.pass_time(60)
        self.assertEqual(sorted(self.probed), self.others)
        self.assertEqual((self.moves, self.dialed), (0, []))

    @proves("G-HA-04", "G-HA-05", "G-OPEN-51", "G-MET-25")
    def test_the_leader_is_elsewhere(self) -> None:
        """Without any traffic the Proxy is at the new leader within a probe, and all with it."""
        node, there = self.site.node(), self.others[0]
        before = self.wires_to[self.home]
        self.assertEqual(self.site.gauges[("streams",)], 1)
        self.epochs = {there: 2}
        self.site.pass_time(6)
        node.tell(node.registration())
        self.assertEqual((self.site.link.member, self.moves), (there, 1))
        self.assertEqual(len(self.authority.calls), 1, "one registration stands")
        self.assertEqual(self.site.gauges[("streams",)], 1)
        self.assertEqual(len(self.authority.registrations), 2, "it was made again")
        self.assertIsNotNone(before[0].client.end_reason, "nothing stays on the old connection")
        self.site.pass_time(30)
        self.assertEqual(self.moves, 1)

    @proves("X-51")
    def test_one_move_of_many_streams(self) -> None:
        """However many tunnels go along, and come again one by one, it is one move."""
        world = self.site.cluster.world
        nodes = [self.site.node(world.identity(Role.CONNECTOR)) for _ in range(12)]
        self.assertEqual(self.site.gauges[("streams",)], 12)
        self.epochs = {self.others[0]: 2}
        self.site.pass_time(6)
        for node in nodes:
            node.tell(node.registration())
        self.assertEqual(self.site.link.member, self.others[0])
        self.assertEqual(len(self.authority.registrations), 24)
        self.assertEqual((self.site.gauges[("streams",)], self.moves), (12, 1))

    @proves("G-HA-04", "G-OPEN-51")
    def test_vanished(self) -> None:
        """A leader that is gone without a word is left when another one leads, at once."""
        for wire in self.wires_to[self.home]:
            wire.is_stopped = True
        self.silent = {self.home}
        self.site.pass_time(6, beating=False)
        self.epochs = {self.others[1]: 2}
        self.site.pass_time(6, beating=False)
        self.assertEqual((self.site.link.member, self.moves), (self.others[1], 1))
        self.assertTrue(self.site.link.is_connected)

    @proves("G-OPEN-51")
    def test_dial_that_nobody_answers(self) -> None:
        """A dial under way to one that vanished is given up as soon as another one leads."""
        there = self.others[1]
        self.silent, self.epochs = {self.home, self.others[0]}, {}
        self.refusing = {there}
        self._cut_home()
        self.site.pass_time(2)
        self.assertFalse(self.site.link.is_connected)
        self.refusing, self.epochs = set(), {there: 2}
        self.site.pass_time(6)
        self.assertEqual((self.site.link.member, self.moves), (there, 1))

    def _cut_home(self) -> None:
        for wire in self.wires_to[self.home]:
            wire.server_side.abortConnection()
        self.site.turn()

    def test_stopped_while_turning(self) -> None:
        """A stop ends the link also while a dial is being given up for a better one."""
        there, link = self.others[1], self.site.link
        self.silent, self.refusing, self.epochs = {self.home, self.others[0]}, {there}, {}
        self._cut_home()
        self.site.pass_time(2)
        usual, closing = link.dial, list[Deferred[None]]()
        assert usual is not None

        async def unwinding() -> Any:
            try:
                return await Deferred()
            finally:
                closing.append(Deferred())
                await closing[-1]

        link.dial = unwinding
        self._cut_home()
        self.site.pass_time(20)
        self.refusing, self.epochs = set(), {there: 2}
        self.site.pass_time(6)
        stopped = link.stopService()
        for each in closing:
            if not each.called:
                each.callback(None)
        self.site.turn()
        self.successResultOf(stopped)
        self.site.pass_time(20)
        self.assertFalse(link.is_connected)

    def test_two_that_say_they_lead(self) -> None:
        """Of two that both say so the newer epoch counts; nobody is tossed to and fro."""
        self.epochs = {self.home: 5, self.others[0]: 4}
        self.site.pass_time(60)
        self.assertEqual((self.site.link.member, self.moves), (self.home, 0))
        self.epochs = {self.home: 5, self.others[0]: 6}
        self.site.pass_time(60)
        self.assertEqual((self.site.link.member, self.moves), (self.others[0], 1))

    def test_it_says_so_and_refuses(self) -> None:
        """A member that claims to lead and does not greet is tried once a round; we stay."""
        self.epochs = {self.home: 1, self.others[0]: 2}
        self.site.pass_time(1)
        self.refusing = {self.others[0]}
        self.site.pass_time(60)
        self.assertEqual((self.site.link.member, self.moves), (self.home, 0))
        self.assertTrue(self.site.link.is_connected)
        self.assertLess(len(self.dialed), 16)

    def test_defects_amid_a_move(self) -> None:
        """Whatever breaks a move, we stay, and move to the next leader that is heard of."""
        link, there = self.site.link, self.others[0]
        link.dial = self._broken
        self.epochs = {there: 2}
        self.site.pass_time(12)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        self.assertEqual((link.member, link.pool.current), (self.home, self.home))
        link.dial = self._dial
        link.on_connected(lambda: 1 / 0)
        self.site.pass_time(6)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual((link.member, self.moves), (there, 1))
        link._on_connected.pop()
        self.epochs[self.home] = 3
        self.site.pass_time(6)
        self.assertEqual((link.member, self.moves), (self.home, 2))

    def test_a_move_cancelled_by_another(self) -> None:
        """So it is where somebody cancelled what a move waits for, and the connection stands."""
        link, there = self.site.link, self.others[0]
        self.failing[there] = CancelledError()
        self.epochs = {there: 2}
        self.site.pass_time(12)
        self.assertEqual(len(self.flushLoggedErrors(CancelledError)), 2)
        self.assertEqual((link.member, link.pool.current), (self.home, self.home))
        self.failing.clear()
        self.site.pass_time(6)
        self.assertEqual((link.member, self.moves), (there, 1))

    async def _broken(self) -> RpcChannel:
        raise ZeroDivisionError

    def test_the_connection_ends_amid_a_move(self) -> None:
        """Where the old leader goes while the new one is dialed, the Proxy comes to the new one."""
        there = self.others[0]
        self.epochs = {there: 2}
        self.silent = {there}
        self.site.pass_time(7)
        self.silent = set()
        self._cut_home()
        self.site.pass_time(3)
        self.assertEqual((self.site.link.member, self.moves), (there, 1))

    def test_a_wrong_certificate(self) -> None:
        """A member that is no Authority of the cluster is named by its address, once."""
        with capturedLogs() as logs:
            self._stop_probes()
            self.wrong = {self.others[1]}
            self.probes.startService()
            self.site.pass_time(60)
        told = [(event["address"], event["reason"]) for event in logs if event.get("key")]
        self.assertEqual(told, [(self.others[1], "certificate_role")])
        self.assertEqual(self.moves, 0)

    def test_failed_in_words(self) -> None:
        """A failure of the machine, which no refusal names, is told in words."""
        with capturedLogs() as logs:
            self._stop_probes()
            self.failing = {self.others[0]: OSError(EMFILE, "out of files")}
            self.probes.startService()
            self.site.pass_time(60)
        told = [(event["reason"], event["text"]) for event in logs if event.get("key")]
        self.assertEqual(told, [("internal", "too many open files")])

    def test_alone(self) -> None:
        """Who knows one Authority asks nobody."""
        self._stop_probes()
        self.site.link.pool = AuthorityPool(("a",))
        before = len(self.probed)
        self.probes.startService()
        self.site.pass_time(20)
        self.assertEqual(len(self.probed), before)

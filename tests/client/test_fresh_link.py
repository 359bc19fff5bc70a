"""The resident's connection while certificates are renewed: another takes its place in time."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.client.link import ConfiguredProxy, ProxyLink
from svc.errors import SvcError, Unavailable
from svc.interfaces.rpc import Peer
from svc.messages.session import Listed
from svc.model.principal import Role
from svc.rpc.max_age import Freshness
from svc.runtime.services import BackgroundTasks
from tests.client.test_link import MemoryChannel
from tests.pki.renewing import renew
from tests.pki.support import World
from tests.support.proof import proves

DAY = 86400.0


class FreshLinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.clock = self.world.clock
        self.person = self.world.identity(Role.USER, 10 * DAY)
        self.proxy = self.world.identity(Role.PROXY, DAY)
        self.tasks = BackgroundTasks()
        self.dialed: list[tuple[str, MemoryChannel]] = []
        self.answers: list[SvcError] = []
        self.is_listing = True
        self.listed: list[dict[str, Listed]] = []
        ways = [
            ConfiguredProxy("a:1", lambda: self.dial("a:1")),
            ConfiguredProxy("b:2", lambda: self.dial("b:2")),
        ]
        fresh = Freshness(
            clock=self.clock,
            now=self.world.now,
            identity=self.person,
            verifier=self.world.verifier,
            roles=frozenset({Role.PROXY}),
        )
        self.link = ProxyLink(
            clock=self.clock,
            ways=ways,
            listed=self.listed.append,
            jitter=lambda wait: wait,
            tasks=self.tasks,
            fresh=fresh,
            head=bytes,
        )
        self.addCleanup(self.check_nothing_left)
        self.link.startService()

    def check_nothing_left(self) -> None:
        self.link.stopService()
        self.tasks.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    async def dial(self, address: str) -> Any:
        if self.answers:
            raise self.answers.pop(0)
        channel = _Listing(self)
        channel.peer = Peer(
            host="proxy",
            port=443,
            tls=True,
            chain=self.proxy.chain,
        )
        self.dialed.append((address, channel))
        return channel

    def channel(self, which: int = -1) -> MemoryChannel:
        return self.dialed[which][1]

    def advance(self, seconds: float) -> None:
        self.clock.pump([600.0] * int(seconds / 600) + [seconds % 600, 1.0, 1.0])

    @proves("G-IDN-02")
    def test_moves_in_time(self) -> None:
        """Before the Proxy's certificate ends, its new one is seen on another connection."""
        first = self.channel()
        first.others = 1
        self.advance(0.7 * DAY)
        renew(self.world, self.proxy)
        self.assertEqual(len(self.dialed), 1)
        self.advance(0.1 * DAY)
        self.assertEqual([address for address, _ in self.dialed], ["a:1", "a:1"])
        self.assertIs(self.link.channel(), self.channel())
        self.assertEqual((self.link.proxy, self.link.problem), ("a:1", ""))
        self.assertFalse(first.is_closed, "a session is still open there")
        first.others = 0
        self.advance(2)
        self.assertTrue(first.is_closed)

    def test_never_without_a_channel(self) -> None:
        """Until the second connection has listed, and ever after, there is a channel."""
        self.is_listing = False
        renew(self.world, self.person)
        self.clock.advance(0)
        self.assertEqual(len(self.dialed), 2)
        self.assertIs(self.link.channel(), self.channel(0))
        self.channel().made[-1].list("db1", "db2")
        self.assertIs(self.link.channel(), self.channel(1))
        self.assertEqual(sorted(self.listed[-1]), ["db1", "db2"])
        self.channel().made[-1].list("db3", complete=False)
        self.assertEqual(sorted(self.listed[-1]), ["db1", "db2", "db3"])
        self.assertEqual(self.link.proxy, "a:1")

    def test_person_joined_again(self) -> None:
        """A person's new certificate is shown on a new connection at once."""
        renew(self.world, self.person)
        self.advance(1)
        self.assertEqual(len(self.dialed), 2)
        self.assertTrue(self.channel(0).is_closed)

    def test_dial_fails(self) -> None:
        """While no second connection comes about the first one stays, and it is tried again."""
        self.answers = [Unavailable("no"), Unavailable("no")]
        renew(self.world, self.person)
        self.advance(1)
        self.assertIs(self.link.channel(), self.channel(0))
        self.advance(1200)
        self.assertEqual(len(self.dialed), 2)
        self.assertEqual(self.link.problem, "")

    def test_proxy_does_not_renew(self) -> None:
        """A Proxy whose certificate does end is left for another."""
        self.answers = [Unavailable("no")] * 10_000
        self.advance(1.1 * DAY)
        self.assertEqual(self.link.proxy, "")
        self.answers.clear()
        self.proxy = self.world.identity(Role.PROXY, DAY)
        self.advance(60)
        self.assertNotEqual(self.link.proxy, "")

    def test_refresh_after_a_move(self) -> None:
        """The list that is asked for again comes over the new connection."""
        renew(self.world, self.person)
        self.advance(1)
        told: list[object] = []
        self.link.refreshed().addBoth(told.append)
        self.assertEqual((told, len(self.channel().made)), ([None], 2))

    def test_moved_while_moving(self) -> None:
        """Leaving a Proxy in the middle of a move leaves none of its connections."""
        self.is_listing = False
        renew(self.world, self.person)
        self.clock.advance(0)
        self.is_listing = True
        moving = Deferred.fromCoroutine(self.link.moved())
        self.advance(2)
        self.successResultOf(moving)
        self.assertTrue(self.channel(0).is_closed and self.channel(1).is_closed)
        self.assertIs(self.link.channel(), self.channel(2))


class _Listing(MemoryChannel):
    """Lists at once, while the test lets it."""

    def __init__(self, case: FreshLinkTests) -> None:
        super().__init__()
        self._case = case

    def stream(self, method: str, **options: Any) -> Any:
        stream = super().stream(method, **options)
        if self._case.is_listing:
            stream.list("db1")
        return stream

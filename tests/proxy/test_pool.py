"""Several Authorities: the Proxy stays with one that answers and turns to another that does."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import LeaseLost, Unavailable
from svc.proxy.pool import AuthorityPool
from svc.rpc.channel import RpcChannel
from tests.proof import proves
from tests.proxy.pieces import ProxyTests


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


class MovingTests(ProxyTests):
    """A Proxy's link over a pool of three."""

    def setUp(self) -> None:
        """Three addresses, each of which leads to Authority while it is named in ``leading``."""
        super().setUp()
        self.moves = 0
        self.leading = "a"
        self.refusing: set[str] = set()
        self.dialed: list[str] = []
        self.site.link.pool = AuthorityPool(("a", "b", "c"), self._moved)
        self.site.link.pool.answered()
        reach = self.site.link.dial
        assert reach is not None

        async def dial() -> RpcChannel:
            name = self.site.link.pool.current
            self.dialed.append(name)
            if name in self.refusing:
                raise LeaseLost(self.leading)
            if name not in self.leading:
                raise Unavailable("nobody answers", reason="cannot_connect")
            found = await reach()
            assert isinstance(found, RpcChannel)
            return found

        self.site.link.dial = dial

    def _moved(self) -> None:
        self.moves += 1

    def _cut(self) -> None:
        self.site.links[-1].server_side.abortConnection()
        self.site.turn()

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

"""When a connection is made again: before either certificate that it shows ends."""

from __future__ import annotations

from math import inf

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Unavailable
from svc.interfaces.rpc import Peer
from svc.model.principal import Role
from svc.pki.identity import TransportIdentity
from svc.rpc.max_age import Freshness, NotRenewed, Shown
from tests.pki.renewing import renew
from tests.pki.support import World
from tests.support.proof import proves

DAY = 86400.0


def peer_of(identity: TransportIdentity) -> Peer:
    """What TLS shows of the other end."""
    return Peer(host="proxy", port=443, tls=True, chain=identity.chain)


class FreshnessTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.ours = self.world.identity(Role.CONNECTOR, 2 * DAY)
        self.theirs = self.world.identity(Role.PROXY, DAY)
        self.chance = 0.0
        self.fresh = Freshness(
            clock=self.world.clock,
            now=self.world.now,
            identity=self.ours,
            verifier=self.world.verifier,
            roles=frozenset({Role.PROXY}),
            chance=lambda: self.chance,
        )
        self.current = self.look()
        self.replaced: list[float] = []
        self.failing = 0
        self.failure: Exception = Unavailable("nobody answers")

    def look(self, older: Shown | None = None) -> Shown:
        return self.fresh.shown(self.fresh.ours, peer_of(self.theirs), older)

    async def replace(self) -> None:
        self.replaced.append(self.world.clock.seconds())
        if self.failing:
            self.failing -= 1
            raise self.failure
        self.current = self.look(self.current)

    def follow(self) -> None:
        following = Deferred.fromCoroutine(self.fresh.follow(lambda: self.current, self.replace))
        following.addErrback(lambda _: None)
        self.addCleanup(lambda: self.assertEqual(self.world.clock.getDelayedCalls(), []))
        self.addCleanup(following.cancel)

    def advance(self, seconds: float) -> None:
        """In steps, so that every timer on the way is met."""
        self.world.clock.pump([60.0] * int(seconds / 60) + [seconds % 60, 0.0])

    def test_when_we_renewed(self) -> None:
        """Our own renewal asks for a new connection at once, once."""
        self.follow()
        self.advance(3600)
        self.assertEqual(self.replaced, [])
        renew(self.world, self.ours)
        self.assertEqual(self.replaced, [], "whoever renews us does not wait for a dial")
        self.world.clock.advance(0)
        self.assertEqual(self.replaced, [3600.0])
        self.advance(3600)
        self.assertEqual(len(self.replaced), 1)

    @proves("G-IDN-02")
    def test_when_theirs_ends(self) -> None:
        """A server's certificate is old at three quarters of its life, when it has renewed."""
        self.follow()
        self.advance(0.7 * DAY)
        renew(self.world, self.theirs)
        self.advance(0.04 * DAY)
        self.assertEqual(self.replaced, [])
        self.advance(0.02 * DAY)
        self.assertEqual(len(self.replaced), 1)
        self.assertGreater(self.fresh.left(self.current), 0.6 * DAY)

    def test_callers_are_spread(self) -> None:
        """Two callers of one server do not come at the same moment, and none comes too late."""
        self.chance = 0.99
        later = self.look()
        self.assertGreater(later.due, self.current.due + 0.06 * DAY)
        self.assertLess(later.due, self.theirs.facts.not_after - 0.15 * DAY)

    def test_not_renewed(self) -> None:
        """A server that did not renew is asked again, at a pace that its certificate's end sets."""
        self.follow()
        self.advance(0.99 * DAY)
        self.assertRaises(NotRenewed, self.look, self.current)
        tries = len(self.replaced)
        self.assertTrue(50 < tries < 300, tries)
        gaps = [b - a for a, b in zip(self.replaced, self.replaced[1:], strict=False)]
        self.assertGreaterEqual(min(gaps), 30.0)
        renew(self.world, self.theirs)
        self.advance(300)
        self.assertEqual(len(self.replaced), tries + 1)
        self.advance(0.6 * DAY)
        self.assertEqual(len(self.replaced), tries + 1)

    def test_failed_dials(self) -> None:
        """A dial that fails is tried again, well before the certificate ends."""
        self.failing = 3
        self.follow()
        renew(self.world, self.ours)
        self.advance(1500)
        self.assertEqual(len(self.replaced), 4)
        self.assertEqual(self.fresh.left(self.current) > 0, True)

    def test_defect(self) -> None:
        """What is no refusal is logged, and the connection is replaced in time all the same."""
        self.failing, self.failure = 2, ZeroDivisionError()
        self.follow()
        renew(self.world, self.ours)
        self.advance(1500)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        self.assertEqual(len(self.replaced), 3)
        self.assertGreater(self.fresh.left(self.current), 0)

    def test_cancelled_by_another(self) -> None:
        """So it is where somebody cancelled what the replacement waits for."""
        self.failing, self.failure = 2, CancelledError()
        self.follow()
        renew(self.world, self.ours)
        self.advance(1500)
        self.assertEqual(len(self.flushLoggedErrors(CancelledError)), 2)
        self.assertGreater(self.fresh.left(self.current), 0)

    def test_leaves_of_seconds(self) -> None:
        """Certificates of three seconds are followed as well."""
        self.ours = self.world.identity(Role.CONNECTOR, 3.0)
        self.theirs = self.world.identity(Role.PROXY, 3.0)
        self.fresh = Freshness(
            clock=self.world.clock,
            now=self.world.now,
            identity=self.ours,
            verifier=self.world.verifier,
            roles=frozenset({Role.PROXY}),
        )
        self.current = self.look()
        self.follow()
        for _ in range(5):
            self.world.clock.advance(2.0)
            renew(self.world, self.ours, 3.0)
            renew(self.world, self.theirs, 3.0)
            self.world.clock.pump([0.0] + [0.1] * 5)
            self.assertFalse(self.fresh.has_ended(self.current))
        self.assertGreaterEqual(len(self.replaced), 5)

    def test_ends(self) -> None:
        """A connection has ended with the first certificate; ours is over once a newer one is."""
        self.advance(DAY)
        self.assertTrue(self.fresh.has_ended(self.current))
        self.assertFalse(self.fresh.is_over(self.current))
        self.advance(DAY)
        self.assertFalse(self.fresh.is_over(self.current), "there is nothing newer to show")
        renew(self.world, self.ours)
        self.assertTrue(self.fresh.is_over(self.current))

    def test_without_certificates(self) -> None:
        """Where nobody shows a certificate nothing ages, and no timer runs."""
        fresh = Freshness(self.world.clock)
        shown = fresh.shown(fresh.ours, Peer("here", 1))
        self.assertEqual((fresh.left(shown), shown.end, shown.lifetime), (inf, inf, inf))
        following = Deferred.fromCoroutine(fresh.follow(lambda: shown, self.replace))
        following.addErrback(lambda _: None)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
        following.cancel()
        self.assertEqual(self.replaced, [])

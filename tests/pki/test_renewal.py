"""The renewal loop, and the identity it keeps fresh."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Unavailable
from svc.model.certificate import CertificateFacts, CertificateRefused
from svc.model.cluster.token import TokenGrant
from svc.model.principal import Role
from svc.model.signing import Purpose, verify
from svc.pki.enroll import CertificateIssuer, HolderStanding
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.pki.renewal import RenewalLoop
from svc.pki.root import new_key
from tests.pki.support import World
from tests.support.logged import logged
from tests.support.proof import proves

HOUR = 3600.0


class Authority:
    """Authority as a renewing node sees it; may be away, silent, or answer into the void."""

    def __init__(self, world: World, lifetime: float) -> None:
        self.world = world
        self.issuer = CertificateIssuer(world.keys, node_lifetime=lifetime)
        self.standing = HolderStanding(0, b"")
        self.mood = "well"
        self.asked: list[float] = []
        self.identity: TransportIdentity | None = None

    def enroll(self, store: IdentityStore) -> None:
        """Give the node its first identity."""
        key = store.pending_key()
        issued = self.issuer.admit(TokenGrant("t", Role.CONNECTOR), make_request(key))
        self.standing = HolderStanding(1, issued.key_sha256)
        store.pin(self.world.keys.root_der)
        store.write(key, issued.chain)

    async def renew(self, csr: bytes) -> tuple[bytes, ...]:
        """Answer according to the mood."""
        self.asked.append(self.world.clock.seconds())
        if self.mood == "away":
            raise Unavailable("nobody there")
        if self.mood == "silent":
            await Deferred()
        assert self.identity is not None
        issued = self.issuer.renew(self.identity.facts, csr, self.standing)
        self.standing = HolderStanding(issued.facts.generation, issued.key_sha256)
        if self.mood == "lost":
            raise Unavailable("the answer was lost")
        return issued.chain


class RenewalCase(SynchronousTestCase):
    """One node under one clock."""

    lifetime = 24 * HOUR
    soon = 400.0
    offset = 0.0
    """Of the node's clock."""

    def now(self) -> float:
        """Wall time by the node's clock."""
        return self.world.now() + self.offset

    def setUp(self) -> None:
        self.world = World()
        self.clock = self.world.clock
        state = Path(self.mktemp())
        state.mkdir(mode=0o700)
        self.store = IdentityStore(state)
        self.authority = Authority(self.world, self.lifetime)
        self.authority.enroll(self.store)
        self.told: list[str] = []
        self.start()

    def start(self) -> None:
        self.identity = TransportIdentity.load(self.store, self.now)
        self.authority.identity = self.identity
        self.loop = RenewalLoop(
            self.identity,
            self.store,
            self.authority.renew,
            clock=self.clock,
            now=self.now,
            entropy=self.world.entropy,
            on_outcome=self.told.append,
        )
        self.loop.startService()

    def tearDown(self) -> None:
        self.successResultOf(self.loop.stopService())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def run_for(self, seconds: float, steps: int = 2000) -> None:
        self.clock.pump([seconds / steps] * steps)


class ClockTests(RenewalCase):
    """A node whose clock does not agree with Authority's."""

    def test_clocks_apart(self) -> None:
        """A renewal shows by how much the clocks differ; past a certificate's start it waits."""
        lines = logged(self)
        self.run_for(self.lifetime * 0.75)
        self.assertEqual([line for line in lines if "clock" in line], [])
        self.offset = 40.0
        self.run_for(self.lifetime * 0.75)
        (line,) = (line for line in lines if "clock" in line)
        # A certificate's times are whole seconds.
        self.assertRegex(line["clock"], r"\A4[01] s ahead\Z")
        self.assertEqual(line["reason"], "clock_wrong")
        self.offset = -90.0
        self.run_for(self.lifetime * 0.9)
        self.assertEqual(self.told[-1], "failed")
        failed = [line["error"] for line in lines if "error" in line]
        self.assertRegex(failed[-1], r"at least (89|90) s behind")
        self.offset = 0.0
        self.run_for(self.soon)
        self.assertEqual(self.told[-1], "ok")


class RenewalTests(RenewalCase):
    """A node whose clock is right."""

    @proves("G-OPEN-09")
    def test_when(self) -> None:
        """A leaf is renewed once, at two thirds of its life, a tenth earlier or later."""
        self.run_for(self.lifetime * 0.59)
        self.assertEqual(self.told, [])
        self.run_for(self.lifetime * 0.15)
        self.assertEqual(self.told, ["ok"])
        self.assertEqual(self.identity.facts.generation, 2)
        self.assertEqual(self.store.load().chain, self.identity.chain)

    @proves("G-OPEN-09")
    def test_jitter(self) -> None:
        """Nodes that joined together do not renew together."""
        times = set()
        for _ in range(5):
            self.run_for(self.lifetime * 0.75)
            times.add(round(self.authority.asked[-1] % self.lifetime))
        self.assertGreater(len(times), 3)

    def test_followers(self) -> None:
        """Whoever follows the identity hears of the new leaf once it is in force."""
        heard: list[CertificateFacts] = []
        self.identity.on_renewed(heard.append)
        self.run_for(self.lifetime * 0.75)
        self.assertEqual(heard, [self.identity.facts])

    @proves("G-IDN-04")
    def test_failure(self) -> None:
        """While renewal fails the old leaf is used and its files stay; then it recovers."""
        self.authority.mood = "away"
        before = self.identity.chain
        self.run_for(self.lifetime * 0.9)
        self.assertEqual(set(self.told), {"failed"})
        self.assertEqual(self.store.load().chain, before)
        self.assertEqual(self.identity.chain, before)
        self.assertFalse(self.identity.expired)
        self.authority.mood = "well"
        self.run_for(self.soon)
        self.assertEqual(self.told[-1], "ok")
        self.assertEqual(self.identity.facts.generation, 2)

    @proves("G-OPEN-09")
    def test_retry_times(self) -> None:
        """Tries are 30 s apart at first and 5 minutes in the end, never less, never more."""
        self.authority.mood = "away"
        self.run_for(self.lifetime * 0.9, 20000)
        asked = self.authority.asked
        gaps = [later - earlier for earlier, later in pairwise(asked)]
        self.assertGreater(len(gaps), 20)
        self.assertTrue(29 <= gaps[0] <= 42, gaps[0])
        self.assertTrue(all(29 <= gap <= 310 for gap in gaps))
        self.assertGreater(min(gaps[6:]), 240)
        self.assertGreater(len({round(gap) for gap in gaps[6:]}), 3)

    def test_failing_again(self) -> None:
        """After a renewal the first failure is followed as soon as the very first one was."""
        self.authority.mood = "away"
        self.run_for(self.lifetime * 0.9)
        self.authority.mood = "well"
        self.run_for(self.soon)
        self.assertEqual(self.told[-1], "ok")
        self.authority.mood = "away"
        self.authority.asked.clear()
        self.run_for(self.lifetime * 0.9, 20000)
        first, second = self.authority.asked[:2]
        self.assertLess(second - first, 1.5 * min(30.0, self.lifetime / 60))

    def test_expiry(self) -> None:
        """Past its end the leaf signs nothing, the gauge is below zero, the tries go on."""
        self.authority.mood = "away"
        signed = self.identity.sign(Purpose.REGISTRATION, b"bytes")
        verify(self.identity.facts.public_key, Purpose.REGISTRATION, b"bytes", signed.signature)
        self.run_for(self.lifetime * 1.1)
        self.assertTrue(self.identity.expired)
        self.assertLess(self.identity.seconds_left(), -HOUR)
        self.assertRaises(CertificateRefused, self.identity.sign, Purpose.REGISTRATION, b"bytes")
        tries = len(self.told)
        self.run_for(2 * self.soon)
        self.assertGreater(len(self.told), tries)

    def test_silence(self) -> None:
        """An Authority that never answers is given up on and asked again."""
        self.authority.mood = "silent"
        self.run_for(self.lifetime * 1.2, 4000)
        self.assertGreaterEqual(len(self.authority.asked), 3)
        self.assertEqual(set(self.told), {"failed"})

    def test_lost_answer(self) -> None:
        """A renewal whose answer was lost succeeds after a restart; no clone is seen."""
        self.authority.mood = "lost"
        self.run_for(self.lifetime * 0.75)
        self.assertEqual(set(self.told), {"failed"})
        self.successResultOf(self.loop.stopService())
        self.start()
        self.authority.mood = "well"
        self.run_for(self.soon)
        self.assertEqual(self.told[-1], "ok")
        self.assertEqual(self.identity.facts.generation, 2)

    def test_restart_late(self) -> None:
        """A node that was down past its renewal time renews at its start."""
        self.successResultOf(self.loop.stopService())
        self.clock.advance(self.lifetime * 0.8)
        self.start()
        self.clock.advance(0)
        self.assertEqual(self.told, ["ok"])

    def test_disk_refuses(self) -> None:
        """A disk that refuses the new pair leaves the old one in force, on disk and off it."""
        before = self.identity.chain

        def full(name: str) -> None:
            if name == "key":
                raise OSError(28, "no space left on device")

        self.store._crash_point = full
        self.run_for(self.lifetime * 0.75)
        self.assertEqual(set(self.told), {"failed"})
        self.assertEqual((self.identity.chain, self.store.load().chain), (before, before))
        self.flushLoggedErrors(OSError)
        self.store._crash_point = lambda name: None
        self.run_for(self.soon)
        self.assertEqual(self.told[-1], "ok")

    def test_stop_while_trying(self) -> None:
        """Stopping in the middle of a try ends it, counts nothing and leaves no timer."""
        self.authority.mood = "silent"
        while not self.authority.asked:
            self.clock.advance(5)
        self.successResultOf(self.loop.stopService())
        self.assertEqual((self.told, self.clock.getDelayedCalls()), ([], []))


class ShortLeafTests(RenewalTests):
    """The same with leafs of three seconds, as tests and careful operators use them."""

    lifetime = 3.0
    soon = 0.6

    def test_retry_times(self) -> None:
        """With three seconds to live, tries are a fraction of a second apart."""
        self.authority.mood = "away"
        self.run_for(3)
        self.assertGreater(len(self.authority.asked), 3)

    def test_expiry(self) -> None:
        """A leaf of three seconds is dead four seconds later."""
        self.authority.mood = "away"
        self.run_for(4)
        self.assertTrue(self.identity.expired)

    def test_jitter(self) -> None:
        """Five renewals in a row never let the leaf come near its end."""
        for _ in range(200):
            self.clock.advance(0.1)
            self.assertGreater(self.identity.seconds_left(), 0.4)
        self.assertGreater(self.identity.facts.generation, 5)
        self.assertEqual(set(self.told), {"ok"})


class AcceptTests(SynchronousTestCase):
    """What a node takes for its new certificate."""

    def test_refused(self) -> None:
        """Another's name, key, role, root, an older generation and an expired leaf are refused."""
        world = World()
        identity = world.identity(Role.PROXY)
        own, key = identity.principal.id, new_key()
        offers = [
            (key, world.issued(Role.PROXY, key, generation=2, id="b" * 26).chain),
            (key, world.issued(Role.CONNECTOR, key, generation=2, id=own).chain),
            (key, world.issued(Role.PROXY, new_key(), generation=2, id=own).chain),
            (key, World().issued(Role.PROXY, key, generation=2, id=own).chain),
            (key, world.issued(Role.PROXY, key, generation=1, id=own).chain),
            (key, (b"garbage", b"garbage")),
        ]
        for offer in offers:
            self.assertRaises(CertificateRefused, identity.accept, *offer)
        brief = world.issued(Role.PROXY, key, 1, 2, own).chain
        world.clock.advance(2)
        self.assertRaises(CertificateRefused, identity.accept, key, brief)
        good = world.issued(Role.PROXY, key, generation=2, id=own).chain
        self.assertEqual(identity.accept(key, good).chain, good)

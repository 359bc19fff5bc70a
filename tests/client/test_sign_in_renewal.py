"""The renewal of a sign-in in the background, and its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.client.signin import RenewedSignIn, SignInFile, SignInRenewal
from svc.errors import Denied, SvcError, Unavailable
from svc.model.principal import Role
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity_store import IdentityStore
from svc.pki.renewal import RenewalLoop
from tests.pki.support import World

HOUR = 3600.0


class SignInRenewalTests(SynchronousTestCase):
    """A person's certificate of a day, which came by a sign-in."""

    def setUp(self) -> None:
        self.world = World()
        self.asked: list[bytes] = []
        self.answer: Callable[[bytes], Awaitable[RenewedSignIn]] | None = None
        self.is_elses = False
        place = Path(self.mktemp())
        place.mkdir(mode=0o700)
        self.file = SignInFile(place)
        self.file.write(self.world.now() + 100 * HOUR)
        self.identity, self.store = self.world.identity(Role.USER), IdentityStore(place)
        identity, store = self.identity, self.store
        store.pin(self.world.keys.root_der)
        self.renewal = SignInRenewal(
            identity=identity,
            file=self.file,
            clock=self.world.clock,
            now=self.world.now,
            ask=self.ask,
            check=self.check,
            loop=lambda renew: RenewalLoop(
                identity,
                store,
                renew,
                clock=self.world.clock,
                now=self.world.now,
                entropy=self.world.entropy,
                on_outcome=lambda _: None,
            ),
        )
        self.renewal.startService()
        self.addCleanup(self.renewal.stopService)

    async def ask(self, csr: bytes) -> RenewedSignIn:
        """Authority is away, unless a test answers."""
        self.asked.append(csr)
        if self.answer is None:
            raise Unavailable("nobody there")
        return await self.answer(csr)

    def check(self) -> None:
        """Whether the identity in use is the one on disk."""
        if self.is_elses:
            raise SvcError("the identity on disk is another one", reason="not_joined")

    def day(self) -> None:
        """A day passes."""
        self.world.clock.pump([HOUR / 4] * 96)

    def test_signed_out(self) -> None:
        """After a sign-out on this machine nothing asks: a renewal then is taken for a copy's."""
        self.file.write(0)
        self.day()
        self.assertEqual(self.asked, [])

    def test_signed_in(self) -> None:
        """Until then it asks."""
        self.day()
        self.assertTrue(self.asked)

    def chain(self, csr: bytes) -> RenewedSignIn:
        """The next certificate, of our key."""
        facts = self.identity.facts
        issuer = CertificateIssuer(self.world.keys, person_lifetime=24 * HOUR)
        issued = issuer.sign_for(facts.principal, csr, facts.generation + 1, ())
        return RenewedSignIn(issued.chain, self.world.now() + 7 * HOUR)

    def test_renewed(self) -> None:
        """What Authority answers is in use, and on disk."""

        async def answer(csr: bytes) -> RenewedSignIn:
            return self.chain(csr)

        self.answer = answer
        self.day()
        self.assertEqual(self.store.load().chain, self.identity.chain)
        self.assertGreater(self.identity.facts.generation, 1)

    def test_another_identity_on_disk(self) -> None:
        """What somebody else has signed in with here is not replaced, and nothing is asked."""
        self.is_elses, until = True, self.file.renew_until()
        self.day()
        self.assertEqual((self.asked, self.file.renew_until()), ([], until))
        self.assertFalse(self.store.exists)

    def test_another_one_while_it_is_asked(self) -> None:
        """Nor is it where they do so before Authority has answered."""

        async def answer(csr: bytes) -> RenewedSignIn:
            self.is_elses = True
            return self.chain(csr)

        self.answer, until = answer, self.file.renew_until()
        self.day()
        self.assertEqual((len(self.asked), self.file.renew_until()), (1, until))
        self.assertFalse(self.store.exists)

    def test_signed_in_again_while_it_is_asked(self) -> None:
        """A renewal of the sign-in before neither replaces the new one nor ends it."""
        for refuses in (False, True):
            self.setUp()

            async def answer(csr: bytes, refuses: bool = refuses) -> RenewedSignIn:
                self.answer, renewed = None, self.chain(csr)
                self.identity.replace(self.world.identity(Role.USER).material)
                if refuses:
                    raise Denied("this sign-in has ended", reason="sign_in_ended")
                return renewed

            self.answer, until = answer, self.file.renew_until()
            self.world.clock.pump([HOUR / 4] * 80)
            self.assertFalse(self.store.exists)
            self.assertEqual(self.file.renew_until(), until)

    def test_refused_for_good(self) -> None:
        """A sign-in that has ended is renewed no more."""

        async def answer(csr: bytes) -> RenewedSignIn:
            raise Denied("this sign-in has ended", reason="sign_in_ended")

        self.answer = answer
        self.day()
        self.assertEqual((len(self.asked), self.file.renew_until()), (1, 0.0))

    def test_signed_in_a_moment_later(self) -> None:
        """The file that says until when is written after the identity, and is found."""
        self.file.write(0)
        self.day()
        self.identity.replace(self.world.identity(Role.USER).material)
        self.world.clock.advance(1)
        self.file.write(self.world.now() + 100 * HOUR)
        self.day()
        self.assertTrue(self.asked)

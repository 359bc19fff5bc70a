"""The renewal of a sign-in in the background, and its end."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.client.signin import RenewedSignIn, SignInFile, SignInRenewal
from svc.errors import Unavailable
from svc.model.principal import Role
from svc.pki.identity_store import IdentityStore
from svc.pki.renewal import RenewalLoop
from tests.pki.support import World

HOUR = 3600.0


class SignInRenewalTests(SynchronousTestCase):
    """A person's certificate of a day, which came by a sign-in."""

    def setUp(self) -> None:
        self.world = World()
        self.asked: list[bytes] = []
        place = Path(self.mktemp())
        place.mkdir(mode=0o700)
        self.file = SignInFile(place)
        self.file.write(self.world.now() + 100 * HOUR)
        identity, store = self.world.identity(Role.USER), IdentityStore(place)
        store.pin(self.world.keys.root_der)
        self.renewal = SignInRenewal(
            identity=identity,
            file=self.file,
            clock=self.world.clock,
            now=self.world.now,
            ask=self.ask,
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
        """Authority is away."""
        self.asked.append(csr)
        raise Unavailable("nobody there")

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

"""Signing out on a machine where ``svc up`` renews the certificate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.client.signin import RenewedSignIn, SignInFile
from svc.compose.sign_in import sign_in_renewal
from svc.errors import Unavailable
from svc.join.sign_in import MachineSignIn, SignInPlace
from svc.join.sign_out import sign_out
from svc.model.principal import Role
from svc.pki.enroll import CertificateIssuer
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityBusy, IdentityStore
from svc.pki.root import new_key
from svc.proto.gate.v1 import sign_in_pb2 as pb
from svc.runtime.context import Runtime
from tests.pki.support import World
from tests.support.nothing import nothing

DAY = 86400.0


@frozen
class _Asked:
    """A renewal that Authority has not answered yet."""

    csr: bytes
    answer: Deferred[RenewedSignIn]


class SignOutTests(SynchronousTestCase):
    """One directory, a renewal in the background, and a sign-out."""

    def setUp(self) -> None:
        self.world = World()
        self.directory = Path(self.mktemp())
        self.directory.mkdir(mode=0o700)
        self.store = IdentityStore(self.directory)
        key = self.store.pending_key()
        self.first = self.world.issued(Role.USER, key).chain
        self.store.pin(self.world.keys.root_der)
        self.store.write(key, self.first)
        self.file = SignInFile(self.directory)
        self.file.write(self.world.now() + 100 * DAY)
        self.runtime = Runtime(
            reactor=self.world.clock, now=self.world.now, entropy=self.world.entropy, environ={}
        )
        self.identity = TransportIdentity.load(self.store, self.world.now)
        self.asked: list[_Asked] = []
        self.ended: list[tuple[bytes, ...]] = []
        self.shown: list[str] = []
        self.renewal = sign_in_renewal(
            runtime=self.runtime,
            proxies=(),
            state=self.directory,
            store=self.store,
            identity=self.identity,
            check=nothing,
        )
        self.renewal.ask = self.ask
        self.renewal.startService()
        self.addCleanup(self.renewal.stopService)

    async def ask(self, csr: bytes) -> RenewedSignIn:
        """Authority, which answers when a test says so."""
        self.asked.append(_Asked(csr, Deferred()))
        return await self.asked[-1].answer

    def begin_to_renew(self) -> None:
        """The time comes to renew, and the answer is under way."""
        for _ in range(9000):
            if not self.asked:
                self.world.clock.advance(10.0)
        self.assertEqual(len(self.asked), 1)

    def answered(self, asked: _Asked) -> tuple[bytes, ...]:
        """Authority answers; the chain that it gave."""
        facts = self.identity.facts
        issuer = CertificateIssuer(self.world.keys, person_lifetime=DAY)
        issued = issuer.sign_for(facts.principal, asked.csr, facts.generation + 1, ())
        asked.answer.callback(RenewedSignIn(issued.chain, self.world.now() + 100 * DAY))
        return issued.chain

    def sign_out(self, end: Any = None, *, keep_files: bool = False) -> Deferred[None]:
        """``svc logout``, begun."""

        async def ends(identity: TransportIdentity) -> None:
            self.ended.append(identity.chain)

        return Deferred.fromCoroutine(
            sign_out(
                self.runtime, self.directory, end or ends, self.shown.append, keep_files=keep_files
            )
        )

    def settle(self, is_settled: Callable[[], object]) -> None:
        """Some tenths of a second pass."""
        self.world.clock.pump([0.1] * 5)
        self.assertTrue(is_settled())

    def test_while_it_is_renewed(self) -> None:
        """A renewal under way ends first: the newest sign-in ends, and nothing is left of it."""
        self.begin_to_renew()
        leaving = self.sign_out()
        self.world.clock.pump([0.1] * 5)
        self.assertNoResult(leaving)
        self.assertEqual((len(self.shown), self.ended), (1, []))
        newest = self.answered(self.asked[0])
        self.settle(lambda: leaving.called)
        self.successResultOf(leaving)
        self.assertEqual(self.ended, [newest])
        self.assertFalse((self.directory / "identity").exists())
        self.world.clock.pump([600.0] * 300)
        self.assertEqual((len(self.asked), self.store.exists), (1, False))

    def test_renewal_waits(self) -> None:
        """Nothing is asked with the certificate of a sign-in that is being ended."""
        ending: Deferred[None] = Deferred()
        leaving = self.sign_out(lambda identity: ending, keep_files=True)
        self.world.clock.pump([600.0] * 110)
        self.assertEqual(self.asked, [])
        ending.callback(None)
        self.successResultOf(leaving)
        self.world.clock.pump([600.0] * 300)
        self.assertEqual((self.asked, self.store.load().chain), ([], self.first))

    def test_refused(self) -> None:
        """A sign-out that fails leaves everything, and the renewal goes on."""

        async def away(identity: TransportIdentity) -> None:
            raise Unavailable("nobody there")

        self.failureResultOf(self.sign_out(away), Unavailable)
        self.assertEqual(self.store.load().chain, self.first)
        self.begin_to_renew()

    def signed_in(self) -> tuple[tuple[bytes, ...], Deferred[Any]]:
        """The chain of a sign-in that Authority answered, and ``svc login`` as it takes that."""
        key = new_key()
        chain = self.world.issued(Role.USER, key).chain
        place = SignInPlace(
            directory=self.directory,
            proxies=(),
            authority=None,
            pin=self.world.keys.ca_pin,
            writes_config=False,
        )
        answer = pb.SignInResponse(
            name="ann", root=self.world.keys.root_der, chain=chain, renew_until=9
        )
        machine = MachineSignIn(self.runtime, place, self.shown.append)
        return chain, Deferred.fromCoroutine(machine.adopt(self.store, key, answer))

    def test_signed_in_while_it_is_renewed(self) -> None:
        """What a sign-in brings is in place once a renewal under way has ended, all of it."""
        self.begin_to_renew()
        chain, taking = self.signed_in()
        self.world.clock.pump([0.1] * 5)
        self.assertNoResult(taking)
        renewed = self.answered(self.asked[0])
        self.assertEqual(self.store.load().chain, renewed)
        self.settle(lambda: taking.called)
        self.assertEqual(self.successResultOf(taking).name, "ann")
        self.assertEqual((self.store.load().chain, self.file.renew_until()), (chain, 9.0))

    def test_signed_in_beside_another(self) -> None:
        """A sign-in waits in vain for a process that keeps the identity, and writes nothing."""
        with self.store.hold():
            _, taking = self.signed_in()
            self.world.clock.pump([0.1] * 600)
        told = self.failureResultOf(taking, IdentityBusy).value
        self.assertIn("run `svc login` again", told.text)
        self.assertEqual(self.store.load().chain, self.first)

    def test_never_let_go(self) -> None:
        """A process that keeps the identity is named as the reason after a while."""
        with self.store.hold():
            leaving = self.sign_out()
            self.world.clock.pump([0.1] * 600)
        told = self.failureResultOf(leaving, IdentityBusy).value
        self.assertIn("run `svc logout` again", told.text)
        self.assertEqual((self.ended, self.store.load().chain), ([], self.first))

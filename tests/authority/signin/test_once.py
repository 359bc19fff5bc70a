"""By one device code or token one certificate is issued, whatever becomes of the answer."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.signin.refusals import SignInRefused
from svc.errors import Fault, Unavailable
from svc.pki.issue import make_request
from svc.pki.root import new_key
from tests.authority.house import refusal_of, value_of
from tests.authority.signin.memory import SignInHouse
from tests.authority.signin.tokens import signed
from tests.pki.support import CLUSTER

RS = {"alg": "RS256", "kid": "r1"}
KEYS_SECS = 3700
"""After so long the provider's keys are fetched anew."""


class OnceCase(SynchronousTestCase):
    """A house whose store fails before a commit, after it, or never answers."""

    def setUp(self) -> None:
        self.at = SignInHouse()
        self.house = self.at.house

    def broken_off(self, call: Any) -> None:
        """The caller breaks a call off while it waits."""
        asked = Deferred.fromCoroutine(call)
        self.assertNoResult(asked)
        asked.addErrback(lambda failure: None)
        asked.cancel()

    def check_only(self, answer: Any) -> None:
        """The certificate of an answer is the only one that was issued to anybody."""
        (record,) = self.house.records("person.sign_in")
        issued = sha256(answer.chain[0]).hexdigest()
        self.assertEqual(record["details"]["certificate_sha256"], issued)
        (row,) = self.house.run(lambda tx: tx.sign_ins.unexpired(0.0))
        self.assertEqual(row.certificate_sha256.hex(), issued)
        self.assertEqual(len(self.house.run(lambda tx: tx.certificates.of(row.person_id))), 1)


class DeviceTests(OnceCase):
    """A device code."""

    def setUp(self) -> None:
        super().setUp()
        self.begun, _ = value_of(self.at.begin(flow="device"))
        self.at.agent.answer("/token", self.at.tokens())

    def poll(self) -> Any:
        """Poll as soon as it is due."""
        self.house.clock.advance(self.begun.interval)
        return self.at.poll(self.begun)

    def check_goes_on(self) -> None:
        """The next poll brings the one certificate, and ends the sign-in."""
        self.house.store.mood = "well"
        self.check_only(value_of(self.poll()).signed_in)
        self.assertEqual(refusal_of(self.poll()).reason, "attempt_unknown")
        self.assertEqual(self.at.agent.count("/token"), 1)

    def test_broken_off_after_the_commit(self) -> None:
        """However many polls are broken off, the person is let in once."""
        self.house.store.mood = "commits, then silent"
        for _ in range(4):
            self.broken_off(self.poll())
        self.check_goes_on()

    def test_broken_off_before_the_commit(self) -> None:
        """Who was let in by no poll is by the next: a caller whose time is up asks again."""
        self.house.store.mood = "silent"
        for _ in range(2):
            self.broken_off(self.poll())
        self.assertEqual(self.house.records("person.sign_in"), [])
        self.check_goes_on()

    def test_the_answer_of_the_commit_is_lost(self) -> None:
        """The store is asked what became of it before anybody is let in again."""
        self.house.store.mood = "commits, then down"
        for _ in range(3):
            self.assertEqual(refusal_of(self.poll()).fault, Fault.UNAVAILABLE)
        self.check_goes_on()

    def test_revoked_meanwhile(self) -> None:
        """Who was let in by a lost answer and is revoked since is given nothing."""
        self.house.store.mood = "commits, then down"
        refusal_of(self.poll())
        self.house.store.mood = "well"
        (row,) = self.house.run(lambda tx: tx.sign_ins.unexpired(0.0))
        self.house.run(lambda tx: tx.people.revoke(row.person_id, 2.0))
        self.assertEqual(refusal_of(self.poll()).reason, "revoked_person")
        self.assertEqual(refusal_of(self.poll()).reason, "attempt_unknown")

    def test_a_failure_that_nobody_foresaw(self) -> None:
        """It ends the sign-in, as every refusal does that will not pass."""
        self.house.store.mood = "broken"
        with self.assertRaises(ValueError):
            value_of(self.poll())
        self.house.store.mood = "well"
        self.assertEqual(refusal_of(self.poll()).reason, "attempt_unknown")
        self.assertEqual(self.house.records("person.sign_in"), [])


class MachineTests(OnceCase):
    """An ID token of a machine."""

    def setUp(self) -> None:
        super().setUp()
        claims = self.at.claims(aud=CLUSTER, exp=self.house.now() + 80_000)
        self.token, self.csr = signed(RS, claims), make_request(new_key())

    def brought(self) -> Any:
        """Bring the token for its key."""
        return self.at.assertion(self.token, self.csr)

    def check_used(self) -> None:
        """It lets nobody in any more."""
        self.assertEqual(refusal_of(self.brought()).reason, "assertion_replayed")

    def test_a_failure_before_a_used_one_is_taken(self) -> None:
        """A token that let somebody in is used up, whatever a later request with it fails by."""
        answer = value_of(self.brought())
        self.check_used()
        self.house.clock.advance(KEYS_SECS)
        self.at.agent.breaks = ConnectionRefusedError()
        self.assertEqual(refusal_of(self.brought()).fault, Fault.UNAVAILABLE)
        self.at.agent.breaks = None
        self.house.clock.advance(10)
        self.check_used()
        self.check_only(answer)

    def test_a_failure_while_another_lets_somebody_in(self) -> None:
        """Only the request that took a token can leave it to be brought again."""
        self.house.store.mood = "commits, then silent"
        letting_in = Deferred.fromCoroutine(self.brought())
        self.house.store.mood = "well"
        self.house.clock.advance(KEYS_SECS)
        self.at.agent.breaks = ConnectionRefusedError()
        self.assertEqual(refusal_of(self.brought()).fault, Fault.UNAVAILABLE)
        self.at.agent.breaks = None
        self.house.clock.advance(10)
        self.check_used()
        self.assertEqual(len(self.house.records("person.sign_in")), 1)
        self.assertNoResult(letting_in)

    def test_the_answer_of_the_commit_is_lost(self) -> None:
        """The same key is given the certificate that was issued, and no other."""
        self.house.store.mood = "commits, then down"
        for _ in range(3):
            self.assertEqual(refusal_of(self.brought()).fault, Fault.UNAVAILABLE)
        self.house.store.mood = "well"
        answer = value_of(self.brought())
        self.check_only(answer)
        self.check_used()

    def test_of_somebody_else(self) -> None:
        """One that was left open as an agent's is of no use to sign a person in, or another."""
        taken, claims = self.at.service.taken, self.at.claims(aud=CLUSTER)
        first = taken.use(self.token, b"k" * 32)
        once = first.take(claims, "agent-a")
        first.failed(Unavailable("down for a test", reason="store_unavailable"))
        for key, agent_id in ((b"k" * 32, ""), (b"k" * 32, "agent-b"), (b"l" * 32, "agent-a")):
            with self.assertRaises(SignInRefused):
                taken.use(self.token, key).take(claims, agent_id)
        self.assertIs(taken.use(self.token, b"k" * 32).take(claims, "agent-a"), once)

    def test_broken_off_after_the_commit(self) -> None:
        """However many requests are broken off, the same key is given the one certificate."""
        self.house.store.mood = "commits, then silent"
        for _ in range(3):
            self.broken_off(self.brought())
        self.house.store.mood = "well"
        other = self.at.assertion(self.token, make_request(new_key()))
        self.assertEqual(refusal_of(other).reason, "assertion_replayed")
        self.check_only(value_of(self.brought()))
        self.check_used()

    def test_broken_off_before_the_commit(self) -> None:
        """A token that let nobody in does so when it is brought again."""
        self.house.store.mood = "silent"
        self.broken_off(self.brought())
        self.assertEqual(self.house.records("person.sign_in"), [])
        self.house.store.mood = "well"
        self.check_only(value_of(self.brought()))

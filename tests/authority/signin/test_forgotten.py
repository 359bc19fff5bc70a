"""What a sign-in left in memory is forgotten once it has ended, though nobody asks again."""

from __future__ import annotations

from typing import Any
from weakref import ref

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.signin.attempts import MAX_ATTEMPTS, Attempts, Flow
from svc.authority.signin.id_token import LEEWAY_SECS
from svc.authority.signin.refreshed import UnstoredTokens
from svc.errors import Fault
from svc.pki.issue import make_request
from svc.pki.root import new_key
from tests.authority.house import refusal_of, value_of
from tests.authority.signin.memory import SignInHouse
from tests.authority.signin.tokens import signed
from tests.pki.support import CLUSTER


class ForgottenTests(SynchronousTestCase):
    """A house in which nobody ends what was begun."""

    def setUp(self) -> None:
        self.at = SignInHouse()
        self.house, self.service = self.at.house, self.at.service

    def forget(self, seconds: float) -> None:
        """Let time pass, and what has ended be forgotten."""
        self.house.clock.advance(seconds)
        value_of(self.service.forget_ended())

    def poll(self, begun: Any) -> str:
        return refusal_of(self.at.poll(begun)).reason

    def test_a_device_code_that_was_not_polled_for_long(self) -> None:
        """What the provider gave for it is there for the next poll."""
        begun, _ = value_of(self.at.begin(flow="device"))
        self.at.agent.answer("/token", self.at.tokens())
        self.house.clock.advance(begun.interval)
        self.house.store.mood = "down"
        self.assertEqual(refusal_of(self.at.poll(begun)).fault, Fault.UNAVAILABLE)
        self.house.store.mood = "well"
        self.forget(200)
        self.assertEqual(value_of(self.at.poll(begun)).signed_in.name, "ada@example.org")

    def test_device_codes_that_nobody_polls(self) -> None:
        """Until shortly after their end they took too long; then nobody knows them."""
        for late, reason in ((59, "device_expired"), (60, "attempt_unknown")):
            begun, _ = value_of(self.at.begin(flow="device"))
            self.forget(begun.expires_in + late)
            self.assertEqual(self.poll(begun), reason)

    def test_attempts_that_nobody_ends(self) -> None:
        """They are forgotten a minute after their end, whoever began them; never too many wait."""
        attempts = Attempts(self.house.clock, self.house.entropy)
        made = [
            ref(attempts.begin(flow, b"", b"", secs))
            for secs in (30.0, 600.0)
            for flow in (Flow.CODE, Flow.DEVICE, Flow.LOCAL)
        ]
        self.house.clock.advance(90.0)
        attempts.forget_ended()
        self.assertEqual([one() is None for one in made], [True] * 3 + [False] * 3)
        for _ in range(MAX_ATTEMPTS):
            attempts.begin(Flow.CODE, b"", b"", 600.0)
        self.assertEqual([one() is None for one in made], [True] * 6)

    def test_tokens_of_machines(self) -> None:
        """One that was taken is known until it has expired, and no longer."""
        claims = self.at.claims(aud=CLUSTER)
        token, csr = signed({"alg": "RS256", "kid": "r1"}, claims), make_request(new_key())
        value_of(self.at.assertion(token, csr))
        use = self.service.taken.use(token, b"")
        self.forget(claims["exp"] - claims["iat"] + LEEWAY_SECS - 1)
        self.assertEqual(refusal_of(self.at.assertion(token, csr)).reason, "assertion_replayed")
        self.forget(1)
        use.take(claims)  # who keeps expired tokens away has looked at the times before

    def test_refresh_tokens_that_were_not_stored(self) -> None:
        """They are forgotten with the sign-in that they were of."""
        tokens = UnstoredTokens()
        tokens.came("one", "a", "b", 100.0)
        tokens.came("two", "c", "d", 200.0)
        tokens.forget_ended(100.0)
        self.assertEqual((tokens.newest("one", "a"), tokens.newest("two", "c")), ("a", "d"))

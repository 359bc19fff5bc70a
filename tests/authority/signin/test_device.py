"""Device codes: the settings move what the provider says in one direction only."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Fault
from tests.authority.house import refusal_of, value_of
from tests.authority.signin.memory import DEVICE, SignInHouse
from tests.support.proof import proves

PENDING = {"error": "authorization_pending"}


class DeviceTests(SynchronousTestCase):
    """Against a provider in memory."""

    def begun(self, device: Any = None, **rules: Any) -> Any:
        """A device sign-in under these rules, and of this answer of the provider."""
        self.at = SignInHouse(rules)
        self.at.agent.answer("/device", {**DEVICE, **(device or {})})
        self.at.agent.answer("/token", PENDING, status=400)
        return value_of(self.at.begin(flow="device"))[0]

    def polled(self, begun: Any, error: Any = None) -> Any:
        """What a poll says once it is due, and the provider answers so."""
        self.at.house.clock.advance(begun.interval)
        if error is not None:
            self.at.agent.answer("/token", error, status=400)
        return self.at.poll(begun)

    @proves("U-OIDC-05")
    @proves("X-52")
    def test_interval(self) -> None:
        """The configured interval only raises the provider's; earlier polls do not reach it."""
        for provider, configured, used in ((5, None, 5), (5, 2, 5), (5, 8, 8), (1, 8, 8)):
            begun = self.begun({"interval": provider}, interval=configured)
            self.assertEqual(begun.interval, used)
            self.at.house.clock.advance(used - 0.5)
            self.assertEqual(value_of(self.at.poll(begun)).wait, 1)
            self.assertEqual(self.at.agent.count("/token"), 0)
            self.at.house.clock.advance(0.5)
            self.assertEqual(value_of(self.at.poll(begun)).wait, used)
            self.assertEqual(self.at.agent.count("/token"), 1)

    @proves("U-OIDC-06")
    def test_expires_in(self) -> None:
        """The configured life only shortens the provider's; past it the code is given up."""
        for configured, used in ((None, 600), (900, 600), (60, 60)):
            begun = self.begun(expires_in=configured)
            self.assertEqual(begun.expires_in, used)
            self.at.house.clock.advance(used)
            self.assertEqual(refusal_of(self.at.poll(begun)).reason, "device_expired")
            (record,) = self.at.house.records("sign_in.refused")
            self.assertEqual(record["reason"], "device_expired")

    @proves("U-OIDC-04")
    @proves("U-OPEN-16")
    @proves("X-53")
    def test_pending_errors(self) -> None:
        """`invalid_grant` with a configured start means to wait; nothing else that says so does."""
        text = "AADSTS70016: not yet"
        told = {"error": "invalid_grant", "error_description": text}
        begun = self.begun(pending_errors=("AADSTS70016",))
        self.assertEqual(value_of(self.polled(begun, told)).wait, 5)
        for error in (
            {"error": "invalid_grant", "error_description": f"see {text}"},
            {"error": "invalid_grant", "error_description": text.lower()},
            {"error": "invalid_grant"},
            {"error": "invalid_request", "error_description": text},
        ):
            begun = self.begun(pending_errors=("AADSTS70016",))
            self.assertEqual(refusal_of(self.polled(begun, error)).reason, "provider_refused")
        begun = self.begun()
        self.assertEqual(refusal_of(self.polled(begun, told)).reason, "provider_refused")

    def test_slow_down(self) -> None:
        """Each `slow_down` makes the wait five seconds longer, for good."""
        begun = self.begun()
        self.assertEqual(value_of(self.polled(begun, {"error": "slow_down"})).wait, 10)
        self.at.house.clock.advance(10)
        self.at.agent.answer("/token", PENDING, status=400)
        self.assertEqual(value_of(self.at.poll(begun)).wait, 10)

    def test_ends(self) -> None:
        """Denied and expired are told apart, are recorded, and end it."""
        for error, reason in (
            ("access_denied", "sign_in_denied"),
            ("expired_token", "device_expired"),
            ("server_error", "provider_refused"),
        ):
            begun = self.begun()
            self.assertEqual(refusal_of(self.polled(begun, {"error": error})).reason, reason)
            (record,) = self.at.house.records("sign_in.refused")
            self.assertEqual(record["reason"], reason)
            self.assertEqual(refusal_of(self.at.poll(begun)).reason, "attempt_unknown")

    def test_signed_in(self) -> None:
        """Once the person has signed in, the machine has a certificate; once only."""
        begun = self.begun()
        self.at.agent.answer("/token", self.at.tokens())
        self.at.house.clock.advance(5)
        answer = value_of(self.at.poll(begun))
        self.assertEqual(answer.signed_in.name, "ada@example.org")
        self.assertEqual(refusal_of(self.at.poll(begun)).reason, "attempt_unknown")

    def test_the_store_fails_as_the_person_is_let_in(self) -> None:
        """What the provider gave for the code is not lost: the next poll goes on with it."""
        begun = self.begun()
        self.at.agent.answer("/token", self.at.tokens())
        self.at.house.clock.advance(5)
        self.at.house.store.mood = "down"
        self.assertEqual(refusal_of(self.at.poll(begun)).fault, Fault.UNAVAILABLE)
        self.at.house.store.mood = "well"
        self.at.agent.answer("/token", {"error": "invalid_grant"}, status=400)
        self.assertEqual(value_of(self.at.poll(begun)).wait, 5)
        self.at.house.clock.advance(5)
        answer = value_of(self.at.poll(begun))
        self.assertEqual(answer.signed_in.name, "ada@example.org")
        self.assertEqual(refusal_of(self.at.poll(begun)).reason, "attempt_unknown")

    def test_malformed(self) -> None:
        """What is no device code is the provider's fault."""
        for device in (
            {"device_code": ""},
            {"user_code": "\x1b[2J"},
            {"verification_uri": "http://id.example/device"},
            {"verification_uri_complete": "javascript:alert(1)"},
            {"interval": "5"},
            {"expires_in": 0},
        ):
            with self.subTest(device=device):
                at = SignInHouse()
                at.agent.answer("/device", {**DEVICE, **device})
                refused = refusal_of(at.begin(flow="device"))
                self.assertEqual(refused.reason, "provider_answer")

"""A sign-in that is renewed, ended, or found with somebody else."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from cryptography import x509
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.state.recorder import operator
from svc.errors import Fault
from svc.pki.root import new_key
from tests.authority.house import refusal_of, value_of
from tests.authority.signin.memory import SignInHouse
from tests.authority.signin.tokens import signed
from tests.authority.spools import Writing

OPERATOR = operator(0)
RS = {"alg": "RS256", "kid": "r1"}


class RenewalTests(SynchronousTestCase):
    """While the provider's session lasts."""

    def setUp(self) -> None:
        self.at = SignInHouse()
        self.house, self.key = self.at.house, new_key()
        self.first = value_of(self.at.sign_in(self.key))

    def renew(self, key: Any, answer: Any, new: Any) -> Any:
        """Renew by a certificate."""
        return self.at.renew(key, answer.chain, new)

    def tokens(self, **claims: Any) -> dict[str, Any]:
        """What a refresh is answered with: no nonce, another refresh token."""
        return {**self.at.tokens(**claims), "refresh_token": "refresh2"}

    def test_renewed(self) -> None:
        """Each refresh token is used once, and groups follow the provider's word."""
        self.at.agent.answer("/token", self.tokens(groups=[]))
        second_key, third_key = new_key(), new_key()
        second = value_of(self.renew(self.key, self.first, second_key))
        value_of(self.renew(second_key, second, third_key))
        self.assertEqual(self.used(), [None, "refresh1", "refresh2"])
        self.assertEqual(list(second.groups), [])
        self.assertEqual(second.renew_until, self.first.renew_until)
        self.assertEqual(len(self.house.records("sign_in.renew")), 2)

    def test_not_past_its_end(self) -> None:
        """A certificate that is renewed shortly before the sign-in ends does not outlive it."""
        at = SignInHouse(admission={"renew_secs": 4000.5})
        at.agent.answer("/token", self.tokens())
        key, mine = new_key(), new_key()
        first = value_of(at.sign_in(key))
        at.house.clock.advance(2400)
        at.agent.answer("/token", {**at.tokens(), "refresh_token": "refresh2"})
        second = value_of(at.renew(key, first.chain, mine))
        end = x509.load_der_x509_certificate(second.chain[0]).not_valid_after_utc.timestamp()
        self.assertEqual(int(end), first.renew_until)
        at.house.clock.advance(1200)
        refused = refusal_of(at.renew(mine, second.chain, new_key()))
        self.assertEqual(refused.reason, "sign_in_not_renewed")
        value_of(at.end(mine, second.chain))

    def test_answer_lost(self) -> None:
        """Who lost the answer asks again with the same key."""
        self.at.agent.answer("/token", self.tokens())
        key = new_key()
        value_of(self.renew(self.key, self.first, key))
        value_of(self.renew(self.key, self.first, key))

    def used(self) -> list[str | None]:
        """The refresh tokens that the provider was given, in order."""
        return [form.get("refresh_token") for path, form in self.at.agent.asked if path == "/token"]

    def test_the_store_takes_nothing(self) -> None:
        """A refresh token that the provider gave is used next, though it was not stored."""
        self.at.agent.answer("/token", self.tokens())
        key, run = new_key(), self.house.store.run
        for mood in ("down", "commits, then down"):

            async def fails(desc: str, fn: Any, mood: str = mood) -> Any:
                self.house.store.mood = mood
                try:
                    return await run(desc, fn)
                finally:
                    self.house.store.mood = "well"

            self.at.entrance.store = Writing(self.house.store, fails)
            refused = refusal_of(self.renew(self.key, self.first, key))
            self.assertEqual(refused.fault, Fault.UNAVAILABLE)
        self.at.entrance.store = self.house.store
        self.at.agent.answer("/token", {**self.tokens(), "refresh_token": "refresh3"})
        second = value_of(self.renew(self.key, self.first, key))
        value_of(self.renew(key, second, new_key()))
        self.assertEqual(self.used(), [None, "refresh1", "refresh2", "refresh2", "refresh3"])

    def test_its_keys_are_not_to_be_had(self) -> None:
        """Nor is one lost that came with an ID token which could not be verified at the time."""
        token = signed({**RS, "kid": "newer"}, self.at.claims())
        self.at.agent.answer("/token", {**self.tokens(), "id_token": token})
        self.at.agent.answer("/jwks", {}, status=503)
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.fault, Fault.UNAVAILABLE)
        self.at.agent.answer("/token", self.tokens())
        value_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(self.used(), [None, "refresh1", "refresh2"])

    def test_signed_out_before_it_is_stored(self) -> None:
        """The provider forgets the token that it gave last."""
        self.at.agent.answer("/token", {**self.tokens(), "id_token": "a.b.c"})
        refusal_of(self.renew(self.key, self.first, new_key()))
        value_of(self.at.end(self.key, self.first.chain))
        revoked = [form["token"] for path, form in self.at.agent.asked if path == "/revoke"]
        self.assertEqual(revoked, ["refresh2"])

    def test_a_copy(self) -> None:
        """A copy of the directory that renews is seen: the sign-in has ended for both."""
        self.at.agent.answer("/token", self.tokens())
        mine = new_key()
        second = value_of(self.renew(self.key, self.first, mine))
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.reason, "identity_cloned")
        refused = refusal_of(self.renew(mine, second, new_key()))
        self.assertEqual(refused.reason, "revoked_certificate")
        self.assertEqual(self.house.records("sign_in.end")[0]["reason"], "identity_cloned")
        self.assertEqual((self.good(), self.signed_out()), ([], [False, False]))

    def good(self) -> list[str]:
        """The person's certificates that were not revoked."""
        person = self.first.principal.rpartition("/")[2]
        issued = self.house.run(lambda tx: tx.certificates.of(person))
        return [one.serial for one in issued if one.revoked_at is None]

    def test_older_certificates(self) -> None:
        """A sign-in ends with the certificate before its newest too, which has not expired yet."""
        self.at.agent.answer("/token", self.tokens())
        mine = new_key()
        second = value_of(self.renew(self.key, self.first, mine))
        self.assertEqual(len(self.good()), 2)
        value_of(self.at.end(mine, second.chain))
        self.assertEqual(self.good(), [])
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.reason, "revoked_certificate")

    def test_every_certificate(self) -> None:
        """So it does with one of two generations before, and one whose answer was lost."""
        self.at.agent.answer("/token", self.tokens())
        second, third = new_key(), new_key()
        value_of(self.renew(self.key, self.first, second))
        self.house.clock.advance(2)
        renewed = value_of(self.renew(self.key, self.first, second))
        last = value_of(self.renew(second, renewed, third))
        self.assertEqual(len(self.good()), 4)
        lost = sha256(self.first.chain[0]).hexdigest()
        self.house.by_sql(f"DELETE FROM person_certificates WHERE sha256 = x'{lost}'")
        value_of(self.at.end(third, last.chain))
        self.assertEqual(self.good(), [])
        self.assertEqual(len(self.house.state_cache.state.revoked_certificates), 4)

    def test_two_generations_behind(self) -> None:
        """Who renews by a certificate of two generations before has a copy; it ends for both."""
        self.at.agent.answer("/token", self.tokens())
        second, third = new_key(), new_key()
        renewed = value_of(self.renew(self.key, self.first, second))
        value_of(self.renew(second, renewed, third))
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.reason, "identity_cloned")
        self.assertEqual(self.good(), [])

    def test_another_account(self) -> None:
        """A refresh that is answered for somebody else ends the sign-in."""
        self.at.agent.answer("/token", self.tokens(sub="00u2"))
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.reason, "account_differs")
        self.assertEqual(self.house.records("sign_in.end")[0]["reason"], "account_differs")

    def test_session_over(self) -> None:
        """When the provider's session has ended nothing is prolonged; when it is away, neither."""
        self.at.agent.is_silent = True
        waiting: list[Any] = []
        Deferred.fromCoroutine(self.renew(self.key, self.first, new_key())).addBoth(waiting.append)
        self.house.clock.advance(10)
        self.assertEqual(waiting[0].value.reason, "provider_unreachable")
        self.at.agent.is_silent = False
        for status, error in (
            (503, "temporarily_unavailable"),
            (429, "slow_down"),
            (429, "rate_limited"),
            (500, "invalid_grant"),
            (400, "slow_down"),
            (401, "invalid_client"),
        ):
            self.at.agent.answer("/token", {"error": error}, status=status)
            refused = refusal_of(self.renew(self.key, self.first, new_key()))
            self.assertEqual(refused.reason, "provider_unreachable")
        self.assertEqual(self.house.records("sign_in.end"), [])
        self.at.agent.answer("/token", {"error": "invalid_grant"}, status=400)
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.reason, "provider_session_ended")
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.reason, "revoked_certificate")

    def test_a_token_moved_by_sql(self) -> None:
        """A sealed refresh token in another row is not used: not by its record, nor by its seal."""
        other_key = new_key()
        other = value_of(self.at.sign_in(other_key, sub="00u2", email="eve@example.org"))
        whose = "(SELECT id FROM person_identities WHERE subject = '00u2')"
        self.house.by_sql(
            "UPDATE sign_ins SET refresh ="
            f" (SELECT refresh FROM sign_ins WHERE identity_id <> {whose})"
            f" WHERE identity_id = {whose}"
        )
        refused = refusal_of(self.renew(other_key, other, new_key()))
        self.assertEqual(refused.reason, "state_unsigned")

    def test_logout(self) -> None:
        """Who leaves is forgotten by the provider too, and is not renewed."""
        value_of(self.at.end(self.key, self.first.chain))
        self.assertEqual(self.at.agent.count("/revoke"), 1)
        self.assertEqual(self.signed_out(), [True])
        refused = refusal_of(self.renew(self.key, self.first, new_key()))
        self.assertEqual(refused.reason, "revoked_certificate")
        self.assertEqual(self.signed_out(), [False])

    def test_logout_again(self) -> None:
        """A sign-out whose answer was lost succeeds when tried again, and is recorded once."""
        for _ in range(2):
            value_of(self.at.end(self.key, self.first.chain))
        self.assertEqual(self.signed_out(), [True])
        self.assertEqual(len(self.house.records("sign_in.end")), 1)
        self.assertEqual(
            refusal_of(self.at.end(new_key(), self.first.chain)).reason, "bad_signature"
        )

    def test_logout_of_an_older(self) -> None:
        """A copy renewed first: who signs out by the older certificate ends a clone's sign-in."""
        self.at.agent.answer("/token", self.tokens())
        copied = new_key()
        second = value_of(self.renew(self.key, self.first, copied))
        refused = refusal_of(self.at.end(self.key, self.first.chain))
        self.assertEqual(refused.reason, "identity_cloned")
        self.assertEqual(self.at.agent.count("/revoke"), 1)
        self.assertEqual((self.good(), self.signed_out()), ([], [False, False]))
        (record,) = self.house.records("sign_in.end")
        self.assertEqual(record["reason"], "identity_cloned")
        refused = refusal_of(self.renew(copied, second, new_key()))
        self.assertEqual(refused.reason, "revoked_certificate")
        self.assertEqual(len(self.house.records("sign_in.end")), 1)

    def test_renewed_after_logout(self) -> None:
        """Who renews after a sign-out has a copy: nothing of that sign-in has ended in order."""
        self.at.agent.answer("/token", self.tokens())
        mine = new_key()
        second = value_of(self.renew(self.key, self.first, mine))
        value_of(self.at.end(mine, second.chain))
        self.assertEqual(self.signed_out(), [True, True])
        refused = refusal_of(self.renew(new_key(), self.first, new_key()))
        self.assertEqual(refused.reason, "bad_signature")
        self.assertEqual(self.signed_out(), [True, True])
        for _ in range(2):
            refused = refusal_of(self.renew(self.key, self.first, new_key()))
            self.assertEqual(refused.reason, "revoked_certificate")
            self.assertEqual(self.signed_out(), [False, False])
        reasons = [one["reason"] for one in self.house.records("sign_in.end")]
        self.assertEqual(reasons, ["logout", "identity_cloned"])

    def signed_out(self) -> list[bool]:
        """Of each certificate of the person, whether its holder signed out."""
        person = self.first.principal.rpartition("/")[2]
        issued = self.house.run(lambda tx: tx.certificates.of(person))
        return [one.signed_out for one in issued]

    def test_another_key(self) -> None:
        """A certificate without its key renews nothing."""
        refused = refusal_of(self.renew(new_key(), self.first, new_key()))
        self.assertEqual(refused.reason, "bad_signature")

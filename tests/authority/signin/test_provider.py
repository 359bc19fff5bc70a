"""What a provider must be, and what Authority does not do for it."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

from OpenSSL.SSL import Error as TlsError
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseNeverReceived

from svc.authority.signin.http import MAX_ANSWER
from svc.authority.signin.id_token import ExpectedToken
from svc.authority.signin.reach import ProviderReach
from svc.errors import Fault
from tests.authority.house import outcome, refusal_of, value_of
from tests.authority.signin.memory import METADATA, WELL_KNOWN, SignInHouse
from tests.authority.signin.tokens import CLIENT, ISSUER, key_set, rsa_jwk, signed
from tests.support.logged import logged


class MetadataTests(SynchronousTestCase):
    """Discovery."""

    def test_refused(self) -> None:
        """Another issuer, no PKCE, a plain URL, no JSON, a redirect, too much: all refused."""
        cases: tuple[tuple[Any, int, str], ...] = (
            ({**METADATA, "issuer": "https://other.example"}, 200, "provider_issuer"),
            ({**METADATA, "issuer": f"{ISSUER}/"}, 200, "provider_issuer"),
            ({**METADATA, "issuer": None}, 200, "provider_issuer"),
            (
                {**METADATA, "code_challenge_methods_supported": ["plain"]},
                200,
                "provider_no_pkce",
            ),
            ({**METADATA, "code_challenge_methods_supported": None}, 200, "provider_no_pkce"),
            (
                {**METADATA, "id_token_signing_alg_values_supported": ["HS256", "none"]},
                200,
                "provider_metadata",
            ),
            ({**METADATA, "token_endpoint": "http://id.example/token"}, 200, "provider_url"),
            ({**METADATA, "token_endpoint": "https://u:p@id.example/"}, 200, "provider_url"),
            ({**METADATA, "jwks_uri": "https://"}, 200, "provider_url"),
            ({**METADATA, "authorization_endpoint": 7}, 200, "provider_url"),
            ({**METADATA, "revocation_endpoint": "file:///etc/passwd"}, 200, "provider_url"),
            (b"[]", 200, "provider_metadata"),
            (b'{"issuer":"a","issuer":"b"}', 200, "provider_metadata"),
            (b"{" + b" " * MAX_ANSWER + b"}", 200, "provider_oversize"),
            (b"", 302, "provider_redirect"),
            (b"", 404, "provider_answer"),
        )
        for body, status, reason in cases:
            with self.subTest(body=body, status=status):
                at = SignInHouse()
                at.agent.answer(WELL_KNOWN, body, status=status)
                self.assertEqual(refusal_of(at.begin()).reason, reason)

    def test_unverified(self) -> None:
        """A certificate that nobody trusts is told with the key to set, also in the log."""
        at = SignInHouse()
        at.agent.breaks = ResponseNeverReceived(
            [Failure(TlsError([("SSL routines", "", "certificate verify failed")]))]
        )
        events = logged(self)
        refused = refusal_of(at.begin())
        self.assertEqual(refused.reason, "provider_unreachable")
        self.assertIn("names that in oidc.ca_file", refused.text)
        self.assertIn(refused.text, [event.get("text") for event in events])

    def test_silent(self) -> None:
        """A provider that says nothing is waited for ten seconds."""
        at = SignInHouse()
        at.agent.is_silent = True
        got = outcome(at.begin())
        at.house.clock.advance(9.9)
        self.assertEqual(got, [])
        at.house.clock.advance(0.1)
        self.assertEqual(got[0].value.reason, "provider_unreachable")

    def test_waited_for_together(self) -> None:
        """All callers wait for one try at a silent provider, and for some seconds none tries."""
        at = SignInHouse()
        at.agent.is_silent = True
        waiting = [outcome(at.begin()) for _ in range(20)]
        at.house.clock.advance(10)
        for got in waiting:
            self.assertEqual(got[0].value.reason, "provider_unreachable")
        at.agent.is_silent = False
        at.house.clock.advance(4.9)
        self.assertEqual(refusal_of(at.begin()).reason, "provider_unreachable")
        self.assertEqual(at.agent.count(WELL_KNOWN), 1)
        at.house.clock.advance(0.1)
        value_of(at.begin())

    def test_kept_for_an_hour(self) -> None:
        """The metadata are asked for once an hour, for all callers together."""
        at = SignInHouse()
        for passed, count in ((0, 1), (3599, 1), (1, 2)):
            at.house.clock.advance(passed)
            value_of(at.begin())
            self.assertEqual(at.agent.count(WELL_KNOWN), count)


class KeyTests(SynchronousTestCase):
    """A provider's keys."""

    def setUp(self) -> None:
        self.at = SignInHouse()

    def verify(self, kid: str) -> Any:
        """Verify a token by the key of that name."""
        token = signed({"alg": "RS256", "kid": kid}, self.at.claims())
        return self.at.provider.verified(token, ExpectedToken(ISSUER, CLIENT))

    def test_rotated(self) -> None:
        """A key that is not known has the keys fetched again, and is then known."""
        value_of(self.verify("r1"))
        self.at.agent.answer("/jwks", key_set(rsa_jwk(), rsa_jwk(kid="r2")))
        value_of(self.verify("r2"))
        self.assertEqual(self.at.agent.count("/jwks"), 2)

    def test_not_fetched(self) -> None:
        """A try at the keys that failed is no look at them: the next one comes soon."""
        value_of(self.verify("r1"))
        self.at.agent.answer("/jwks", {}, status=503)
        self.assertEqual(refusal_of(self.verify("r2")).fault, Fault.UNAVAILABLE)
        self.assertEqual(refusal_of(self.verify("r2")).fault, Fault.UNAVAILABLE)
        self.at.agent.answer("/jwks", key_set(rsa_jwk(), rsa_jwk(kid="r2")))
        self.at.house.clock.advance(5)
        value_of(self.verify("r2"))
        self.assertEqual(self.at.agent.count("/jwks"), 3)

    def test_unknown(self) -> None:
        """Unknown keys have them fetched once a minute, however many there are."""
        for number in range(20):
            refused = refusal_of(self.verify(f"x{number}"))
            self.assertEqual(refused.reason, "id_token_key")
        self.assertEqual(self.at.agent.count("/jwks"), 2)
        self.at.house.clock.advance(60)
        refusal_of(self.verify("x"))
        self.assertEqual(self.at.agent.count("/jwks"), 3)

    def test_waited_for_together(self) -> None:
        """All callers wait for one try at keys that do not come, and not for what is known."""
        value_of(self.at.begin())
        self.at.agent.is_silent = True
        waiting = [outcome(self.verify("r1")) for _ in range(20)]
        self.at.agent.is_silent = False
        value_of(self.at.begin())
        self.at.house.clock.advance(10)
        for got in waiting:
            self.assertEqual(got[0].value.reason, "provider_unreachable")
        self.assertEqual(refusal_of(self.verify("r1")).reason, "provider_unreachable")
        self.assertEqual(self.at.agent.count("/jwks"), 1)
        self.at.house.clock.advance(5)
        value_of(self.verify("r1"))

    def test_stale(self) -> None:
        """Keys of an hour ago are not used if newer ones cannot be had."""
        value_of(self.verify("r1"))
        self.at.house.clock.advance(3600)
        self.at.agent.answer("/jwks", b"", status=503)
        self.assertEqual(refusal_of(self.verify("r1")).reason, "provider_answer")


class ReachTests(SynchronousTestCase):
    """Which addresses are connected to."""

    def test_private(self) -> None:
        """Public addresses only, and an address in another form is what it stands for."""
        reach = ProviderReach()
        for address in ("8.8.8.8", "2606:4700::1111"):
            self.assertTrue(reach.allows(address), address)
        for address in (
            "10.0.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.168.1.1",
            "224.0.0.1",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "id.example",
            "",
        ):
            self.assertFalse(reach.allows(address), address)

    def test_listed(self) -> None:
        """A network that is listed is within reach, and no other."""
        reach = ProviderReach((ip_network("10.1.0.0/16"),))
        self.assertTrue(reach.allows("10.1.2.3"))
        self.assertFalse(reach.allows("10.2.0.1"))

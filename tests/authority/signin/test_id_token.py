"""A table of bad ID tokens, each refused with its own word; and good ones of each algorithm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.signin.account import account_name, read_account
from svc.authority.signin.id_token import MAX_TOKEN, read_token
from svc.authority.signin.json_web_keys import read_keys
from svc.authority.signin.redirect import read_redirect
from svc.authority.signin.refusals import ProviderFault, SignInRefused
from svc.authority.signin.strict_json import decode_base64url
from svc.authority.signin.strict_json import encode_base64url as b64
from svc.errors import SvcError
from tests.authority.signin.tokens import (
    ACCESS,
    CLIENT,
    EXPECTED,
    GOOD,
    ISSUER,
    NONCE,
    NOW,
    ec_jwk,
    half_hash,
    key_set,
    keys,
    rsa_jwk,
    signature,
    signed,
    verified,
)

RS, ES = {"alg": "RS256", "kid": "r1"}, {"alg": "ES256", "kid": "e1"}
GONE = object()


def claims(**changes: Any) -> dict[str, Any]:
    """The good claims with some changed; GONE leaves one out."""
    return {name: value for name, value in {**GOOD, **changes}.items() if value is not GONE}


def spelled(header: str, payload: str = "") -> str:
    """A token of these very texts, signed."""
    text = f"{header}.{payload or b64(json.dumps(GOOD).encode())}"
    return f"{text}.{b64(signature('RS256', text.encode()))}"


def raw(text: str) -> str:
    """A token whose header is this text."""
    return spelled(b64(text.encode()))


BAD_CLAIMS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("issuer", {"iss": "https://other.example"}),
    ("issuer", {"iss": f"{ISSUER}/"}),
    ("issuer", {"iss": ISSUER.upper()}),
    ("issuer", {"iss": GONE}),
    ("issuer", {"iss": [ISSUER]}),
    ("issuer", {"iss": "https://login.example/{tenantid}/v2.0"}),
    ("subject", {"sub": GONE}),
    ("subject", {"sub": ""}),
    ("subject", {"sub": "x" * 256}),
    ("subject", {"sub": 7}),
    ("subject", {"sub": "a\u0000b"}),
    ("subject", {"sub": "\u0430da"}),
    ("subject", {"sub": "a\nb"}),
    ("audience", {"aud": "other"}),
    ("audience", {"aud": GONE}),
    ("audience", {"aud": []}),
    ("audience", {"aud": ["other", "third"]}),
    ("audience", {"aud": [CLIENT, 7]}),
    ("audience", {"aud": {"svc": CLIENT}}),
    ("audience", {"aud": CLIENT.upper()}),
    ("audience", {"aud": [CLIENT, *map(str, range(16))]}),
    ("azp", {"aud": [CLIENT, "other"]}),
    ("azp", {"aud": [CLIENT, "other"], "azp": "other"}),
    ("azp", {"azp": "other"}),
    ("azp", {"azp": None}),
    ("time", {"exp": GONE}),
    ("time", {"iat": GONE}),
    ("time", {"exp": str(NOW + 300)}),
    ("time", {"exp": True}),
    ("time", {"exp": -1}),
    ("time", {"exp": 2**53}),
    ("time", {"exp": None}),
    ("time", {"nbf": "now"}),
    ("time", {"auth_time": [NOW]}),
    ("expired", {"exp": NOW - 60}),
    ("expired", {"exp": 0}),
    ("not_yet", {"iat": NOW + 61}),
    ("not_yet", {"nbf": NOW + 61}),
    ("not_yet", {"auth_time": NOW + 61}),
    ("nonce", {"nonce": GONE}),
    ("nonce", {"nonce": "m" * 43}),
    ("nonce", {"nonce": NONCE[:-1]}),
    ("nonce", {"nonce": [NONCE]}),
    ("nonce", {"nonce": ""}),
    ("nonce", {"nonce": "\ud800"}),
    ("at_hash", {"at_hash": half_hash("another token")}),
    ("at_hash", {"at_hash": ""}),
    ("at_hash", {"at_hash": None}),
    ("at_hash", {"at_hash": half_hash(ACCESS)[:-1]}),
)

BAD_TEXTS: tuple[tuple[str, str, str], ...] = (
    ("empty", "malformed", ""),
    ("two parts", "malformed", "e30.e30"),
    ("four parts", "malformed", "e30.e30.e30.e30"),
    ("encrypted", "encrypted", "e30.e30.e30.e30.e30"),
    ("oversize", "oversize", "x" * (MAX_TOKEN + 1)),
    ("padding", "malformed", signed(RS, GOOD) + "="),
    ("a space", "malformed", signed(RS, GOOD) + " "),
    ("standard base64", "malformed", spelled("+/+/")),
    ("loose last bits", "malformed", spelled("e31")),
    ("no JSON", "malformed", raw("{")),
    ("no object", "malformed", raw('["RS256"]')),
    ("not UTF-8", "malformed", spelled(b64(b'{"alg":"\xff"}'))),
    ("a member twice", "malformed", raw('{"alg":"RS256","alg":"none"}')),
    ("not a number", "malformed", raw('{"alg":"RS256","x":NaN}')),
    ("nested deeply", "malformed", raw("[" * 8000)),
    ("a long kid", "malformed", signed({**RS, "kid": "k" * 256}, GOOD)),
    ("kid of another type", "malformed", signed({**RS, "kid": 1}, GOOD)),
    ("unsigned", "unsigned", signed({"alg": "none"}, GOOD)),
    ("unsigned, spelled otherwise", "unsigned", signed({"alg": "nOnE"}, GOOD)),
    ("no alg", "alg", signed({"kid": "r1"}, GOOD)),
    ("alg of another type", "alg", signed({"alg": ["RS256"]}, GOOD)),
    ("symmetric", "alg", signed({"alg": "HS256", "kid": "r1"}, GOOD)),
    ("spelled in lower case", "alg", signed({"alg": "rs256", "kid": "r1"}, GOOD)),
    ("secp256k1", "alg", signed({"alg": "ES256K", "kid": "e1"}, GOOD)),
    ("RSA encryption", "alg", signed({"alg": "RSA1_5"}, GOOD)),
    ("crit", "critical", signed({**RS, "crit": ["exp"]}, GOOD)),
    ("crit, empty", "critical", signed({**RS, "crit": []}, GOOD)),
    ("b64", "critical", signed({**RS, "b64": False}, GOOD)),
    ("zip", "critical", signed({**RS, "zip": "DEF"}, GOOD)),
    ("enc", "critical", signed({**RS, "enc": "A128GCM"}, GOOD)),
    ("an access token", "type", signed({**RS, "typ": "at+jwt"}, GOOD)),
    ("a logout token", "type", signed({**RS, "typ": "logout+jwt"}, GOOD)),
    ("typ of another type", "type", signed({**RS, "typ": 1}, GOOD)),
    ("unknown kid", "key", signed({**RS, "kid": "r2"}, GOOD)),
    ("kid of another kty", "key", signed({**RS, "kid": "e1"}, GOOD)),
    ("kid of another curve", "key", signed({"alg": "ES384", "kid": "e1"}, GOOD)),
    ("another algorithm", "signature", signed({"alg": "PS256", "kid": "r1"}, GOOD)[:-4] + "AAAA"),
    ("altered payload", "signature", spelled(b64(json.dumps(RS).encode()))[:-8] + "AAAAAAAA"),
    ("no signature", "signature", signed(RS, GOOD).rpartition(".")[0] + "."),
    ("key in the header", "key", signed({"alg": "RS256", "kid": "x", "jwk": rsa_jwk()}, GOOD)),
    ("payload no object", "malformed", signed(RS, b"[]")),
    ("payload twice", "malformed", signed(RS, b'{"iss":"a","iss":"b"}')),
    ("payload no UTF-8", "malformed", signed(RS, b"\xff")),
)


BAD_RETURNS: tuple[tuple[str, str], ...] = (
    ("", "redirect_state"),
    ("state", "redirect_malformed"),
    ("state=s1&code=c&code=d", "redirect_malformed"),
    ("state=s1&state=s1&code=c", "redirect_malformed"),
    ("state=s1", "redirect_malformed"),
    ("state=s1&code=%ff", "redirect_malformed"),
    ("state=s1&code=" + "c" * 8192, "redirect_malformed"),
    ("code=c", "redirect_state"),
    ("state=&code=c", "redirect_state"),
    ("state=&state=s1&code=c", "redirect_malformed"),
    ("state=s1&code=", "redirect_malformed"),
    ("state=s1&code=c&iss=", "redirect_issuer"),
    ("state=s2&code=c", "redirect_state"),
    ("state=%C3%A9&code=c", "redirect_state"),
    ("state=s2&error=access_denied", "redirect_state"),
    ("state=s1&code=c&iss=https%3A%2F%2Fother.example", "redirect_issuer"),
    ("state=s1&error=access_denied", "sign_in_denied"),
    ("state=s1&error=server_error", "provider_refused"),
)

MAIL: Mapping[str, Any] = {"email": "ada@example.org", "email_verified": True}
BAD_NAMES: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("email", {**MAIL, "email_verified": None}, "email_unverified"),
    ("email", {**MAIL, "email_verified": False}, "email_unverified"),
    ("email", {**MAIL, "email_verified": "true"}, "email_unverified"),
    ("email", {**MAIL, "email_verified": "yes"}, "email_unverified"),
    ("email", {**MAIL, "email_verified": 1}, "email_unverified"),
    ("email", {**MAIL, "email_verified": [True]}, "email_unverified"),
    ("email", {**MAIL, "email_verified": {"ada@example.org": True}}, "email_unverified"),
    ("email", {**MAIL, "email": None}, "name_missing"),
    ("email", {"email": None, "email_verified": None}, "name_missing"),
    ("email", {**MAIL, "email": ""}, "name_missing"),
    ("email", {**MAIL, "email": 7}, "name_missing"),
    ("email", {**MAIL, "email": True}, "name_missing"),
    ("email", {**MAIL, "email": ["ada@example.org"]}, "name_missing"),
    ("email", {**MAIL, "email": {"value": "ada@example.org"}}, "name_missing"),
    ("email", {**MAIL, "email": f"{'x' * 128}@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "a da@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": " ada@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "ada@example.org\n"}, "name_missing"),
    ("email", {**MAIL, "email": "ada\0@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "ada\x1b[2J@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "ada\u202e@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "\u0430da@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "ada\ud800@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "@example.org"}, "name_missing"),
    ("email", {**MAIL, "email": "a" * 26}, "name_missing"),
    ("upn", {}, "name_missing"),
    ("upn", {"upn": "x" * 129}, "name_missing"),
    ("upn", {"upn": ["ada"]}, "name_missing"),
)


class BadTokenTests(SynchronousTestCase):
    """Each is refused, with the word for what is wrong with it."""

    def check(self, word: str, token: str) -> None:
        refused = self.assertRaises(SignInRefused, verified, token)
        self.assertEqual(refused.reason, f"id_token_{word}")

    def test_claims(self) -> None:
        """What a well signed token says is compared with what it must say."""
        for word, changes in BAD_CLAIMS:
            for header in (RS, ES):
                with self.subTest(word=word, changes=changes, alg=header["alg"]):
                    self.check(word, signed(header, claims(**changes)))

    def test_forms(self) -> None:
        """What is no token, or is signed by nobody who may, is refused before its claims."""
        for name, word, token in BAD_TEXTS:
            with self.subTest(name):
                self.check(word, token)

    def test_signed_by_another_key(self) -> None:
        """A signature by a key that the provider does not have is worth nothing."""
        other = read_keys(key_set(ec_jwk(x=b64(bytes(31) + b"\1")), rsa_jwk()))
        refused = self.assertRaises(SignInRefused, verified, signed(ES, GOOD), EXPECTED, other)
        self.assertEqual(refused.reason, "id_token_signature")

    def test_machine(self) -> None:
        """A machine's token is for the cluster, and for nothing beside it."""
        expected = evolve(EXPECTED, nonce=None, audience="gate.example", only_audience=True)
        own = {name: value for name, value in GOOD.items() if name != "nonce"}
        own["aud"] = "gate.example"
        for more in ({}, {"azp": "gate.example"}, {"azp": own["sub"]}):
            verified(signed(RS, {**own, **more}), expected)
        bad: tuple[tuple[dict[str, Any], str], ...] = (
            ({"aud": CLIENT}, "audience"),
            ({"aud": ["gate.example", CLIENT]}, "audience"),
            ({"azp": CLIENT}, "azp"),
            ({"azp": ["gate.example"]}, "azp"),
            ({"azp": f"{own['sub']}0"}, "azp"),
            ({"nonce": NONCE}, "nonce"),
            ({"nonce": None}, "nonce"),
        )
        for changed, word in bad:
            with self.subTest(changed=changed):
                token = signed(RS, {**own, **changed})
                refused = self.assertRaises(SignInRefused, verified, token, expected)
                self.assertEqual(refused.reason, f"id_token_{word}")

    @given(st.text(max_size=200))
    def test_whatever_comes(self, text: str) -> None:
        """No text is anything but refused."""
        self.assertRaises(SignInRefused, read_token, text)

    @given(st.binary(max_size=40))
    def test_base64url(self, data: bytes) -> None:
        """Bytes have one spelling."""
        self.assertEqual(decode_base64url(b64(data)), data)


class GoodTokenTests(SynchronousTestCase):
    """What is taken."""

    def test_algorithms(self) -> None:
        """Each kind of key verifies what it signed; without kid where there is one such key."""
        for alg, kid in (("RS256", "r1"), ("PS256", "r1"), ("ES256", "e1"), ("EdDSA", "d1")):
            for header in ({"alg": alg, "kid": kid}, {"alg": alg}):
                with self.subTest(header=header):
                    self.assertEqual(verified(signed(header, GOOD))["sub"], "00u1")

    def test_claims(self) -> None:
        """Clocks may be a minute apart; several audiences need azp; at_hash is of the token."""
        for changes in (
            {"exp": NOW - 59},
            {"iat": NOW + 59, "nbf": NOW + 59},
            {"aud": [CLIENT]},
            {"aud": [CLIENT, "other"], "azp": CLIENT},
            {"at_hash": half_hash(ACCESS)},
            {"iat": NOW - 0.5, "auth_time": 0},
        ):
            with self.subTest(changes=changes):
                verified(signed(RS, claims(**changes)))


class KeySetTests(SynchronousTestCase):
    """Which keys of a set verify anything."""

    def test_left_out(self) -> None:
        """Keys that this program would not verify with are as if they were not there."""
        for entry in (
            rsa_jwk(1024),
            rsa_jwk(use="enc"),
            rsa_jwk(key_ops=["sign"]),
            rsa_jwk(d="AQAB"),
            rsa_jwk(n=7),
            rsa_jwk(n="?"),
            rsa_jwk(kid=7),
            rsa_jwk(alg="RS512"),
            {"kty": "oct", "kid": "r1", "k": "c2VjcmV0"},
            {"kty": "RSA", "kid": "r1"},
            ec_jwk(kid="r1", crv="secp256k1"),
            "a text",
        ):
            with self.subTest(entry=entry):
                found = read_keys(key_set(entry))  # type: ignore[arg-type]
                self.assertIsNone(found.chosen("r1", "RS256"))

    def test_two_that_fit(self) -> None:
        """Where two keys fit, neither is used."""
        self.assertIsNone(read_keys(key_set(rsa_jwk(), rsa_jwk())).chosen("r1", "RS256"))
        self.assertIsNone(read_keys(key_set(rsa_jwk(), rsa_jwk(kid="r2"))).chosen(None, "RS256"))
        self.assertIsNotNone(keys().chosen("r1", "RS256"))

    def test_no_key_set(self) -> None:
        """What is no key set is the provider's fault."""
        for data in (b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[' + b"{}," * 64 + b"{}]}"):
            with self.subTest(data=data):
                refused = self.assertRaises(ProviderFault, read_keys, data)
                self.assertEqual(refused.reason, "provider_keys")


class RedirectTests(SynchronousTestCase):
    """What the browser brings back."""

    def reason(self, query: str, *, names_issuer: bool = False) -> str:
        """Why a redirect is refused; empty for a good one."""
        try:
            read_redirect(query, state="s1", issuer=ISSUER, names_issuer=names_issuer)
        except SvcError as refusal:
            return refusal.reason
        return ""

    def test_refused(self) -> None:
        """State first, then the issuer, then what the provider says."""
        for query in ("state=s1&code=c", "state=s1&code=c&iss=https%3A%2F%2Fid.example"):
            self.assertEqual(self.reason(query), "")
        for query, reason in BAD_RETURNS:
            with self.subTest(query=query):
                self.assertEqual(self.reason(query), reason)

    def test_mix_up(self) -> None:
        """A provider that names itself in each redirect is not believed where it does not."""
        self.assertEqual(self.reason("state=s1&code=c", names_issuer=True), "redirect_issuer")


class AccountTests(SynchronousTestCase):
    """What claims say of a person."""

    def test_groups(self) -> None:
        """A list, or one name; overage and what is no list are refused, never guessed."""
        for changes, groups in (
            ({}, frozenset[str]()),
            ({"groups": []}, frozenset[str]()),
            ({"groups": "ops"}, frozenset({"ops"})),
            ({"groups": ["ops", "dev", "ops"]}, frozenset({"ops", "dev"})),
        ):
            self.assertEqual(read_account(claims(**changes), "groups").groups, groups)
        self.assertIsNone(read_account(claims(groups=7), None).groups)
        refusals: tuple[tuple[dict[str, Any], str], ...] = (
            ({"groups": 7}, "groups_malformed"),
            ({"groups": ["ops", 7]}, "groups_malformed"),
            ({"groups": {"ops": True}}, "groups_malformed"),
            ({"groups": ["g"] * 1001}, "groups_malformed"),
            ({"groups": ["g" * 257]}, "groups_malformed"),
            ({"_claim_names": {"groups": "src1"}}, "groups_overage"),
            ({"hasgroups": True}, "groups_overage"),
        )
        for bad, reason in refusals:
            with self.subTest(bad=bad):
                refused = self.assertRaises(SignInRefused, read_account, claims(**bad), "groups")
                self.assertEqual(refused.reason, reason)

    def test_second_factor(self) -> None:
        """A provider has to say that there was one, and when; nothing is concluded otherwise."""
        several = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
        for changes, at in (
            ({"amr": ["pwd", "mfa"], "auth_time": 7}, 7.0),
            ({"acr": several, "auth_time": 7}, 7.0),
            ({"acr": "phr", "auth_time": 7}, None),
            ({"acr": "phrh", "auth_time": 7}, None),
            ({"acr": "phr", "amr": ["hwk", "mfa"], "auth_time": 7}, 7.0),
            ({"amr": ["mfa"]}, None),
            ({"auth_time": 7}, None),
            ({"amr": ["pwd", "otp"], "auth_time": 7}, None),
            ({"amr": "mfa", "auth_time": 7}, None),
            ({"amr": {"mfa": True}, "auth_time": 7}, None),
            ({"acr": "1", "auth_time": 7}, None),
            ({"acr": [several], "auth_time": 7}, None),
            ({"amr": ["mfa"], "auth_time": True}, None),
            ({"amr": ["mfa"], "auth_time": 0}, None),
        ):
            with self.subTest(changes):
                self.assertEqual(read_account(claims(**changes), None).factor_at, at)

    def test_names(self) -> None:
        """An e-mail address that is not verified is nothing."""
        self.assertEqual(self.name("email", **MAIL), "ada@example.org")
        self.assertEqual(self.name("preferred_username", preferred_username="ada"), "ada")
        for claim, changes, reason in BAD_NAMES:
            with self.subTest(claim=claim, changes=changes):
                refused = self.assertRaises(SignInRefused, self.name, claim, **changes)
                self.assertEqual(refused.reason, reason)
                # Without it the operator could not link the account.
                self.assertIn(f"issuer {ISSUER}, subject {claims()['sub']}", refused.text)

    def name(self, claim: str, **changes: Any) -> str:
        """What a person is called by these claims."""
        return account_name(read_account(claims(**changes), None), claim)

"""Passkeys: made and used on the sign-in page, each for one attempt of one key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fido2 import cbor

from svc.authority.accounts.browser import MOST_TRIES
from svc.authority.accounts.lockout import FREE_TRIES
from svc.authority.accounts.refusals import PasskeyRefused
from svc.authority.signin.strict_json import decode_base64url, encode_base64url
from svc.model.cluster.account import MAX_PASSKEYS, SecretKind
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import account_pb2 as pb
from svc.proto.gate.v1 import admin_pb2
from tests.authority.accounts.memory import PASSWORD, ROOT
from tests.authority.accounts.passkeys import NAME, ORIGIN, PORT, PasskeyBrowser
from tests.authority.accounts.test_sign_in import AccountCase
from tests.authority.house import outcome, refusal_of, value_of
from tests.support.security_key import FLAG

Brought = Mapping[str, Any]


class PasskeyCase(AccountCase):
    """Ada has an authenticator app; eve has a passkey."""

    def setUp(self) -> None:
        super().setUp()
        self.eve = PasskeyBrowser(self.at)
        self.enrolled = self.eve.enroll("eve")

    def passkeys(self, name: str) -> list[str]:
        """The ids of somebody's, as an operator sees them."""
        listed = value_of(self.at.admin.list_accounts(pb.ListAccountsRequest(), ROOT)).accounts
        (row,) = [one for one in listed if one.name == name]
        return [one.id for one in row.passkeys]

    def told(self, answer: Any) -> str:
        """What the page says of a refusal."""
        self.assertGreaterEqual(answer.status, 400)
        return str(json.loads(answer.body)["refused"])


class PasskeySignInTests(PasskeyCase):
    """What goes well."""

    def test_signs_in(self) -> None:
        """A passkey is made by a one-time code and signs in by itself; recovery codes are there."""
        self.assertEqual(self.enrolled.signed_in.name, "eve")
        self.assertEqual(len(self.enrolled.recovery_codes), 10)
        for _ in range(2):
            answer = self.eve.sign_in()
            self.assertEqual(answer.signed_in.principal, self.enrolled.signed_in.principal)
            self.assertEqual(list(answer.recovery_codes), [])
        used = [record["details"]["second_factor"] for record in self.house.records("account.use")]
        self.assertEqual(used[-2:], ["passkey", "passkey"])
        value_of(self.at.sign_in("eve", code=self.enrolled.recovery_codes[0]))
        self.assertEqual(self.reasons(), [])

    def test_several(self) -> None:
        """Who presents password and second factor adds passkeys, up to ten; each signs in."""
        browsers = [PasskeyBrowser(self.at) for _ in range(MAX_PASSKEYS)]
        for browser in browsers:
            self.assertEqual(browser.add("ada", self.ada.code()).signed_in.name, "ada")
            self.house.clock.advance(60)
        self.assertEqual(len(self.passkeys("ada")), MAX_PASSKEYS)
        self.assertEqual(len(self.house.records("account.passkey")), MAX_PASSKEYS)
        for browser in browsers[::4]:
            self.assertEqual(browser.sign_in().signed_in.name, "ada")
        added_to = pb.LocalSignInRequest(name="ada", password=PASSWORD, code=self.ada.code())
        refused = refusal_of(self.eve.beginning(added_to=added_to))
        self.assertEqual(refused.reason, "passkeys_full")

    def test_asked_for(self) -> None:
        """Who verifies the holder, for which name; one that has a passkey here makes no other."""
        PasskeyBrowser(self.at).add("ada", self.ada.code())
        self.house.clock.advance(60)
        added_to = pb.LocalSignInRequest(name="ada", password=PASSWORD, code=self.ada.code())
        asked = self.eve.asked(self.eve.begin(added_to=added_to))
        self.assertEqual((asked["rp_id"], asked["algorithms"]), (NAME, [-7, -8, -257]))
        self.assertEqual((asked["owner"]["name"], len(asked["owner"]["has"])), ("ada", 1))
        self.assertIsNone(self.eve.asked(self.eve.begin())["owner"])
        self.assertNotEqual(asked["challenge"], self.eve.asked(self.eve.begin())["challenge"])

    def test_removed(self) -> None:
        """An operator removes one: it signs in no more, and all sign-ins end; others stay."""
        (one,) = self.passkeys("eve")
        other = PasskeyBrowser(self.at)
        other.add("eve", self.enrolled.recovery_codes[1])
        request = pb.RemovePasskeyRequest(person="eve", passkey=one)
        answer = value_of(self.at.admin.remove_passkey(request, ROOT))
        self.assertEqual((answer.changed, answer.sign_ins_ended > 0), (True, True))
        self.assertEqual(len(self.house.records("account.passkey_remove")), 1)
        begun = self.eve.begin()
        self.assertIn("signs nobody in", self.told(self.eve.send(begun, self.eve.used(begun))))
        self.assertEqual(self.reasons()[-1], "key_unknown")
        self.assertEqual(other.sign_in().signed_in.name, "eve")
        self.assertFalse(value_of(self.at.admin.remove_passkey(request, ROOT)).changed)

    def test_password_is_none(self) -> None:
        """An id that is another row's, such as the password's, removes nothing."""
        eve = self.house.run(lambda tx: tx.people.named("eve"))
        rows = self.house.run(lambda tx: tx.secrets.of(eve.id))
        for row in rows:
            if row.kind is not SecretKind.PASSKEY:
                request = pb.RemovePasskeyRequest(person="eve", passkey=row.id)
                self.assertFalse(value_of(self.at.admin.remove_passkey(request, ROOT)).changed)
        self.eve.sign_in()

    def test_reset(self) -> None:
        """A reset takes them all."""
        self.at.code("eve", reset=True)
        begun = self.eve.begin()
        self.told(self.eve.send(begun, self.eve.used(begun)))
        self.assertEqual(self.reasons(), ["account_unknown"])

    def test_disabled(self) -> None:
        """Who has proven who they are, and is disabled, is told so by the command."""
        begun = self.eve.begin()
        query = self.eve.left(begun, self.eve.used(begun))
        value_of(self.house.people().disable(admin_pb2.ChangePersonRequest(person="eve"), ROOT))
        self.assertEqual(refusal_of(self.eve.complete(begun, query)).reason, "disabled_person")

    def test_not_configured(self) -> None:
        """Without a public name nobody signs in so, and the refusal says what is missing."""
        self.at.passkeys.site = None
        for ask in (
            lambda: self.eve.beginning(),
            lambda: self.at.begin("ada", "no code", passkey=True, port=PORT),
        ):
            refused = refusal_of(ask())
            self.assertEqual(refused.reason, "passkeys_not_configured")
            self.assertIn("accounts.passkeys.public_name", refused.text)


class PasskeyRefusedTests(PasskeyCase):
    """What is no sign-in."""

    def test_answers_that_are_refused(self) -> None:
        """Each for its reason, which is on record; the page says the same of all."""
        for why, made in self.bad_assertions():
            with self.subTest(why):
                begun = self.eve.begin()
                answer = self.eve.send(begun, made(begun))
                self.assertEqual(answer.status, 403)
                text = PasskeyRefused("").text
                self.assertEqual(self.told(answer), f"{text[:1].upper()}{text[1:]}.")
                self.assertEqual(self.reasons()[-1], why)
        self.eve.key.count = 1000
        self.eve.sign_in()

    def bad_assertions(self) -> list[tuple[str, Callable[[pb.BrowserAttempt], Brought]]]:
        """Why, and what the browser brings."""
        eve = self.eve

        def changed(field: str, change: Callable[[bytes], bytes]) -> Any:
            def make(begun: pb.BrowserAttempt) -> Brought:
                made = eve.used(begun)
                return {**made, field: encode_base64url(change(decode_base64url(made[field])))}

            return make

        def signed(flags: int = 0, count: int | None = None, **other: Any) -> Any:
            def make(begun: pb.BrowserAttempt) -> Brought:
                before = eve.key.flags, eve.key.count
                eve.key.flags, eve.key.count = flags or before[0], before[1] + 1
                if count is not None:
                    eve.key.count = count
                try:
                    return eve.used(begun, **other)
                finally:
                    eve.key.flags, eve.key.count = before[0], before[1] + 2

            return make

        def elsewhere(begun: pb.BrowserAttempt) -> Brought:
            eve.key.credentials[-1].rp_id = "evil.example"
            try:
                return eve.used(begun, rp_id="evil.example")
            finally:
                eve.key.credentials[-1].rp_id = NAME

        def of_another_attempt(begun: pb.BrowserAttempt) -> Brought:
            return eve.used(eve.begin())

        def of_another_account(begun: pb.BrowserAttempt) -> Brought:
            ada = self.house.run(lambda tx: tx.people.named("ada"))
            return {**eve.used(begun), "user_handle": encode_base64url(ada.id.encode())}

        def of_a_stranger(begun: pb.BrowserAttempt) -> Brought:
            # Eve's id and handle, with a signature of another key.
            stranger = PasskeyBrowser(self.at)
            stranger.key.credentials = [
                evolve(eve.key.credentials[-1], key=ec.generate_private_key(ec.SECP256R1()))
            ]
            stranger.key.count = eve.key.count + 100
            return stranger.used(begun)

        of = lambda text, other: lambda data: data.replace(text, other)  # noqa: E731
        return [
            ("key_relying_party", elsewhere),
            ("key_origin", signed(origin="https://evil.example")),
            ("key_origin", signed(origin=f"http://{NAME}")),
            ("key_origin", signed(origin=f"{ORIGIN}:8443")),
            ("key_origin", signed(origin=f"https://x.{NAME}")),
            ("key_origin", signed(origin="svc://" + self.at.site.rp_id)),
            ("key_origin", changed("client_data", of(b'gin":false', b'gin":true'))),
            ("key_challenge", signed(challenge=b"\1" * 32)),
            ("key_challenge", of_another_attempt),
            ("key_type", changed("client_data", of(b"webauthn.get", b"webauthn.create"))),
            ("key_presence", signed(flags=int(FLAG.UV))),
            ("key_verification", signed(flags=int(FLAG.UP))),
            ("key_count", signed(count=0)),
            ("key_unknown", of_another_account),
            ("key_unknown", changed("id", lambda data: data[:-1])),
            ("key_signature", of_a_stranger),
            ("key_signature", changed("signature", lambda data: b"\0" * 64)),
            ("key_malformed", changed("signature", lambda data: b"")),
            ("key_malformed", changed("signature", lambda data: b"\0" * 600)),
            ("key_malformed", changed("authenticator_data", lambda data: b"\0" * 2049)),
            ("key_malformed", changed("client_data", lambda data: b"{" * 4096)),
            ("key_malformed", changed("client_data", lambda data: b" " * 4097)),
            ("account_unknown", changed("user_handle", lambda data: b"")),
            ("account_unknown", changed("user_handle", lambda data: b"\0" * 64)),
            ("account_unknown", changed("user_handle", lambda data: b"a" * 26)),
        ]

    def test_registrations_that_are_refused(self) -> None:
        """Each for its reason, which its holder is told; then the page may be used again."""
        for why, made in self.bad_registrations():
            with self.subTest(why):
                begun = value_of(
                    self.at.begin("mary", self.at.code("mary"), passkey=True, port=PORT)
                ).browser
                said = self.told(self.eve.send(begun, made(begun)))
                self.assertIn("the answer of the key was refused", said.lower())
                self.assertEqual(self.reasons()[-1], why)
        self.eve.left(begun, self.eve.made(begun))

    def bad_registrations(self) -> list[tuple[str, Callable[[pb.BrowserAttempt], Brought]]]:
        """Why, and what the browser brings."""
        eve = self.eve

        def of_client(**changes: Any) -> Any:
            def make(begun: pb.BrowserAttempt) -> Brought:
                made = eve.made(begun)
                found = {**json.loads(decode_base64url(made["client_data"])), **changes}
                return {**made, "client_data": encode_base64url(json.dumps(found).encode())}

            return make

        def flagged(flags: int) -> Any:
            def make(begun: pb.BrowserAttempt) -> Brought:
                eve.key.flags, before = flags, eve.key.flags
                try:
                    return eve.made(begun)
                finally:
                    eve.key.flags = before

            return make

        def of_rsa(bits: int) -> Any:
            def make(begun: pb.BrowserAttempt) -> Brought:
                made = eve.made(begun)
                found: Any = cbor.decode(decode_base64url(made["attestation"]))
                numbers: dict[int, Any] = {1: 3, 3: -257, -1: b"\xff" * (bits // 8), -2: b"\3"}
                data = found["authData"][: 55 + 32] + cbor.encode(numbers)
                changed = cbor.encode({**found, "authData": data})
                return {**made, "attestation": encode_base64url(changed)}

            return make

        return [
            ("key_challenge", of_client(challenge=encode_base64url(b"\1" * 32))),
            ("key_origin", of_client(origin="https://evil.example")),
            ("key_origin", of_client(crossOrigin=True)),
            ("key_type", of_client(type="webauthn.get")),
            ("key_verification", flagged(int(FLAG.UP))),
            ("key_presence", flagged(int(FLAG.UV))),
            ("key_algorithm", of_rsa(1024)),
            ("key_algorithm", of_rsa(16384)),
        ]

    def test_rsa(self) -> None:
        """A key of RS256, as TPMs have, is taken."""
        begun = value_of(self.at.begin("mary", self.at.code("mary"), passkey=True, port=PORT))
        made = self.eve.made(begun.browser)
        found: Any = cbor.decode(decode_base64url(made["attestation"]))
        public = rsa.generate_private_key(65537, 2048).public_key().public_numbers()
        numbers = {1: 3, 3: -257, -1: public.n.to_bytes(256, "big"), -2: b"\1\0\1"}
        data = found["authData"][: 55 + 32] + cbor.encode(numbers)
        attestation = encode_base64url(cbor.encode({**found, "authData": data}))
        query = self.eve.left(begun.browser, {**made, "attestation": attestation})
        self.assertEqual(value_of(self.at.complete(begun, query=query)).signed_in.name, "mary")

    def test_returns_that_are_refused(self) -> None:
        """The browser's return counts whole, once, with the code that its own attempt gave."""
        other = self.eve.begin()
        other_query = self.eve.left(other, self.eve.used(other))
        for why, change in (
            ("redirect_state", lambda query: other_query),
            ("redirect_malformed", lambda query: query.replace("code=", "kode=")),
            ("redirect_malformed", lambda query: f"{query}&code=x"),
            ("redirect_code", lambda query: query.replace("code=", "code=x")),
            ("redirect_issuer", lambda query: query.replace("sign-in.example", "evil.example")),
            ("redirect_issuer", lambda query: query.partition("&iss=")[0]),
        ):
            with self.subTest(why):
                begun = self.eve.begin()
                query = self.eve.left(begun, self.eve.used(begun))
                refused = refusal_of(self.eve.complete(begun, change(query)))
                self.assertEqual((refused.reason, self.reasons()[-1]), (why, why))
                again = refusal_of(self.eve.complete(begun, query))
                self.assertEqual(again.reason, "attempt_unknown")
        # Nobody has been to the page.
        begun = self.eve.begin()
        query = f"code=&state={begun.state}&iss={ORIGIN}"
        self.assertEqual(refusal_of(self.eve.complete(begun, query)).reason, "redirect_malformed")

    def test_once(self) -> None:
        """What a browser brought counts once, and an answer at the page too."""
        begun = self.eve.begin()
        brought = self.eve.used(begun)
        query = self.eve.left(begun, brought)
        self.assertIn("not under way", self.told(self.eve.send(begun, brought)))
        self.assertEqual(self.eve.ask("GET", f"/sign-in/{begun.attempt}").status, 403)
        value_of(self.eve.complete(begun, query))
        self.assertEqual(refusal_of(self.eve.complete(begun, query)).reason, "attempt_unknown")

    def test_too_late(self) -> None:
        """After ten minutes an attempt is over, at the page and for the command; both on record."""
        late, done = self.eve.begin(), self.eve.begin()
        brought, query = self.eve.used(late), self.eve.left(done, self.eve.used(done))
        self.house.clock.advance(600)
        self.assertIn("took too long", self.told(self.eve.send(late, brought)))
        self.assertEqual(refusal_of(self.eve.complete(done, query)).reason, "attempt_over")
        self.assertEqual(self.reasons(), ["attempt_over", "attempt_over"])

    def test_account_changed_meanwhile(self) -> None:
        """Between the page and the command's return an account may be reset, or a passkey used."""
        one, two = self.eve.begin(), self.eve.begin()
        queries = [self.eve.left(begun, self.eve.used(begun)) for begun in (one, two)]
        value_of(self.eve.complete(two, queries[1]))
        self.assertEqual(refusal_of(self.eve.complete(one, queries[0])).reason, "sign_in_failed")
        self.assertEqual(self.reasons()[-1], "code_replayed")
        added_to = pb.LocalSignInRequest(name="ada", password=PASSWORD, code=self.ada.code())
        begun = self.eve.begin(added_to=added_to)
        query = self.eve.left(begun, PasskeyBrowser(self.at).made(begun))
        self.at.code("ada", reset=True)
        self.assertEqual(refusal_of(self.eve.complete(begun, query)).reason, "sign_in_failed")
        self.assertEqual(self.reasons()[-1], "account_changed")

    def test_tries(self) -> None:
        """An attempt has a few answers; whoever brings bad ones makes nobody wait."""
        begun = self.eve.begin()
        bad = {**self.eve.used(begun), "signature": "AAAA"}
        for _ in range(MOST_TRIES):
            self.assertIn("signs nobody in", self.told(self.eve.send(begun, bad)))
        self.assertIn("not under way", self.told(self.eve.send(begun, bad)))
        self.assertEqual(self.reasons(), ["key_signature"] * MOST_TRIES)
        for _ in range(FREE_TRIES):
            begun = self.eve.begin()
            self.told(self.eve.send(begun, {**self.eve.used(begun), "signature": "AAAA"}))
        self.eve.sign_in()
        value_of(self.at.sign_in("eve", code=self.enrolled.recovery_codes[0]))

    def test_last_try(self) -> None:
        """The last answer that an attempt has signs in if it is good."""
        begun = self.eve.begin()
        bad = {**self.eve.used(begun), "signature": "AAAA"}
        good = self.eve.used(begun)
        for _ in range(MOST_TRIES - 1):
            self.told(self.eve.send(begun, bad))
        answer = value_of(self.eve.complete(begun, self.eve.left(begun, good)))
        self.assertEqual(answer.signed_in.name, "eve")

    def test_tries_at_once(self) -> None:
        """Of answers that come at once no more are judged; a good one among them signs in."""
        self.at.sign_ins.answer_step = 0.25
        begun = self.eve.begin()
        bad = {**self.eve.used(begun), "signature": "AAAA"}
        good = self.eve.used(begun)
        refused = [outcome(self.eve.sending(begun, bad)) for _ in range(MOST_TRIES - 1)]
        query = self.eve.left(begun, good)
        self.assertIn("not under way", self.told(self.eve.send(begun, bad)))
        self.house.clock.advance(0.25)
        for got in refused:
            self.assertIn("signs nobody in", self.told(got[0]))
        self.assertEqual(len(self.reasons()), MOST_TRIES - 1)
        value_of(self.eve.complete(begun, query))

    def test_when_it_is_told(self) -> None:
        """Every refusal is told at the same moment after the question."""
        self.at.sign_ins.answer_step = 0.25
        begun = self.eve.begin()
        good = self.eve.used(begun)
        for change in ({"user_handle": ""}, {"id": "AAAA"}, {"signature": "AAAA"}):
            got = outcome(self.eve.sending(begun, {**good, **change}))
            self.house.clock.advance(0.2)
            self.assertEqual(got, [])
            self.house.clock.advance(0.05)
            self.assertIn("signs nobody in", self.told(got[0]))

    def test_pages_of_others(self) -> None:
        """Only the page's own origin is answered, by its own name, in JSON, of few bytes."""
        begun = self.eve.begin()
        good = self.eve.used(begun)
        for status, more in (
            (403, {"origins": [b"https://evil.example"]}),
            (403, {"origins": []}),
            (403, {"origins": [b"null"]}),
            (403, {"sites": [b"cross-site"]}),
            (403, {"types": [b"text/plain"]}),
            (404, {"hosts": [b"evil.example"]}),
            (404, {"hosts": [f"{NAME}:443".encode()]}),
            (404, {"hosts": []}),
            (400, {"body": b"{"}),
            (400, {"body": b"[" * 20_000}),
            (400, {"body": b'{"id": 1}'}),
            (400, {"body": json.dumps({**good, "id": "="}).encode()}),
            (400, {"body": json.dumps({**good, "id": 7}).encode()}),
            (400, {"body": json.dumps({**good, "more": ""}).encode()}),
            (400, {"body": json.dumps({"client_data": "", "attestation": ""}).encode()}),
        ):
            with self.subTest(more):
                self.assertEqual(self.eve.send(begun, good, **more).status, status)
        self.assertEqual(self.eve.ask("PUT", f"/sign-in/{begun.attempt}").status, 405)
        for path in ("/", "/sign-in/", f"/sign-in/{begun.attempt}x", "/sign-in"):
            self.assertIn(self.eve.ask("GET", path).status, (403, 404))
        self.eve.left(begun, good)

    def test_headers(self) -> None:
        """Only our script runs, nothing frames the page, nothing keeps it or is told of it."""
        begun = self.eve.begin()
        for answer in (
            self.eve.ask("GET", f"/sign-in/{begun.attempt}"),
            self.eve.ask("GET", "/passkey.js"),
            self.eve.ask("GET", "/nowhere"),
        ):
            headers = dict(answer.headers)
            policy = headers["Content-Security-Policy"].split("; ")
            self.assertEqual(policy[:2], ["default-src 'none'", "script-src 'self'"])
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            self.assertEqual(headers["Cache-Control"], "no-store")
        self.assertNotIn("Set-Cookie", headers)

    def test_other_attempts(self) -> None:
        """An attempt of a browser is no other one, and an enrollment no sign-in."""
        begun = self.eve.begin()
        enrolling = value_of(
            self.at.begin("mary", self.at.code("mary"), passkey=True, port=PORT)
        ).browser
        query = self.eve.left(enrolling, self.eve.made(enrolling))
        self.assertEqual(refusal_of(self.eve.complete(enrolling, query)).reason, "malformed")
        self.assertEqual(refusal_of(self.at.complete(begun, query=query)).reason, "malformed")
        assertion = pb.KeyAssertion(credential_id=b"x")
        proof: dict[str, Any] = {"attempt": self.eve.begin().attempt, "assertion": assertion}
        self.assertEqual(refusal_of(self.at.sign_in("eve", **proof)).reason, "malformed")
        for port in (0, 65536):
            self.assertEqual(refusal_of(self.eve.beginning(port=port)).reason, "malformed")


class PasskeyRowTests(PasskeyCase):
    """Passkeys are protected state (R31)."""

    def setUp(self) -> None:
        super().setUp()
        (self.mine,) = self.passkeys("eve")
        self.house.by_sql(
            "CREATE TEMP TABLE kept AS SELECT * FROM person_secrets",
            "CREATE TEMP TABLE counted AS SELECT * FROM sign_in_codes",
        )

    def refused_passkey(self, why: str) -> None:
        """Eve's passkey signs her in no more."""
        begun = self.eve.begin()
        self.told(self.eve.send(begun, self.eve.used(begun)))
        self.assertEqual(self.reasons()[-1], why)

    def test_added(self) -> None:
        """A row that is put there by SQL, or moved from somebody else, is no passkey."""
        people = self.house.run(lambda tx: [tx.people.named(one) for one in ("eve", "ada")])
        eve, ada = (one.id for one in people)
        self.house.by_sql(f"UPDATE person_secrets SET person_id = '{ada}' WHERE id = '{self.mine}'")
        self.eve.key.credentials[-1] = evolve(
            self.eve.key.credentials[-1], user={"id": ada.encode(), "name": "ada"}
        )
        self.refused_passkey("state_unsigned")
        self.house.by_sql(
            f"UPDATE person_secrets SET person_id = '{eve}' WHERE id = '{self.mine}'",
            f"INSERT INTO person_secrets SELECT 'new', '{ada}', kind, sealed, added_at, NULL"
            f" FROM person_secrets WHERE id = '{self.mine}'",
        )
        self.refused_passkey("state_unsigned")

    def test_altered(self) -> None:
        """One whose key or count was altered is none; put back as it was, it is one again."""
        for change in (
            f"UPDATE sign_in_codes SET counter = 0 WHERE secret_id = '{self.mine}'",
            f"DELETE FROM sign_in_codes WHERE secret_id = '{self.mine}'",
            f"UPDATE person_secrets SET sealed = x'00' WHERE id = '{self.mine}'",
        ):
            self.house.by_sql(change)
            self.refused_passkey("state_unsigned")
            self.put_back()
        self.eve.sign_in()

    def test_removed(self) -> None:
        """One that was removed, also while it was hidden, is none when it is put back."""
        for hidden in (False, True):
            with self.subTest(hidden=hidden):
                self.setUp()
                if hidden:
                    self.house.by_sql(f"DELETE FROM person_secrets WHERE id = '{self.mine}'")
                request = pb.RemovePasskeyRequest(person="eve", passkey=self.mine)
                self.assertTrue(value_of(self.at.admin.remove_passkey(request, ROOT)).changed)
                self.put_back()
                self.refused_passkey("state_unsigned")

    def test_a_hidden_sign_in(self) -> None:
        """A sign-in whose row was away or altered when a passkey was removed renews no more."""
        for change in ("DELETE FROM sign_ins", "UPDATE sign_ins SET ends_at = ends_at + 1"):
            with self.subTest(change):
                self.setUp()
                key = new_key()
                begun = self.eve.begin(csr=make_request(key))
                query = self.eve.left(begun, self.eve.used(begun))
                chain = value_of(self.eve.complete(begun, query)).signed_in.chain
                self.house.by_sql("CREATE TEMP TABLE away AS SELECT * FROM sign_ins", change)
                request = pb.RemovePasskeyRequest(person="eve", passkey=self.mine)
                answer = value_of(self.at.admin.remove_passkey(request, ROOT))
                self.assertGreater(answer.sign_ins_ended, 0)
                self.house.by_sql("DELETE FROM sign_ins", "INSERT INTO sign_ins SELECT * FROM away")
                refused = refusal_of(self.at.provider.renew(key, chain, key))
                self.assertEqual(refused.reason, "state_unsigned")

    def put_back(self) -> None:
        """Make the rows what they were."""
        self.house.by_sql(
            "DELETE FROM sign_in_codes",
            "DELETE FROM person_secrets",
            "INSERT INTO person_secrets SELECT * FROM kept",
            "INSERT INTO sign_in_codes SELECT * FROM counted",
        )

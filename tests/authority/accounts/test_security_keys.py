"""A security key as the second factor: the program's own client of keys, a key in software."""

from __future__ import annotations

import contextlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.webauthn import CollectedClientData
from hypothesis import given
from hypothesis import strategies as st

from svc.authority.accounts.security_keys import KeyRefused, KeySite, registered
from svc.join.account import KeyRequest
from svc.join.security_key import PluggedKeys, SecurityKeyFailed
from svc.model.cluster.account import SecretKind
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import account_pb2 as pb
from tests.authority.accounts.memory import PASSWORD, ROOT, AccountHouse
from tests.authority.accounts.passkeys import PasskeyBrowser
from tests.authority.accounts.test_sign_in import AccountCase
from tests.authority.house import Call, refusal_of, value_of
from tests.pki.support import CLUSTER
from tests.support.security_key import FLAG, SoftCredential, SoftKey


def with_flag(flag: int, more: bytes) -> Callable[[bytes], bytes]:
    """A change of authenticator data: a flag is set, and what it promises comes after."""
    return lambda data: data[:32] + bytes([data[32] | int(flag)]) + data[33:] + more


def good_attestation() -> bytes:
    """What a key registers for this cluster, without a statement."""
    key = SoftKey()
    private = ec.generate_private_key(ec.SECP256R1())
    credential = SoftCredential(id=b"c" * 32, rp_id=CLUSTER, user={}, key=private)
    data = key.authenticator_data(CLUSTER, credential)
    return cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})


GOOD_ATTESTATION = good_attestation()


class KeyHolder:
    """Eve, who has a security key."""

    def __init__(self, at: AccountHouse) -> None:
        self.at, self.key, self.said = at, SoftKey(), list[str]()
        self.plugged = PluggedKeys(lambda: [self.key], self.said.append, lambda what, hidden: "")

    def begun(self) -> pb.BeginEnrollmentResponse:
        """An enrollment under way."""
        code = self.at.code("eve", reset=self.has_account())
        begun: pb.BeginEnrollmentResponse = value_of(self.at.begin("eve", code, security_key=True))
        return begun

    def has_account(self) -> bool:
        """Whether there was one before."""
        person = self.at.house.run(lambda tx: tx.people.named("eve"))
        return bool(self.at.house.run(lambda tx: tx.secrets.of(person.id)))

    def registration(self, begun: pb.BeginEnrollmentResponse) -> pb.KeyRegistration:
        """What the key registers."""
        wanted = KeyRequest(
            challenge=begun.challenge,
            rp_id=begun.rp_id,
            origin=begun.origin,
            user="eve",
            user_handle=begun.user_handle,
        )
        made: pb.KeyRegistration = value_of(self.plugged.register(wanted))
        return made

    def enroll(self) -> pb.LocalSignInResponse:
        """Set a password and the key."""
        begun = self.begun()
        answer: pb.LocalSignInResponse = value_of(
            self.at.complete(begun, registration=self.registration(begun))
        )
        return answer

    def challenged(self, csr: bytes = b"") -> pb.ChallengeResponse:
        """A sign-in under way; *csr*: of the key to be certified, else a new one's."""
        request = pb.ChallengeRequest(csr=csr or make_request(new_key()))
        given: pb.ChallengeResponse = value_of(self.at.service._challenge(request, Call()))
        return given

    def asserted(self, given: pb.ChallengeResponse, **other: Any) -> pb.KeyAssertion:
        """What the key asserts; *other*: of another request than the one that was given."""
        wanted = {"challenge": given.challenge, "rp_id": given.rp_id, "origin": given.origin}
        made: pb.KeyAssertion = value_of(
            self.plugged.sign(KeyRequest(**{**wanted, "user": "eve", **other}))
        )
        return made


class SecurityKeyTests(AccountCase):
    """Eve's."""

    def setUp(self) -> None:
        super().setUp()
        self.eve = KeyHolder(self.at)

    def test_signs_in(self) -> None:
        """A key is registered and signs in; its answer is of one attempt, and taken once."""
        answer = self.eve.enroll()
        self.assertEqual(answer.signed_in.name, "eve")
        for _ in range(2):
            given = self.eve.challenged()
            assertion = self.eve.asserted(given)
            proof: dict[str, Any] = {"attempt": given.attempt, "assertion": assertion}
            value_of(self.at.sign_in("eve", **proof))
            refused = refusal_of(self.at.sign_in("eve", **proof))
            self.assertEqual(refused.reason, "attempt_unknown")
        self.assertIn("verify yourself at your security key", self.eve.said)
        listed = value_of(self.at.admin.list_accounts(pb.ListAccountsRequest(), ROOT)).accounts
        (row,) = [one for one in listed if one.name == "eve"]
        self.assertEqual(list(row.second_factors), ["key"])

    def test_recovery(self) -> None:
        """Without the key a recovery code signs in; an app's code is refused as such."""
        codes = self.eve.enroll().recovery_codes
        self.refused("no_totp", name="eve", code="123456")
        value_of(self.at.sign_in("eve", code=codes[3]))

    def test_no_key(self) -> None:
        """Without a key, or with two, nothing is asked of Authority."""
        given = self.eve.challenged()
        for devices in ([], [SoftKey(), SoftKey()], [SoftKey()]):
            self.eve.plugged.devices = partial(list, devices)
            with self.subTest(len(devices)):
                self.assertRaises(SecurityKeyFailed, self.eve.asserted, given)

    def test_answers_that_are_refused(self) -> None:
        """Each for its reason, which is on record; the answer to the person is the same."""
        self.eve.enroll()
        stranger = KeyHolder(self.at)
        for why, name, made in self.bad_assertions(stranger):
            with self.subTest(why=why, name=name):
                self.house.clock.advance(3600)
                given = self.eve.challenged()
                assertion = made(given)
                self.refused(why, name=name, attempt=given.attempt, assertion=assertion)

    def bad_assertions(
        self, stranger: KeyHolder
    ) -> list[tuple[str, str, Callable[[pb.ChallengeResponse], pb.KeyAssertion]]]:
        """Why, whose, and how it is made."""
        eve, host = self.eve, f"https://{CLUSTER}"

        def changed(field: str, change: Callable[[bytes], bytes]) -> Any:
            def make(given: pb.ChallengeResponse) -> pb.KeyAssertion:
                made = eve.asserted(given)
                setattr(made, field, change(getattr(made, field)))
                return made

            return make

        def signed(flags: int = 0, **other: Any) -> Any:
            def make(given: pb.ChallengeResponse) -> pb.KeyAssertion:
                eve.key.flags, before = (flags or eve.key.flags), eve.key.flags
                try:
                    return eve.asserted(given, **other)
                finally:
                    eve.key.flags = before

            return make

        def elsewhere(given: pb.ChallengeResponse) -> pb.KeyAssertion:
            eve.key.credentials[-1].rp_id = "evil.example"
            try:
                return eve.asserted(given, rp_id="evil.example")
            finally:
                eve.key.credentials[-1].rp_id = CLUSTER

        def set_back(given: pb.ChallengeResponse) -> pb.KeyAssertion:
            eve.key.count = -1
            return eve.asserted(given)

        def stood_still(given: pb.ChallengeResponse) -> pb.KeyAssertion:
            eve.key.count = self.count_of_eve() - 1
            return eve.asserted(given)

        def another_key(given: pb.ChallengeResponse) -> pb.KeyAssertion:
            stranger.key.credentials = [*eve.key.credentials]
            value_of(
                stranger.plugged.register(
                    KeyRequest(
                        challenge=given.challenge,
                        rp_id=CLUSTER,
                        origin=given.origin,
                        user="eve",
                        user_handle=b"h",
                    )
                )
            )
            return stranger.asserted(given)

        def of_registration(given: pb.ChallengeResponse) -> pb.KeyAssertion:
            made = eve.asserted(given)
            made.client_data = made.client_data.replace(b"webauthn.get", b"webauthn.create")
            return made

        def crossing(given: pb.ChallengeResponse) -> pb.KeyAssertion:
            made = eve.asserted(given)
            made.client_data = made.client_data.replace(
                b'"crossOrigin":false', b'"crossOrigin":true'
            )
            return made

        cut = lambda data: data[:-1]  # noqa: E731
        table: list[tuple[str, Any]] = [
            ("key_challenge", signed(challenge=b"\1" * 32)),
            ("key_challenge", signed(challenge=b"\1")),
            ("key_origin", signed(origin=host)),
            ("key_origin", signed(origin=f"{host}:7443")),
            ("key_origin", signed(origin="svc://evil.example")),
            ("key_origin", signed(origin="")),
            ("key_origin", crossing),
            ("key_type", of_registration),
            ("key_relying_party", elsewhere),
            ("key_presence", signed(flags=int(FLAG.UV))),
            ("key_verification", signed(flags=int(FLAG.UP))),
            ("key_unknown", another_key),
            ("key_unknown", changed("credential_id", cut)),
            ("key_signature", changed("signature", lambda data: data[:-1] + b"\0")),
            ("key_signature", changed("signature", lambda data: b"\0" * 64)),
            ("key_signature", changed("authenticator_data", lambda data: data[:33] + b"\xff" * 4)),
            ("key_malformed", changed("signature", lambda data: b"\0" * 600)),
            ("key_malformed", changed("signature", lambda data: b"")),
            ("key_malformed", changed("authenticator_data", lambda data: data[:36])),
            ("key_malformed", changed("authenticator_data", lambda data: b"\0" * 4000)),
            ("key_malformed", changed("authenticator_data", lambda data: data + b"\0")),
            ("key_malformed", changed("authenticator_data", with_flag(FLAG.ED, b"\xbf"))),
            ("key_malformed", changed("authenticator_data", with_flag(FLAG.AT, b"\0" * 17))),
            ("key_malformed", changed("client_data", lambda data: b"not json")),
            ("key_malformed", changed("client_data", lambda data: b"[" * 4000)),
            ("key_malformed", changed("client_data", lambda data: b'{"type":1}')),
            ("key_malformed", changed("client_data", lambda data: b" " * 5000)),
            ("key_malformed", changed("client_data", lambda data: b"\xff\xfe")),
            ("key_malformed", changed("client_data", lambda data: data[:-1])),
            ("key_malformed", changed("client_data", lambda data: b'{"type":"webauthn.get"}')),
        ]
        whose = [(why, "eve", made) for why, made in table]
        whose += [
            ("account_unknown", "nobody", eve.asserted),
            ("key_unknown", "ada", eve.asserted),
            ("key_count", "eve", set_back),
            ("key_count", "eve", stood_still),
        ]
        return whose

    def test_passkey_for_another_key(self) -> None:
        """An answer for one key to be certified adds no passkey with another one."""
        self.eve.enroll()
        browser, mine, other = PasskeyBrowser(self.at), *(make_request(new_key()) for _ in "ab")
        for csr in (other, mine):
            given = self.eve.challenged(mine)
            added_to = pb.LocalSignInRequest(
                name="eve",
                password=PASSWORD,
                attempt=given.attempt,
                assertion=self.eve.asserted(given),
            )
            asking = browser.beginning(csr=csr, added_to=added_to)
            if csr is mine:
                value_of(asking)
                continue
            self.assertEqual(refusal_of(asking).reason, "key_challenge")
            self.assertEqual(self.reasons(), ["key_challenge"])
            self.assertEqual(self.house.records("account.use"), [])
        self.assertEqual(len(self.house.records("account.use")), 1)

    def test_passkey_too_late(self) -> None:
        """An answer that comes too late to add a passkey is on record, as with a sign-in."""
        self.eve.enroll()
        given = self.eve.challenged()
        assertion = self.eve.asserted(given)
        self.house.clock.advance(600)
        added_to = pb.LocalSignInRequest(
            name="eve", password=PASSWORD, attempt=given.attempt, assertion=assertion
        )
        asking = PasskeyBrowser(self.at).beginning(added_to=added_to)
        self.assertEqual(refusal_of(asking).reason, "attempt_over")
        self.assertEqual(self.reasons(), ["attempt_over"])

    def count_of_eve(self) -> int:
        """The signature count that is kept of her key."""
        person = self.house.run(lambda tx: tx.people.named("eve"))
        kept = self.house.run(lambda tx: tx.secrets.of(person.id))
        (count,) = [one.counter for one in kept if one.kind is SecretKind.KEY]
        return int(count)

    @given(
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
        st.integers(0, 400),
    )
    def test_altered_bytes(self, changes: list[tuple[int, int]], length: int) -> None:
        """A registration with other bytes, or cut short, is taken or refused; nothing breaks."""
        site, challenge = KeySite.of_cluster(CLUSTER), b"\1" * 32
        client_data = CollectedClientData.create("webauthn.create", challenge, site.origin)
        data = bytearray(GOOD_ATTESTATION)
        for place, value in changes:
            data[place % len(data)] = value
        with contextlib.suppress(KeyRefused):
            registered(site, challenge, client_data, bytes(data[: length or len(data)]))

    def test_registrations_that_are_refused(self) -> None:
        """Each for its reason, which its holder is told: the one-time code was right."""
        eve = self.eve
        for why, made in self.bad_registrations():
            with self.subTest(why):
                self.house.clock.advance(3600)
                begun = eve.begun()
                refused = refusal_of(self.at.complete(begun, registration=made(begun)))
                self.assertEqual(refused.reason, why)
                self.assertEqual(self.reasons()[-1], why)
        self.assertEqual(eve.enroll().signed_in.name, "eve")

    def bad_registrations(
        self,
    ) -> list[tuple[str, Callable[[pb.BeginEnrollmentResponse], pb.KeyRegistration]]]:
        """Why, and how it is made."""
        eve = self.eve

        def of_client(**changes: Any) -> Any:
            def make(begun: pb.BeginEnrollmentResponse) -> pb.KeyRegistration:
                made = eve.registration(begun)
                found = {**json.loads(made.client_data), **changes}
                made.client_data = json.dumps(found).encode()
                return made

            return make

        def of_data(change: Callable[[bytes], bytes]) -> Any:
            def make(begun: pb.BeginEnrollmentResponse) -> pb.KeyRegistration:
                made = eve.registration(begun)
                found: Any = cbor.decode(made.attestation)
                made.attestation = cbor.encode({**found, "authData": change(found["authData"])})
                return made

            return make

        def raw(data: bytes) -> Any:
            return lambda begun: pb.KeyRegistration(
                client_data=eve.registration(begun).client_data, attestation=data
            )

        other = urlsafe_b64encode(b"\1" * 32).decode().rstrip("=")
        flags = lambda value: lambda data: data[:32] + bytes([value]) + data[33:]  # noqa: E731
        return [
            ("key_challenge", of_client(challenge=other)),
            ("key_origin", of_client(origin=f"https://{CLUSTER}")),
            ("key_origin", of_client(crossOrigin=True)),
            ("key_type", of_client(type="webauthn.get")),
            ("key_relying_party", of_data(lambda data: b"\0" * 32 + data[32:])),
            ("key_presence", of_data(flags(int(FLAG.UV | FLAG.AT)))),
            ("key_verification", of_data(flags(int(FLAG.UP | FLAG.AT)))),
            ("key_malformed", of_data(lambda data: data[:37])),
            ("key_malformed", of_data(lambda data: data[:60])),
            ("key_algorithm", of_data(lambda data: data.replace(b"\x03\x26", b"\x03\x27", 1))),
            ("key_algorithm", of_data(lambda data: data.replace(b"\x03\x26", b"\x03\x25", 1))),
            ("key_algorithm", of_data(lambda data: data[:-32] + b"\0" * 32)),
            ("key_malformed", of_data(lambda data: data + b"\0")),
            ("key_malformed", of_data(lambda data: data[:53] + b"\0\0" + data[87:])),
            ("key_malformed", of_data(lambda data: data[:53] + b"\xff\xff" + data[55:])),
            ("key_algorithm", of_data(lambda data: data[:-1])),
            ("key_malformed", of_data(with_flag(FLAG.ED, b"\xbf"))),
            ("key_malformed", raw(cbor.encode({"fmt": "none", "attStmt": {}}))),
            ("key_malformed", raw(cbor.encode({"fmt": "none", "authData": "x", "attStmt": {}}))),
            ("key_algorithm", raw(GOOD_ATTESTATION[:-10])),
            ("key_malformed", raw(GOOD_ATTESTATION[:80])),
            ("key_malformed", raw(GOOD_ATTESTATION + b"\0")),
            ("key_malformed", raw(b"")),
            ("key_malformed", raw(b"\xff" * 100)),
            ("key_malformed", raw(b"\x81" * 10_000)),
            ("key_malformed", raw(b"\0" * 20_000)),
        ]

"""A table of passwords and codes that are not good; with the keys' answers there are over 70."""

from __future__ import annotations

from typing import Any

from svc.errors import Malformed
from svc.model.certificate import CertificateRefused
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import account_pb2 as pb
from tests.authority.accounts.memory import PASSWORD
from tests.authority.accounts.test_sign_in import AccountCase
from tests.authority.house import Call, refusal_of, value_of

WRONG_PASSWORDS = (
    PASSWORD.upper(),
    PASSWORD[:-1],
    f"{PASSWORD} ",
    f" {PASSWORD}",
    f"{PASSWORD}\0",
    "\0",
    "x" * 1024,
    PASSWORD.replace("o", "\N{CYRILLIC SMALL LETTER O}"),
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA",
    "' OR '1'='1",
)
WRONG_CODES = (
    ("recovery_wrong", " "),
    ("recovery_wrong", "1234567"),
    ("recovery_wrong", "12345"),
    ("recovery_wrong", "-12345"),
    ("recovery_wrong", "1e5555"),
    ("recovery_wrong", "\N{ARABIC-INDIC DIGIT ONE}" * 6),
    ("recovery_wrong", "123 456"),
    ("recovery_wrong", "----"),
    ("recovery_wrong", "a" * 64),
    ("recovery_wrong", "' OR '1'='1"),
)


class RefusedTests(AccountCase):
    """Ada's."""

    def next_code(self) -> str:
        """A good code, some time later, when nobody is locked out any more."""
        self.house.clock.advance(3600)
        return self.ada.code()

    def test_passwords(self) -> None:
        """What is no password of hers is a wrong one, also with a good code, which stays good."""
        for password in WRONG_PASSWORDS:
            with self.subTest(password):
                self.refused("password_wrong", code=self.next_code(), password=password)
        value_of(self.at.sign_in("ada", code=self.ada.code()))

    def test_codes(self) -> None:
        """Whatever is no code of now is refused, also with her password."""
        for why, code in WRONG_CODES:
            with self.subTest(code):
                self.next_code()
                self.refused(why, code=code)
        for steps in (-3, -2, 2, 3, 100):
            with self.subTest(steps):
                self.next_code()
                self.refused("code_wrong", code=self.ada.code(steps))
        for steps in (-1, 0, 1):
            self.next_code()
            value_of(self.at.sign_in("ada", code=self.ada.code(steps)))

    def test_codes_of_others(self) -> None:
        """Another's codes are nobody's; a code of an enrollment is none of a sign-in."""
        eve = self.at.enrolled("eve")
        self.next_code()
        self.refused("code_wrong", code=eve.code())
        self.refused("recovery_wrong", code=eve.recovery[0])
        self.refused("password_wrong", name="eve", code=eve.code(), password="Ada's own")
        self.refused("recovery_wrong", code=self.at.code("new-person"))
        self.next_code()
        for name in ("ADA", "ada ", "Ada", self.ada.answer.signed_in.principal[-26:]):
            with self.subTest(name):
                self.refused("account_unknown", name=name, code=self.ada.code())

    def test_enrollment_codes(self) -> None:
        """A code that is not this person's, and not good now, is refused with a record."""
        code = self.at.code("eve")
        for name, given, why in (
            ("eve", "", "code_wrong"),
            ("eve", code[:-1], "code_wrong"),
            ("eve", f"{code}a", "code_wrong"),
            ("eve", code[::-1], "code_wrong"),
            ("eve", "' OR '1'='1", "code_wrong"),
            ("ada", code, "code_wrong"),
            ("Eve", code, "account_unknown"),
            ("ada", self.ada.recovery[0], "code_wrong"),
        ):
            with self.subTest(f"{name} {given}"):
                self.next_code()
                refused = refusal_of(self.at.begin(name, given))
                self.assertEqual((refused.reason, self.reasons()[-1]), ("enrollment_failed", why))
        self.assertEqual(value_of(self.at.begin("eve", code.upper())).totp_uri[:10], "otpauth://")

    def test_forms(self) -> None:
        """What is out of bounds is refused before anything is looked for, and costs no record."""
        good: dict[str, Any] = {
            "csr": make_request(new_key()),
            "name": "ada",
            "password": "p",
            "code": "123456",
        }
        bad: tuple[dict[str, Any], ...] = (
            {"name": ""},
            {"name": "a\0da"},
            {"name": "a" * 129},
            {"password": ""},
            {"password": "x" * 1025},
            {"password": "\N{EURO SIGN}" * 342},
            {"code": ""},
            {"code": "1" * 65},
            {"device": b"\0" * 129},
            {"version": "v" * 64},
            {"assertion": pb.KeyAssertion(), "attempt": "x"},
        )
        for changes in bad:
            with self.subTest(str(changes)[:60]):
                request = pb.LocalSignInRequest(**{**good, **changes})
                self.assertIsInstance(
                    refusal_of(self.at.service._sign_in(request, Call())), Malformed
                )
        request = pb.LocalSignInRequest(**{**good, "csr": b"no request"})
        refused = refusal_of(self.at.service._sign_in(request, Call()))
        self.assertIsInstance(refused, CertificateRefused)
        late = pb.LocalSignInRequest(**good, sent_at_ms=1)
        self.assertEqual(refusal_of(self.at.service._sign_in(late, Call())).reason, "clock_wrong")
        self.assertEqual(self.reasons(), [])

    def test_attempts(self) -> None:
        """An enrollment's attempt is none of a sign-in, nor the other way about, nor twice."""
        given = value_of(
            self.at.service._challenge(pb.ChallengeRequest(csr=make_request(new_key())), Call())
        )
        self.assertIsInstance(refusal_of(self.at.complete(given, code="123456")), Malformed)
        begun = value_of(self.at.begin("eve", self.at.code("eve")))
        proof: dict[str, Any] = {
            "attempt": begun.attempt,
            "assertion": pb.KeyAssertion(signature=b"s"),
        }
        self.assertIsInstance(refusal_of(self.at.sign_in("eve", **proof)), Malformed)
        self.assertEqual(refusal_of(self.at.sign_in("eve", **proof)).reason, "attempt_unknown")

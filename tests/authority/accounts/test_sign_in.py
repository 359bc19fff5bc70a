"""Signing in without a provider, over a store in memory."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.accounts.refusals import LocalSignInRefused
from svc.errors import StoreUnavailable
from svc.pki.root import new_key
from svc.proto.gate.v1 import account_pb2 as pb
from svc.proto.gate.v1 import admin_pb2
from tests.authority.accounts.memory import ELSEWHERE, HERE, ROOT, AccountHouse, Person
from tests.authority.house import Call, refusal_of, value_of
from tests.authority.spools import Writing

FAILED = "sign_in_failed"


class AccountCase(SynchronousTestCase):
    """Ada has an account."""

    def setUp(self) -> None:
        self.at = AccountHouse()
        self.house = self.at.house
        self.key = new_key()
        self.ada = self.at.enrolled("ada", self.key)

    def reasons(self) -> list[str]:
        """Why sign-ins were refused, by the record."""
        return [one["reason"] for one in self.house.records("sign_in.refused")]

    def refused(self, why: str, name: str = "ada", host: str = HERE, **proof: object) -> None:
        """A sign-in is refused in the one way, and recorded with its true reason."""
        before = len(self.reasons())
        refusal = refusal_of(self.at.sign_in(name, host, **proof))
        self.assertEqual((refusal.reason, refusal.text), (FAILED, LocalSignInRefused("").text))
        self.assertEqual(self.reasons()[before:], [why])


class SignInTests(AccountCase):
    """Password and code."""

    def test_signs_in(self) -> None:
        """With both somebody is who they are, in their groups, on a new machine too."""
        answer = value_of(self.at.sign_in("ada", code=self.ada.code()))
        self.assertEqual(answer.signed_in.name, "ada")
        self.assertEqual(list(answer.signed_in.groups), ["dev"])
        self.assertEqual(answer.signed_in.principal, self.ada.answer.signed_in.principal)
        self.assertEqual(answer.recovery_codes_left, 10)
        self.assertEqual(list(answer.recovery_codes), [])
        events = [record["event"] for record in self.house.records()]
        for event in ("account.code", "account.set", "identity.link", "account.use"):
            self.assertIn(event, events)
        self.assertEqual(self.reasons(), [])

    def test_password_rule(self) -> None:
        """Anybody is told how long a password has to be here, as it is configured."""
        self.at.enrollments.password_min = 17
        told = value_of(self.at.service._password_rule(pb.PasswordRuleRequest(), Call()))
        self.assertEqual(told.least, 17)

    def test_refused_alike(self) -> None:
        """Whatever is wrong, the answer is the same; the record says what it was."""
        code = self.ada.code()
        self.refused("account_unknown", name="nobody", code=code)
        self.refused("account_unknown", name="eve", code=code)
        self.refused("password_wrong", password="something else", code=code)
        self.refused("code_wrong", code="000000" if code != "000000" else "111111")
        self.refused("recovery_wrong", code="aaaa-bbbb-cccc-dddd")

    def test_a_code_works_once(self) -> None:
        """A code that was taken, and every one before it, is refused as replayed."""
        code, before = self.ada.code(), self.ada.code(1)
        value_of(self.at.sign_in("ada", code=code))
        self.refused("code_replayed", code=code)
        self.refused("code_replayed", code=before)
        self.house.clock.advance(30)
        value_of(self.at.sign_in("ada", code=self.ada.code()))

    def test_recovery_codes(self) -> None:
        """Each works once, in place of the second factor."""
        first, second = self.ada.recovery[:2]
        answer = value_of(self.at.sign_in("ada", code=first))
        self.assertEqual(answer.recovery_codes_left, 9)
        self.refused("recovery_wrong", code=first)
        answer = value_of(self.at.sign_in("ada", code=second.upper().replace("-", " ")))
        self.assertEqual(answer.recovery_codes_left, 8)

    def test_locked_out(self) -> None:
        """Whoever fails often waits; nobody elsewhere, and no machine of the person's, does."""
        for _ in range(5):
            self.refused("password_wrong", password="something else", code=self.ada.code())
        self.refused("account_locked", code=self.ada.code())
        value_of(self.at.sign_in("ada", HERE, code=self.ada.code(), device=self.ada.device))
        self.house.clock.advance(30)
        value_of(self.at.sign_in("ada", ELSEWHERE, code=self.ada.code()))

    def test_not_locked_out_by_the_store(self) -> None:
        """A try that was good, and that the store did not take, makes nobody wait."""

        async def down(desc: str, fn: object) -> None:
            raise StoreUnavailable("the disk is full")

        self.at.sign_ins.entrance.store = Writing(self.house.store, down)
        for _ in range(7):
            refused = refusal_of(self.at.sign_in("ada", HERE, code=self.ada.code()))
            self.assertEqual(refused.reason, StoreUnavailable.reason)
        self.at.sign_ins.entrance.store = self.house.store
        value_of(self.at.sign_in("ada", HERE, code=self.ada.code()))
        for _ in range(5):
            self.refused("password_wrong", password="something else", code=self.ada.code())
        self.refused("account_locked", code=self.ada.code())

    def test_a_disabled_person(self) -> None:
        """Somebody who has proven who they are is told that an operator disabled them."""
        change = admin_pb2.ChangePersonRequest(person="ada")
        value_of(self.house.people().disable(change, ROOT))
        refused = refusal_of(self.at.sign_in("ada", code=self.ada.code()))
        self.assertEqual(refused.reason, "disabled_person")
        self.refused("password_wrong", password="something else", code=self.ada.code())
        value_of(self.house.people().enable(change, ROOT))
        value_of(self.at.sign_in("ada", code=self.ada.code()))

    def test_a_removed_person(self) -> None:
        """Nothing that somebody signed in by is left of a person who was removed."""
        change = admin_pb2.ChangePersonRequest(person="ada")
        value_of(self.house.people().remove(change, ROOT))
        self.refused("account_unknown", code=self.ada.code())
        self.assertEqual(self.house.run(lambda tx: tx.secrets.all()), ())

    def test_a_forgotten_name(self) -> None:
        """Whose name is forgotten has no account either, under no name and not under the id."""
        request = admin_pb2.ForgetNameRequest(person="ada")
        value_of(self.house.registry().erasure.forget_name(request, ROOT))
        self.assertEqual(self.house.run(lambda tx: tx.secrets.all()), ())
        person = self.ada.answer.signed_in.principal.rpartition("/")[2]
        for name in ("ada", person):
            self.refused("account_unknown", name=name, code=self.ada.code())

    def test_renewed(self) -> None:
        """A certificate is renewed until the account is reset."""
        chain = self.ada.answer.signed_in.chain
        self.assertGreater(self.ada.answer.signed_in.renew_until, self.house.now())
        new = new_key()
        renewed = value_of(self.at.provider.renew(self.key, chain, new))
        self.assertEqual(renewed.name, "ada")
        self.at.code("ada", reset=True)
        refused = refusal_of(self.at.provider.renew(new, renewed.chain, new_key()))
        self.assertEqual(refused.reason, "sign_in_ended")

    def test_logout(self) -> None:
        """A logout ends it; no provider is asked."""
        chain = self.ada.answer.signed_in.chain
        value_of(self.at.provider.end(self.key, chain))
        refused = refusal_of(self.at.provider.renew(self.key, chain, new_key()))
        self.assertEqual(refused.reason, "revoked_certificate")
        self.assertEqual(self.at.provider.agent.asked, [])


class EnrollmentTests(AccountCase):
    """A one-time code, a password, a second factor."""

    def test_used_once(self) -> None:
        """A code is used up by a completed enrollment; one that was begun before comes too late."""
        code = self.at.code("eve")
        begun = [value_of(self.at.begin("eve", code)) for _ in range(2)]
        people = [Person(self.at, "eve", _totp(one)) for one in begun]
        value_of(self.at.complete(begun[0], code=people[0].code()))
        refused = refusal_of(self.at.complete(begun[1], code=people[1].code()))
        self.assertEqual(refused.reason, "enrollment_failed")
        refused = refusal_of(self.at.begin("eve", code))
        self.assertEqual(refused.reason, "enrollment_failed")
        self.assertEqual(self.reasons(), ["code_used", "code_wrong"])

    def test_refused(self) -> None:
        """A code is of one person, and for a time; another's, or an old one, gets one answer."""
        code = self.at.code("eve", ttl_secs=60)
        for name, given in (("ada", code), ("nobody", code), ("eve", code[:-1] + "b")):
            self.assertEqual(refusal_of(self.at.begin(name, given)).reason, "enrollment_failed")
        self.house.clock.advance(60)
        self.assertEqual(refusal_of(self.at.begin("eve", code)).reason, "enrollment_failed")
        self.assertEqual(self.reasons(), ["code_wrong", "account_unknown"] + ["code_wrong"] * 2)

    def test_passwords(self) -> None:
        """What is no good as a password is refused with its word, on record; the code stays."""
        code = self.at.code("eve")
        for password, reason in (
            ("short", "password_short"),
            ("\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 200, "password_long"),
            ("I am Eve, let me in", "password_name"),
            ("abababababab", "password_simple"),
            ("a tab\there is bad", "password_characters"),
        ):
            with self.subTest(reason):
                refused = refusal_of(self.at.begin("eve", code, password=password))
                self.assertEqual((refused.reason, self.reasons()[-1]), (reason, reason))
        value_of(self.at.begin("eve", code))

    def test_too_late(self) -> None:
        """Whoever takes longer than ten minutes begins anew, and is on record."""
        begun = value_of(self.at.begin("eve", self.at.code("eve")))
        self.house.clock.advance(600)
        for reason in ("attempt_over", "attempt_unknown"):
            self.assertEqual(refusal_of(self.at.complete(begun, code="123456")).reason, reason)
        self.assertEqual(self.reasons(), ["attempt_over"])

    def test_wrong_first_codes(self) -> None:
        """The second factor must work before anything is stored; after five tries it is over."""
        begun = value_of(self.at.begin("eve", self.at.code("eve")))
        for reason in ["code_wrong"] * 5 + ["attempt_unknown"]:
            self.assertEqual(refusal_of(self.at.complete(begun, code="abc")).reason, reason)

    def test_an_account_that_is_there(self) -> None:
        """A second account is refused to the operator; a reset takes the old one's all away."""
        request = pb.AddAccountRequest(person="ada")
        refused = refusal_of(self.at.admin.add(request, ROOT))
        self.assertEqual(refused.reason, "already_exists")
        self.at.code("ada", reset=True)
        self.refused("account_unknown", code=self.ada.code())
        (row, *_) = value_of(self.at.admin.list_accounts(pb.ListAccountsRequest(), ROOT)).accounts
        self.assertEqual((row.name, row.state, row.recovery_codes), ("ada", "waiting", 0))


class FirstAdministratorTests(SynchronousTestCase):
    """The code in the file."""

    def setUp(self) -> None:
        self.at = AccountHouse()
        self.house = self.at.house

    def test_becomes_an_administrator(self) -> None:
        """The code makes one person, in the group that administers; then it is gone."""
        value_of(self.at.admin.first_administrator(pb.FirstAdministratorRequest(), ROOT))
        self.assertEqual(self.at.first.path.stat().st_mode & 0o777, 0o600)
        code = self.at.first.path.read_text().split()[0]
        begun = value_of(self.at.begin("root", code, first_administrator=True))
        late = value_of(self.at.begin("mallory", code, first_administrator=True))
        answer = value_of(
            self.at.complete(begun, code=Person(self.at, "root", _totp(begun)).code())
        )
        self.assertEqual(list(answer.signed_in.groups), ["administrators"])
        self.assertFalse(self.at.first.path.exists())
        refused = refusal_of(
            self.at.complete(late, code=Person(self.at, "mallory", _totp(late)).code())
        )
        self.assertEqual(refused.reason, "enrollment_failed")
        self.assertNotIn(code, str(self.house.records()))
        refused = refusal_of(
            self.at.admin.first_administrator(pb.FirstAdministratorRequest(), ROOT)
        )
        self.assertEqual(refused.reason, "administrator_exists")

    def test_refused(self) -> None:
        """Without the file, after an hour, or with another code nobody becomes anything."""
        self.assertEqual(self.refused("abcd" * 8), "enrollment_failed")
        made = value_of(self.at.first.make())
        self.assertEqual(self.refused("abcd" * 8), "enrollment_failed")
        self.assertEqual(self.refused(made.text, "ada"), "name_taken")
        self.house.clock.advance(3600)
        self.assertEqual(self.refused(made.text), "enrollment_failed")

    def refused(self, code: str, name: str = "root") -> str:
        """Why the code is refused."""
        return refusal_of(self.at.begin(name, code, first_administrator=True)).reason


def _totp(begun: pb.BeginEnrollmentResponse) -> object:
    import pyotp

    return pyotp.parse_uri(begun.totp_uri)

"""What somebody does to the rows of an account by SQL has no effect (rules R8, R31)."""

from __future__ import annotations

from svc.model.cluster.account import SecretKind
from svc.proto.gate.v1 import account_pb2 as pb
from tests.authority.accounts.memory import ROOT
from tests.authority.accounts.test_sign_in import AccountCase
from tests.authority.house import EVE, refusal_of, value_of


class AlteredRowTests(AccountCase):
    """Ada's rows, past every record."""

    def setUp(self) -> None:
        super().setUp()
        self.eve = self.at.enrolled("eve")

    def ids(self, name: str, kind: SecretKind) -> list[str]:
        """The ids of somebody's rows of a kind."""
        person = self.house.run(lambda tx: tx.people.named(name))
        rows = self.house.run(lambda tx: tx.secrets.of(person.id))
        return [row.id for row in rows if row.kind is kind]

    def test_password_swapped(self) -> None:
        """A hash moved from another row lets nobody in with the other's password."""
        (mine,) = self.ids("ada", SecretKind.PASSWORD)
        (other,) = self.ids("eve", SecretKind.PASSWORD)
        self.house.by_sql(
            "UPDATE person_secrets SET sealed ="
            f" (SELECT sealed FROM person_secrets WHERE id = '{other}') WHERE id = '{mine}'"
        )
        self.refused("state_unsigned", code=self.ada.code())
        value_of(self.at.sign_in("eve", code=self.eve.code()))

    def test_second_factor_swapped(self) -> None:
        """Another's app is no second factor, whether its row is copied over or moved."""
        (mine,) = self.ids("ada", SecretKind.TOTP)
        (other,) = self.ids("eve", SecretKind.TOTP)
        ada = self.house.run(lambda tx: tx.people.named("ada")).id
        self.house.by_sql(f"DELETE FROM person_secrets WHERE id = '{mine}'")
        self.refused("no_totp", code=self.ada.code())
        self.house.by_sql(f"UPDATE person_secrets SET person_id = '{ada}' WHERE id = '{other}'")
        self.refused("state_unsigned", code=self.eve.code())

    def test_counter_set_back(self) -> None:
        """A counter that was set back, or taken away, makes no code good again."""
        code = self.ada.code()
        value_of(self.at.sign_in("ada", code=code))
        (totp,) = self.ids("ada", SecretKind.TOTP)
        self.house.by_sql(f"UPDATE sign_in_codes SET counter = 1 WHERE secret_id = '{totp}'")
        self.refused("state_unsigned", code=code)
        self.house.by_sql(f"DELETE FROM sign_in_codes WHERE secret_id = '{totp}'")
        self.refused("state_unsigned", code=code)

    def test_recovery_code_put_back(self) -> None:
        """A recovery code that was used, and is put back, stays used."""
        code = self.ada.recovery[0]
        self.house.by_sql("CREATE TEMP TABLE kept AS SELECT * FROM person_secrets")
        value_of(self.at.sign_in("ada", code=code))
        self.house.by_sql(
            "INSERT INTO person_secrets SELECT * FROM kept"
            " WHERE id NOT IN (SELECT id FROM person_secrets)"
        )
        self.refused("state_unsigned", code=code)

    def test_recovery_code_copied(self) -> None:
        """A row that nobody signed for is no recovery code, nor an enrollment code."""
        ada = self.house.run(lambda tx: tx.people.named("ada")).id
        (one, *_) = self.ids("eve", SecretKind.RECOVERY)
        for kind in ("recovery", "enrollment"):
            self.house.by_sql(
                f"INSERT INTO person_secrets SELECT 'new-{kind}', '{ada}', '{kind}', sealed,"
                f" added_at, 9e9 FROM person_secrets WHERE id = '{one}'"
            )
        self.refused("state_unsigned", code=self.eve.recovery[0])
        refused = refusal_of(self.at.begin("ada", self.eve.recovery[0]))
        self.assertEqual(refused.reason, "enrollment_failed")
        self.assertEqual(self.reasons()[-1], "state_unsigned")

    def test_account_made(self) -> None:
        """Rows of an account whose person was removed bring nothing back."""
        self.house.by_sql("CREATE TEMP TABLE kept AS SELECT * FROM person_secrets")
        self.at.code("ada", reset=True)
        self.house.by_sql(
            "DELETE FROM person_secrets",
            "INSERT INTO person_secrets SELECT * FROM kept",
        )
        self.refused("state_unsigned", code=self.ada.code())
        self.assertEqual(
            refusal_of(
                self.at.provider.renew(self.key, self.ada.answer.signed_in.chain, self.key)
            ).reason,
            "sign_in_ended",
        )

    def hide(self, *changes: str) -> None:
        """Keep the rows, and delete them or change them otherwise."""
        self.house.by_sql(
            "CREATE TEMP TABLE kept AS SELECT * FROM person_secrets",
            "CREATE TEMP TABLE counted AS SELECT * FROM sign_in_codes",
            *(changes or ["DELETE FROM sign_in_codes", "DELETE FROM person_secrets"]),
        )

    def put_back(self) -> None:
        """Make the rows what they were, beside those that were added."""
        self.house.by_sql(
            "DELETE FROM sign_in_codes",
            "DELETE FROM person_secrets WHERE id IN (SELECT id FROM kept)",
            "INSERT INTO person_secrets SELECT * FROM kept",
            "INSERT INTO sign_in_codes SELECT * FROM counted",
        )

    def renewal_reason(self) -> str:
        """Why ada's certificate is not renewed."""
        chain = self.ada.answer.signed_in.chain
        return refusal_of(self.at.provider.renew(self.key, chain, self.key)).reason

    def test_hidden_from_reset(self) -> None:
        """Rows that were deleted or altered before a reset, and put back after it, are gone."""
        for change in (
            (),
            ("UPDATE person_secrets SET added_at = 1, sealed = x'00'",),
            (f"UPDATE person_secrets SET person_id = '{EVE}'",),
        ):
            with self.subTest(change):
                self.setUp()
                self.hide(*change)
                self.at.code("ada", reset=True)
                self.assertEqual(len(self.house.records("account.remove")), 1)
                self.put_back()
                self.refused("state_unsigned", code=self.ada.code())
                self.assertEqual(self.renewal_reason(), "sign_in_ended")
                value_of(self.at.sign_in("eve", code=self.eve.code()))

    def test_a_hidden_sign_in(self) -> None:
        """A sign-in whose row was away or altered at a reset or removal does not renew after it."""

        def reset() -> None:
            self.at.code("ada", reset=True)

        def remove() -> None:
            value_of(self.at.admin.remove(pb.RemoveAccountRequest(person="ada"), ROOT))

        for change in ("DELETE FROM sign_ins", "UPDATE sign_ins SET ends_at = ends_at + 1"):
            for taken in (reset, remove):
                with self.subTest(change, taken=taken.__name__):
                    self.setUp()
                    self.house.by_sql("CREATE TEMP TABLE away AS SELECT * FROM sign_ins", change)
                    taken()
                    self.assertTrue(self.house.records("sign_in.end"))
                    self.house.by_sql(
                        "DELETE FROM sign_ins", "INSERT INTO sign_ins SELECT * FROM away"
                    )
                    self.assertEqual(self.renewal_reason(), "state_unsigned")

    def test_hidden_from_removal(self) -> None:
        """The same of an account that is removed: the answer and the record say that it was."""
        self.hide()
        request = pb.RemoveAccountRequest(person="ada")
        answer = value_of(self.at.admin.remove(request, ROOT))
        self.assertEqual((answer.changed, answer.sign_ins_ended), (True, 1))
        (record,) = self.house.records("account.remove")
        self.assertEqual(len(record["state"]["rows"]), 12)
        self.put_back()
        self.refused("state_unsigned", code=self.ada.code())
        self.assertEqual(self.renewal_reason(), "sign_in_ended")
        value_of(self.at.sign_in("eve", code=self.eve.code()))
        again = value_of(self.at.admin.remove(request, ROOT))
        self.assertEqual((again.changed, again.sign_ins_ended), (True, 0))
        self.assertFalse(value_of(self.at.admin.remove(request, ROOT)).changed)

    def test_sign_ins_end_without_rows(self) -> None:
        """A removal ends sign-ins also where no secret is left."""
        request = pb.RemoveAccountRequest(person="ada")
        ada = self.house.run(lambda tx: tx.people.named("ada")).id
        self.house.run(lambda tx: [tx.secrets.remove(one.id) for one in tx.secrets.of(ada)])
        answer = value_of(self.at.admin.remove(request, ROOT))
        self.assertEqual((answer.changed, answer.sign_ins_ended), (False, 1))

    def test_another_row_moved(self) -> None:
        """A row of another that was moved to somebody who is reset stays the other's."""
        (other,) = self.ids("eve", SecretKind.TOTP)
        ada = self.house.run(lambda tx: tx.people.named("ada")).id
        self.hide(f"UPDATE person_secrets SET person_id = '{ada}' WHERE id = '{other}'")
        self.at.code("ada", reset=True)
        self.house.by_sql(f"UPDATE person_secrets SET person_id = '{EVE}' WHERE id = '{other}'")
        value_of(self.at.sign_in("eve", code=self.eve.code()))

"""What a person proves themselves by is taken away, whatever was done to the tables before."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.registry.credentials import CredentialAdmin
from svc.authority.state.recorder import operator
from svc.authority.state.tables import StateUnsigned
from svc.model.cluster.token import parse_token
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import admin_pb2, bootstrap_pb2
from tests.authority.house import EVE, Call, refusal_of, value_of
from tests.authority.signin.memory import SignInHouse
from tests.support.nothing import nothing

TABLES = {"person_certificates": "sha256", "sign_ins": "id", "join_tokens": "id"}


class PutBackTests(SynchronousTestCase):
    """Rows that were deleted or altered before a revocation, and put back after it."""

    def setUp(self) -> None:
        self.at = SignInHouse()
        self.house, self.key = self.at.house, new_key()
        self.signed_in = value_of(self.at.sign_in(self.key))
        self.person = self.signed_in.principal.rpartition("/")[2]
        registry = self.house.registry()
        self.people = registry.people
        self.admin = CredentialAdmin(registry.tokens, {}, nothing)
        added = admin_pb2.AddPersonRequest(name="ada@example.org")
        self.token = value_of(registry.people.add_person(added, operator(0))).token
        enrolled = self.enrollment(self.token)
        self.joined = value_of(enrolled)
        self.token = value_of(registry.people.add_person(added, operator(0))).token

    def enrollment(self, token: str) -> Any:
        """Join with a token."""
        issuer = CertificateIssuer(self.house.world.keys, person_lifetime=3600.0)
        request = bootstrap_pb2.EnrollRequest(token=token, csr=make_request(new_key()))
        return self.house.enrollment(issuer)._enroll(request, Call())

    def revoke(self) -> Any:
        """As an operator."""
        request = admin_pb2.ChangePersonRequest(person=self.person)
        return value_of(self.admin.revoke(request, operator(0)))

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, as they stand."""
        found: list[tuple[Any, ...]] = []

        def look(tx: Any) -> None:
            found.extend(tx.state._db.all(f"SELECT * FROM {table}"))

        value_of(self.house.store.store.read("sql", look))
        return found

    def put_back(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Make the rows of a table these again."""

        def put(tx: Any) -> None:
            db = tx.state._db
            db.change(f"DELETE FROM {table}")
            for row in rows:
                db.change(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)

        value_of(self.house.store.store.run("sql", put))

    def put_all_back(self, kept: dict[str, list[tuple[Any, ...]]]) -> None:
        """In the order that references allow."""
        for table, rows in kept.items():
            self.put_back(table, rows)
        self.house.refresh()

    def delete(self) -> None:
        """The person's rows, by SQL."""
        self.house.by_sql(
            f"DELETE FROM sign_ins WHERE person_id = '{self.person}'",
            f"DELETE FROM person_certificates WHERE person_id = '{self.person}'",
            f"DELETE FROM join_tokens WHERE bound_to = '{self.person}'",
        )

    def check_nothing_in_force(self) -> None:
        """Neither the certificates, nor the sign-in, nor the token."""
        for chain in (self.signed_in.chain, self.joined.chain):
            said = self.standing(chain)
            self.assertIn(said, ("revoked_certificate", "state_unsigned"))
        refused = refusal_of(self.at.renew(self.key, self.signed_in.chain, new_key()))
        self.assertIn(refused.reason, ("revoked_certificate", "state_unsigned"))
        refused = refusal_of(self.enrollment(self.token))
        self.assertIn(refused.reason, ("token_refused", "state_unsigned"))

    def standing(self, chain: Any) -> str:
        """Why a certificate of the person opens nothing; empty: it would."""
        found: list[str] = []

        def look(tx: Any) -> None:
            rows = self.house.recorder.rows(tx)
            try:
                known = rows.certificate(sha256(chain[0]).digest())
            except StateUnsigned as refused:
                found.append(refused.reason)
            else:
                is_good = known is not None and known.revoked_at is None
                found.append("" if is_good else "revoked_certificate")

        value_of(self.house.store.store.read("look", look))
        return found[0]

    def test_put_back(self) -> None:
        """Deleted before, put back after: not in force, and the Proxies know the certificates."""
        kept = {table: self.rows(table) for table in TABLES}
        self.delete()
        answer = self.revoke()
        self.assertEqual((len(answer.serials), answer.sign_ins, answer.tokens), (2, 1, 1))
        self.assertEqual(len(self.house.state_cache.state.revoked_certificates), 2)
        self.put_all_back(kept)
        self.check_nothing_in_force()
        self.assertEqual(len(self.house.records("certificate.revoke")), 2)

    def test_signed_out(self) -> None:
        """One whose holder signed out is revoked for good, also while somebody keeps its row."""
        value_of(self.at.end(self.key, self.signed_in.chain))
        kept = {"person_certificates": self.rows("person_certificates")}
        self.put_back("person_certificates", [])
        self.revoke()
        self.put_all_back(kept)
        certificate = sha256(self.signed_in.chain[0]).digest()

        def look(tx: Any) -> None:
            self.house.recorder.rows(tx).certificate(certificate)

        refused = refusal_of(self.house.store.store.read("the certificate", look))
        self.assertEqual(refused.reason, "state_unsigned")

    def test_altered(self) -> None:
        """Rows that name another person meanwhile: nothing is refused, all of it is revoked."""
        kept = {table: self.rows(table) for table in TABLES}
        self.house.by_sql(
            f"UPDATE person_certificates SET person_id = '{EVE}' WHERE person_id = '{self.person}'",
            f"UPDATE sign_ins SET person_id = '{EVE}'",
            f"UPDATE join_tokens SET bound_to = '{EVE}'",
        )
        answer = self.revoke()
        self.assertEqual((len(answer.serials), answer.sign_ins, answer.tokens), (2, 1, 1))
        self.put_all_back(kept)
        self.check_nothing_in_force()

    def test_one_altered(self) -> None:
        """One altered row does not keep the others in force."""
        id = parse_token(self.token).id
        self.house.by_sql(f"UPDATE join_tokens SET expires_at = expires_at + 1 WHERE id = '{id}'")
        answer = self.revoke()
        self.assertEqual((len(answer.serials), answer.sign_ins, answer.tokens), (2, 1, 1))
        self.check_nothing_in_force()

    def test_of_another_person(self) -> None:
        """What was deleted of somebody else is not taken away with it."""
        eve = value_of(self.at.sign_in(new_key(), sub="00u2", email="eve@example.org"))
        kept = {table: self.rows(table) for table in TABLES}
        for table in reversed(TABLES):
            self.put_back(table, [])
        self.revoke()
        self.put_all_back(kept)
        self.assertEqual(self.standing(eve.chain), "")
        self.check_nothing_in_force()

    def test_removed(self) -> None:
        """Who is removed is removed, whatever was done to the rows of what they had."""
        self.house.by_sql("UPDATE join_tokens SET expires_at = expires_at + 1")
        self.house.by_sql("UPDATE sign_ins SET generation = 7")
        request = admin_pb2.ChangePersonRequest(person=self.person)
        self.assertTrue(value_of(self.people.remove(request, operator(0))).changed)

"""What a policy may ask of people who administer: how long ago they presented a second factor."""

from __future__ import annotations

from typing import Any

import pyotp

from svc.interfaces.rpc import Peer
from svc.interfaces.store import ITransaction
from svc.model.cluster.account import LOCAL_ISSUER
from svc.model.cluster.sign_in import IdentityLink
from svc.pki.root import new_key
from tests.authority.accounts.memory import Person
from tests.authority.accounts.test_sign_in import AccountCase
from tests.authority.house import Call, refusal_of, value_of

POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("dev-administers")
permit (principal in Group::"dev", action in Action::"administer", resource is Cluster)
when { context has mfa_age_seconds && context.mfa_age_seconds < 3600 };
"""


class AdministeringTests(AccountCase):
    """Ada, within an hour of her second factor, and after it."""

    def setUp(self) -> None:
        super().setUp()
        house = self.house

        def activate(tx: ITransaction) -> None:
            tx.policies.activate(tx.policies.add(POLICY, "test", 1.0).version, 1.0)

        house.run(activate)
        house.refresh()
        self.operators = house.operators()

    def asked(self, chain: Any) -> Any:
        """A command over the admin lane, with this certificate."""
        peer = Peer("192.0.2.1", 1, chain=tuple(chain), tls=True)
        return self.operators.authorize(Call(peer), "viewStatus")

    def test_recent_second_factor(self) -> None:
        """It counts from the sign-in, not from a renewal; who joined by a token has none."""
        chain = self.ada.answer.signed_in.chain
        self.assertEqual(value_of(self.asked(chain)).kind, "person")
        self.assertIsNotNone(refusal_of(self.asked(self.house.ada.chain)))
        self.house.clock.advance(3000)
        new = new_key()
        renewed = value_of(self.at.provider.renew(self.key, chain, new)).chain
        self.assertEqual(value_of(self.asked(renewed)).kind, "person")
        self.house.clock.advance(599)
        self.assertEqual(refusal_of(self.asked(renewed)).reason, "denied")
        (*_, record) = self.house.records("operator.refused")
        self.assertGreaterEqual(record["request"]["context"]["mfa_age_seconds"], 3600)

    def test_linked_to_another(self) -> None:
        """A local account that was linked to somebody else makes nobody that person."""
        eve = self.house.run(lambda tx: tx.people.named("eve"))
        code = self.at.code("eve")

        def link(tx: ITransaction) -> None:
            tx.sign_ins.link(
                IdentityLink(
                    id="a1",
                    issuer=LOCAL_ISSUER,
                    subject=eve.id,
                    person_id=self.house.ada.id,
                    salt=b"salt",
                )
            )

        self.house.run(link)
        begun = value_of(self.at.begin("eve", code))
        shown = Person(self.at, "eve", pyotp.parse_uri(begun.totp_uri)).code()
        self.assertEqual(refusal_of(self.at.complete(begun, code=shown)).reason, "sign_in_failed")
        self.assertEqual(self.reasons(), ["account_linked"])

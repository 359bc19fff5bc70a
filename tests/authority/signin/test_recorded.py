"""Whatever is refused at a sign-in is on record with its word, as long as there is room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from tests.authority.house import refusal_of, value_of
from tests.authority.signin.memory import SignInHouse
from tests.authority.signin.test_id_token import (
    BAD_CLAIMS,
    BAD_NAMES,
    BAD_RETURNS,
    BAD_TEXTS,
    RS,
    claims,
)
from tests.authority.signin.tokens import ACCESS, NOW, signed
from tests.pki.support import CLUSTER

SHARE = 60
"""So many records a minute of everybody without a certificate."""


def moved(value: Any, secs: float) -> Any:
    """A time about NOW, moved; anything else as it is."""
    is_time = isinstance(value, int | float) and not isinstance(value, bool)
    return value + secs if is_time and abs(value - NOW) < 1000 else value


class RecordedTests(SynchronousTestCase):
    """The tables of bad tokens, names and returns, each row through the whole sign-in."""

    def setUp(self) -> None:
        self.at = SignInHouse()
        self.house = self.at.house

    def reasons(self) -> list[str]:
        """Why sign-ins were refused, by the record."""
        return [one["reason"] for one in self.house.records("sign_in.refused")]

    def check(self, refused: SvcError, reason: str) -> None:
        """It was refused so, and the newest record says it; a second later there is room again."""
        before, self.before = self.before, len(self.reasons())
        self.assertEqual((refused.reason, self.before), (reason, before + 1))
        self.assertEqual(self.reasons()[-1], reason)
        self.house.clock.advance(1)

    before = 0

    def redeemed(self, token: str | Mapping[str, Any]) -> SvcError:
        """How a code is refused whose answer has this token, or these claims, well signed."""
        begun, asked = value_of(self.at.begin())
        if not isinstance(token, str):
            secs = self.house.now() - NOW
            said = {"nonce": asked["nonce"], **token}
            token = signed(RS, {name: moved(each, secs) for name, each in said.items()})
        self.at.agent.answer("/token", {"id_token": token, "access_token": ACCESS})
        return refusal_of(self.at.complete(begun, f"state={begun.state}&code=c1"))

    def test_claims(self) -> None:
        """Of a code's token."""
        for word, changes in BAD_CLAIMS:
            with self.subTest(changes=changes):
                said = claims(**changes)
                if "nonce" not in changes:
                    del said["nonce"]  # of the attempt
                elif "nonce" not in said:
                    said["nonce"] = None
                self.check(self.redeemed(said), f"id_token_{word}")

    def test_forms(self) -> None:
        """Of a code's token, and of one that a machine brings."""
        for name, word, token in BAD_TEXTS:
            if token:
                with self.subTest(name):
                    self.check(self.redeemed(token), f"id_token_{word}")
            with self.subTest(name, machine=True):
                self.check(refusal_of(self.at.assertion(token)), f"id_token_{word}")
        self.check(self.redeemed(""), "id_token_missing")

    def test_names(self) -> None:
        """Of an account that nobody has yet."""
        houses = {"email": self.at, "upn": SignInHouse(admission={"name_claim": "upn"})}
        for claim, changes, reason in BAD_NAMES:
            with self.subTest(changes=changes):
                self.at = houses[claim]
                self.house, self.before = (
                    self.at.house,
                    len(self.at.house.records("sign_in.refused")),
                )
                self.check(refusal_of(self.at.sign_in(**changes)), reason)
        for at in houses.values():
            self.assertEqual(at.house.records("person.add"), [])

    def test_returns(self) -> None:
        """Of the browser's."""
        for query, reason in BAD_RETURNS:
            with self.subTest(query=query):
                begun, _ = value_of(self.at.begin())
                brought = query.replace("state=s1", f"state={begun.state}")
                self.check(refusal_of(self.at.complete(begun, brought)), reason)
        self.assertEqual(self.at.agent.count("/token"), 0)

    def test_room(self) -> None:
        """Past the share of a minute they are counted, and the count is on record."""
        token = signed({"alg": "none"}, self.at.claims(aud=CLUSTER))
        for _ in range(SHARE + 15):
            self.assertEqual(refusal_of(self.at.assertion(token)).reason, "id_token_unsigned")
        self.assertEqual(len(self.reasons()), SHARE)
        value_of(self.house.refusals.summarise())
        (summary,) = self.house.records("refusals.summary")
        self.assertEqual((summary["reason"], summary["details"]["count"]), ("joins", 15))

"""Who is at the page: only the token of the gate says it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.messages.control import CountedEnd
from svc.model.cluster.resource import Resource
from svc.pki.jwt import TYPE, verified_claims
from tests.authority.house import ADA, EVE, value_of
from tests.authority.page.stage import HOST, PAGE, Guest, PageHouse
from tests.support.proof import proves


def encoded(form: Any) -> bytes:
    """A part of a token."""
    return urlsafe_b64encode(json.dumps(form).encode()).rstrip(b"=")


class VisitorTests(SynchronousTestCase):
    """Requests with good tokens and with all others."""

    def setUp(self) -> None:
        self.stage = PageHouse()
        self.ada = Guest(self.stage, self.stage.house.ada)

    def status(self, *tokens: bytes, **more: Any) -> int:
        """Of the answer to a request with these tokens."""
        return self.ada.ask("GET", "/", tokens=list(tokens), **more).status

    def test_good(self) -> None:
        """The person of the token is named on the page, by the registry's name."""
        self.assertIn("You are <strong>ada</strong>", self.ada.read("/"))

    def test_claims(self) -> None:
        """A claim that is not of this page, this moment or a live session lets nobody in."""
        now, uid = int(self.stage.house.now()), self.ada.uid
        other = self.stage.opened(self.stage.house.ada, "db1")
        eves = self.stage.opened(self.stage.house.eve)
        for changed in (
            {"iss": "other.example"},
            {"aud": "first.db1"},
            {"aud": PAGE},
            {"aud": [self.stage.house.state_cache.state.catalog[PAGE].identity]},
            {"aud": None},
            {"exp": now},
            {"exp": now - 1},
            {"exp": None},
            {"exp": str(now + 60)},
            {"nbf": now + 1},
            {"nbf": None},
            {"sub": EVE},
            {"sub": None},
            {"sub": 7},
            {"sid": other},
            {"sid": eves},
            {"sid": "0" * 32},
            {"sid": None},
            {"audit_hash": self.stage.hashes[other].hex()},
            {"audit_hash": self.stage.hashes[eves].hex()},
            {"sid": eves, "audit_hash": self.stage.hashes[eves].hex()},
            {"audit_hash": "0" * 64},
            {"audit_hash": "\u00e9"},
            {"audit_hash": ""},
            {"audit_hash": None},
            {"audit_hash": 7},
        ):
            token = self.stage.token(ADA, uid, **changed)
            answer = self.ada.ask("GET", "/", tokens=[token])
            self.assertEqual(answer.status, 401, changed)
            self.assertNotIn(b"ada", answer.body)
        self.assertEqual(self.status(self.stage.token(ADA, uid)), 200)

    def test_spellings(self) -> None:
        """A header of ours alone is one: no other algorithm, type, key or spelling."""
        good = self.stage.token(ADA, self.ada.uid)
        header, claims, signature = good.split(b".")
        kid = json.loads(json.dumps({"kid": "x"}))["kid"]
        for token in (
            b"",
            b"ada",
            b"a.b.c",
            good[:-1],
            good + b"=",
            good + b".x",
            b" " + good,
            b".".join((encoded({"alg": "none", "typ": TYPE}), claims, b"")),
            b".".join((encoded({"alg": "ES256", "kid": kid, "typ": TYPE}), claims, signature)),
            b".".join((encoded({"alg": "HS256", "kid": kid, "typ": TYPE}), claims, signature)),
            b".".join((header + b"=", claims, signature)),
            b".".join((header, claims, signature[:-4])),
            b".".join((header, claims, encoded("x" * 30))),
            b".".join((header, encoded({"sub": EVE}), signature)),
            good + b"A" * 20_000,
        ):
            self.assertEqual(self.status(token), 401, token[:80])
        self.assertEqual(self.status(), 401)
        self.assertEqual(self.status(good, good), 401)
        self.assertEqual(self.status(good, hosts=[b"evil.example"]), 421)
        self.assertEqual(self.status(good, hosts=[]), 421)
        self.assertEqual(self.status(good, hosts=[HOST.encode(), HOST.encode()]), 421)

    @proves("G-SES-08")
    def test_acting(self) -> None:
        """A request in another person's name is refused."""
        token = self.stage.token(ADA, self.ada.uid, act={"sub": EVE})
        answer = self.ada.ask("GET", "/", tokens=[token])
        self.assertEqual(answer.status, 403)
        self.assertIn(b"acts_as", answer.body)

    def test_over(self) -> None:
        """Who was disabled, whose session ended, and who comes to another resource, is out."""
        house, token = self.stage.house, self.stage.token(ADA, self.ada.uid)
        reported = self.stage.ends.reported(house.proxy.id, [CountedEnd(self.ada.uid, "closed")])
        value_of(reported)
        self.assertEqual(self.status(token), 401)
        again = Guest(self.stage, house.ada)
        self.assertEqual(again.ask("GET", "/").status, 200)
        house.run(lambda tx: tx.sessions.ask_end(again.uid, "ended_by_operator"))
        self.assertEqual(again.ask("GET", "/").status, 401)
        last = Guest(self.stage, house.ada)
        house.run(lambda tx: tx.people_changes.disable(ADA))
        house.refresh()
        self.assertEqual(last.ask("GET", "/").status, 403)

    def test_revoked(self) -> None:
        """Whose certificate was revoked is out, whatever session it had opened."""
        house = self.stage.house
        house.run(lambda tx: tx.certificates.revoke(house.ada.sha256, house.now()))
        self.assertEqual(self.status(self.stage.token(ADA, self.ada.uid)), 401)

    def test_another_resource(self) -> None:
        """A token for a resource that was removed is none for the one that came after it."""
        house, token = self.stage.house, self.stage.token(ADA, self.ada.uid)

        house.run(lambda tx: tx.catalog.remove(PAGE, 2.0))
        house.refresh()
        answer = self.ada.ask("GET", "/", tokens=[token])
        self.assertIn(b"page_not_in_catalog", answer.body)
        house.run(lambda tx: tx.catalog.add(Resource(id=PAGE, kind="tcp", identity="second"), 3.0))
        house.refresh()
        self.assertEqual(self.status(token), 401)

    @given(st.binary(max_size=400), st.integers(0, 400))
    def test_damaged(self, noise: bytes, at: int) -> None:
        """Whatever is put into a token, it is refused as one."""
        good = self.stage.token(ADA, self.ada.uid)
        damaged = good[:at] + noise + good[at + len(noise) :]
        if damaged != good:
            self.assertEqual(self.status(damaged), 401)

    def test_without_keys(self) -> None:
        """Without any key no token is good."""
        good = self.stage.token(ADA, self.ada.uid)
        with self.assertRaises(Exception) as caught:
            verified_claims(good, [])
        self.assertEqual(getattr(caught.exception, "reason", ""), "token_refused")

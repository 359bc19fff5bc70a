"""Tokens as PyJWT reads them, and the keys that they are read by."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from hashlib import sha256

import jwt
from twisted.trial.unittest import SynchronousTestCase

from svc.model.canonical import Json
from svc.pki.jwt import TYPE, key_id, key_set, signed_token
from svc.pki.root import WrongPurpose
from tests.pki.support import World

CLAIMS: dict[str, Json] = {"iss": "example", "aud": "r1", "sub": "a" * 26, "exp": 4_000_000_000}


class JwtTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.keys = World().keys
        self.key = self.keys.purposes["jwt"]
        self.published = json.dumps(key_set([self.key.certificate]))

    def test_read(self) -> None:
        """A stock library finds the key by its id, and takes the token."""
        token = signed_token(self.key, CLAIMS)
        header = jwt.get_unverified_header(token)
        self.assertEqual(header, {"alg": "ES256", "kid": key_id(self.key.certificate), "typ": TYPE})
        found = jwt.PyJWKSet.from_json(self.published)[header["kid"]]
        said = jwt.decode(token, found.key, algorithms=["ES256"], audience="r1", issuer="example")
        self.assertEqual(said, CLAIMS)
        for changed in (
            token[:-8] + "AAAAAAAA",
            token.replace(".", ".e30", 1),
        ):
            with self.assertRaises(jwt.InvalidTokenError):
                jwt.decode(changed, found.key, algorithms=["ES256"], audience="r1")

    def test_key_id(self) -> None:
        """It is the thumbprint that RFC 7638 says."""
        (one,) = json.loads(self.published)["keys"]
        members = {name: one[name] for name in ("crv", "kty", "x", "y")}
        text = json.dumps(members, separators=(",", ":")).encode()
        self.assertEqual(urlsafe_b64decode(one["kid"] + "="), sha256(text).digest())
        self.assertEqual(set(one) - set(members), {"kid", "alg", "use"})

    def test_only_its_key(self) -> None:
        """No key of another purpose signs a token."""
        for word in set(self.keys.purposes) - {"jwt"}:
            with self.assertRaises(WrongPurpose):
                signed_token(self.keys.purposes[word], CLAIMS)

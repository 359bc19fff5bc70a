"""Keys that targets check tokens by: a newer one is known before it signs."""

from __future__ import annotations

import json

import jwt
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.enroll.token_keys import KEPT_SECS, PUBLISHED_FIRST_SECS, TokenKeys
from svc.errors import Unavailable
from svc.pki.jwt import key_id
from svc.pki.root import make_purpose_key
from tests.authority.house import value_of
from tests.pki.support import World


class TokenKeysTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.keys = self.world.keys
        self.written: list[bytes] = []
        self.fails = False
        self.made = TokenKeys(self.keys, self.world.now, self.write)

    async def write(self, document: bytes) -> None:
        if self.fails:
            raise OSError(28, "No space left on device")
        self.written.append(document)

    def follow(self) -> None:
        value_of(self.made.follow())

    def renew(self) -> str:
        """What the operator's command, and the pass after it, do; the newer key's id."""
        keys = self.keys
        assert keys.root_key is not None
        newer = make_purpose_key(
            "jwt", keys.cluster, keys.root, keys.root_key, self.world.now(), self.world.entropy
        )
        keys.take(newer)
        return key_id(newer.certificate)

    def signs(self) -> str:
        return str(jwt.get_unverified_header(self.made.sign({"a": 1}))["kid"])

    def published(self) -> list[str]:
        return [one["kid"] for one in json.loads(self.made.published())["keys"]]

    def test_rotation(self) -> None:
        """The newer key is published, then signs; the one before stays published after that."""
        self.follow()
        first = self.signs()
        self.assertEqual(self.published(), [first])
        second = self.renew()
        self.follow()
        self.assertEqual((self.signs(), self.published()), (first, [second, first]))
        self.world.clock.advance(PUBLISHED_FIRST_SECS)
        self.assertEqual((self.signs(), self.published()), (second, [second, first]))
        self.world.clock.advance(KEPT_SECS - PUBLISHED_FIRST_SECS)
        self.follow()
        self.assertEqual((self.signs(), self.published()), (second, [second]))
        self.assertEqual([len(json.loads(one)["keys"]) for one in self.written], [1, 2, 1])

    def test_an_ended_key(self) -> None:
        """A key that ends within the life of a token signs none; the newer one signs at once."""
        first = self.signs()
        key = self.keys.purposes["jwt"]
        self.world.clock.advance(key.ends_at - self.world.now() - 59)
        with self.assertRaises(Unavailable):
            self.signs()
        second = self.renew()
        self.assertNotEqual(first, second)
        self.assertEqual(self.signs(), second)

    def test_no_key(self) -> None:
        """An Authority of before this key signs nothing, and publishes an empty set."""
        del self.keys.purposes["jwt"]
        with self.assertRaises(Unavailable) as caught:
            self.made.sign({})
        self.assertIn("svc authority keys renew jwt", caught.exception.text)
        self.assertEqual(json.loads(self.made.published()), {"keys": []})

    def test_a_full_disk(self) -> None:
        """What could not be written is written later."""
        self.fails = True
        self.follow()
        self.fails = False
        self.follow()
        self.follow()
        self.assertEqual(len(self.written), 1)

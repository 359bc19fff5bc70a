"""Joining where an identity is already."""

from __future__ import annotations

from svc.model.cluster.token import TokenGrant
from svc.model.principal import Role
from tests.client.test_joining import PersonCase
from tests.pki.support import World


class ReplacedTests(PersonCase):
    """Whose it was."""

    def test_after_another_gateway(self) -> None:
        """An identity of another gateway is replaced only if that is asked for; the token stays."""
        other = World()
        self.store.pin(other.keys.root_der)
        self.store.write(
            self.store.pending_key(), other.issued(Role.USER, self.store.pending_key()).chain
        )
        before = self.store.load().chain
        (failure,) = self.join()
        self.assertEqual((failure.value.reason, self.shown), ("another_gateway", []))
        for word in (other.keys.ca_pin, "--dir", "--replace"):
            self.assertIn(word, failure.value.text)
        self.assertEqual(self.store.load().chain, before)
        self.replaces = True
        self.assertEqual(self.join()[0].name, "ann")
        self.replaces = False
        self.assertEqual((self.join()[0].name, len(self.shown)), ("ann", 1))

    def test_after_somebody_else(self) -> None:
        """It is told whose identity of the same gateway is replaced; not of a person's own."""
        self.join()
        self.join()
        self.assertEqual(self.shown, [])
        for number, (name, former) in enumerate((("bob", "ann"), ("eve", "bob"))):
            somebody = f"{number + 2}" * 26
            self.authority.grant = TokenGrant("t", Role.USER, subject_id=somebody, name=name)
            self.assertEqual(self.join()[0].identity.principal.id, somebody)
            told = self.shown[number:]
            self.assertEqual(told, [f"the identity of {former} that was here was replaced"])

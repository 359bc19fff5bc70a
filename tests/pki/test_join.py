"""Taking a first identity: nothing is kept unless all of it is what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.pki.enroll import CertificateIssuer
from svc.pki.files import key_pem
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.join import adopt_identity, enroll_authority
from svc.pki.root import new_key
from svc.runtime import durable
from tests.pki.candidate import make_identity_old
from tests.pki.support import CLUSTER, World


class JoinTests(SynchronousTestCase):
    """A joiner with Authority's answer in its hand."""

    def setUp(self) -> None:
        self.world = World()
        state = Path(self.mktemp())
        state.mkdir(mode=0o700)
        self.store = IdentityStore(state)
        self.key = self.store.pending_key()

    def adopt(self, **changes):  # type: ignore[no-untyped-def]
        answer: dict[str, Any] = {
            "cluster": CLUSTER,
            "pin": self.world.keys.ca_pin,
            "root": self.world.keys.root_der,
            "chain": self.world.issued(Role.CONNECTOR, self.key).chain,
            "roles": frozenset({Role.CONNECTOR}),
            "now": self.world.now,
        } | changes
        return adopt_identity(self.store, answer.pop("key", self.key), **answer)

    def test_good(self) -> None:
        """A good answer is written and read again by the next process."""
        identity = self.adopt(pin=self.world.keys.ca_pin.upper())
        again = TransportIdentity.load(self.store, self.world.now, CLUSTER)
        self.assertEqual(again.facts, identity.facts)

    def test_over_one_of_a_candidate(self) -> None:
        """Whoever has an identity of an earlier candidate's gateway joins the new one over it."""
        old = World()
        state = Path(self.mktemp())
        state.mkdir(mode=0o700)
        self.store = IdentityStore(state)
        (state / "keys").mkdir()
        for name, key in (
            ("root", old.keys.root_key),
            ("transport", old.keys.issuers["transport"].key),
        ):
            assert key is not None
            durable.write_new(state / "keys" / f"{name}.key", key_pem(key))
        key = self.store.pending_key()
        self.store.pin(old.keys.root_der)
        self.store.write(key, old.issued(Role.CONNECTOR, key).chain)
        make_identity_old(state, state / "keys")
        with self.assertRaisesRegex(ConfigError, "leaf.pem: was made by an earlier candidate"):
            TransportIdentity.load(self.store, self.world.now)
        self.world.entropy(1)  # Both worlds would give the same serial number.
        self.key = self.store.pending_key()
        identity = self.adopt()
        again = TransportIdentity.load(self.store, self.world.now, CLUSTER)
        self.assertEqual(again.facts, identity.facts)

    def test_bad(self) -> None:
        """An answer of another root, cluster, role, key or time leaves no identity behind."""
        other = World()
        for changes in (
            {"pin": other.keys.ca_pin},
            {"pin": ""},
            {"root": other.keys.root_der},
            {"root": other.keys.root_der, "pin": other.keys.ca_pin},
            {"cluster": "other.test"},
            {"roles": frozenset({Role.PROXY})},
            {"key": new_key()},
            {"chain": other.issued(Role.CONNECTOR, self.key).chain},
            {"chain": ()},
            {"now": lambda: self.world.now() + 10 * 86400},
        ):
            self.assertRaises(CertificateRefused, self.adopt, **changes)
            self.assertFalse(self.store.exists, changes)

    def test_authority(self) -> None:
        """An Authority signs its own leaf, and again, under its old name, once that has expired."""
        issuer = CertificateIssuer(self.world.keys, node_lifetime=10)
        first = enroll_authority(issuer, self.store, self.world.now, names=("127.0.0.1",))
        self.assertEqual(first.principal.role, Role.AUTHORITY)
        self.world.clock.advance(20)
        self.assertTrue(TransportIdentity.load(self.store, self.world.now).expired)
        again = enroll_authority(issuer, self.store, self.world.now)
        self.assertFalse(again.expired)
        self.assertEqual(again.principal, first.principal)
        self.assertEqual(again.facts.generation, 2)

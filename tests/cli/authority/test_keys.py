"""`authority keys renew` at the operator's terminal."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from hashlib import sha256

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.authority.state import anchor_key
from svc.pki.keyring import create_cluster, load_keys
from tests.cli.terminal import CLUSTER, Place


class RenewTests(SynchronousTestCase):
    """The keys of one Authority."""

    def setUp(self) -> None:
        self.place = Place(self)
        self.keys = self.place.state / "keys"
        create_cluster(self.keys, CLUSTER, time.time, os.urandom)

    def test_fingerprint(self) -> None:
        """What auditors know the new anchor key by is printed: it is what its heads name."""
        made = self.place.run("keys", "renew", "anchor")
        key = anchor_key(load_keys(self.keys, time.time, os.urandom))
        self.assertEqual(key.key_id, sha256(key.chain[0]).hexdigest())
        self.assertEqual(made.status, 0, made.stderr)
        self.assertEqual(
            made.stdout.splitlines()[1:], [f"SHA-256 fingerprint of anchor: {key.key_id}"]
        )
        self.assertIn("--fingerprint OLD --fingerprint NEW", made.stderr)

    def test_others(self) -> None:
        """No auditor goes by another key; of all it is among them."""
        self.assertNotIn("ingerprint", self.place.run("keys", "renew", "grant").stdout)
        lines = self.place.run("keys", "renew", "all").stdout.splitlines()
        self.assertEqual(sum("fingerprint of anchor" in line for line in lines), 1)

    def paused(self) -> None:
        """A store that says that rotation is paused."""
        self.assertEqual(self.place.run("store", "migrate").status, 0)
        with closing(sqlite3.connect(self.place.store)) as store, store:
            store.execute(
                "INSERT INTO rotation_pauses (id, is_paused, since, by, reason)"
                " VALUES ('rotation', 1, 1.0, 'ada', 'upgrade')"
            )

    def test_paused(self) -> None:
        """While rotation is paused no key is replaced; the first of its kind is made."""
        self.paused()
        refused = self.place.run("keys", "renew", "onward-ssh")
        self.assertIn("rotation is paused by ada (upgrade)", refused.stderr)
        for name in ("onward-ssh.pem", "onward-ssh.key"):
            (self.keys / name).unlink()
        made = self.place.run("keys", "renew", "onward-ssh")
        self.assertEqual(made.status, 0, made.stderr)
        refused = self.place.run("keys", "renew", "onward-ssh")
        self.assertIn("rotation is paused by ada (upgrade)", refused.stderr)
        with closing(sqlite3.connect(self.place.store)) as store, store:
            store.execute("DELETE FROM svc_migrations WHERE id > 'm0066'")
        pending = self.place.run("keys", "renew", "grant")
        self.assertEqual(pending.status, 3, pending.stderr)
        self.assertIn("migrate", pending.stderr)

    def test_without_store(self) -> None:
        """Where the store does not answer the operator decides; where it does, nothing changes."""
        renew = ("keys", "renew", "all")
        self.place.store.write_bytes(b"no database" * 400)
        before = load_keys(self.keys, time.time, os.urandom)
        refused = self.place.run(*renew)
        self.assertEqual((refused.status, refused.stdout), (1, ""), refused.stderr)
        self.assertIn("with --without-store", refused.stderr)
        for word in ("whether rotation is paused", "whether every Authority has loaded"):
            self.assertIn(word, refused.stderr)
        refused = self.place.run("keys", "renew", "grant")
        self.assertIn("whether rotation is paused", refused.stderr)
        self.assertNotIn("whether every Authority", refused.stderr)
        made = self.place.run(*renew, "--without-store")
        self.assertEqual(made.status, 0, made.stderr)
        for word in ("not known: whether rotation is paused", "whether every Authority has loaded"):
            self.assertIn(word, made.stderr)
        after = load_keys(self.keys, time.time, os.urandom)
        self.assertNotEqual(anchor_key(after).key_id, anchor_key(before).key_id)
        self.place.store.unlink()
        self.paused()
        refused = self.place.run(*renew, "--without-store")
        self.assertIn("rotation is paused by ada (upgrade)", refused.stderr)

    def test_an_unreadable_row(self) -> None:
        """It hides what is known of another table neither from the operator nor from the check."""
        self.assertEqual(self.place.run("store", "migrate").status, 0)
        with closing(sqlite3.connect(self.place.store)) as store, store:
            store.execute("PRAGMA ignore_check_constraints = ON")
            store.execute(
                "INSERT INTO root_owners"
                " (owner, node_id, state, since, key_set, is_readmitted, former_nodes)"
                " VALUES ('a1', 'n1', 'lost', 1.0, x'', 0, '')"
            )
        self.assertEqual(self.place.run("keys", "renew", "grant").status, 0)
        refused = self.place.run("keys", "renew", "spiffe")
        self.assertEqual(refused.status, 1)
        self.assertIn("not known: whether every Authority has loaded", refused.stderr)
        self.assertNotIn("whether rotation is paused", refused.stderr)
        self.paused()
        refused = self.place.run("keys", "renew", "spiffe", "--without-store")
        self.assertEqual(refused.status, 1)
        self.assertIn("rotation is paused by ada (upgrade)", refused.stderr)

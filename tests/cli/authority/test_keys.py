"""`authority keys renew` at the operator's terminal."""

from __future__ import annotations

import os
import time
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

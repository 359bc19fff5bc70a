"""What follows the keys of an Authority, and what they are compared by."""

from __future__ import annotations

import os
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.recordings.key import load_recording_keys, rotate_recording_key
from svc.compose.authority.distribution import loaded_keys
from svc.pki.keyring import create_cluster, load_keys, renew_purpose
from tests.pki.support import CLUSTER


class LoadedKeysTests(SynchronousTestCase):
    """The digest of a key set."""

    def test_digest(self) -> None:
        """It is another one once a key is, that of recordings included, and the same until then."""
        directory = Path(self.mktemp()).absolute()
        create_cluster(directory, CLUSTER, time.time, os.urandom)

        def loaded() -> bytes:
            keys = load_keys(directory, time.time, os.urandom)
            return loaded_keys(keys, keys, load_recording_keys(directory, os.urandom))

        first = loaded()
        self.assertEqual(loaded(), first)
        rotate_recording_key(directory, os.urandom)
        second = loaded()
        renew_purpose(directory, "grant", time.time, os.urandom)
        self.assertEqual(len({first, second, loaded()}), 3)

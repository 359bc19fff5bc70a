"""What lies in the memory of a running Authority, for whoever gets to read it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.authority.parts import load_cluster_keys
from svc.pki.keyring import create_cluster
from svc.runtime.context import Runtime
from svc.runtime.state_directory import StateDirectory
from tests.pki.support import CLUSTER

NOW = 1_800_000_000.0


class _Settings:
    cluster = CLUSTER


class RootKeyTests(SynchronousTestCase):
    def test_running_authority_has_no_root_key(self) -> None:
        """The root's private key is not kept by an Authority that runs, though it lies there."""
        state = StateDirectory(Path(self.mktemp()).absolute())
        state.path.mkdir(mode=0o700)
        create_cluster(state / "keys", CLUSTER, lambda: NOW, os.urandom)
        self.assertTrue((state / "keys" / "root.key").exists())
        runtime = Runtime(reactor=Clock(), now=lambda: NOW, entropy=os.urandom, environ={})
        settings: Any = _Settings()
        keys = load_cluster_keys(runtime, settings, state)
        self.assertIsNone(keys.root_key)

"""When one process of all three roles is ready."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.authority.lifecycle import AuthorityRole, Startup
from svc.compose.process import Process, make_process
from svc.config import read_settings
from svc.errors import StoreFull
from svc.pki.keyring import create_cluster
from svc.runtime.context import Runtime
from tests.compose.net import Net
from tests.support.proof import proves

CLUSTER = "c1.example.test"
TEXT = f"""
cluster = "{CLUSTER}"
state_dir = "{{state}}"
store_url = "sqlite://{{state}}/authority/store.db"
endpoints.public_listen = "127.0.0.1:2"
endpoints.proxy = ["127.0.0.1:2"]
join.authority = "127.0.0.1:3"
join.by_key = true
join.ca_pin = "{{pin}}"
"""


class Machine(Net):
    """Nothing on it has started."""

    def getThreadPool(self) -> Any:
        """Asked for once something starts."""
        raise AssertionError("nothing starts here")


class ReadinessTests(SynchronousTestCase):
    """What ``svc all`` misses before it has started."""

    def setUp(self) -> None:
        state = Path(self.mktemp()).absolute()
        (state / "authority").mkdir(mode=0o700, parents=True)
        state.chmod(0o700)
        create_cluster(state / "authority" / "keys", CLUSTER, time.time, os.urandom)
        reactor: Any = Machine()
        runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ={})
        settings = read_settings(TEXT.format(state=state, pin="ab" * 32), "all")
        self.process: Process = make_process(runtime, settings, self.fail)
        self.addCleanup(self.process.state.abandon)

    @proves("G-OPEN-38")
    def test_all(self) -> None:
        """It waits for Authority, Proxy and Connector: each of them misses something of its own."""
        missing = {"store", "control pool", "serving"}
        self.assertLessEqual(missing, set(self.process.readiness.missing))
        self.assertFalse(self.process.readiness.ready)

    @proves("G-RDY-05")
    def test_full(self) -> None:
        """A write that finds the disk full takes readiness away at once, before any look at it."""
        [authority] = [each for each in self.process if isinstance(each, AuthorityRole)]
        [startup] = [each for each in authority if isinstance(each, Startup)]
        self.assertNotIn("store_full", self.process.readiness.missing)
        startup.parts.store.full(StoreFull.on("Authority"))
        self.assertIn("store_full", self.process.readiness.missing)

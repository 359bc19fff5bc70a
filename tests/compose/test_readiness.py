"""When one process of all three roles is ready."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.process import make_process
from svc.config import read_settings
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

    @proves("G-OPEN-38")
    def test_all(self) -> None:
        """It waits for Authority, Proxy and Connector: each of them misses something of its own."""
        state = Path(self.mktemp()).absolute()
        (state / "authority").mkdir(mode=0o700, parents=True)
        state.chmod(0o700)
        create_cluster(state / "authority" / "keys", CLUSTER, time.time, os.urandom)
        reactor: Any = Machine()
        runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ={})
        settings = read_settings(TEXT.format(state=state, pin="ab" * 32), "all")
        process = make_process(runtime, settings, self.fail)
        self.addCleanup(process.state.abandon)
        self.assertLessEqual({"store", "control pool", "serving"}, set(process.readiness.missing))
        self.assertFalse(process.readiness.ready)

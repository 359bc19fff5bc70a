"""What a stock client sees of a Proxy that leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import environment
from svc.testing.gateway.settings import PROXY
from tests.interop.stage import asked_of_gateway, gateway


class LeavingTests(SynchronousTestCase):
    def test_drain(self) -> None:
        """A stopping Proxy lets a call go on to its end, takes none any more, and ends well."""
        asked = asked_of_gateway(["across_a_drain"])
        child = gateway().child(PROXY)
        client = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.stock_client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(gateway().directory, {"GRPC_VERBOSITY": "NONE"}),
            text=True,
        )
        self.addCleanup(gateway().restart, PROXY)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        assert client.stdin is not None and client.stdout is not None
        with client.stdin, client.stdout:
            client.stdin.write(json.dumps(asked))
            client.stdin.close()
            self.assertEqual(client.stdout.readline(), "open\n")
            child.signal(signal.SIGTERM)
            self.assertEqual(json.loads(client.stdout.read()), {"across_a_drain": "ok"})
        self.assertEqual(child.wait(), 0)

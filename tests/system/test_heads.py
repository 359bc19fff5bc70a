"""``[audit]``: how often a running Authority signs a head outside its store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY

PROGRAM = Path(__file__).parents[2] / "contrib" / "verify_audit.py"


class HeadTests(SynchronousTestCase):
    """An Authority alone, with numbers of its own."""

    def authority(self, **audit: Any) -> Gateway:
        gateway = init_gateway(numbers={f"audit.{name}": n for name, n in audit.items()})
        self.addCleanup(gateway.end)
        gateway.make_authority()
        return gateway

    def sizes(self, gateway: Gateway) -> list[int]:
        """What each head in the anchor directory covers."""
        path = gateway.files.state(AUTHORITY) / "anchor" / "heads.jsonl"
        try:
            lines = path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["head"]["tree_size"] for line in lines]

    def added(self, gateway: Gateway, count: int) -> int:
        """Put so many records on the log; how many there are now."""
        for n in range(count):
            gateway.operator("persons", "add", f"p{n}")
        return int(gateway.status()["audit_seq"])

    def test_every_records(self) -> None:
        """With a head every five records, and otherwise after a day, few are without one."""
        gateway = self.authority(head_every_records=5, head_after_secs=86400)
        seq = self.added(gateway, 7)
        child = gateway.roles[AUTHORITY]
        until("a head", lambda: (self.sizes(gateway) or [0])[-1] > seq - 5, alive=[child])
        # A record may come while a head is being signed: it is covered, and counted for the next.
        self.assertLessEqual(len(self.sizes(gateway)), seq // 4)

    def test_after_secs(self) -> None:
        """Without a number that is reached, a head follows a record as soon as is configured."""
        gateway = self.authority(head_every_records=1_000_000, head_after_secs=0.05)
        seq = self.added(gateway, 1)
        child = gateway.roles[AUTHORITY]
        until("a head", lambda: seq in self.sizes(gateway), alive=[child])
        self.check_export(gateway, seq)

    def check_export(self, gateway: Gateway, least: int) -> None:
        """Beside the running Authority an export is made, which an auditor's program accepts."""
        key = json.loads(gateway.operator("audit", "verify", "--json").stdout)["key_id"]
        exported = gateway.operator("audit", "export").stdout
        self.assertGreaterEqual(len(exported.splitlines()), least + 1)
        done = subprocess.run(
            [sys.executable, "-I", str(PROGRAM), "--fingerprint", key, "-"],
            input=exported.encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, b""))

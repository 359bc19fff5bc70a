"""A resident keeps the newest head it was shown, says so, and says when the log goes back."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.head import to_line
from svc.audit.checkpoint.latest import LatestCheckpoint
from svc.client.heads import KnownHead
from tests.audit.logs import MemoryLog, heads_over, short_record, verify_head


class KnownHeadTests(SynchronousTestCase):
    """A log of twelve records, and a resident that follows a list."""

    def setUp(self) -> None:
        self.log = MemoryLog()
        self.log.fill(12, short_record)
        self.signed = heads_over(self.log.log, 3, 8, 12, hours=1)
        self.lines = [to_line(head) for head in self.signed]
        latest_checkpoint = LatestCheckpoint(
            path=Path(self.mktemp()), verify_head=verify_head, cluster="demo.example", log_id="log"
        )
        self.head = KnownHead(latest_checkpoint)
        self.said: list[str] = []
        observer = cast(ILogObserver, self.heard)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def heard(self, event: LogEvent) -> None:
        if event["log_namespace"] == "svc_client":
            self.said.append(event.get("reason") or event["log_format"])

    def take(self, *lines: bytes) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.head.take(lines)))

    def test_kept_and_shown(self) -> None:
        """The newest head is kept, told to Proxies and shown by `svc status`."""
        self.assertEqual((self.head.line, self.head.public["records"]), (b"", 0))
        self.take(*self.lines[:2])
        shown = self.head.public
        self.assertEqual((shown["records"], shown["problem"]), (8, ""))
        self.assertEqual(shown["hash"], self.signed[1].hash.hex())
        self.assertEqual(self.head.line, self.lines[1])
        self.assertEqual(self.said, [])

    def test_goes_back(self) -> None:
        """A log that is behind, or another one, is said once, and the head stays."""
        self.take(self.lines[2])
        for _ in range(2):
            self.take(self.lines[0])
        self.assertEqual(self.said, ["audit_rolled_back"])
        self.assertIn("behind", self.head.problem)
        self.take(self.lines[2])
        self.assertEqual(self.head.problem, "")
        other = MemoryLog(drawn=99)
        other.fill(12, short_record)
        (forked,) = heads_over(other.log, 12)
        self.take(to_line(forked))
        self.assertIn("two histories", self.head.problem)
        self.take(b"rubbish")
        self.assertEqual(self.said, ["audit_rolled_back", "audit_rolled_back", "malformed"])
        self.assertEqual(self.head.line, self.lines[2])

    def test_restored(self) -> None:
        """A record of a restored store is believed, and said."""
        self.take(self.lines[2])
        self.take(to_line(self.log.go_on(8, self.signed[2], hours=100)))
        self.assertEqual(self.head.public["records"], 9)
        self.assertEqual(len(self.said), 1)
        self.assertIn("continues from an older store", self.said[0])

"""Whoever keeps the greatest head goes back from it only where a signed record says so."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.head import to_line
from svc.audit.checkpoint.latest import MAX_HEAD, HeadComparison, LatestCheckpoint
from svc.errors import SvcError
from svc.model.audit.record import RestoredProof, SignedHead
from tests.audit.logs import MemoryLog, heads_over, short_record, verify_head


class GreatestTests(SynchronousTestCase):
    """A log of twelve records, and somebody who is shown its heads."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp())
        self.log = MemoryLog()
        self.log.fill(12, short_record)
        self.heads = heads_over(self.log.log, 3, 8, 12, hours=1)
        self.latest_checkpoint = self.opened()

    def opened(self) -> LatestCheckpoint:
        latest_checkpoint = LatestCheckpoint(
            path=self.path, verify_head=verify_head, cluster="demo.example", log_id="log"
        )
        latest_checkpoint.load()
        return latest_checkpoint

    def take(self, head: SignedHead) -> HeadComparison:
        return self.done(self.latest_checkpoint.take(to_line(head)))

    def done(self, coroutine: Coroutine[Any, Any, HeadComparison]) -> HeadComparison:
        taken: HeadComparison = self.successResultOf(Deferred.fromCoroutine(coroutine))
        return taken

    def refused(self, line: bytes) -> str:
        failure = self.failureResultOf(
            Deferred.fromCoroutine(self.latest_checkpoint.take(line)), SvcError
        )
        return str(failure.value.reason)

    def size(self) -> int:
        """What the head covers that is kept, in memory and on disk."""
        kept, stored = self.latest_checkpoint.kept, self.opened().kept
        assert kept is not None and stored is not None
        self.assertEqual(kept.hash, stored.hash)
        return kept.head.tree_size

    def test_grows(self) -> None:
        """A greater head takes the place, a smaller or the same one does not; it is durable."""
        self.assertEqual(self.latest_checkpoint.line, b"")
        self.assertEqual(self.take(self.heads[1]), HeadComparison.NEWER)
        self.assertEqual(self.take(self.heads[2]), HeadComparison.NEWER)
        self.assertEqual(self.take(self.heads[0]), HeadComparison.BEHIND)
        self.assertEqual(self.take(self.heads[2]), HeadComparison.KNOWN)
        self.assertEqual(self.size(), 12)
        self.assertEqual(self.latest_checkpoint.line, to_line(self.heads[2]))

    def test_two_histories(self) -> None:
        """A head of one size over other records is refused; over the same ones it is known."""
        self.take(self.heads[2])
        (again,) = heads_over(self.log.log, 12, begin=7)
        self.assertEqual(self.take(again), HeadComparison.KNOWN)
        other = MemoryLog(drawn=99)
        other.fill(12, short_record)
        (forked,) = heads_over(other.log, 12, begin=7)
        self.assertEqual(self.refused(to_line(forked)), "audit_rolled_back")
        self.assertEqual(self.size(), 12)

    def test_not_believed(self) -> None:
        """Another log's head, a forged one, rubbish and what is too long are refused."""
        (foreign,) = heads_over(self.log.log, 12, log_id="else")
        self.assertEqual(self.refused(to_line(foreign)), "audit_head_foreign")
        forged = evolve(self.heads[2], signed=evolve(self.heads[2].signed, signature=b"x" * 64))
        self.assertEqual(self.refused(to_line(forged)), "bad_signature")
        self.assertEqual(self.refused(b"{}"), "malformed")
        self.assertEqual(self.refused(b" " * (MAX_HEAD + 1)), "malformed")
        self.assertIsNone(self.latest_checkpoint.kept)
        self.take(self.heads[1])
        self.assertEqual(self.refused(to_line(forged)), "bad_signature")
        self.assertEqual(self.size(), 8)

    def test_restored(self) -> None:
        """A record of a restored store lets it go back; what was kept stays beside it."""
        self.take(self.heads[2])
        restored = self.log.go_on(8, self.heads[2], hours=100)
        self.assertEqual(self.take(restored), HeadComparison.RESTORED)
        self.assertEqual(self.size(), 9)
        lost = self.path.with_name(self.path.name + ".lost")
        self.assertEqual(lost.read_bytes(), to_line(self.heads[2]) + b"\n")
        self.log.fill(5, short_record)
        (later,) = heads_over(self.log.log, 14, begin=101)
        self.assertEqual(self.take(later), HeadComparison.NEWER)
        self.assertEqual(self.take(restored), HeadComparison.BEHIND)

    def test_given_up_for_good(self) -> None:
        """Who was away and still shows a lost head puts nobody back, after a restart either."""
        self.take(self.heads[2])
        self.take(self.log.go_on(8, self.heads[2], hours=100))
        for _ in range(2):
            self.assertEqual(self.take(self.heads[2]), HeadComparison.BEHIND)
            self.assertEqual(self.size(), 9)
            self.latest_checkpoint = self.opened()

    def test_proof_that_is_none(self) -> None:
        """What a line says of a restored store must fold to its root, also of a head we keep."""
        self.take(self.heads[2])
        bogus = evolve(self.heads[2], restored=RestoredProof(b"{}", ()))
        self.assertEqual(self.refused(to_line(bogus)), "audit_broken")
        self.assertEqual(self.latest_checkpoint.line, to_line(self.heads[2]))

    def test_restored_while_away(self) -> None:
        """Who kept nothing of the lost line is told all the same, once."""
        self.take(self.heads[0])
        restored = self.log.go_on(8, self.heads[2], hours=100)
        self.assertEqual(self.take(restored), HeadComparison.RESTORED)
        self.assertEqual(self.take(restored), HeadComparison.KNOWN)

    def test_more_is_known(self) -> None:
        """A record that gives up less than is kept here is not enough; nor a forged one."""
        self.take(self.heads[2])
        log = MemoryLog()
        log.fill(10, short_record)
        (named,) = heads_over(log.log, 10, hours=1)
        self.assertEqual(self.refused(to_line(log.go_on(8, named, hours=100))), "audit_rolled_back")
        restored = self.log.go_on(8, self.heads[2], hours=100)
        forged = evolve(restored, signed=evolve(restored.signed, signature=b"x" * 64))
        self.assertEqual(self.refused(to_line(forged)), "bad_signature")
        self.assertEqual(self.size(), 12)

    def test_an_older_proof(self) -> None:
        """The proof of a restored store takes nobody back who has seen more since."""
        first = self.log.go_on(8, self.heads[2], hours=100)
        self.log.fill(20, short_record)
        (later,) = heads_over(self.log.log, 29, begin=101)
        self.take(later)
        self.assertEqual(self.take(first), HeadComparison.BEHIND)
        self.assertEqual(self.size(), 29)

    def test_of_another_gateway(self) -> None:
        """A head that is signed by nobody of this gateway is kept beside, and compared no more."""
        self.take(self.heads[2])
        self.assertIsNone(self.latest_checkpoint.set_aside_foreign())

        def of_nobody(signed: object, at: float) -> object:
            raise SvcError("nobody that is trusted", reason="untrusted")

        other = self.opened()
        other.verify_head = of_nobody
        aside = other.set_aside_foreign()
        assert aside is not None
        self.assertEqual((other.line, self.path.exists()), (b"", False))
        self.assertEqual(aside.read_bytes(), to_line(self.heads[2]) + b"\n")
        self.assertEqual(self.opened().line, b"")

    def test_broken_file(self) -> None:
        """A file that is no head is said, with what to do about it."""
        self.path.write_bytes(b"rubbish\n")
        error = self.assertRaises(SvcError, self.opened)
        self.assertEqual(error.reason, "audit_head_file")
        self.assertIn("move it away", error.text)

"""A store that takes no record makes its Authority not ready, by name."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.state.write_probe import UNWRITABLE, WRITES, StoreWrites
from svc.errors import AuditBroken, LeaseLost, StoreFull, StoreUnavailable, SvcError
from svc.runtime.services import Readiness

FULL = StoreFull.on("the Authority")


class StoreWritesTests(SynchronousTestCase):
    """Looks at a store whose answer the test gives."""

    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.ready = Readiness(*WRITES)
        self.failure: SvcError | None = None
        self.hangs = False
        self.writes = StoreWrites(self.write, self.clock, self.ready)

    async def write(self) -> None:
        if self.hangs:
            await Deferred()
        if self.failure is not None:
            raise self.failure

    def look(self, failure: SvcError | None = None) -> tuple[str, ...]:
        """What is missing after a look at which a write failed so."""
        self.failure = failure
        self.successResultOf(Deferred.fromCoroutine(self.writes.look()))
        return self.ready.missing

    def test_each_reason(self) -> None:
        """A full disk and any other fault are told apart, and both heal at the next look."""
        self.assertEqual(self.ready.missing, ())
        self.assertEqual(self.look(FULL), ("store_full",))
        self.assertEqual(self.look(StoreUnavailable("it failed")), (UNWRITABLE,))
        self.assertEqual(self.look(FULL), ("store_full",))
        self.assertEqual(self.look(), ())

    def test_a_store_that_hangs(self) -> None:
        """A write that is not answered in time is a fault."""
        self.hangs = True
        looking = Deferred.fromCoroutine(self.writes.look())
        self.clock.advance(5)
        self.successResultOf(looking)
        self.assertEqual(self.ready.missing, (UNWRITABLE,))

    def test_what_is_said_elsewhere(self) -> None:
        """A lease that is lost, or a log that is not ours, is no fault of the disk."""
        self.assertEqual(self.look(LeaseLost()), ())
        self.assertEqual(self.look(AuditBroken("another", reason="audit_rolled_back")), ())
        self.look(FULL)
        self.assertEqual(
            self.look(AuditBroken("another", reason="audit_rolled_back")), ("store_full",)
        )
        self.assertEqual(self.look(LeaseLost()), ())

    def test_nothing_is_granted(self) -> None:
        """While the disk is full a grant is refused before it is written, and not after it."""
        self.writes.require_room()
        self.writes.found(FULL)
        self.assertEqual(self.ready.missing, ("store_full",))
        refused = self.assertRaises(StoreFull, self.writes.require_room)
        self.assertIn("the disk of the Authority is full", refused.text)
        self.look()
        self.writes.require_room()

"""A full spool denies: no session begins whose end could not be recorded (rule R12)."""

from __future__ import annotations

import errno

from twisted.internet.defer import Deferred

from svc.errors import Fault, SvcError
from svc.messages.control import CountedEnd
from svc.proxy.uplink.journal import END_BYTES, EndsFile, OwedEnd
from svc.ratelimit.quota import EACH, KEPT
from tests.audit.spools import record
from tests.proxy.pieces import ProxyTests, Talk

FULL, UNWRITABLE = "audit_spool_full", "audit_unavailable"


class FullSpoolTests(ProxyTests):
    """A Proxy whose Authority answers, and takes of the spool only when a test says so."""

    def setUp(self) -> None:
        super().setUp()
        self.node = self.site.node()
        self.room = self.site.spool.files.room

    def fill(self, left: int = 0) -> int:
        """Rows of the Proxy's own fill the spool up to what is nobody's share."""
        size = self.room.most - self.room.most // KEPT - self.room.used - left
        self.room.found(size)
        return size

    def refusal(self) -> str:
        """Why a session is not opened; Authority was not asked for it, and none is owed."""
        before, asked = self.room.used, len(self.authority.asked)
        talk = self.site.open()
        self.assertEqual(len(self.authority.asked), asked)
        self.assertEqual((self.site.sessions.open_sessions, self.room.used), (0, before))
        assert talk.error is not None
        self.assertIsNotNone(talk.error.retry_after if talk.reason == FULL else 0)
        return talk.reason

    def opened(self) -> Talk:
        """A session that is asked for."""
        talk = self.site.open()
        self.assertEqual(self.site.sessions.open_sessions, 1)
        return talk

    def counted(self) -> dict[str, int]:
        """The refusals by reason."""
        return {what[1]: n for what, n in self.site.counts.items() if what[0] == "unrecorded"}

    def test_no_session_begins(self) -> None:
        """With a full spool a session is refused with a reason and counted, until there is room."""
        size = self.fill()
        self.assertEqual((self.refusal(), self.refusal()), (FULL, FULL))
        self.assertEqual(self.counted(), {FULL: 2})
        self.room.give_back(size, {})
        self.opened()

    def test_refusals_are_still_written(self) -> None:
        """What is kept is there for the Proxy's own rows while sessions are refused."""
        self.fill()
        self.assertEqual(self.refusal(), FULL)
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.write(record("a"))))

    def test_the_end_of_an_open_session(self) -> None:
        """A session that was let in has room for its end, whatever fills the spool meanwhile."""
        before = self.room.used
        self.opened()
        self.assertEqual(self.room.used, before + END_BYTES)
        self.room.found(self.room.most - self.room.used)
        self.site.lose_authority()
        self.node.wire.cut()
        self.site.pass_time(2)
        path = self.site.spools / "ends"
        (owed,) = EndsFile(path).load()
        self.assertEqual(owed.person_id, self.site.cluster.person.principal.id)
        self.assertLessEqual(2 * path.stat().st_size, END_BYTES)
        self.authority.is_up = True
        self.site.pass_time(6)
        self.assertEqual(self.site.reports.waiting, 0)
        self.assertEqual(self.room.used, self.room.most - END_BYTES, "its room is free again")

    def test_an_eighth_is_one_persons(self) -> None:
        """Who has an eighth of the spool in sessions has no more, and others go on."""
        who = self.site.cluster.person.principal.id
        self.assertTrue(self.room.take(self.room.most // EACH, who))
        self.assertEqual(self.refusal(), FULL)
        self.site.reports.expect("u", "bob")

    def test_what_a_former_life_left(self) -> None:
        """Ends that a former process left take their room until they are told."""
        before = self.room.used
        self.site.lose_authority()
        self.site.reports.recover(
            [OwedEnd(CountedEnd("u1", "closed"), "ann"), OwedEnd(CountedEnd("u2", "closed"))]
        )
        self.assertEqual(self.room.used, before + END_BYTES)
        self.authority.is_up = True
        self.site.pass_time(6)
        self.assertEqual((self.site.reports.waiting, self.room.used), (0, before))

    def test_a_disk_that_refuses(self) -> None:
        """While no row can be written no session begins; it is tried again by itself."""
        for error, reason in ((errno.ENOSPC, FULL), (errno.EIO, UNWRITABLE)):
            self.site.disk.errors["sync"] = OSError(error, "no")
            self.failureResultOf(
                Deferred.fromCoroutine(self.site.spool.write(record("a"))), SvcError
            )
            self.assertEqual(self.refusal(), reason)
            self.site.disk.errors["sync"] = OSError(error, "no")
            self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
            self.assertEqual(self.refusal(), reason)
            self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
            self.site.reports.expect(f"u{error}", "bob")

    def test_a_disk_that_fills(self) -> None:
        """A full disk is found though nobody writes; the person reads whose it is, and it heals."""
        self.site.disk.errors["try_room"] = OSError(errno.ENOSPC, "no")
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
        talk = self.site.open()
        assert talk.error is not None
        self.assertEqual(talk.reason, FULL)
        self.assertIn("the disk of the Proxy is full", talk.error.text)
        self.assertEqual(self.authority.asked, [])
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
        self.opened()

    def test_a_disk_without_room_for_requests(self) -> None:
        """No session opens whose requests could not be written ahead: that takes a whole file."""
        told: list[bool] = []
        self.site.spool.has_room = lambda: told.append(True)
        self.site.disk.free = 4 * 65_536
        for _ in range(2):
            self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
            talk = self.site.open()
            assert talk.error is not None
            self.assertEqual(talk.reason, FULL)
            self.assertIn("the disk of the Proxy is full", talk.error.text)
        self.assertEqual(told, [])
        self.site.disk.free += 65_536
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
        self.assertEqual(told, [True])
        self.opened()

    def test_ends_that_cannot_be_written(self) -> None:
        """While ends that wait cannot be written down no session begins."""
        path = self.site.spools / "ends"
        path.mkdir()
        self.authority.report_error = SvcError("?", reason="x", fault=Fault.UNAVAILABLE)
        self.site.reports.ended(CountedEnd("u1", "closed"))
        self.site.pass_time(1)
        self.assertEqual(self.refusal(), UNWRITABLE)
        path.rmdir()
        self.site.pass_time(6)
        self.opened()

    def test_ready_once_there_is_room(self) -> None:
        """A Proxy is ready once a spool is begun and has room for a session's end."""
        told: list[bool] = []
        self.site.spool.has_room = lambda: told.append(True)
        self.fill()
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
        self.assertEqual(told, [])
        self.room.give_back(1 << 20, {})
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.mend()))
        self.assertEqual(told, [True])

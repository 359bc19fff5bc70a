"""The Proxy's rows on their way to Authority, and the ends of sessions on the disk."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from svc.audit.spool.aside import DAMAGED
from svc.audit.spool.framing import framed
from svc.errors import Fault, SvcError, TooMany
from svc.messages.control import CountedEnd, Departure
from svc.messages.spooled import MAX_ROWS
from svc.model.session.tunnels import TunnelEnded
from svc.proxy.uplink.deliver import TOGETHER_SECS
from svc.proxy.uplink.journal import MOMENT_SECS, EndsFile, EndsJournal, OwedEnd
from svc.proxy.uplink.reports import GATHER_SECS, Reports
from tests.audit.spools import Taken, files, record, written
from tests.proxy.pieces import ProxyTests


class SpoolingTests(ProxyTests):
    """A Proxy whose Authority covers what it takes only when a test says so."""

    def setUp(self) -> None:
        super().setUp()
        self.taken: Taken = self.authority.spools

    def write(self, *words: str) -> None:
        """Write records of these names."""
        for word in words:
            self.successResultOf(Deferred.fromCoroutine(self.site.spool.write(record(word))))
        self.site.turn()

    def heard(self) -> list[str]:
        """The names of the records that Authority has taken."""
        summaries = self.authority.recorded("refusals.summary")
        return [one["event_id"] for one in summaries]

    def back(self) -> None:
        """Authority is here again."""
        self.authority.is_up = True
        self.site.pass_time(6)

    @property
    def spool_id(self) -> str:
        return self.site.spool.files.spools()[-1].spool_id


class DeliveryTests(SpoolingTests):
    def test_at_once(self) -> None:
        """A row is brought as soon as it is on the disk, the announcement before all."""
        self.assertEqual(len(self.authority.recorded("spool.open")), 1)
        self.write("a")
        self.write("b", "c")
        self.assertEqual(self.heard(), ["a", "b", "c"])

    def test_gathered(self) -> None:
        """While rows keep coming, those of one moment travel together; the last ones too."""
        self.site.delivery.gather = TOGETHER_SECS
        self.site.pass_time(1)
        calls = len(self.authority.spooled)
        self.write("a")
        for word in "bcdef":
            self.write(word)
        self.assertEqual(self.heard(), ["a"])
        self.site.pass_time(TOGETHER_SECS)
        self.assertEqual(self.heard(), list("abcdef"))
        counts = [count for _, count in self.authority.spooled[calls:] if count]
        self.assertEqual(counts, [1, 5])

    def test_asks_first(self) -> None:
        """A connection begins with a question, and only what Authority lacks is sent."""
        self.write("a")
        self.assertEqual(self.authority.spooled[0], (self.spool_id, 0))
        before = len(self.authority.spooled)
        self.site.lose_authority()
        self.write("b")
        self.back()
        self.assertEqual(self.authority.spooled[before][1], 0)
        self.assertEqual([count for _, count in self.authority.spooled[before:] if count], [1])
        self.assertEqual(self.heard(), ["a", "b"])

    def test_moved_during_a_call(self) -> None:
        """A connection to another Authority that comes while rows are on their way loses none."""
        moves = iter((self.site.delivery.connected,) * 3)
        self.authority.on_spooled = lambda: next(moves, lambda: None)()
        with capturedLogs() as events:
            self.write("a", "b")
            self.site.pass_time(6)
        self.assertEqual([one for one in events if "log_failure" in one], [])
        self.assertEqual(next(moves, None), None, "it moved three times")
        self.assertEqual(self.heard(), ["a", "b"])
        self.assertFalse(self.site.delivery.is_busy)
        self.write("c")
        self.assertEqual(self.heard(), ["a", "b", "c"])

    def test_in_batches(self) -> None:
        """However much gathered while Authority was away, a call brings no more than one may."""
        self.site.lose_authority()
        words = [f"r{n}" for n in range(600)]
        for start in range(0, 600, 100):
            written(self.site.spool.files, *words[start : start + 100])
        self.back()
        counts = [count for _, count in self.authority.spooled if count]
        self.assertEqual(counts, [1, MAX_ROWS, MAX_ROWS, 600 - 2 * MAX_ROWS])
        self.assertEqual(self.heard(), words)

    def test_answer_lost(self) -> None:
        """Rows whose answer never came are asked after, and sent again only if they are missing."""
        self.authority.spooled_error = SvcError("?", reason="away", fault=Fault.UNAVAILABLE)
        self.write("a")
        calls = len(self.authority.spooled)
        self.write("b")
        self.assertEqual(len(self.authority.spooled), calls)
        self.authority.spooled_error = None
        self.site.pass_time(6)
        self.assertEqual(self.heard(), ["a", "b"])

    def test_refused_for_a_while(self) -> None:
        """An Authority that asks to be left alone is, for as long as it says."""
        self.authority.spooled_error = TooMany("too many", retry_after=20.0)
        self.write("a")
        calls = len(self.authority.spooled)
        self.authority.spooled_error = None
        self.site.pass_time(19)
        self.write("b")
        self.assertEqual(len(self.authority.spooled), calls)
        self.site.pass_time(2)
        self.assertEqual(self.heard(), ["a", "b"])

    def test_covered_while_more_is_refused(self) -> None:
        """What is taken makes room on the disk, also while Authority takes no more for now."""
        self.site.lose_authority()
        self.site.spool.files.segment_bytes = 1
        for number in range(6):
            written(self.site.spool.files, *(f"r{number}.{n}" for n in range(100)))
        whole = len(list(self.site.spools.glob("*/*.rows")))

        def refuse_the_next() -> None:
            if [count for _, count in self.authority.spooled].count(MAX_ROWS) > 1:
                self.authority.spooled_error = TooMany("too many", retry_after=600.0)

        self.authority.on_spooled = refuse_the_next
        self.back()
        self.site.pass_time(6)
        self.assertEqual(len(self.heard()), MAX_ROWS)
        self.assertLess(len(list(self.site.spools.glob("*/*.rows"))), whole)

    def test_not_served(self) -> None:
        """An older Authority takes no rows: they wait, and it is asked once a minute."""
        self.authority.spooled_error = SvcError("?", reason="x", fault=Fault.UNIMPLEMENTED)
        self.write("a")
        calls = len(self.authority.spooled)
        self.site.pass_time(125, step=4)
        self.assertEqual(len(self.authority.spooled), calls + 2)
        self.authority.spooled_error = None
        self.site.pass_time(61, step=4)
        self.assertEqual(self.heard(), ["a"])

    def test_covered(self) -> None:
        """Rows stay until a signed head covers them, which is asked after ever less often."""
        self.authority.is_covering = False
        self.site.spool.files.segment_bytes = 1
        self.write("a")
        self.write("b")
        paths = sorted(self.site.spools.glob("*/*.rows"))
        self.assertEqual(len(paths), 2)
        calls = len(self.authority.spooled)
        self.site.pass_time(120, step=3)
        self.assertLess(len(self.authority.spooled) - calls, 12)
        self.assertEqual(sorted(self.site.spools.glob("*/*.rows")), paths)
        self.authority.is_covering = True
        self.site.pass_time(31, step=3)
        self.assertEqual(sorted(self.site.spools.glob("*/*.rows")), paths[-1:])
        calls = len(self.authority.spooled)
        self.site.pass_time(120, step=3)
        self.assertEqual(len(self.authority.spooled), calls)

    def test_put_back(self) -> None:
        """Where Authority says less than before, delivery goes on from there."""
        self.authority.is_covering = False
        self.write("a", "b", "c")
        self.taken.go_back(self.spool_id)
        self.taken.take(self.spool_id, [self.taken.seen[self.spool_id, 1]])
        self.assertEqual(self.heard(), [])
        self.write("d")
        self.site.pass_time(2)
        self.assertEqual(self.heard(), ["a", "b", "c", "d"])

    def test_a_hole(self) -> None:
        """Rows behind one that is lost are brought, once, though Authority waits for that one."""
        self.site.lose_authority()
        self.write("a", "b", "c")
        path = next(self.site.spools.glob("*/*.rows"))
        data = bytearray(path.read_bytes())
        data[data.index(b'"a"')] ^= 1
        path.write_bytes(data)
        self.site.spool.files._stored[self.spool_id].recent.clear()
        self.back()
        self.assertEqual(sorted(n for _, n in self.taken.seen), [1, 3, 4])
        sent = sum(count for _, count in self.authority.spooled)
        self.site.pass_time(60, step=4)
        self.assertEqual(sum(count for _, count in self.authority.spooled), sent)
        self.write("d")
        self.assertIn((self.spool_id, 5), self.taken.seen)

    def test_never_taken(self) -> None:
        """A spool that Authority will never take holds up no other, and stays on the disk."""
        self.authority.spooled_error = SvcError("odd", reason="malformed", fault=Fault.INVALID)
        self.write("a")
        odd = self.spool_id
        self.authority.spooled_error = None
        self.site.disk.errors["sync"] = OSError(errno.EIO, "no")
        self.failureResultOf(Deferred.fromCoroutine(self.site.spool.write(record("x"))))
        self.write("b")
        self.assertEqual(self.heard(), ["b"])
        self.assertTrue((self.site.spools / odd).exists())

    def test_deleted(self) -> None:
        """A spool deleted under a running Proxy: what memory holds of it is brought."""
        self.site.lose_authority()
        self.write("a", "b")
        lost = self.spool_id
        shutil.rmtree(self.site.spools)
        self.write("c")
        self.back()
        self.assertEqual(self.heard(), ["a", "b", "c"])
        self.assertNotEqual(self.spool_id, lost)
        self.assertEqual(len(self.site.spool.files.spools()), 1)

    def test_former(self) -> None:
        """What a killed process left is brought first, and its directory goes once covered."""
        former = files(self.site.spools.with_name("former"))
        former.maker = self.site.spool.files.maker
        former.open()
        written(former, "old")
        [extent] = former.spools()
        (former.root / extent.spool_id).rename(self.site.spools / extent.spool_id)
        self.site.lose_authority()
        self.site._assemble_spool()
        self.site.link.on_connected(self.site.delivery.connected)
        self.successResultOf(Deferred.fromCoroutine(self.site.spool.open()))
        self.write("new")
        self.back()
        self.assertEqual(self.heard(), ["old", "new"])
        self.assertFalse((self.site.spools / extent.spool_id).exists())
        [*_, opened] = self.authority.recorded("spool.open")
        self.assertIn(f"{extent.spool_id}:2", opened["details"]["former_spools"])


class EndsTests(SpoolingTests):
    """What is told after the fact outlives the process."""

    @property
    def file(self) -> EndsFile:
        return EndsFile(self.site.spools / "ends")

    def on_disk(self) -> list[tuple[str, str, int, int]]:
        ends = [one.ended for one in self.file.load()]
        return [(one.session_uid, one.reason, one.bytes_up, one.bytes_down) for one in ends]

    def restarted(self) -> None:
        """As if the Proxy had been killed here, and another process is using its directory."""
        self.site.journal.stop()
        site: Any = self.site
        site.journal = EndsJournal(
            file=self.file, in_thread=site._in_thread, tasks=site.tasks, clock=site.clock
        )
        site.reports = Reports(
            channel=site.link.channel,
            tasks=site.tasks,
            dropped=lambda: None,
            answered=lambda word: None,
            clock=site.clock,
            journal=site.journal,
            room=site.spool.files.room,
            writable=site.spool.check,
            unrecorded=lambda reason: None,
        )
        site.sessions.reports = site.reports
        site.link._on_connected[:] = [site.reports.deliver, site.delivery.connected]
        Deferred.fromCoroutine(site._recover())

    def test_costs_nothing(self) -> None:
        """An end that Authority answers at once never gets to the disk."""
        node, client, _ = self.carried()
        client.stream.end()
        node.wire.cut()
        self.site.pass_time(1)
        self.assertEqual((len(self.authority.ended) + len(self.authority.departures)), 1)
        self.assertFalse((self.site.spools / "ends").exists())

    def test_gathered(self) -> None:
        """Ends that follow each other closely go in one report, and nothing waits for long."""
        self.site.node()
        for number in range(4):
            self.site.reports.ended(CountedEnd(f"u{number}", "closed"))
            self.site.turn()
        self.assertEqual([one.session_uid for one in self.authority.ended], ["u0"])
        self.site.pass_time(GATHER_SECS)
        self.assertEqual(
            [one.session_uid for one in self.authority.ended], ["u0", "u1", "u2", "u3"]
        )
        self.site.pass_time(GATHER_SECS)
        self.site.reports.ended(CountedEnd("u4", "closed"))
        self.site.turn()
        self.assertEqual(self.authority.ended[-1].session_uid, "u4")
        self.assertEqual(self.site.reports.waiting, 0)
        self.assertFalse((self.site.spools / "ends").exists())

    def test_gathered_meanwhile(self) -> None:
        """Ends that come while a report is under way do not follow it at once."""
        self.site.node()
        for number in range(3):
            self.site.reports.ended(CountedEnd(f"u{number}", "closed"))
        self.site.turn()
        self.assertEqual([one.session_uid for one in self.authority.ended], ["u0"])
        self.site.pass_time(GATHER_SECS)
        self.assertEqual([one.session_uid for one in self.authority.ended], ["u0", "u1", "u2"])
        self.assertEqual(self.site.reports.waiting, 0)

    def test_young(self) -> None:
        """While Authority answers, what waits when others were answered is not written down."""
        for number in range(8):
            self.site.journal.add(OwedEnd(CountedEnd(f"u{number}", "closed")))
            self.site.journal.answered(f"u{number - 1}")
            self.site.pass_time(MOMENT_SECS / 2)
            self.assertFalse((self.site.spools / "ends").exists())
        self.site.pass_time(MOMENT_SECS)
        self.assertEqual([one[0] for one in self.on_disk()], ["u7"])

    def test_killed(self) -> None:
        """An end that waits is told by the next process, with its reason and counts."""
        self.site.lose_authority()
        self.site.reports.expect("u1", "ann")
        self.site.reports.ended(
            CountedEnd(session_uid="u1", reason="closed", bytes_up=10, bytes_down=20)
        )
        self.site.reports.departed(Departure("n" * 26, "evicted", ("u2", "u3")))
        self.site.pass_time(MOMENT_SECS)
        self.restarted()
        self.assertEqual(self.site.sessions.uids, ("u1", "u2", "u3"))
        self.assertEqual(self.site.reports._places.held, 1)
        self.back()
        self.assertEqual(self.authority.claims[-1], ("u1", "u2", "u3"))
        self.assertEqual(
            self.authority.ended,
            [
                CountedEnd(session_uid="u1", reason="closed", bytes_up=10, bytes_down=20),
                CountedEnd("u2", "tunnel_evicted"),
                CountedEnd("u3", "tunnel_evicted"),
            ],
        )
        self.assertEqual((self.site.reports.waiting, self.site.reports._places.held), (0, 0))
        self.assertFalse((self.site.spools / "ends").exists())

    def test_each_written_once(self) -> None:
        """Ends that come while others wait are added to the file, in their order."""
        self.site.lose_authority()
        for number in range(5):
            self.site.reports.ended(CountedEnd(f"u{number}", "closed"))
            self.site.pass_time(1)
        self.assertEqual([uid for uid, *_ in self.on_disk()], [f"u{n}" for n in range(5)])

    def test_tidied(self) -> None:
        """However many sessions end while one end waits, the file does not grow with them."""
        self.authority.report_error = SvcError("?", reason="x", fault=Fault.UNAVAILABLE)
        journal = self.site.journal
        self.site.reports.ended(CountedEnd("stays", "closed"))
        self.site.pass_time(1)
        for round_ in range(15):
            for number in range(100):
                self.site.reports.ended(CountedEnd(f"u{round_}-{number}", "closed"))
            self.site.pass_time(0.3)
            for number in range(100):
                journal.answered(f"u{round_}-{number}")
            self.site.pass_time(0.3)
        self.assertLess(len(self.on_disk()), 1200)
        self.assertIn(("stays", "closed", 0, 0), self.on_disk())

    def test_torn(self) -> None:
        """A file cut anywhere gives what is whole; it is rewritten before anything is added."""
        self.site.lose_authority()
        self.site.reports.ended(CountedEnd("u1", "closed"))
        self.site.reports.ended(CountedEnd("u2", "closed"))
        self.site.pass_time(1)
        whole = self.file.path.read_bytes()
        self.file.path.write_bytes(whole[:-5])
        self.restarted()
        self.assertEqual(self.site.sessions.uids, ("u1",))
        self.site.reports.ended(CountedEnd("u3", "closed"))
        self.site.pass_time(1)
        self.assertEqual([uid for uid, *_ in self.on_disk()], ["u1", "u3"])

    def test_disk_refuses(self) -> None:
        """While the disk takes nothing, ends wait in memory; it is tried again by itself."""
        self.site.lose_authority()
        path = self.site.spools / "ends"
        path.mkdir()
        with capturedLogs() as events:
            self.site.reports.ended(CountedEnd("u1", "closed"))
            self.site.pass_time(6)
        self.assertIn("cannot be recorded", str([one["log_format"] for one in events]))
        path.rmdir()
        self.site.pass_time(6)
        self.assertEqual([uid for uid, *_ in self.on_disk()], ["u1"])
        self.back()
        self.assertEqual([one.session_uid for one in self.authority.ended], ["u1"])

    def aside(self) -> list[Path]:
        """The files that are kept for whoever wants to look at them."""
        return list((self.site.spools / DAMAGED).glob("ends-*"))

    def test_damaged(self) -> None:
        """Of a damaged file a copy is kept before it is written again."""
        self.site.lose_authority()
        for number in range(3):
            self.site.reports.ended(CountedEnd(f"u{number}", "closed"))
        self.site.pass_time(1)
        whole = self.file.path.read_bytes()
        damaged = whole.replace(b"u1", b"uX")
        self.file.path.write_bytes(damaged)
        self.restarted()
        self.assertEqual(self.site.sessions.uids, ("u0", "u2"))
        self.site.reports.ended(CountedEnd("u3", "closed"))
        self.site.pass_time(1)
        self.assertEqual([uid for uid, *_ in self.on_disk()], ["u0", "u2", "u3"])
        [kept] = self.aside()
        self.assertEqual(kept.read_bytes(), damaged)

    def test_of_another_build(self) -> None:
        """An end that this build does not understand is kept, too."""
        self.file.path.write_bytes(framed(0, b"\0\xff\xff"))
        self.restarted()
        self.site.lose_authority()
        self.site.reports.ended(CountedEnd("u1", "closed"))
        self.site.pass_time(1)
        [kept] = self.aside()
        self.assertEqual(kept.read_bytes(), framed(0, b"\0\xff\xff"))

    def unreadable(self) -> None:
        """Put something in the place of the file that nobody can read as one."""
        self.file.path.mkdir()
        (self.file.path / "what it held").touch()

    def test_unreadable(self) -> None:
        """A file that cannot be read keeps no Proxy from starting, and is kept."""
        self.unreadable()
        with capturedLogs() as events:
            self.restarted()
        self.assertIn("cannot be read", str([one["log_format"] for one in events]))
        self.assertEqual(self.site.sessions.uids, ())
        self.site.reports.check()
        self.site.lose_authority()
        self.site.reports.ended(CountedEnd("u1", "closed"))
        self.site.pass_time(1)
        self.assertEqual([uid for uid, *_ in self.on_disk()], ["u1"])
        [kept] = self.aside()
        self.assertTrue((kept / "what it held").exists())

    def test_neither_read_nor_kept(self) -> None:
        """What can neither be read nor kept aside is not written over: no session begins."""
        self.unreadable()
        in_the_way = self.site.spools / DAMAGED
        in_the_way.touch()
        self.restarted()
        refusal = self.assertRaises(SvcError, self.site.reports.check)
        self.assertEqual(refusal.reason, "audit_unavailable")
        self.site.lose_authority()
        self.site.reports.ended(CountedEnd("u1", "closed"))
        self.site.pass_time(12)
        self.assertTrue((self.file.path / "what it held").exists())
        self.assertEqual(self.site.journal.not_durable, 1)
        in_the_way.unlink()
        self.site.pass_time(6)
        self.site.reports.check()
        self.assertEqual([uid for uid, *_ in self.on_disk()], ["u1"])
        self.assertEqual(len(self.aside()), 1)

    def test_stopping(self) -> None:
        """At an orderly stop everything that waits is on the disk, a moment or not."""
        self.site.lose_authority()
        self.site.reports.ended(CountedEnd("u1", "closed"))
        self.successResultOf(Deferred.fromCoroutine(self.site.work.reports.journal.flush()))
        self.assertEqual([uid for uid, *_ in self.on_disk()], ["u1"])

    def test_tunnel_ended(self) -> None:
        """A real session whose tunnel dies while Authority is away is told by the next process."""
        node, _, _ = self.carried()
        self.site.lose_authority()
        node.wire.cut()
        self.site.pass_time(2)
        self.assertEqual(len(self.events(TunnelEnded)), 1)
        [(_, reason, *_)] = self.on_disk()
        self.restarted()
        self.back()
        self.assertEqual([one.reason for one in self.authority.ended], [reason])
        self.assertEqual(reason, "tunnel_transport_error")

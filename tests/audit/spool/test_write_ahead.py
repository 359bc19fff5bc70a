"""Requests are on the disk before they are in a row: none is lost, and none recorded twice."""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import capturedLogs

from svc.audit.log.record import Sealer
from svc.audit.spool.aside import DAMAGED
from svc.audit.spool.disk import AHEAD, SpoolFiles
from svc.audit.spool.entries import SpoolRequest
from svc.audit.spool.framing import framed
from svc.audit.spool.spool import AHEAD_SECS
from svc.audit.spool.write_ahead import FILE_BYTES, WriteAhead
from svc.model.audit.request import SessionNumbers
from svc.model.policy.access import AccessRequest, EntityUid
from tests.audit.spool.test_requests import PERSON, RequestCase, batches_of
from tests.audit.spools import FaultyDisk, Killed, entropy, files, written
from tests.model.audit.test_batch import FACTS, request
from tests.support.proof import proves


class LifeCase(RequestCase):
    """Several lives of one node."""

    def next_life(self, **how: Any) -> SpoolFiles:
        """The node starts again, over what its former life left; all of that enters rows."""
        made = files(self.root, self.disk, **how)
        made.maker.sealer = self.spool.maker.sealer
        self.assertIsNone(made.open())
        uid, n = self.numbers.session_uid, self.numbers.ahead
        self.numbers = SessionNumbers(uid, last=n, ahead=n)
        return made

    def taken(self, count: int) -> list[SpoolRequest]:
        """The next requests of the session."""
        return [self.spool.take(self.request(), PERSON) for _ in range(count)]

    def passed(self, count: int = 1) -> list[SpoolRequest]:
        """Requests that are on the disk."""
        requests = self.taken(count)
        self.assertIsNone(self.spool.write_ahead(requests))
        return requests

    def ahead(self) -> list[Path]:
        """The files of requests that are in no row."""
        return sorted((self.root / AHEAD).glob("*"))


class LifeTests(LifeCase):
    """What one life leaves to the next."""

    @proves("G-SES-06", "G-OPEN-16")
    def test_killed(self) -> None:
        """What passed and is in no row enters one of the next life, with its number; once."""
        self.spool.commit(self.passed(2))
        self.passed(3)
        used = self.spool.room.used
        for _ in range(3):
            self.spool = self.next_life()
            self.assertEqual(self.recorded(), [1, 2, 3, 4, 5])
        self.assertEqual(self.ahead(), [])
        self.assertGreater(used, 0)
        segments = [one for spool in self.spool._stored.values() for one in spool.segments]
        self.assertEqual(self.spool.room.used, sum(one.cost for one in segments))

    def test_any_text(self) -> None:
        """Whatever its texts are, a request comes back as it was sealed."""
        asked = AccessRequest(
            request_kind="db_query",
            principal=EntityUid("User", PERSON),
            action="redisRead",
            resource=EntityUid('A "b"\n\\ c', "cache"),
            context={"client_address": "\n 192.0.2.7\n", "command": 'GET "\n"\x7f\u2028 ü'},
        )
        requests = [
            self.spool.take(self.request(request=asked, reason=why), PERSON) for why in ("", "\n")
        ]
        self.assertIsNone(self.spool.write_ahead(requests))
        ahead = WriteAhead(root=self.root / AHEAD, origin=self.spool.maker.origin, disk=self.disk)
        left = [evolve(one, numbers=self.numbers) for one in ahead.left(dict)]
        self.assertEqual(left, [one.sealed for one in requests])

    def test_an_earlier_build(self) -> None:
        """What a build left that wrote each request as a JSON list is read."""
        [one] = self.taken(1)
        self.spool.maker.seal([one])
        sealed, (version, digest, type_) = one.sealed, one.sealed.common
        values = [json.loads(f"[{one}]") for one in sealed.values]
        form = [1, sealed.numbers.session_uid, 1, version, digest, type_, sealed.decision_id]
        form += [sealed.size, sealed.before, sealed.after, values]
        head = json.dumps({"origin": self.spool.maker.origin, "cuts": []})
        (self.root / AHEAD).mkdir(parents=True)
        file = self.root / AHEAD / "00000001.requests"
        file.write_bytes(framed(0, head.encode()) + framed(1, json.dumps(form).encode()))
        self.spool = self.next_life()
        self.assertEqual(self.recorded(), [1])

    def test_less_room_than_was_left(self) -> None:
        """What passed enters rows however little room there is now; its delivery makes room."""
        self.passed(20)
        with capturedLogs() as logs:
            self.spool = self.next_life(room=40_000)
        [told] = [one["log_format"] for one in logs if "proxy.spool_max_bytes" in one["log_format"]]
        self.assertIn("raise proxy.spool_max_bytes", told)
        self.assertEqual(self.recorded(), list(range(1, 21)))
        self.assertEqual(written(self.spool, "a", holder=PERSON), ["audit_spool_full"])
        for one in self.spool.spools():
            self.spool.covered(one.spool_id, one.last)
        self.assertLess(self.spool.room.used, 20_000)
        self.assertEqual(written(self.spool, "b"), [""])

    def test_killed_between(self) -> None:
        """Rows that were durable just before the end are not told again."""
        self.spool.commit(self.passed(2))
        requests = self.passed(2)
        late = self.passed(2)
        self.spool.commit(requests)
        self.disk.errors["wipe"] = Killed()
        self.assertRaises(Killed, self.spool.commit, late)
        with capturedLogs() as logs:
            self.spool = self.next_life()
        self.assertEqual(self.recorded(), [1, 2, 3, 4, 5, 6])
        self.assertEqual([one for one in logs if "damaged" in str(one["log_format"])], [])
        self.assertEqual(self.ahead(), [])

    def test_long_in_rows(self) -> None:
        """Requests in older rows are not told again because a later one was in none."""
        for _ in range(3):
            requests = [one for _ in range(3) for one in self.passed(1)]
            for at in range(2):
                self.spool.commit(requests[at : at + 1])
                for _ in range(20):  # rows of other things fill files
                    written(self.spool, "a", "b")
            self.spool = self.next_life()
        self.assertEqual(self.recorded(), list(range(1, 10)))

    def test_covered_meanwhile(self) -> None:
        """Covered rows stay until it is durable that their requests are in rows."""
        requests = self.passed(3)
        self.disk.bad_syncs = {self.disk.syncs + 2}
        self.assertEqual(self.spool.commit(requests[:2]), [None, None])
        self.disk.errors["sync_directory"] = OSError(errno.EIO, "no")
        self.assertEqual(written(self.spool, "a"), ["audit_unavailable"])
        [extent] = self.spool.spools()
        self.disk.errors["sync_directory"] = OSError(errno.EIO, "no")
        self.spool.covered(extent.spool_id, extent.last)
        self.assertEqual(self.spool.spools(), (extent,))
        self.assertEqual(written(self.spool, "b"), [""])
        self.assertNotIn(extent.spool_id, [one.spool_id for one in self.spool.spools()])
        self.spool = self.next_life()
        self.assertEqual(self.batches(), [[3]])

    def test_unsettled(self) -> None:
        """No other row is written until it is durable which requests are in rows."""
        requests = self.passed(3)
        self.disk.bad_syncs = {self.disk.syncs + at for at in (2, 3)}
        self.assertEqual(self.spool.commit(requests[:2]), [None, None])
        self.disk.errors["sync_directory"] = OSError(errno.EIO, "no")
        self.assertEqual(written(self.spool, "a"), ["audit_unavailable"])
        self.assertEqual(written(self.spool, "a"), [""])
        self.spool = self.next_life()
        self.assertEqual(self.recorded(), [1, 2, 3])

    @proves("G-OPEN-16")
    def test_killed_anywhere(self) -> None:
        """Killed after any byte of a write, the next life has what passed, and whole requests."""
        self.passed(1)
        for cut in (0, 1, 200, 700, 1500, 1900):
            self.spool = self.next_life()
            before = self.recorded()
            self.passed(1)
            self.disk.cut = cut
            self.assertRaises(Killed, self.spool.write_ahead, self.taken(3))
            self.disk.cut = None
            self.spool = self.next_life()
            self.assertEqual(len(set(self.recorded())), len(self.recorded()))
            self.assertIn(len(self.recorded()) - len(before), (1, 2, 3))
            self.numbers.ahead = max(self.recorded())

    def test_a_commit_killed_anywhere(self) -> None:
        """Killed after any byte of a row, the next life has each request once."""
        for cut in (0, 1, 700, 1900, 1 << 20):
            self.spool = self.next_life()
            before = len(self.recorded())
            requests = self.passed(3)
            self.disk.cut = cut
            self.assertRaises(Killed, self.spool.commit, requests)
            self.disk.cut = None
            self.spool = self.next_life()
            self.assertEqual(self.recorded(), list(range(1, before + 4)))

    def test_not_begun(self) -> None:
        """Where the disk refuses the next life's rows at first, what was left is kept."""
        self.passed(2)
        self.spool = files(self.root, self.disk)
        self.disk.errors["write"] = OSError(errno.ENOSPC, "no")
        self.assertIsNotNone(self.spool.open())
        self.assertEqual(written(self.spool, "a"), [""])
        self.assertEqual((self.recorded(), self.ahead()), ([1, 2], []))

    def test_apart(self) -> None:
        """What was left is in rows of its own: on a disk that was put back, it may be known."""
        self.passed(2)
        self.spool = files(self.root, self.disk)
        self.spool.maker.sealer = Sealer(entropy, FACTS)
        self.disk.errors["write"] = OSError(errno.ENOSPC, "no")
        self.assertIsNotNone(self.spool.open())
        self.numbers = SessionNumbers("2" * 32)
        self.spool.commit(self.passed(1))
        self.assertEqual(self.batches(), [[1, 2], [1]])

    def test_another_identity(self) -> None:
        """What passed under another identity of the node is never recorded as this one's."""
        self.passed(2)
        again = files(self.root, self.disk)
        again.maker = evolve(again.maker, origin="q" * 26)
        again._ahead.origin = "q" * 26
        with capturedLogs() as logs:
            self.assertIsNone(again.open())
        (said,) = [one for one in logs if "earlier identity" in str(one["log_format"])]
        self.assertEqual(said["requests"], 2)
        self.assertEqual((batches_of(again), len(self.ahead())), ([], 1))
        self.spool = self.next_life()
        self.assertEqual((self.recorded(), self.ahead()), ([1, 2], []))

    def test_damaged_and_not_kept(self) -> None:
        """The log says that requests are lost also where their file cannot be kept."""
        for _ in range(3):
            self.passed(1)
        data = bytearray(self.ahead()[0].read_bytes())
        data[data.index(b"1" * 32) + 40] ^= 1
        self.ahead()[0].write_bytes(data)
        (self.root / DAMAGED).write_bytes(b"")
        with capturedLogs() as logs:
            self.spool = self.next_life()
        (said,) = [one for one in logs if "damaged" in str(one["log_format"])]
        self.assertFalse(said["is_kept"])
        self.assertEqual((self.recorded(), self.ahead()), ([2, 3], []))

    def test_damaged(self) -> None:
        """A request whose bytes are damaged is lost alone; its file is kept, the log says so."""
        self.passed(1)
        self.passed(1)
        size = len(self.ahead()[0].read_bytes().rstrip(b"\0"))
        self.passed(2)
        data = bytearray(self.ahead()[0].read_bytes())
        data[size - 20] ^= 1
        self.ahead()[0].write_bytes(data)
        with capturedLogs() as logs:
            self.spool = self.next_life()
        self.assertTrue([one for one in logs if "damaged" in str(one["log_format"])])
        self.assertEqual(self.ahead(), [])
        self.assertEqual(len(list((self.root / DAMAGED).glob("ahead-*"))), 1)
        self.assertEqual(self.recorded(), [1, 3, 4])

    def test_half_wiped(self) -> None:
        """A file that was being emptied, while another one was not, is not taken for damaged."""
        self.spool._ahead.file_bytes = 2048
        requests = self.passed(5)
        late = self.passed(2)
        self.assertEqual(len(self.ahead()), 2)
        self.disk.errors["wipe"] = Killed()
        self.assertRaises(Killed, self.spool.commit, requests)
        self.assertEqual(len(late), 2)
        with capturedLogs() as logs:
            self.spool = self.next_life()
        self.assertEqual([one for one in logs if "damaged" in str(one["log_format"])], [])
        self.assertEqual((self.recorded(), self.ahead()), ([1, 2, 3, 4, 5, 6, 7], []))

    def test_torn_wipe(self) -> None:
        """Of a file that was being emptied, whatever a power cut left is in rows already."""
        early = self.passed(3)
        self.numbers = SessionNumbers("2" * 32)
        late = self.passed(2)
        self.spool.commit(early)
        for _ in range(20):  # rows of other things fill files
            written(self.spool, "a", "b")
        before = self.ahead()[0].read_bytes()
        self.disk.errors["wipe"] = Killed()
        self.assertRaises(Killed, self.spool.commit, late)
        newest = before.rindex(b"\xf5Row", 0, before.rindex(b"2" * 32))
        self.ahead()[0].write_bytes(before[:newest] + bytes(len(before) - newest))
        self.spool = self.next_life()
        self.assertEqual(self.batches(), [[1, 2, 3], [1, 2]])

    def test_torn(self) -> None:
        """Of a write that a power cut tore, nothing behind the gap passed or takes a number."""
        self.passed(1)
        size = len(self.ahead()[0].read_bytes().rstrip(b"\0"))
        self.disk.errors["sync"] = Killed()
        self.assertRaises(Killed, self.spool.write_ahead, self.taken(3))
        data = bytearray(self.ahead()[0].read_bytes())
        data[size + 50 : size + 60] = bytes(10)
        self.ahead()[0].write_bytes(data)
        with capturedLogs() as logs:
            self.spool = self.next_life()
        self.assertEqual([one for one in logs if "damaged" in str(one["log_format"])], [])
        self.assertEqual((self.recorded(), self.ahead()), ([1], []))


class FileTests(LifeCase):
    """The two files."""

    def test_in_turn(self) -> None:
        """Neither grows for long, however many pass while rows are written."""
        waiting = self.passed(5)
        sizes = []
        for _ in range(60):
            more = self.passed(10)
            self.spool.commit(waiting)
            waiting = more
            sizes.append(max(one.stat().st_size for one in self.ahead()))
        self.assertEqual(max(sizes), FILE_BYTES)
        self.assertLessEqual(len(self.ahead()), 2)
        self.spool.commit(waiting)
        self.assertEqual(self.recorded(), list(range(1, 606)))
        for one in self.ahead():
            self.assertLess(len(one.read_bytes().rstrip(b"\0")), 200)

    def test_wiped_soon(self) -> None:
        """Nothing of a request stays in its file once it is in a row, whatever else waits there."""
        first = self.passed(2)
        self.passed(2)
        self.spool.commit(first)
        data = self.ahead()[0].read_bytes()
        self.assertEqual([one.sealed.decision_id.encode() in data for one in first], [False] * 2)
        self.spool = self.next_life()
        self.assertEqual(self.recorded(), [1, 2, 3, 4])

    def test_refused(self) -> None:
        """What was refused is not recovered, even where its bytes could not be removed."""
        for errors in (["write"], ["sync"], ["sync", "truncate"], ["write", "truncate"]):
            with self.subTest(errors=errors):
                self.passed(1)
                before = self.numbers.ahead
                for name in errors:
                    self.disk.errors[name] = OSError(errno.EIO, "no")
                refusal = self.spool.write_ahead(self.taken(2))
                assert refusal is not None
                self.assertEqual(refusal.reason, "audit_unavailable")
                self.assertEqual(self.numbers.ahead, before)
                self.passed(1)
                self.spool = self.next_life()
                self.assertEqual(self.recorded(), list(range(1, before + 2)))
                self.assertEqual(self.ahead(), [])

    def test_refused_before_the_other(self) -> None:
        """Nor where the next request is written to a file that was there already."""
        self.spool._ahead.file_bytes = 2048
        first = self.passed(5)
        second = self.passed(3)
        self.spool.commit(first)
        self.passed(2)
        self.spool.commit(second)
        for name in ("sync", "truncate"):
            self.disk.errors[name] = OSError(errno.EIO, "no")
        self.assertIsNotNone(self.spool.write_ahead(self.taken(1)))
        (newest,) = self.passed(1)
        self.assertEqual(len(self.ahead()), 2)
        self.spool = self.next_life()
        self.assertEqual(self.recorded(), list(range(1, 12)))
        last = batches_of(self.spool)[-1].entries[-1]
        self.assertEqual(last["decision_id"], newest.sealed.decision_id)

    def test_not_emptied(self) -> None:
        """A file that cannot be emptied is removed."""
        requests = self.passed(2)
        self.disk.errors["wipe"] = OSError(errno.EIO, "no")
        self.spool.commit(requests)
        self.assertEqual(self.ahead(), [])
        self.spool.commit(self.passed(1))
        self.spool = self.next_life()
        self.assertEqual(self.recorded(), [1, 2, 3])

    def test_removed(self) -> None:
        """Files that somebody removed hold nothing: what passes is written again, elsewhere."""
        first = self.passed(1)
        shutil.rmtree(self.root / AHEAD)
        second = self.passed(1)
        self.assertEqual(len(self.ahead()), 1)
        self.spool.commit([*first, *second])
        self.assertEqual(self.recorded(), [1, 2])

    def test_all_removed(self) -> None:
        """Where both files are removed, with all around them, others are made, for us alone."""
        self.spool._ahead.file_bytes = 2048
        requests = self.passed(5)
        requests += self.passed(1)
        self.assertEqual(len(self.ahead()), 2)
        shutil.rmtree(self.root)
        requests += self.passed(1)
        self.assertEqual(self.spool.commit(requests), [None] * 7)
        self.assertEqual(self.recorded(), list(range(1, 8)))
        for one in (self.root, self.root / AHEAD, *self.ahead()):
            self.assertEqual(one.stat().st_mode & 0o077, 0)

    def test_closed(self) -> None:
        """Nothing passes once the spool is closed."""
        self.spool.close()
        refusal = self.spool.write_ahead(self.taken(1))
        assert refusal is not None
        self.assertEqual(refusal.reason, "draining")

    def test_not_recorded_at_the_end(self) -> None:
        """What no row took when the spool closed is on record with the next life."""
        asked = self.ask()
        self.clock.advance(0)
        self.thread.run()
        self.successResultOf(asked)
        self.disk.errors["write"] = OSError(errno.EIO, "no")
        self.clock.advance(AHEAD_SECS)
        self.thread.run()
        self.disk.errors["write"] = OSError(errno.EIO, "no")
        with capturedLogs() as logs:
            self.closed()
        self.assertTrue([one for one in logs if "next start" in str(one["log_format"])])
        self.spool = self.next_life()
        self.assertEqual(self.recorded(), [1])


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("rows"), st.integers(1, 8), st.just(0)),
        st.tuples(st.just("other"), st.just(0), st.just(0)),
        st.tuples(
            st.just("fail"),
            st.sampled_from(["write", "sync", "wipe", "truncate", "sync_directory"]),
            st.just(0),
        ),
        st.tuples(st.just("cut"), st.integers(0, 4000), st.just(0)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


class AnyLifeTests(RequestCase):
    """Whatever fails, whenever the process ends."""

    @given(_STEPS)
    @settings(max_examples=150, deadline=None)
    def test_each_once(self, steps: list[tuple[str, Any, int]]) -> None:
        """Every request that passed is in a row once, and no number of a session is used twice."""
        life = _Lives(Path(tempfile.mkdtemp()))
        try:
            for step, one, two in steps:
                life.do(step, one, two)
            life.end()
            self.assertEqual(life.doubled(), [])
            self.assertEqual(life.passed - life.recorded(), set())
        finally:
            shutil.rmtree(life.root.parent)


class _Lives:
    """A node that is killed now and then, with three sessions in each life."""

    def __init__(self, place: Path) -> None:
        self.root, self.disk = place / "spool", FaultyDisk()
        self.passed: set[str] = set()
        self.count = 0
        self._begin()

    def _begin(self) -> None:
        self.disk.errors.clear()
        self.disk.cut = None
        self.spool = files(self.root, self.disk)
        self.spool.maker.sealer = Sealer(entropy, FACTS)
        assert self.spool.open() is None
        self.sessions = [SessionNumbers(entropy(16).hex()) for _ in range(3)]
        self.waiting: list[SpoolRequest] = []

    def do(self, step: str, one: Any, two: int) -> None:
        """One step; a write that is cut is the end of the process."""
        try:
            self._do(step, one, two)
        except Killed:
            self._begin()

    def _do(self, step: str, one: Any, two: int) -> None:
        if step == "pass":
            self._pass(self.sessions[one], two)
        elif step == "rows":
            self._rows(one)
        elif step == "other":
            written(self.spool, "x")
        elif step == "fail":
            self.disk.errors[one] = OSError(errno.EIO, "no")
        elif step == "cut":
            self.disk.cut = one
        else:
            self._begin()

    def _pass(self, session: SessionNumbers, count: int) -> None:
        self.count += count
        asked = [request(session, self.count + at) for at in range(count)]
        asked = [evolve(one, decision_id=entropy(16).hex()) for one in asked]
        taken = [self.spool.take(one, PERSON) for one in asked]
        if self.spool.write_ahead(taken) is None:
            self.waiting += taken
            self.passed |= {one.sealed.decision_id for one in taken}

    def _rows(self, count: int) -> None:
        part = self.waiting[:count]
        outcomes = self.spool.commit(part)
        if part and outcomes[0] is None:
            del self.waiting[:count]

    def end(self) -> None:
        """The last life ends in order."""
        self.disk.errors.clear()
        self.disk.cut = None
        self._rows(len(self.waiting))
        self.spool.close()
        self._begin()

    def _entries(self) -> list[tuple[str, int, str]]:
        return [
            (batch.header(at).session_uid, int(one["session_n"]), one["decision_id"])
            for batch in batches_of(self.spool)
            for at, one in enumerate(batch.entries)
        ]

    def recorded(self) -> set[str]:
        """The decisions of all rows."""
        return {decision for _, _, decision in self._entries()}

    def doubled(self) -> list[tuple[str, int]]:
        """Numbers that two rows have."""
        found = [(uid, n) for uid, n, _ in self._entries()]
        return [one for one in found if found.count(one) > 1]

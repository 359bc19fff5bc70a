"""Going on from an older store: with a reason, on record, from exactly what was looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.anchor import AnchorDirectory
from svc.audit.checkpoint.head import AnchorKey, to_line
from svc.audit.checkpoint.latest import LatestCheckpoint
from svc.audit.checkpoint.monitor import LogWatch
from svc.audit.checkpoint.rewind import restoration, standing
from svc.audit.checkpoint.signer import HeadWriter
from svc.audit.log.verify import verified_ranges, verify
from svc.audit.state.anchor import StateAnchor
from svc.authority.ingest.heads import HeadsToSend
from svc.authority.state.guarded_store import StoredChain
from svc.authority.state.recorder import node
from svc.authority.state.rewind import (
    NotRestored,
    RestoreCheck,
    RestoreRequest,
    restore_request_file,
)
from svc.errors import SvcError
from svc.model.audit.events import ROLE_START
from svc.model.audit.ledger import ChainHead
from svc.model.audit.record import SignedHead, chain_hash
from svc.model.signing import Purpose
from svc.pki.audit_signatures import head_verifier
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import inline
from svc.store.sqlite.memory import memory_store
from tests.cli.terminal import recorder
from tests.pki.support import CLUSTER, World
from tests.support.nothing import none_later, nothing, nothing_later

AUTHORITY = "a" * 26

WHY = "a disk failed"


class RestoringTests(SynchronousTestCase):
    """An Authority with an anchor on disk, started again and again."""

    world = World()
    writes = recorder()

    def setUp(self) -> None:
        self.store: Any = memory_store(chain_hash)
        self.base = Path(self.mktemp()).absolute()
        self.keeper = AnchorDirectory(self.base)
        keys = self.world.keys
        self.verify_head = head_verifier(keys.root_der, CLUSTER)
        anchor = keys.signer(Purpose.AUDIT_HEAD)
        self.key = AnchorKey(lambda data: anchor(data).signature, anchor(b"").chain)
        self.heads_to_send = HeadsToSend(receive_head=nothing_later)

    def parts(self) -> tuple[LogWatch, HeadWriter, RestoreCheck]:
        """What a start makes again."""
        clock, now = self.world.clock, self.world.now
        chain, tasks = StoredChain(self.store), BackgroundTasks()
        latest_checkpoint = LatestCheckpoint(
            path=self.base / "greatest",
            verify_head=self.verify_head,
            cluster=CLUSTER,
            log_id=CLUSTER,
        )
        self.heads_to_send = HeadsToSend(receive_head=nothing_later)
        self.heads_to_send.load(self.keeper.restored())
        watch = LogWatch(
            chain=chain,
            keeper=self.keeper,
            latest_checkpoint=latest_checkpoint,
            verify_head=self.verify_head,
            clock=clock,
            restorations=self.heads_to_send.restorations,
            others=none_later,
            led_end=nothing_later,
            appended=nothing,
            on_fault=nothing,
            verify=nothing_later,
            keeps=nothing_later,
        )
        writer = HeadWriter(
            chain=chain,
            keeper=self.keeper,
            key=self.key,
            verify_head=self.verify_head,
            cluster=CLUSTER,
            log_id=CLUSTER,
            leader=AUTHORITY,
            clock=clock,
            now=now,
            tasks=tasks,
            on_signed=self.heads_to_send.signed,
            lease_epoch=lambda: 1,
            share=nothing_later,
            ours=nothing,
            on_takeover=nothing,
            on_unsigned=nothing,
        )
        restoring = RestoreCheck(
            store=self.store,
            chain=chain,
            recorder=self.writes,
            file=restore_request_file(self.base / "adopt-log.json"),
            keeper=self.keeper,
            state=StateAnchor(self.base),
            watch=watch,
            heads=writer,
            exchange=None,
            now=now,
            in_thread=inline,
        )
        return watch, writer, restoring

    def begin(self, *, crash: bool = False) -> RestoreCheck:
        """Start as far as to the first record of this life."""
        watch, writer, restoring = self.parts()
        self.done(_started(watch))
        self.addCleanup(watch.stopService)
        self.done(restoring.start())
        if not crash:
            self.done(writer.start())
            self.done(restoring.confirmed())
        return restoring

    def refused(self) -> SvcError:
        failure = self.failureResultOf(Deferred.fromCoroutine(self.starting()), SvcError)
        error = failure.value
        assert isinstance(error, SvcError)
        return error

    async def starting(self) -> None:
        watch, writer, restoring = self.parts()
        await watch.startService()
        self.addCleanup(watch.stopService)
        await restoring.start()
        await writer.start()
        await restoring.confirmed()

    def done(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(coroutine))

    def write(self, count: int) -> None:
        """So many records of this Authority, and a head over them."""
        self.append(count)
        self.world.clock.advance(1)
        _, writer, _ = self.parts()
        self.done(writer.start())

    def append(self, count: int) -> None:
        """So many records of this Authority."""

        def append(tx: Any) -> None:
            for _ in range(count):
                details = {"role": "authority", "version": "1"}
                self.writes.append(tx, ROLE_START, node(AUTHORITY), details=details)

        self.done(self.store.run("write", append))

    def rows(self) -> Any:
        return self.done(self.store.read("rows", lambda tx: tx.audit.rows(1, 999)))

    def put_back(self, size: int, more: int = 0) -> None:
        """A store of only the first records, and of some others."""
        rows = self.rows()[:size]
        self.store = memory_store(chain_hash)

        def append(tx: Any) -> None:
            for row in rows:
                tx.audit.append(row.canonical)
            for n in range(more):
                tx.audit.append(b'{"other":%d}' % n)

        self.done(self.store.run("put back", append))
        self.world.clock.advance(60)

    def anchor(self) -> dict[str, bytes]:
        """What is in the anchor directory now."""
        return {path.name: path.read_bytes() for path in self.base.iterdir()}

    def keep(self, anchor: dict[str, bytes]) -> None:
        """Put an older anchor directory back."""
        for path in self.base.iterdir():
            path.unlink()
        for name, text in anchor.items():
            (self.base / name).write_bytes(text)

    def newest(self) -> SignedHead:
        head = self.keeper.newest()
        assert head is not None
        return head

    def leave_request(self, lost: SignedHead | None = None, **changed: Any) -> None:
        row = self.rows()[-1]
        lost = lost or self.newest()
        end, size = ChainHead(row.seq, row.hash), lost.head.tree_size
        request = RestoreRequest(reason=WHY, uid=7, lost=lost, differs=size, end=end, good=end)
        restore_request_file(self.base / "adopt-log.json").write(evolve(request, **changed))

    def record(self) -> dict[str, Any]:
        """The last record's details."""
        form: dict[str, Any] = json.loads(self.rows()[-1].canonical)
        self.assertEqual(form["event"], "store.restored")
        return dict(form["details"])

    def test_on_record(self) -> None:
        """The record names both heads; the next head proves it, and all others follow from it."""
        self.write(5)
        self.write(5)
        lost = self.newest()
        self.put_back(7)
        self.assertEqual(self.refused().reason, "audit_rolled_back")
        self.assertEqual(len(self.rows()), 7)
        self.leave_request()
        self.begin()
        said = self.record()
        self.assertEqual((said["lost_size"], said["lost_hash"]), (10, lost.hash.hex()))
        self.assertEqual((said["head_size"], said["local_uid"]), (5, 7))
        self.assertEqual(said["shared_size"], 5)
        self.assertNotIn(WHY, self.rows()[-1].canonical.decode())
        (personal,) = self.done(self.store.read("why", lambda tx: tx.audit.personal(8, 8)))[8]
        self.assertEqual(json.loads(personal.value), WHY)
        proof = restoration(self.newest())
        assert proof is not None
        self.assertTrue(proof.gives_up(lost))
        self.assertEqual(self.heads_to_send.lines, (to_line(self.newest()),))
        self.assertFalse((self.base / "adopt-log.json").exists())
        self.assertEqual(len(list(self.base.glob("lost-10-*.jsonl"))), 1)
        self.write(3)
        self.begin()
        found = verify(
            verified_ranges([self.rows()]), self.keeper.heads(), self.verify_head, cluster=CLUSTER
        )
        self.assertEqual((found.records, found.anchored), (11, 11))

    def test_heads_are_read_in_the_thread(self) -> None:
        """The heads kept are read where nobody waits for the disk, to the last of them."""
        self.write(5)
        inside: list[bool] = [False]
        read_there: list[bool] = []

        class Watched(AnchorDirectory):
            def heads(self) -> Iterator[SignedHead]:
                for head in AnchorDirectory.heads(self):
                    read_there.append(inside[-1])
                    yield head

        def in_thread(call: Callable[[], Any]) -> Any:
            inside.append(True)
            try:
                return inline(call)
            finally:
                inside.pop()

        self.put_back(3)
        self.leave_request()
        watch, _, restoring = self.parts()
        self.done(_started(watch))
        self.addCleanup(watch.stopService)
        self.done(evolve(restoring, keeper=Watched(self.base), in_thread=in_thread).start())
        self.assertTrue(read_there)
        self.assertNotIn(False, read_there)

    def test_noticed_late(self) -> None:
        """What was written to the older store before it was noticed is not in the lost line."""
        self.write(5)
        yesterday = self.anchor()
        self.write(2)
        parted = self.newest()
        self.write(5)
        seen, lost = list(self.keeper.heads()), self.newest()
        self.put_back(5)
        self.keep(yesterday)
        self.write(1)
        self.write(2)
        self.leave_request(lost)
        self.begin()
        said = self.record()
        self.assertEqual((said["head_size"], said["shared_size"]), (8, 5))
        self.assertTrue(restoration(self.newest()).gives_up(parted))  # type: ignore[union-attr]
        seen += list(self.keeper.heads())
        left = list(standing(lambda: iter(seen), self.verify_head))
        self.assertEqual([head.head.tree_size for head in left], [5, 6, 8, 9])

    def test_parted_while_both_grew(self) -> None:
        """A head of ours that is older than the lost one stands only below all known to differ."""
        self.write(5)
        at_five = self.anchor()
        self.write(3)
        store, at_eight = self.store, self.anchor()
        self.put_back(5)
        self.keep(at_five)
        self.write(1)
        other = self.newest()
        self.write(4)
        lost = self.newest()
        self.store = store
        self.keep(at_eight)
        self.world.clock.advance(60)
        self.leave_request(lost, differs=other.head.tree_size)
        self.begin()
        said = self.record()
        self.assertEqual((said["head_size"], said["shared_size"]), (8, 5))

    def test_crash_between(self) -> None:
        """A life that ended after the record and before its head is gone on from, once."""
        self.write(5)
        self.write(5)
        self.put_back(7)
        self.leave_request()
        self.begin(crash=True)
        self.begin()
        self.assertEqual(len(self.rows()), 8)
        self.assertIsNotNone(self.newest().restored)
        self.assertFalse((self.base / "adopt-log.json").exists())

    def test_nothing_left(self) -> None:
        """Also from a store in which no head that is kept is to be found, however long it is."""
        self.write(250)
        self.put_back(100, more=200)
        self.leave_request()
        self.begin()
        self.assertNotIn("head_size", self.record())
        self.assertEqual([each.head.tree_size for each in self.keeper.heads()], [301])

    def test_other_history(self) -> None:
        """A store with other records is gone on from the same way."""
        self.write(5)
        self.write(5)
        self.put_back(6, more=20)
        self.leave_request()
        self.begin()
        self.assertEqual(self.record()["lost_size"], 10)
        self.assertEqual(self.newest().head.tree_size, 27)

    def test_unreadable_records(self) -> None:
        """Records that cannot be read are taken out with those behind them, and kept aside."""
        self.write(5)
        self.append(3)
        bad = "CAST(x'7b2261223a22ff227d' AS TEXT)"
        change = f"UPDATE audit_log SET canonical = {bad} WHERE seq = 7"
        self.done(self.store.run("alter", lambda tx: tx.audit._db.change(change)))
        good, end = (ChainHead(row.seq, row.hash) for row in self.rows()[5::2])
        request = RestoreRequest(reason=WHY, uid=7, lost=None, differs=0, end=end, good=good)
        restore_request_file(self.base / "adopt-log.json").write(request)
        self.begin(crash=True)
        restore_request_file(self.base / "adopt-log.json").write(request)
        self.begin()
        self.assertEqual(
            [json.loads(row.canonical)["event"] for row in self.rows()][6:], ["audit.cut"]
        )
        [aside] = self.base.glob("cut-7-8.jsonl")
        lines = [json.loads(line) for line in aside.read_text().splitlines()]
        self.assertEqual([line["seq"] for line in lines], [7, 8])
        self.assertEqual(lines[0]["canonical"], '{"a":"\\xff"}')

    def test_changed_since(self) -> None:
        """A store that is not the one that was looked at is refused, and nothing is appended."""
        self.write(5)
        self.write(5)
        self.put_back(7)
        self.leave_request()
        self.put_back(6)
        error = self.refused()
        self.assertEqual((error.reason, len(self.rows())), ("audit_not_adopted", 6))
        self.put_back(6, more=1)
        self.assertEqual(self.refused().reason, "audit_not_adopted")
        self.assertEqual(len(self.rows()), 7)

    def test_right_again(self) -> None:
        """Where the right store is back, the request is dropped."""
        self.write(5)
        self.write(5)
        self.leave_request(end=ChainHead(3, b"x" * 32))
        self.begin()
        self.assertEqual(len(self.rows()), 10)
        self.assertFalse((self.base / "adopt-log.json").exists())

    def test_more_is_known(self) -> None:
        """A head that became known since the operator looked is not given up with the others."""
        self.write(5)
        named = self.newest()
        self.write(5)
        greater = to_line(self.newest())
        self.put_back(4)
        self.keeper.give_up(5)
        self.leave_request(named)
        (self.base / "greatest").write_bytes(greater + b"\n")
        error = self.refused()
        self.assertEqual((error.reason, len(self.rows())), ("audit_not_adopted", 4))

    def test_clock(self) -> None:
        """A clock before the lost head's time is refused: later heads would look older."""
        self.write(5)
        lost = self.newest()
        late = evolve(lost, head=evolve(lost.head, time="2126-01-01T00:00:00.000000Z"))
        self.put_back(4)
        watch, _, restoring = self.parts()
        watch.verify_head = lambda signed, at: None
        end = ChainHead(4, self.rows()[-1].hash)
        request = RestoreRequest(reason=WHY, uid=0, lost=late, differs=5, end=end, good=end)
        error = self.assertRaises(NotRestored, restoring._check, request)
        self.assertIn("the clock of this host", error.text)

    def test_file(self) -> None:
        """A request that cannot be read ends the start with what to do."""
        (self.base).mkdir(parents=True)
        (self.base / "adopt-log.json").write_text("{}")
        self.assertIn("remove it", self.refused().text)


async def _started(watch: LogWatch) -> None:
    await watch.startService()

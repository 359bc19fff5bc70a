"""Signed heads: their form, where they are kept, and who signs them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.audit.checkpoint.anchor import AnchorDirectory, AnchorUnreadable
from svc.audit.checkpoint.head import from_line, to_line
from svc.audit.checkpoint.merkle import EMPTY_ROOT, Tree, leaf_hash, resume
from svc.audit.log.verify import ChainFault, verified_ranges, verify
from svc.errors import AuditBroken, Malformed, SvcError
from svc.interfaces.audit import IHeadKeeper
from svc.runtime import durable
from tests.audit.logs import ANCHOR, MemoryHeads, MemoryLog, heads_over, short_record, verify_head


def plain_root(leaves: list[bytes]) -> bytes:
    """The tree hash written as RFC 6962 defines it."""
    from hashlib import sha256

    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1" + plain_root(leaves[:half]) + plain_root(leaves[half:])).digest()


class MerkleTests(SynchronousTestCase):
    """The tree over the log."""

    @given(st.integers(0, 300))
    @settings(deadline=None, max_examples=40)
    def test_root(self, size: int) -> None:
        """The root kept while growing is the one the definition gives, also after going on."""
        leaves = [leaf_hash(bytes([n % 256, n // 256])) for n in range(size)]
        tree = Tree()
        for leaf in leaves[: size // 2]:
            tree.append(leaf)
        again = resume(tree.size, tree.edge, tree.root)
        assert again is not None
        for leaf in leaves[size // 2 :]:
            again.append(leaf)
        self.assertEqual(again.root, plain_root(leaves))
        self.assertEqual(Tree().root, EMPTY_ROOT)

    def test_false_edge(self) -> None:
        """An edge that does not fold to the signed root is not gone on from."""
        tree = Tree()
        for n in range(5):
            tree.append(leaf_hash(bytes([n])))
        self.assertIsNone(resume(5, [tree.edge[0], bytes(32)], tree.root))
        self.assertIsNone(resume(4, tree.edge, tree.root))


class LineTests(SynchronousTestCase):
    """A head as one line."""

    def setUp(self) -> None:
        log = MemoryLog()
        log.fill(5, short_record)
        self.head = heads_over(log.log, 5)[0]

    def test_comes_back(self) -> None:
        """A line says all that the head says."""
        self.assertEqual(from_line(to_line(self.head, edge=True), {}), self.head)

    def test_without_certificates(self) -> None:
        """A line without certificates needs those of its key from before."""
        line = to_line(self.head, chain=False)
        self.assertRaises(Malformed, from_line, line, {})
        known = {ANCHOR.key_id: ANCHOR.chain}
        self.assertEqual(from_line(line, known).signed, self.head.signed)

    def test_every_byte(self) -> None:
        """A line with one bit changed is refused, or is not the same statement."""
        line = to_line(self.head)
        for at in range(len(line)):
            odd = line[:at] + bytes([line[at] ^ (1 << at % 8)]) + line[at + 1 :]
            try:
                read = from_line(odd, {})
                verify_head(read.signed, 0.0)
            except SvcError:
                continue
            self.fail(f"accepted with byte {at} changed: {odd!r}")


class KeeperContract:
    """What every keeper of heads does."""

    def make(self) -> MemoryHeads | AnchorDirectory:
        """A keeper with nothing in it."""
        raise self.failureException("a contract test makes its own keeper")  # type: ignore[attr-defined]

    def test_keeps(self) -> None:
        """Heads come back in order, the newest by itself."""
        keeper, log = self.make(), MemoryLog()
        verifyObject(IHeadKeeper, keeper)
        self.assertIsNone(keeper.newest())  # type: ignore[attr-defined]
        self.assertEqual(list(keeper.heads()), [])  # type: ignore[attr-defined]
        log.fill(6, short_record)
        heads = heads_over(log.log, 2, 3, 6)
        for head in heads[:2]:
            keeper.keep(head)
        seen = keeper.heads()
        keeper.keep(heads[2])
        self.assertEqual([each.hash for each in seen], [each.hash for each in heads[:2]])  # type: ignore[attr-defined]
        self.assertEqual(keeper.newest(), heads[2])  # type: ignore[attr-defined]

    def test_gives_up(self) -> None:
        """Heads past a size go, once; what comes then follows those that are left."""
        keeper, log = self.make(), MemoryLog()
        log.fill(6, short_record)
        heads = heads_over(log.log, 2, 3, 6)
        for head in heads:
            keeper.keep(head)
        at = self  # type: Any
        at.assertEqual([keeper.give_up(3), keeper.give_up(3)], [1, 0])
        newest = keeper.newest()
        assert newest is not None
        at.assertEqual((newest.hash, len(list(keeper.heads()))), (heads[1].hash, 2))
        keeper.keep(log.go_on(3, heads[2], hours=9))
        at.assertEqual([each.head.tree_size for each in keeper.heads()], [2, 3, 4])
        at.assertEqual(keeper.give_up(0), 3)
        at.assertIsNone(keeper.newest())


class MemoryHeadsTests(KeeperContract, SynchronousTestCase):
    """The keeper in memory."""

    def make(self) -> MemoryHeads:
        return MemoryHeads()


class AnchorDirectoryTests(KeeperContract, SynchronousTestCase):
    """The keeper on disk."""

    def make(self) -> AnchorDirectory:
        return AnchorDirectory(self.path)

    def setUp(self) -> None:
        self.path = Path(self.mktemp()) / "anchor"
        log = MemoryLog()
        log.fill(6, short_record)
        self.heads = heads_over(log.log, 2, 3, 6)

    def kept(self) -> AnchorDirectory:
        """A directory with three heads, as another process finds it."""
        keeper = self.make()
        for head in self.heads:
            keeper.keep(head)
        return self.make()

    def test_private(self) -> None:
        """Nobody else of the machine may read or write the anchor."""
        self.kept()
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o700)
        for name in ("heads.jsonl", "latest"):
            self.assertEqual((self.path / name).stat().st_mode & 0o777, 0o600)
        self.assertEqual(sorted(os.listdir(self.path)), ["heads.jsonl", "latest"])

    def test_damaged_files(self) -> None:
        """A damaged file is named with what to do; a missing ``latest`` is made again."""
        keeper, log = self.make(), MemoryLog()
        log.fill(6, short_record)
        heads = heads_over(log.log, 2, 3, 6)
        for head in heads[:2]:
            keeper.keep(head)
        good = {name: (self.path / name).read_bytes() for name in ("latest", "heads.jsonl")}
        for name, data, said in (
            ("latest", b"garbage\n", "remove the file"),
            ("latest", b"", "remove the file"),
            ("latest", bytes(range(256)), "remove the file"),
            ("heads.jsonl", b"garbage\n", "from a backup or a witness"),
            ("heads.jsonl", b"", "from a backup or a witness"),
        ):
            (self.path / name).write_bytes(data)
            refused = self.assertRaises(AnchorUnreadable, self.make().newest)
            self.assertTrue(refused.text.startswith(f"{self.path / name}: "), refused.text)
            self.assertIn(said, refused.text)
            (self.path / name).write_bytes(good[name])
        (self.path / "latest").unlink()
        again = self.make()
        newest = again.newest()
        assert newest is not None
        self.assertEqual((newest.hash, newest.signed.chain), (heads[1].hash, heads[1].signed.chain))
        again.keep(heads[2])
        self.assertEqual(again.newest(), heads[2])

    def test_torn_line(self) -> None:
        """A last line that a crash cut short is dropped, and writing goes on."""
        keeper = self.make()
        for head in self.heads[:2]:
            keeper.keep(head)
        with (self.path / "heads.jsonl").open("ab") as file:
            file.write(to_line(self.heads[2])[:100])
        keeper = self.make()
        self.assertEqual(keeper.newest(), self.heads[1])
        self.assertEqual(len(list(keeper.heads())), 2)
        keeper.keep(self.heads[2])
        self.assertEqual([each.hash for each in keeper.heads()], [h.hash for h in self.heads])

    def test_crash_before_latest(self) -> None:
        """A line that is durable counts, though latest does not name it yet."""
        keeper = self.make()
        keeper.keep(self.heads[0])
        before = (self.path / "latest").read_bytes()
        keeper.keep(self.heads[1])
        (self.path / "latest").write_bytes(before)
        newest = self.make().newest()
        assert newest is not None
        self.assertEqual(newest.hash, self.heads[1].hash)

    def test_contradictions(self) -> None:
        """Lines taken away behind latest, or rubbish, are refused and never skipped."""
        keeper = self.kept()
        lines = (self.path / "heads.jsonl").read_bytes().splitlines(keepends=True)
        (self.path / "heads.jsonl").write_bytes(b"".join(lines[:2]))
        self.assertRaises(AuditBroken, keeper.newest)
        (self.path / "heads.jsonl").write_bytes(b"")
        self.assertRaises(AuditBroken, keeper.newest)
        (self.path / "heads.jsonl").write_bytes(lines[0] + b"rubbish\n" + lines[2])
        self.assertRaises(AuditBroken, list, keeper.heads())
        (self.path / "latest").write_bytes(b"rubbish")
        self.assertRaises(AuditBroken, keeper.newest)

    def test_disk_full_at_latest(self) -> None:
        """A head of which `latest` could not be told is kept once, however often it is tried."""
        keeper = self.make()
        keeper.keep(self.heads[0])
        durable.beside_of(self.path / "latest").mkdir()
        for _ in range(2):
            self.assertRaises(OSError, keeper.keep, self.heads[1])
        durable.beside_of(self.path / "latest").rmdir()
        keeper.keep(self.heads[1])
        self.assertEqual([each.hash for each in keeper.heads()], [h.hash for h in self.heads[:2]])


class PruningTests(SynchronousTestCase):
    """How many heads are kept."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp()) / "anchor"
        self.log = MemoryLog()
        self.log.fill(60, short_record)
        self.heads = heads_over(self.log.log, *range(1, 61), hours=3)

    def sizes(self) -> list[int]:
        """What the heads that are left cover, read as another process does."""
        return [each.head.tree_size for each in AnchorDirectory(self.path).heads()]

    def verified(self, heads: Any = None) -> int:
        """How many records the heads that are left prove."""
        keeper = AnchorDirectory(self.path)
        heads = keeper.heads() if heads is None else heads
        return verify(
            verified_ranges([self.log.log]), heads, verify_head, latest=keeper.latest()
        ).anchored

    def test_newest_and_one_a_day(self) -> None:
        """Of heads every three hours the newest ten stay, and of the older the last of each day."""
        keeper = AnchorDirectory(self.path, kept=10)
        for count, head in enumerate(self.heads, 1):
            keeper.keep(head)
            if count % 7 == 0:
                keeper = AnchorDirectory(self.path, kept=10)
            self.assertLess(len(self.sizes()), 2 * 10 + count // 8 + 1)
            days = {each.head.time[:10]: each.head.tree_size for each in self.heads[:count]}
            left = self.sizes()
            self.assertEqual(left[-10:], list(range(max(1, count - 9), count + 1)))
            self.assertLessEqual(set(days.values()), set(left))
        self.assertLess(len(self.sizes()), 30)
        self.assertEqual(self.verified(), 60)
        self.assertEqual(keeper.newest(), self.heads[-1])

    def test_removed_by_another(self) -> None:
        """A head that is missing without being said to be pruned is found still."""
        keeper = AnchorDirectory(self.path, kept=10)
        for head in self.heads:
            keeper.keep(head)
        left = list(keeper.heads())
        for at in range(len(left) - 1):
            # Without the last one before a hole, what is left looks like a longer hole.
            if not left[at + 1].pruned:
                fault = self.assertRaises(ChainFault, self.verified, [*left[:at], *left[at + 1 :]])
                self.assertEqual(fault.kind, "head_link")

    def test_forged_before_a_hole(self) -> None:
        """Where heads are pruned, the one before the hole is judged by its own signature."""
        keeper = AnchorDirectory(self.path, kept=10)
        for head in self.heads:
            keeper.keep(head)
        left = list(keeper.heads())
        at = next(at for at, each in enumerate(left) if each.pruned and at)
        forged = evolve(left[at - 1], signed=evolve(left[at - 1].signed, signature=bytes(64)))
        fault = self.assertRaises(ChainFault, self.verified, [*left[: at - 1], forged, *left[at:]])
        self.assertIn(fault.kind, ("head_signature", "head_link"))

    def test_damaged_file(self) -> None:
        """Nothing is taken out of a file with a line that is no head, and heads go on."""
        keeper = AnchorDirectory(self.path, kept=5)
        for head in self.heads[:4]:
            keeper.keep(head)
        with (self.path / "heads.jsonl").open("ab") as file:
            file.write(b"rubbish\n")
        for head in self.heads[4:]:
            keeper.keep(head)
        self.assertEqual(len((self.path / "heads.jsonl").read_bytes().splitlines()), 61)

    def test_pruning_fails(self) -> None:
        """A head is kept though the file could not be written again."""
        keeper = AnchorDirectory(self.path, kept=5)
        self.path.mkdir(parents=True)
        durable.beside_of(self.path / "heads.jsonl").mkdir()
        for head in self.heads:
            keeper.keep(head)
        self.assertEqual(len(self.sizes()), 60)

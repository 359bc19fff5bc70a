"""An older store and two histories, as an operator and two auditors see them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import TestCase

from svc.audit.checkpoint.latest import GREATEST
from svc.authority.state.rewind import MAX_REASON, RESTORE_REQUEST, restore_request_file
from tests.cli.authority.logs import LoggedPlace
from tests.support.proof import proves

PROGRAM = Path(__file__).parents[3] / "contrib" / "verify_audit.py"


class AdoptCase(TestCase):
    """Places whose Authority wrote records and left."""

    async def written(self, *counts: int) -> LoggedPlace:
        place = LoggedPlace(self)
        await self.more(place, *counts)
        return place

    async def more(self, place: LoggedPlace, *counts: int) -> None:
        """So many records between heads."""
        store = place.open()
        for count in counts:
            await place.fill(store, count)
        await store.close()

    def copied(self, place: LoggedPlace) -> Path:
        """Everything of the place as it is now."""
        kept = Path(self.mktemp())
        shutil.copytree(place.state, kept)
        return kept

    def put_back(self, place: LoggedPlace, kept: Path, *names: str) -> None:
        """These of the copy take the place of what is there."""
        for name in names:
            there = place.state / name
            shutil.rmtree(there) if there.is_dir() else there.unlink()
            copied = kept / name
            shutil.copytree(copied, there) if copied.is_dir() else shutil.copy2(copied, there)


class AdoptTests(AdoptCase):
    """`audit adopt`."""

    async def test_shown_and_asked_for(self) -> None:
        """It shows what is lost and changes nothing; with a reason it leaves just that request."""
        place = await self.written(5, 2)
        kept = self.copied(place)
        await self.more(place, 6)
        self.put_back(place, kept, "store.db")
        before = place.files()
        shown = place.run("audit", "adopt")
        self.assertEqual(shown.status, 0, shown.stderr)
        self.assertIn("newest record in the store: 7\nnewest signed head: 13 records", shown.stdout)
        self.assertIn("missing or differs: 8\n", shown.stdout)
        self.assertIn("nothing was changed", shown.stderr)
        self.assertEqual(place.files(), before)
        said = json.loads(place.run("audit", "adopt", "--json").stdout)
        self.assertEqual((said["audit_seq"], said["first_missing"], said["anchored"]), (7, 8, 7))
        self.assertEqual((said["lost"]["records"], said["adopt"]), (13, False))
        for reason in (" ", "x" * (MAX_REASON + 1)):
            refused = place.run("audit", "adopt", "--reason", reason)
            self.assertEqual(refused.status, 1)
            self.assertIn("a reason of 1 to", refused.stderr)
        self.assertEqual(place.files(), before)
        done = place.run("audit", "adopt", "--reason", "a disk failed")
        self.assertIn("at its next start", done.stderr)
        request = restore_request_file(place.state / "anchor" / RESTORE_REQUEST).read()
        assert request is not None and request.lost is not None
        self.assertEqual((request.reason, request.lost.head.tree_size), ("a disk failed", 13))
        self.assertEqual(request.end.seq, 7)

    async def test_not_text(self) -> None:
        """A record that was made no text is as one that was altered, on its way out as well."""
        place = await self.written(5)
        store = place.open()
        await store.run("more", lambda tx: [tx.audit.append(b'{"n":1}') for _ in range(3)])
        await store.close()
        with closing(sqlite3.connect(place.store)) as damaged, damaged:
            bad = "CAST(x'7b2261223a22ff227d' AS TEXT)"
            damaged.execute(f"UPDATE audit_log SET canonical = {bad} WHERE seq = 7")
        refused = place.run("audit", "verify")
        self.assertEqual(refused.status, 6)
        self.assertIn("record 7: hash", refused.stderr)
        shown = place.run("audit", "adopt", "--reason", "somebody altered it")
        self.assertEqual(shown.status, 0, shown.stderr)
        self.assertIn("lost: 2 records, from 7 to 8: record 7 does not verify", shown.stdout)
        request = restore_request_file(place.state / "anchor" / RESTORE_REQUEST).read()
        assert request is not None
        self.assertEqual((request.good.seq, request.end.seq), (6, 8))

    async def test_unreadable(self) -> None:
        """A page of the store that is damaged: the records before it are the good ones."""
        place = await self.written(200, 200)
        with closing(sqlite3.connect(place.store)) as store:
            text = store.execute("SELECT canonical FROM audit_log WHERE seq = 200").fetchone()[0]
        place.flip(lambda data: data.index(text.encode()) // 4096 * 4096, b"\xff")
        shown = place.run("audit", "adopt")
        self.assertEqual(shown.status, 0, shown.stderr)
        good = int(shown.stdout.partition(": record ")[2].split()[0]) - 1
        self.assertIn(f"lost: {400 - good} records, from {good + 1} to 400", shown.stdout)
        self.assertLess(150, good)
        self.assertLess(good, 200)

    async def test_nothing_lost(self) -> None:
        """Where the store holds all that is known there is nothing to give up."""
        place = await self.written(5)
        refused = place.run("audit", "adopt", "--reason", "why")
        self.assertEqual(refused.status, 1)
        self.assertIn("there is nothing to adopt", refused.stderr)
        self.assertFalse((place.state / "anchor" / RESTORE_REQUEST).exists())

    async def test_known_elsewhere(self) -> None:
        """A head that a Proxy told, a witness keeps or the operator names counts as well."""
        place = await self.written(5)
        kept = self.copied(place)
        await self.more(place, 6)
        told = self.copied(place)
        self.put_back(place, kept, "store.db", "anchor")
        self.assertEqual(place.run("audit", "adopt").status, 1)
        head = str(told / "anchor" / "latest")
        self.assertIn("head: 11 records", place.run("audit", "adopt", "--head", head).stdout)
        shutil.copy(told / "anchor" / "heads.jsonl", place.base / "witness")
        plain = place.config.read_text()
        place.config.write_text(f'{plain}[audit]\nwitness = ["file://{place.base}/witness"]\n')
        self.assertIn("newest signed head: 11 records", place.run("audit", "adopt").stdout)
        place.config.write_text(plain)
        line = (told / "anchor" / "latest").read_bytes()
        (place.state / "anchor" / GREATEST).write_bytes(line)
        self.assertIn("newest signed head: 11 records", place.run("audit", "adopt").stdout)
        (place.state / "anchor" / GREATEST).write_bytes(line.replace(b'"log_id":"', b'"log_id":"x'))
        self.assertEqual(place.run("audit", "adopt").status, 6)


class TwoHistoriesTests(AdoptCase):
    """One Authority that shows two auditors two histories."""

    def program(self, place: LoggedPlace, *words: str) -> tuple[int, str]:
        """The auditor's own verifier; its status, and what it refuses."""
        found = json.loads(place.run("audit", "verify", "--json").stdout)["key_id"]
        done = subprocess.run(
            [sys.executable, "-I", str(PROGRAM), "--fingerprint", found, *words],
            capture_output=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stderr.decode()

    @proves("G-AUD-02", "X-62")
    async def test_found_by_their_heads(self) -> None:
        """Each log verifies by itself; neither does under the other auditor's head."""
        place = await self.written(5)
        common = self.copied(place)
        await self.more(place, 3)
        mine = self.copied(place)
        self.put_back(place, common, "store.db", "anchor")
        await self.more(place, 1, 4)
        yours = self.copied(place)
        heads = [str(each / "anchor" / "latest") for each in (mine, yours)]
        self.assertEqual(place.run("audit", "verify", "--anchor", heads[1]).status, 0)
        refused = place.run("audit", "verify", "--anchor", heads[0])
        self.assertEqual(refused.status, 6)
        self.assertIn("record 1: head_mismatch", refused.stderr)
        same = place.run("audit", "verify", "--anchor", str(common / "anchor" / "heads.jsonl"))
        self.assertEqual(same.status, 0)

        # The one whose log is longer cannot prove that it has grown from the other.
        proof = place.base / "grown.json"
        proof.write_text(place.run("audit", "prove", "--from", "8").stdout)
        lines = [place.base / "mine.json", place.base / "yours.json"]
        for line, kept in zip(lines, heads, strict=True):
            line.write_bytes(_without_edge(Path(kept).read_bytes()))
        words = [word for line in lines for word in ("--head", str(line))]
        for more in ([], ["--proof", str(proof)]):
            status, text = self.program(place, *words, *more)
            self.assertEqual(status, 1)
            self.assertIn("nothing shows that these heads are of one history", text)
        self.put_back(place, mine, "store.db", "anchor")
        self.assertEqual(place.run("audit", "verify", "--anchor", heads[0]).status, 0)
        self.assertEqual(place.run("audit", "verify", "--anchor", heads[1]).status, 6)


def _without_edge(line: bytes) -> bytes:
    form = json.loads(line)
    form.pop("edge", None)
    return json.dumps(form, sort_keys=True, separators=(",", ":")).encode() + b"\n"

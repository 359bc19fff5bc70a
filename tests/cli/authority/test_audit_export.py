"""What leaves the log of a real store: exports, proofs, and the auditor who checks them."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import TestCase

from svc.authority.state.recorder import ANONYMOUS
from svc.model.audit.events import ENROLL_REFUSED
from tests.cli.authority.logs import LoggedPlace
from tests.cli.terminal import CLUSTER
from tests.support.proof import proves

PROGRAM = Path(__file__).parents[3] / "contrib" / "verify_audit.py"


class ExportTests(TestCase):
    """`audit export` and `audit prove`."""

    async def written(self, *counts: int) -> LoggedPlace:
        """A place whose Authority wrote so many records between its heads, and left."""
        place = LoggedPlace(self)
        store = place.open()
        for count in counts:
            await place.fill(store, count)
        await store.close()
        return place

    def audited(self, place: LoggedPlace, *words: str, stdin: str = "") -> tuple[int, str]:
        """What an auditor's program says, who was told the key by `audit verify`."""
        found = re.search(r"anchor (\w+)", place.run("audit", "verify").stdout)
        assert found is not None
        done = subprocess.run(
            [sys.executable, "-I", str(PROGRAM), "--fingerprint", found[1], *words],
            input=stdin.encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).decode()

    def exported(self, place: LoggedPlace, *words: str) -> str:
        """An export that succeeds."""
        outcome = place.run("audit", "export", *words)
        self.assertEqual((outcome.status, outcome.stderr), (0, ""))
        return outcome.stdout

    @proves("G-OPEN-10")
    async def test_export_is_accepted(self) -> None:
        """An auditor accepts an export, made stopped or beside the Authority; no file changes."""
        place = await self.written(3, 2000)
        before = place.files()
        data = self.exported(place)
        self.assertEqual(place.files(), before)
        records = [json.loads(line) for line in data.splitlines()]
        self.assertEqual([each.get("seq") for each in records], [*range(1, 2004), None])
        status, said = self.audited(place, "-", stdin=data)
        self.assertEqual(status, 0, said)
        self.assertIn(f"verified: log {CLUSTER}, 2003 records", said)
        store = place.open()
        self.addCleanup(store.close)
        await place.fill(store, 2)
        more = self.exported(place, "--after", "2003")
        status, said = self.audited(place, "-", stdin=data + more)
        self.assertEqual(status, 0, said)

    async def test_cursor(self) -> None:
        """Exports that begin where the last one ended leave no record out and repeat none."""
        place, seen, cursor = LoggedPlace(self), list[int](), 0
        store = place.open()
        self.addCleanup(store.close)
        for count in (3, 0, 1100, 1):
            if count:
                await place.fill(store, count)
            for line in self.exported(place, "--after", str(cursor)).splitlines()[:-1]:
                cursor = json.loads(line)["seq"]
                seen.append(cursor)
        self.assertEqual(seen, list(range(1, 1105)))
        past = place.run("audit", "export", "--after", "1105")
        self.assertEqual((past.status, past.stdout), (1, ""))
        self.assertIn("there is no record 1105; the newest head covers 1104 records", past.stderr)

    async def test_only_what_a_head_covers(self) -> None:
        """A record without a signed head over it is not handed on yet."""
        place = await self.written(4)
        store = place.open()
        writes: Any = place.writes
        await store.run("one", lambda tx: writes.append(tx, ENROLL_REFUSED, ANONYMOUS))
        await store.close()
        self.assertEqual(len(self.exported(place).splitlines()), 5)
        self.assertIn("verified 5 records", place.run("audit", "verify").stdout)

    async def test_personal_values(self) -> None:
        """Personal values leave only where they are asked for, and are checked there too."""
        place = await self.written(5)
        for form in ("json", "cef", "splunk-hec"):
            self.assertNotIn("10.0.0.3", self.exported(place, "--format", form))
            self.assertIn("10.0.0.3", self.exported(place, "--format", form, "--personal"))
        self.assertNotIn("10.0.0.3", place.run("audit", "prove", "4").stdout)
        self.assertIn("10.0.0.3", place.run("audit", "prove", "4", "--personal").stdout)
        data = self.exported(place, "--personal")
        self.assertEqual(self.audited(place, "-", stdin=data)[0], 0)
        self.assertEqual(self.audited(place, "-", stdin=data.replace("0.0.3", "0.0.4"))[0], 1)

    @proves("G-AUD-02")
    async def test_altered_store(self) -> None:
        """Nothing past a record that was altered is handed on, and no proof is made."""
        place = await self.written(30)
        with sqlite3.connect(place.store) as connection:
            for (trigger,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f'DROP TRIGGER "{trigger}"')
            connection.execute(
                "UPDATE audit_log SET canonical = replace(canonical, 'anonymous', 'anonymouz')"
                " WHERE seq = 12"
            )
        connection.close()
        outcome = place.run("audit", "export")
        self.assertEqual(outcome.status, 6)
        self.assertIn("record 12: hash", outcome.stderr)
        self.assertEqual(len(outcome.stdout.splitlines()), 11)
        for words in (("20",), ("--from", "5")):
            outcome = place.run("audit", "prove", *words)
            self.assertEqual((outcome.status, outcome.stdout), (6, ""))
            self.assertIn("record 12: hash", outcome.stderr)

    @proves("G-AUD-13")
    async def test_cut_store_and_no_anchor(self) -> None:
        """A store behind its head, and one without any, hand nothing on as proved."""
        place = await self.written(9)
        with sqlite3.connect(place.store) as connection:
            for (trigger,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f'DROP TRIGGER "{trigger}"')
            connection.execute("DELETE FROM audit_log WHERE seq > 6")
        connection.close()
        outcome = place.run("audit", "export")
        self.assertEqual(outcome.status, 6)
        self.assertIn("record 7: head_beyond_end", outcome.stderr)
        (place.state / "anchor").rename(place.base / "away")
        outcome = place.run("audit", "export")
        self.assertEqual((outcome.status, outcome.stdout), (6, ""))
        self.assertIn("no_anchor", outcome.stderr)

    @proves("G-OPEN-12")
    async def test_proofs(self) -> None:
        """Proofs of a record and of growth, under the newest head or an older one, are accepted."""
        place = await self.written(7, 13, 20)
        heads = (place.state / "anchor" / "heads.jsonl").read_text("utf-8").splitlines()
        mine = place.base / "mine.json"
        mine.write_text(heads[0] + "\n")
        for name, words in (
            ("record", ("8",)),
            ("older", ("8", "--to", "20")),
            ("grown", ("--from", "7")),
            ("grown", ("--from", "7", "--to", "20")),
        ):
            outcome = place.run("audit", "prove", *words)
            self.assertEqual((outcome.status, outcome.stderr), (0, ""))
            proof = place.base / name
            proof.write_text(outcome.stdout)
            more = ("--head", str(mine)) if name == "grown" else ("--seq", "8")
            status, said = self.audited(place, "--proof", str(proof), *more)
            self.assertEqual(status, 0, said)

    async def test_no_such_proof(self) -> None:
        """What cannot be proved is said, with the nearest heads; misuse is a usage error."""
        place = await self.written(7, 13)
        for words, expected in (
            (("21",), "there is no record 21"),
            (("8", "--to", "7"), "there is no record 8; the head covers 7 records"),
            (("8", "--to", "12"), "no head over 12 records is kept; the nearest are: 7 and 20"),
            (("--from", "21"), "no beginning of 21 records"),
        ):
            outcome = place.run("audit", "prove", *words)
            self.assertEqual((outcome.status, outcome.stdout), (1, ""), words)
            self.assertIn(expected, outcome.stderr)
        for misuse in (
            "prove",
            "prove 1 --from 2",
            "prove 0",
            "prove --from 2 --personal",
            "export --format xml",
            "export --after -1",
        ):
            self.assertEqual(place.run("audit", *misuse.split()).status, 64, misuse)

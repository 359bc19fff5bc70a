"""`preflight` at the operator's terminal, over a store on disk."""

from __future__ import annotations

import json
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

from click.exceptions import Abort

from contrib.reference.json_names import unknown
from svc.cli.authority.upkeep import preflight as command
from svc.model.release import SIGNATURE
from svc.testing.gateway.settings import AUTHORITY
from tests.cli.terminal import Outcome, terminal
from tests.ops.doctor.ended import CopyCase, ended
from tests.ops.preflight.release import PROGRAM, TAG, VERSION, SmallRelease
from tests.support.proof import proves

STEPS = ["signature", "checksums", "bill", "doctor", "migrations", "audit"]


class PreflightTests(CopyCase):
    """Its steps, its record, and that nothing is changed."""

    def setUp(self) -> None:
        super().setUp()
        self.config = self.copy.config(AUTHORITY)
        given = self.config.read_text().replace(str(ended().directory), str(self.copy.base))
        self.given = given
        self.config.write_text(f"store_auto_migrate = false\n{given}")
        self.release = SmallRelease(Path(os.path.abspath(self.mktemp())))
        self.records = Path(os.path.abspath(self.mktemp()))
        self.records.mkdir()
        self.count = 0

    def authority(self, *words: str) -> Outcome:
        """`svc authority` with these words."""
        return terminal("--config", str(self.config), "authority", *words)

    def run_it(self, *words: str) -> tuple[Outcome, dict[str, Any]]:
        """The command, which leaves every file of the place as it was, and its record."""
        self.count += 1
        out = self.records / f"{self.count}.json"
        before = self.files()
        done = self.authority(
            *("preflight", "--artifacts", str(self.release.directory)),
            *("--pubkey", str(self.release.public), "--change-id", "CHG-7", "--out", str(out)),
            *words,
        )
        self.assertEqual(self.files(), before)
        self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o600)
        record = json.loads(out.read_text())
        self.assertEqual(list(unknown(record)), [])
        return done, record

    def files(self) -> dict[str, tuple[int, str]]:
        """Each file and directory of the place and the release: when it changed, and its bytes."""
        found = {}
        for base in (self.copy.base, self.release.directory):
            for path in (base, *sorted(base.rglob("*"))):
                text = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
                found[str(path)] = path.lstat().st_mtime_ns, text
        return found

    def assert_stopped(self, at: str, status: int, *words: str) -> dict[str, Any]:
        """It ends at this step with this status, and says what to do; nothing later was looked at.

        The record is kept, too.
        """
        done, record = self.run_it()
        self.assertEqual(done.status, status, done.stderr)
        self.assertEqual(record["result"], "failed")
        self.assertEqual(
            [one["step"] for one in record["steps"]], STEPS[: STEPS.index(at) + 1], done.stderr
        )
        self.assertEqual(record["steps"][-1]["result"], "failed")
        for word in (*words, "the upgrade stops here"):
            self.assertIn(word, done.stderr)
        self.assertIn(words[0], record["steps"][-1]["text"])
        return record

    @proves("U-PRE-01", "U-OPEN-11", "U-PRE-04", "U-PRE-05")
    def test_passes(self) -> None:
        """All is well: the record says of what, of which store, and how the log stands."""
        done, record = self.run_it()
        self.assertEqual((done.status, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], STEPS)
        self.assertEqual([one["step"] for one in record["steps"]], STEPS)
        self.assertEqual((record["tag"], record["version"]), (TAG, VERSION))
        self.assertEqual((record["target"], record["components"]), ("any", 1))
        self.assertEqual((record["change_id"], record["result"]), ("CHG-7", "passed"))
        self.assertEqual(record["ids"], [])
        self.assertIn(str(self.copy.state(AUTHORITY) / "store.db"), record["store_url"])
        verified = json.loads(self.authority("audit", "verify", "--json").stdout)
        self.assertEqual(record["records"], verified["records"])
        self.assertEqual(record["last_hash"], verified["last_hash"])
        shown = json.loads(self.run_it("--json")[0].stdout)
        self.assertEqual(set(shown), set(record))
        again = self.authority(
            *("preflight", "--artifacts", str(self.release.directory), "--change-id", "x"),
            *("--pubkey", str(self.release.public), "--out", str(self.records / "1.json")),
        )
        self.assertEqual((again.status, again.stdout), (1, ""))
        self.assertIn("exists; name a new file", again.stderr)
        self.assertEqual(json.loads((self.records / "1.json").read_text()), record)

    @proves("U-PRE-02")
    def test_artifacts(self) -> None:
        """Each fault of the artifacts stops it before anything else is looked at."""
        directory = self.release.directory
        (directory / PROGRAM).write_bytes(b"other")
        self.assert_stopped("checksums", 1, "has the SHA-256", "do not install")
        (directory / SIGNATURE).write_bytes(b"AAAA")
        self.assert_stopped("signature", 1, "is no signature of SHA256SUMS", "do not install")
        self.release.bill["components"] = []
        self.release.write()
        self.assert_stopped("bill", 1, "no component")

    def test_missing_input(self) -> None:
        """A name that was mistyped says nothing about the release, and begins no record."""
        given = {"--artifacts": self.release.directory, "--pubkey": self.release.public}
        out = self.records / "CHG-7.json"
        for option, path in given.items():
            mistyped = path.with_name(f"{path.name}x")
            paths = {**given, option: mistyped, "--out": out}
            words = (str(word) for pair in paths.items() for word in pair)
            done = self.authority("preflight", "--change-id", "CHG-7", *words)
            self.assertEqual((done.status, done.stdout), (64, ""), done.stderr)
            self.assertIn(option, done.stderr)
            self.assertIn(str(mistyped), done.stderr)
            self.assertNotIn("do not install", done.stderr)
            self.assertFalse(out.exists())

    @proves("U-PRE-03")
    def test_doctor(self) -> None:
        """A finding of doctor stops it, with the status of doctor, and is named."""
        (self.copy.state(AUTHORITY) / "store.db").chmod(0o666)
        self.assert_stopped("doctor", 2, "store.", "doctor")

    def test_another_program(self) -> None:
        """A program of another version knows nothing of what the release would migrate."""
        self.release.bill["metadata"]["component"]["version"] = "99.0.0"
        self.release.write("svc-v99.0.0.cdx.json")
        said = ("svc 99.0.0", f"svc {VERSION}", "program of the release")
        self.assert_stopped("migrations", 1, *said)

    def test_interrupted(self) -> None:
        """Who stops it leaves no empty record, so the same command may be given again."""

        def interrupt(_settings: object) -> Any:
            raise KeyboardInterrupt

        self.patch(command, "_examined", interrupt)
        out = self.records / "CHG-7.json"
        with self.assertRaises(Abort):
            self.authority(
                *("preflight", "--artifacts", str(self.release.directory), "--change-id", "CHG-7"),
                *("--pubkey", str(self.release.public), "--out", str(out)),
            )
        self.assertFalse(out.exists())

    def test_migrates_by_itself(self) -> None:
        """A start that would migrate stops it."""
        self.config.write_text(self.given)
        self.assert_stopped("migrations", 1, "store_auto_migrate: is true", "set it to false")

    @proves("U-PRE-04", "X-20", "X-21")
    def test_ledgers(self) -> None:
        """Pending migrations are named and no fault; of a store that is newer doctor tells."""
        self.copy.sql("DELETE FROM svc_migrations WHERE id = (SELECT max(id) FROM svc_migrations)")
        done, record = self.run_it()
        self.assertEqual((done.status, record["result"]), (0, "passed"), done.stderr)
        self.assertEqual([one["result"] for one in record["steps"]][4], "pending")
        (pending,) = record["ids"]
        self.assertIn(f"pending: {pending}", done.stdout)
        self.copy.sql("INSERT INTO svc_migrations VALUES ('m9999_later', '00', 0, 'x')")
        self.assert_stopped("doctor", 2, "unknown-applied", "m9999_later")

    @proves("U-PRE-05")
    def test_altered_log(self) -> None:
        """What only verifying the whole log finds stops it, with the status of `audit verify`."""
        self.copy.sql("UPDATE personal_values SET value = 'other'")
        record = self.assert_stopped("audit", 6, "audit log")
        self.assertIsNone(record["records"])

"""A gateway that an earlier build made: this one reads its log, its backup and a Proxy's spool.

``golden/gateway.tar.xz`` is the state of an Authority that ``svc init`` founded, with sessions
allowed and refused, three policies and two people; a backup and an export of it; and the spool of
a Proxy that was left while Authority was away.  Its keys were made for it and serve nothing else.
``golden/verify_audit.py`` is the auditor's program of that build.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.audit.spool.segments import stored_spools
from svc.model.audit.spool import SpoolRow, read_place, row_hash
from svc.proxy.uplink.journal import EndsFile
from svc.testing.gateway.processes import Ran, run, svc_command

GOLDEN = Path(__file__).parent / "golden"
BEFORE = GOLDEN / "verify_audit.py"
NOW_CALLED = {"head_hash": "last_hash", "anchor": "key_id"}
"""What that build called otherwise in the JSON of ``audit verify``."""

NOW = Path(__file__).resolve().parents[2] / "contrib" / "verify_audit.py"


class GoldenGatewayTests(SynchronousTestCase):
    """Each test works on a copy of its own."""

    def setUp(self) -> None:
        self.place = Path(os.path.abspath(self.mktemp()))
        self.place.mkdir(mode=0o700)
        with tarfile.open(GOLDEN / "gateway.tar.xz") as archive:
            archive.extractall(self.place, filter=_ours)
        self.expected: dict[str, Any] = json.loads((self.place / "expected.json").read_text())
        self.export = (self.place / "export.jsonl").read_text("utf-8")
        self.template = (self.place / "authority.toml").read_text("utf-8")
        self.config("authority.toml", self.place / "authority")

    def config(self, name: str, state: Path) -> None:
        """The Authority's configuration, for a state directory elsewhere."""
        text = self.template.replace("@STATE@", str(state))
        (self.place / name).write_text(text, "utf-8")

    def svc(self, *words: str, config: str = "authority.toml") -> Ran:
        """A command of the operator that succeeds."""
        command = svc_command("--config", str(self.place / config), "authority", *words)
        return run(command, self.place).checked()

    def verified(self, config: str = "authority.toml") -> dict[str, Any]:
        """What ``audit verify`` found, as far as it was written down."""
        found = json.loads(self.svc("audit", "verify", "--json", config=config).stdout)
        self.assertEqual(found["findings"], [])
        return {name: found[NOW_CALLED.get(name, name)] for name in self.expected}

    def audited(self, program: Path, export: str) -> int:
        """How an auditor's program judges an export."""
        command = [
            sys.executable,
            "-I",
            str(program),
            "--fingerprint",
            self.expected["anchor"],
            "-",
        ]
        done = subprocess.run(
            command, input=export.encode(), capture_output=True, timeout=60, check=False
        )
        return done.returncode

    def test_the_log(self) -> None:
        """It verifies with the same head, and is shown record by record."""
        self.assertEqual(self.verified(), self.expected)
        shown = self.svc("audit", "show", "--json", "--last", "1000").stdout
        self.assertEqual(json.loads(shown)[-1]["seq"], self.expected["records"])

    def test_an_export(self) -> None:
        """Either auditor's program accepts either build's export, and neither an altered one."""
        ours = self.svc("audit", "export").stdout
        self.assertEqual(ours, self.export)
        for program in (BEFORE, NOW):
            with self.subTest(program=program):
                self.assertEqual(self.audited(program, ours), 0)
                altered = ours.replace('"decision":"deny"', '"decision":"allow"', 1)
                self.assertNotEqual(altered, ours)
                self.assertEqual(self.audited(program, altered), 1)

    def test_a_backup(self) -> None:
        """It is verified; it is not restored, as its migrations were cut again since (ADR 39)."""
        words = (str(self.place / "backup"), "--identity", str(self.place / "backup.key"))
        self.svc("backup", "verify", *words)
        self.config("restored.toml", self.place / "restored")
        (self.place / "restored").mkdir(mode=0o700)
        config = str(self.place / "restored.toml")
        command = svc_command("--config", config, "authority", "backup", "restore", *words)
        refused = run(command, self.place)
        self.assertEqual(refused.status, 4)
        self.assertIn("m0060_role_mappings", refused.stderr)

    def test_a_spool(self) -> None:
        """Its rows follow one another, as they were signed; an end that waits is read too."""
        root = self.place / "proxy-spool"
        (spool,) = stored_spools(root)
        rows: list[SpoolRow] = [row for _, row in spool.rows(1)]
        events = [json.loads(row.canonical)["event"] for row in rows]
        self.assertEqual(events, ["spool.open", "spool.close"])
        (_, first), (_, second) = (read_place(row.canonical) for row in rows)
        self.assertEqual((first.n, second.n), (1, 2))
        self.assertEqual(second.prev, row_hash(rows[0].canonical))
        self.assertTrue(all(row.is_signed for row in rows))
        (owed,) = EndsFile(root / "ends").load()
        started = [json.loads(line) for line in self.export.splitlines()]
        uids = {one["session_uid"] for one in started if one.get("event") == "session.start"}
        self.assertIn(owed.ended.session_uid, uids)


def _ours(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
    """As it was packed, but owned by whoever runs the test."""
    safe = tarfile.data_filter(member, place)
    return safe.replace(uid=os.getuid(), gid=os.getgid(), mode=member.mode, deep=False)

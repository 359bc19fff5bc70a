"""The command itself, in processes of its own, at a gateway that has ended."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from attrs import evolve

from contrib.reference.json_names import unknown
from svc import __version__
from svc.model.doctor import CheckSeverity
from svc.ops.doctor.checks import CHECKS
from svc.ops.doctor.context import CheckContext
from svc.ops.doctor.run import found_by
from svc.testing.gateway.processes import Ran, run, svc_command
from tests.ops.doctor.ended import NODES, PERSON, Copy, CopyCase, ended
from tests.support.proof import proves


class CommandTests(CopyCase):
    """The command itself, at the gateway that has ended."""

    def ran(self, role: str, *words: str, **environ: str) -> Ran:
        """``svc --config FILE doctor``."""
        gateway = ended()
        config = str(self.original(role))
        command = svc_command("--config", config, "doctor", *words)
        return run(command, gateway.directory, environ)

    def original(self, role: str) -> Path:
        """The configuration of the gateway itself."""
        return ended().directory / self.copy.config(role).relative_to(self.copy.base)

    @proves(
        "G-DOC-01",
        "G-DOC-02",
        "G-DOC-03",
        "G-DOC-07",
        "G-CLI-03",
        "G-OPEN-27",
        "U-VER-01",
        "U-PRE-03",
        "G-OPEN-29",
        "X-17",
    )
    def test_every_form(self) -> None:
        """Four forms run, for each role; status 0, and no file, row or mode is another afterwards.

        With ``--json`` stdout is one document, whose names are in the reference.
        """
        gateway = Copy(ended().directory)
        files, rows = gateway.files(), dumped(gateway)
        for role in (*NODES, PERSON):
            for words in ((), ("--role", role), ("--json",), ("--json", "--role", role)):
                done = self.ran(role, *words)
                self.assertEqual((done.status, done.stderr), (0, ""), (role, words))
                if "--json" not in words:
                    self.assertIn("\npass: ", done.stdout)
                    continue
                found = json.loads(done.stdout)
                self.assertEqual(list(unknown(found)), [])
                self.assertEqual((found["schema"], found["role"]), (1, role))
                self.assertEqual((found["version"], found["result"]), (__version__, "pass"))
                codes = [(one["severity"], one["code"]) for one in found["checks"]]
                self.assertLessEqual(set(codes), {("ok", 0), ("info", 1), ("warn", 2)})
                self.assertEqual(sum(found["summary"].values()), len(codes))
        self.assertEqual((gateway.files(), dumped(gateway)), (files, rows))

    @proves("U-PHA-02")
    def test_inventory(self) -> None:
        """It is an inventory, too: version, endpoint of the store, state directory, owner."""
        found = json.loads(self.ran("authority", "--json").stdout)
        messages = " ".join(one["message"] for one in found["checks"])
        state = ended().directory / "gate" / "authority"
        for told in (
            f"svc {__version__}",
            f"sqlite://{state}/store.db",
            f"{state}, mode 0700",
            "this is ",
        ):
            self.assertIn(told, messages)

    @proves("G-DOC-04", "G-ERR-05", "G-DOC-02")
    def test_broken_store(self) -> None:
        """A store that is not where it should be: status 2, the check is named, nothing is made."""
        path = ended().directory / "nowhere" / "store.db"
        moved = {"SVC_STORE_URL": json.dumps(f"sqlite://{path}")}
        done = self.ran("authority", **moved)
        self.assertEqual(done.status, 2)
        self.assertIn(f"fail  store.reachable: sqlite://{path} does not exist\n", done.stdout)
        self.assertIn("\nfinding: ", done.stdout)
        found = json.loads(self.ran("authority", "--json", **moved).stdout)
        self.assertEqual(found["result"], "finding")
        self.assertFalse(path.parent.exists())

    @proves("G-OPEN-25")
    def test_warnings(self) -> None:
        """Warnings alone are no finding, unless they are to be."""
        self.assertEqual(self.ran("proxy").status, 0)
        self.assertEqual(self.ran("proxy", "--strict").status, 2)

    @proves("G-OPEN-26", "X-04")
    def test_refusals(self) -> None:
        """A configuration that is refused is status 1, and a wrong word 64; neither is 2."""
        wrong = self.ran("proxy", SVC_PROFILE="1")
        self.assertEqual((wrong.status, wrong.stdout), (1, ""))
        self.assertIn("profile", wrong.stderr)
        self.assertEqual(self.ran("proxy", "--nope").status, 64)
        self.assertEqual(self.ran("proxy", "--role", "nobody").status, 64)


class FaultTests(CopyCase):
    """A check that itself fails."""

    def test_is_a_finding(self) -> None:
        """Its sort is told, and none of its words, which may quote what is stored."""
        (check,) = [each for each in CHECKS if each.id == "config.file"]

        def broken(_: CheckContext) -> NoReturn:
            raise ValueError("hush")

        (found,) = found_by(evolve(check, find=broken), self.copy.context("proxy"))
        self.assertIs(found.severity, CheckSeverity.FAIL)
        self.assertIn("ValueError", found.message)
        self.assertNotIn("hush", found.message)


def dumped(gateway: Copy) -> list[str]:
    """Every row of its store; SQLite is told that nobody writes, so that it makes no file."""
    path = gateway.base / "gate" / "authority" / "store.db"
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as store:
        return list(store.iterdump())

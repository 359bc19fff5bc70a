"""An upgrade to the next release and the way back, rehearsed with the one file of each."""

from __future__ import annotations

import os
import re
import shutil
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.trial.unittest import SynchronousTestCase

from contrib.rehearsal.stand import Stand
from contrib.rehearsal.steps import Rehearsal
from contrib.release.__main__ import write_release
from contrib.release.make import build_wheel
from contrib.release.one_file import TARGET, write_one_file
from contrib.release.plan import planned
from svc import __version__
from svc.model.release import Version, parse_version
from svc.testing.gateway.settings import CONNECTOR, PROXY
from tests.ops.preflight.release import public_pem
from tests.support.proof import proves
from tests.support.wheels import ROOT, folder, library_wheels, own_copy
from tests.system.test_one_file import one_file, search_path

RUN_BY = "make fault"

OF_A_PROCESS = frozenset({"lock", "listening.json", "join.token", "identity.lock"})
FLEET = (
    *("store", "policy", "configuration", "environment", "transport identity", "CA keys"),
    *("audit and control keyrings", "activation state", "recording buffers", "audit outboxes"),
    *("distribution root", "snapshot cache", "install journal", "receiver credential"),
    *("endpoint cache", "service definitions", "identity, trust", "the selected one"),
)
"""What row U-BAK-09 lists, as the page calls it."""

MIGRATION = "CREATE TABLE rehearsed (id BIGINT PRIMARY KEY);\n"


def next_version() -> Version:
    """The one after this: the next candidate, or the next patch."""
    now = parse_version(__version__)
    if now.serial:
        return evolve(now, serial=now.serial + 1)
    return evolve(now, patch=now.patch + 1)


@cache
def next_release() -> tuple[Path, Path]:
    """The artifacts of a next release, which has one migration more, and the key's public half."""
    version, source = next_version(), folder() / "next"
    shutil.copytree(own_copy(), source)
    init = source / "svc" / "__init__.py"
    init.write_text(init.read_text("utf-8").replace(__version__, str(version)), "utf-8")
    migrations = source / "migrations"
    newest = max(int(path.name[1:5]) for path in migrations.iterdir())
    (migrations / f"m{newest + 1:04d}_rehearsed.sql").write_text(MIGRATION, "ascii")
    out = folder() / "release"
    out.mkdir()
    # Of the executables only the one that is rehearsed: not every machine can make the static file.
    wheel, program = build_wheel(out, version, source), out / version.program(TARGET)
    write_one_file(program, version, [*library_wheels(), wheel])
    key = ec.generate_private_key(ec.SECP256R1())
    plan = planned(version, version.channel, (wheel.name, program.name), ())
    locked = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    write_release(out, plan, locked, (), key)
    public = folder() / "release.pub"
    public.write_bytes(public_pem(key))
    return out, public


class RehearsalTests(SynchronousTestCase):
    """What docs/how-to/upgrade.md tells, from the first step to the last."""

    @proves("U-PRE-06", "U-VER-05", "U-REC-01", "U-REC-02", "U-REC-04")
    @proves("U-PHA-05", "U-PHA-06", "U-PHA-16", "U-PHA-17", "U-PHA-23", "U-PHA-28", "U-BAK-09")
    def test_there_and_back(self) -> None:
        """Each step passes: preflight, backup, migration, checks, sessions; refusal, restore."""
        self.patch(os, "environ", {**os.environ, "PATH": search_path()})
        release, public = next_release()
        rehearsal = Rehearsal(old=one_file(), release=release, public_key=public)
        self.addCleanup(rehearsal.end)
        passed = "\n".join(rehearsal.whole())
        self.check_paths(rehearsal.stand)
        for step in (
            f"the release is signed with the key in {public}",
            f"a gateway of svc {__version__} serves",
            f"the preflight of svc {next_version()} passed: signature",
            "stopped resident, Connector, Proxy, Authority",
            "the copy verifies",
            "its checksum is the release's",
            "migrated once: 1 pending before, none after",
            "started authority: ",
            "started client: ",
            "a session was allowed and its recording delivered, another denied",
            "replaced the program under the running roles, which go on",
            "the old program alone refuses the migrated store",
            "restored store and keys by the old program",
            "started in reverse order",
        ):
            self.assertIn(step, passed)

    def check_paths(self, stand: Stand) -> None:
        """Each file of a node or a person lies where backup.md says."""
        files = stand.gateway.files
        places = {
            "Proxy": files.state(PROXY),
            "Connector": files.state(CONNECTOR),
            "person": stand.person.directory,
        }
        told = documented()
        for where, place in places.items():
            known = told[where] if where == "person" else told["every node"] + told[where]
            found = files_below(place)
            lost = [path for path in found if not any(fits(path, one) for one in known)]
            self.assertEqual(lost, [], f"{where}: backup.md does not tell where these lie")
            self.assertTrue(any(path.startswith("identity/") for path in found), where)

    @proves("U-BAK-09", "U-REC-04")
    def test_pages(self) -> None:
        """The pages name the rehearsal, and every thing that a backup of the fleet holds."""
        upgrade = (ROOT / "docs" / "how-to" / "upgrade.md").read_text("utf-8")
        self.assertIn("python -m contrib.rehearsal --old", upgrade)
        back = upgrade.partition("## Go back")[2]
        for word in ("store and its keys", "configurations", "service definitions", "programs"):
            self.assertIn(word, back)
        page = (ROOT / "docs" / "how-to" / "backup.md").read_text("utf-8")
        told = " ".join(line for line in page.splitlines() if line.startswith("| "))
        for item in FLEET:
            self.assertIn(item, told)


def files_below(place: Path) -> list[str]:
    """Relative; without what only a running process has."""
    found = (one.relative_to(place) for one in place.rglob("*") if one.is_file())
    return sorted(str(path) for path in found if path.name not in OF_A_PROCESS)


def documented() -> dict[str, list[str]]:
    """The paths of backup.md below a state directory, or a person's, by whose they are."""
    page = (ROOT / "docs" / "how-to" / "backup.md").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for line in page.partition("## The other hosts")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3:
            paths = re.findall(r"`(?:<state_dir>|~/\.svc)/([^`]+)`", cells[2])
            found.setdefault(cells[0], []).extend(paths)
    return found


def fits(path: str, told: str) -> bool:
    """Whether it is that file, lies in that directory, or is of that pattern."""
    return path.startswith(told) if told.endswith("/") else fnmatch(path, told)

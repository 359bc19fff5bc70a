"""A process that dies at the worst moments of a commit to a store in a file."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from svc.interfaces.store import ITransaction
from svc.plugins.store_sqlite import store_sqlite
from tests.store.places import ROOT, migrated_url, path_of, real_needs, run_child
from tests.support.proof import proves
from tests.support.tools import stock_tool

_CRASH = """
import os, sys
from attrs import evolve
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.task import react
from svc.store.sqlite.factory import SqliteFactory
from tests.store.places import real_needs
url, where, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = 0
def crash(point):
    global seen
    seen += point == where
    if seen == after:
        os._exit(137)
async def main():
    store = SqliteFactory().open(url, evolve(real_needs(), crash_point=crash))
    for number in range(50):
        def both(tx):
            tx.people.add_group(f"g{number}", 1.0)
            return tx.audit.append(b'{"decision_id":"g%d"}' % number)
        await store.run("both", both)
        print(number, flush=True)
react(lambda _: ensureDeferred(main()))
"""


def _records_of(group: str, tx: ITransaction) -> int:
    return len(tx.audit.by_decision(group))


class CrashTests(TestCase):
    """A process that dies at the worst moments of a commit."""

    @proves("G-ROLE-10", "G-AUD-01")
    def test_an_answer_waits_for_the_disk(self) -> None:
        """Nobody is answered before the kernel was asked to bring the commit to the disk."""
        url = migrated_url(self)
        calls = Path(path_of(url)).parent.with_name("calls")
        watched = "trace=write,pwrite64,fsync,fdatasync"
        strace = [stock_tool("strace"), "-f", "-y", "-o", str(calls), "-e", watched]
        done = subprocess.run(
            [*strace, sys.executable, "-c", _CRASH, url, "before_commit", "3"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stdout), (137, "0\n1\n"), done.stderr)
        lines = calls.read_text("utf-8", "replace").splitlines()
        told = re.compile(r"write\(1<.*\"[01]")
        answers = [at for at, line in enumerate(lines) if told.search(line)]
        self.assertEqual(len(answers), 2)
        for at in answers:
            # A call that another thread's interrupts has its end on a line of its own.
            asked = [each for each in range(at) if "store.db-wal>" in lines[each]][-1]
            self.assertRegex(lines[asked], r" f(data)?sync\(")
            self.assertRegex("\n".join(lines[asked:at]), r"sync(\(| resumed).* = 0")

    @proves("G-ROLE-10", "G-AUD-01")
    async def test_an_answer_has_its_record(self) -> None:
        """What was answered before the end is there after it, effect and record together."""
        for where in ("before_commit", "after_commit", "before_answer"):
            for after in (1, 4):
                url = migrated_url(self)
                done = run_child(_CRASH, url, where, str(after))
                self.assertEqual(done.status, 137, done.stderr)
                answered = [f"g{number}" for number in done.stdout.split()]
                self.assertEqual(len(answered), after - 1)
                store = store_sqlite.open(url, real_needs())
                groups = await store.read("groups", lambda tx: tx.people.groups())
                self.assertLessEqual(set(answered), set(groups))
                kept = after - (where == "before_commit")
                self.assertEqual(len(groups), kept)
                for group in groups:
                    find = partial(_records_of, group)
                    rows = await store.read("find", find)
                    self.assertEqual(rows, 1)
                await store.close()
                await deferLater(reactor, 0)

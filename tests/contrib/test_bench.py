"""What the bench's table says of a figure and its goal."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from math import inf
from os import getpid
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase

from contrib.bench import openings, peers, pgbench, shell_calls, trips, websocket
from contrib.bench.build import build_of, this_build
from contrib.bench.ends import start_sink
from contrib.bench.inside import Lag, p99_row
from contrib.bench.machine import family_cpu_seconds, with_descendants
from contrib.bench.peers import free_port
from contrib.bench.rows import (
    NO_GOAL,
    Goal,
    Row,
    Table,
    less_is_better,
    more_is_better,
    shown,
    table,
    write,
)
from contrib.bench.syscalls import Counted, parsed, system_calls, watch
from contrib.bench.trips import serving
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns
from contrib.bench.ways import NO_RELAY, SSH, Way
from tests.support.tools import missing, stock_tool

RUN_BY = "make fault"


class RowTests(SynchronousTestCase):
    """Rows, their ratios and their goals."""

    def test_ratio(self) -> None:
        """A ratio above 1 is better for us, whichever way the figure counts."""
        self.assertEqual(more_is_better("a", 3.0, "/s", "peer", 2.0).ratio, 1.5)
        self.assertEqual(less_is_better("a", 2.0, "ms", "peer", 3.0).ratio, 1.5)

    def test_without_goal(self) -> None:
        """A row without a goal is neither met nor missed."""
        row = more_is_better("a", 1.0, "/s", "peer", 2.0)
        self.assertEqual((row.goal, row.met), ("", None))

    def test_value(self) -> None:
        """A goal for the figure bounds it on the side that is worse."""
        goal = Goal(value=5)
        for figure, much, little in ((4.0, False, True), (5.0, True, True), (6.0, True, False)):
            self.assertEqual(more_is_better("a", figure, "/s", "peer", 1.0, goal).met, much)
            self.assertEqual(less_is_better("a", figure, "ms", "peer", 1.0, goal).met, little)

    def test_ratio_goal(self) -> None:
        """A goal for the ratio is met from there on."""
        goal = Goal(ratio=0.5)
        self.assertTrue(more_is_better("a", 1.0, "/s", "peer", 2.0, goal).met)
        self.assertFalse(more_is_better("a", 0.9, "/s", "peer", 2.0, goal).met)
        self.assertFalse(less_is_better("a", 2.1, "ms", "peer", 1.0, goal).met)

    def test_both(self) -> None:
        """Of two limits each one must be kept, and the table names both."""
        goal = Goal(ratio=10, value=8)
        rows = [less_is_better("a", ours, "ms", "peer", 90.0, goal) for ours in (8.0, 8.5, 9.5)]
        self.assertEqual([row.met for row in rows], [True, False, False])
        self.assertFalse(less_is_better("a", 8.0, "ms", "peer", 70.0, goal).met)
        self.assertEqual(rows[0].goal, "≥ 10 times, ≤ 8 ms")

    def test_forms(self) -> None:
        """The table has a line a row under its head; the file has every field."""
        rows = [
            more_is_better("a", 1.0, "/s", "peer", 2.0),
            less_is_better("b", 9.0, "ms", "peer", 9.0, Goal(value=8)),
        ]
        lines = table(rows).splitlines()
        self.assertEqual([line.split()[-1] for line in lines], ["met", "-", "no"])
        path = Path(self.mktemp())
        one = Table(title="c", head=("way", "best"), lines=[("long name", "1"), ("d", "22")])
        self.assertEqual(
            one.text().splitlines(), ["c", "way        best", "long name  1", "d          22"]
        )
        write(rows, [one], path)
        kept = json.loads(path.read_text("utf-8"))
        met = [(each["name"], each["met"]) for each in kept["rows"]]
        self.assertEqual(met, [("a", None), ("b", False)])
        self.assertEqual(kept["tables"][0]["lines"], [["long name", "1"], ["d", "22"]])
        self.assertEqual(kept["interpreter"]["version"], this_build().version)

    def test_large(self) -> None:
        """A large figure is whole, a small one has four digits."""
        self.assertEqual(
            [shown(each) for each in (34981.4, 0.06614, 12.0)], ["34,981", "0.06614", "12"]
        )


class LagTests(SynchronousTestCase):
    """What is read from a role's own histogram of its reactor's lateness."""

    def lag(self, ten: int = 0, fifty: int = 0, hundred: int = 0, more: int = 0) -> Lag:
        """With so many in the buckets up to 10, 50 and 100 ms, and above."""
        found, total = {}, 0.0
        for bound, count in ((0.01, ten), (0.05, fifty), (0.1, hundred), (inf, more)):
            total += count
            found[bound] = total
        lag = Lag()
        lag.add(dict.fromkeys(found, 0.0), found)
        return lag

    def test_within_a_bucket(self) -> None:
        """A share is taken from where it lies between the bounds of its bucket."""
        self.assertAlmostEqual(self.lag(ten=100).at(0.5), 5.0)
        self.assertAlmostEqual(self.lag(ten=90, fifty=10).at(0.95), 30.0)
        self.assertAlmostEqual(self.lag(fifty=4).at(0.5), 30.0)

    def test_above_all_bounds(self) -> None:
        """What is above every bound is told as the highest."""
        self.assertAlmostEqual(self.lag(ten=1, more=99).at(0.99), 100.0)

    def test_only_what_came_between(self) -> None:
        """What was counted before the block is in no figure, and blocks are added up."""
        lag = self.lag(ten=2)
        lag.add(dict.fromkeys(lag.counts, 50.0), {0.01: 50.0, 0.05: 52.0, 0.1: 52.0, inf: 52.0})
        self.assertEqual(lag.counts, {0.01: 2.0, 0.05: 4.0, 0.1: 4.0, inf: 4.0})

    def test_nothing_counted(self) -> None:
        """No timer is no figure."""
        self.assertRaises(AssertionError, self.lag().at, 0.99)

    def test_goal(self) -> None:
        """The p99 is to be 50 ms at most."""
        alone = self.lag(ten=1)
        late = (self.lag(fifty=100), self.lag(ten=99, hundred=1), self.lag(ten=98, hundred=2))
        rows = [p99_row("a", each, "alone", alone) for each in late]
        self.assertEqual([row.met for row in rows], [True, True, False])


class BuildTests(SynchronousTestCase):
    """How the interpreter was built, and which figures are marked for it."""

    def test_optimised(self) -> None:
        """The words of ``configure`` say it, or the compiler's own where a packager sets them."""
        asked = {"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}
        packaged = {"CONFIG_ARGS": "'--prefix=/usr'", "PY_CORE_CFLAGS": "-fprofile-use -flto"}
        for said in (asked, packaged):
            build = build_of(said)
            self.assertEqual((build.has_pgo, build.has_lto, build.mark), (True, True, ""))

    def test_plain(self) -> None:
        """Figures of a build without optimisations are marked, and the mark is explained."""
        plain = {"PGO_PROF_USE_FLAG": "-fprofile-use", "PY_CFLAGS": None}
        build = build_of({"CONFIG_ARGS": "'--enable-shared' '--with-lto=no'", **plain})
        self.assertEqual((build.has_pgo, build.has_lto, build.mark), (False, False, "*"))
        self.assertIn("'--enable-shared'", build.text())
        self.assertIn("* after a figure of ours", build.text())

    def test_untold(self) -> None:
        """A packager's build that says nothing of it is called unknown, and marks no figure."""
        build = build_of({"CONFIG_ARGS": "'--prefix=/usr'", "PGO_PROF_USE_FLAG": ""})
        self.assertEqual((build.has_pgo, build.has_lto, build.mark), (None, None, ""))
        self.assertIn("PGO unknown, LTO unknown\n", build.text())


class TurnTests(SynchronousTestCase):
    """Ways in turns, and the table that compares them."""

    ways: ClassVar[dict[str, Way]] = {
        SSH: Way(("127.0.0.1", 1), {"ssh": 1}),
        "mine": Way(("127.0.0.1", 2), {"one": 2, "two": 3}, is_ours=True),
    }

    def test_order(self) -> None:
        """Each round asks every way, every second round from the end."""
        asked: list[str] = []

        def measure(name: str) -> Turn:
            asked.append(name)
            return Turn(value=1.0, cpu={})

        found = in_turns({"a": "a", "b": "b"}, 3, measure)
        self.assertEqual(asked, ["a", "b", "b", "a", "a", "b"])
        self.assertEqual({name: len(turns) for name, turns in found.items()}, {"a": 3, "b": 3})

    def compared(self, unit: str, goal: Goal) -> tuple[dict[str, str], list[Row]]:
        """Three turns each of two ways: ours as a line by head, and the rows."""
        case = Case(name="trips", unit=unit, goals={("mine", SSH): (goal, Goal(ratio=0.1))})
        ssh = [Turn(value=each, cpu={"ssh": 10.0}) for each in (10.0, 20.0, 40.0)]
        mine = [
            Turn(value=each, cpu={"one": each, "two": 5.0}, spread=(each, 9.0))
            for each in (5.0, 15.0, 20.0)
        ]
        table, rows = compared(case, self.ways, {SSH: ssh, "mine": mine})
        return dict(zip(table.head, table.lines[1], strict=True)), rows

    def test_rates(self) -> None:
        """Of rates the best is the greatest, and CPU time is told by process."""
        line, rows = self.compared("/s", Goal(ratio=0.5))
        mark = this_build().mark
        self.assertEqual((line["best"], line["median"]), (f"20{mark}", f"15{mark}"))
        self.assertEqual(line["to ssh -L"], "0.50/0.75")
        self.assertEqual(
            (line["CPU µs"], line["CPU µs by process"]), (f"20{mark}", "one 15, two 5")
        )
        self.assertEqual([(row.ratio, row.met) for row in rows], [(0.5, True), (0.5, True)])

    def test_milliseconds(self) -> None:
        """Of times the best is the least, and a ratio above 1 is still better for us."""
        line, rows = self.compared("ms", Goal(value=4))
        self.assertEqual(line["to ssh -L"], "2.00/1.33")
        self.assertEqual((rows[0].value, rows[0].met), (5.0, False))

    def test_missing_peer(self) -> None:
        """A peer that was skipped has neither a ratio nor a row."""
        case = Case(name="trips", unit="/s", goals={("mine", SSH): (Goal(ratio=1), NO_GOAL)})
        turns = {"mine": [Turn(value=1.0, cpu={"one": 1.0, "two": 1.0})]}
        table, rows = compared(case, self.ways, turns)
        self.assertEqual(rows, [])
        self.assertEqual(dict(zip(table.head, table.lines[0], strict=True))["to ssh -L"], "-")


class TripTests(SynchronousTestCase):
    """Small round trips, in their smallest form: they run, and print their rows."""

    scale: ClassVar[Scale] = Scale(rounds=1, seconds=0.02, is_quick=True)

    def way(self, port: int) -> Way:
        """To a server here; this process stands for the gateway."""
        return Way(("127.0.0.1", port), {"self": getpid()}, is_ours=True)

    def test_round_trips(self) -> None:
        """Each number of sessions has a table with its way and the CPU time of its processes."""
        with serving("echo") as port:
            tables, _ = trips.measure({NO_RELAY: self.way(port)}, self.scale)
        titles = [one.title.partition(":")[0] for one in tables]
        self.assertEqual(
            titles,
            [
                "round trips of 100 bytes, 1 at once",
                "system calls a round trip of 100 bytes, 1 at once, by strace -c -f",
                "round trips of 100 bytes, 8 at once",
            ],
        )
        for one in (tables[0], tables[2]):
            [line] = one.lines
            self.assertEqual(line[0], NO_RELAY)
            self.assertIn("self ", line[-1])

    def test_turn(self) -> None:
        """Every message that came back is counted, and how long it took."""
        with serving("echo") as port, trips.opened(self.way(port), "echo", 2) as sessions:
            found = sessions.turn(1, 0.02)
        self.assertGreater(found.value, 0)
        self.assertGreater(found.cpu_micros, 0)
        assert found.spread is not None
        self.assertLessEqual(found.spread[0], found.spread[1])

    def test_websocket(self) -> None:
        """Pings are answered with what they carried."""
        with serving("websocket") as port:
            [table], _ = websocket.measure({NO_RELAY: self.way(port)}, self.scale)
        self.assertEqual([line[0] for line in table.lines], [NO_RELAY])

    def test_requests(self) -> None:
        """Requests are answered whole, by the server itself and through hops that parse them."""
        with ExitStack() as ending:
            directory = Path(ending.enter_context(TemporaryDirectory()))
            port = ending.enter_context(serving("http"))
            try:
                hops = ending.enter_context(peers.h11_chain(directory, port))
            except peers.Missing as absent:
                missing(f"{absent} is not installed")
            ways = {NO_RELAY: self.way(port), "h11": self.way(hops.port)}
            for way in ways.values():
                sessions = ending.enter_context(trips.opened(way, "http", 2))
                self.assertGreater(sessions.turn(100, 0.02).value, 0)

    def test_pgbench(self) -> None:
        """Selects of pgbench are counted, over sessions that stay and over new ones."""
        with ExitStack() as ending:
            try:
                database = ending.enter_context(pgbench.serving(free_port()))
            except peers.Missing as absent:
                missing(f"{absent} is not installed")
            ways = {NO_RELAY: self.way(database.port)}
            tables, _ = pgbench.measure(database, ways, self.scale)
        titles = [one.title.partition(":")[0] for one in tables]
        self.assertEqual(titles, ["pgbench -S -c 8", "pgbench -S -C -c 8 -j 8"])

    def test_openings(self) -> None:
        """Openings one by one and at once; the gateway's line is among them."""
        sink = start_sink()
        self.addCleanup(sink.end)
        tables, rows = openings.measure(None, {openings.GATEWAY: self.way(sink.port)}, self.scale)
        titles = [one.title.partition(":")[0] for one in tables]
        self.assertEqual(titles, ["opening, p50", "openings, 16 at once"])
        self.assertEqual(rows, [])

    def test_caller(self) -> None:
        """A caller of commands counts the time of what a command leaves behind."""
        busy = "python = True\nfor _ in range(10**6): pass"
        left = f"{sys.executable} -c '{busy}' & exit 0"
        call = shell_calls.Call(self.way(1), ["sh", "-c", left], Path(self.mktemp()).parent)
        found = shell_calls.turn(call, 1)
        self.assertGreater(found.cpu["ssh"], 10_000)

    def test_descendants(self) -> None:
        """Who is started by a process counts with it."""
        with serving("echo"):
            found = with_descendants([getpid()])
        self.assertIn(getpid(), found)
        self.assertGreater(len(found), 1)

    def test_family(self) -> None:
        """What a child computed counts on once it has ended; the ended one itself is nothing."""
        before = family_cpu_seconds(getpid())
        work = "sum(each * each for each in range(10**6))"
        with Popen([sys.executable, "-c", work]) as child:
            pass
        self.assertGreater(family_cpu_seconds(getpid()) - before, 0.02)
        self.assertEqual(family_cpu_seconds(child.pid), 0)


class SystemCallTests(SynchronousTestCase):
    """What is read from ``strace -c``."""

    def test_counted(self) -> None:
        """Calls by name, with and without errors; the head, the rule and the total are none."""
        said = (
            "% time     seconds  usecs/call     calls    errors syscall\n"
            "------ ----------- ----------- --------- --------- ----------------\n"
            " 60.00    0.000600           3       200           epoll_wait\n"
            " 40.00    0.000400           2       150        50 recvfrom\n"
            "------ ----------- ----------- --------- --------- ----------------\n"
            "100.00    0.001000           2       350        50 total\n"
        )
        self.assertEqual(parsed(said), {"epoll_wait": 200, "recvfrom": 150})

    def test_watched(self) -> None:
        """The calls of a process are counted while a block runs."""
        stock_tool("strace")
        counted = Counted()
        with Popen(["cat"], stdin=PIPE, stdout=PIPE) as cat:
            assert cat.stdin is not None and cat.stdout is not None
            with watch(cat.pid, counted):
                for _ in range(2):
                    cat.stdin.write(b"a\n")
                    cat.stdin.flush()
                    self.assertEqual(cat.stdout.readline(), b"a\n")
        # The bytes of a call may be here before its end is counted: that of the first one is.
        self.assertIn(counted.calls.get("write"), (1, 2))

    def test_missing(self) -> None:
        """Without strace the table says so, and there is no row."""
        self.patch(os, "environ", {"PATH": self.mktemp()})
        self.patch(peers, "_DAEMONS", "")
        way = Way(("127.0.0.1", 1), {"self": getpid()}, is_ours=True)
        table, rows = system_calls({"mine": (way, lambda: {"trips": 1.0})})
        self.assertEqual(
            [line[:2] for line in table.lines], [("skipped", "strace is not installed")]
        )
        self.assertEqual(rows, [])

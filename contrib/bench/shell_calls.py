"""``ssh NAME true``: a command on a host, by ``svc proxy-ssh`` and by a port, beside the peers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from attrs import frozen

from contrib.bench import peers
from contrib.bench.ours import Ours
from contrib.bench.rows import Goal, Row, Table, less_is_better
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns, used_by
from contrib.bench.ways import NO_RELAY, Way
from svc.testing.gateway.processes import environment

BY_PORT, BY_COMMAND = "by port", "svc proxy-ssh"
_RUNS = 3
_AT_ONCE = 50
_GOAL_BEYOND, _GOAL_AT_ONCE = Goal(value=60), Goal(value=6)
_CALLER = "ssh"


@frozen
class Call:
    """How ``true`` is called over a way."""

    way: Way
    words: Sequence[str]
    home: Path


def measure(
    ssh: peers.Ssh, ours: Ours, ways: Mapping[str, Way], scale: Scale
) -> tuple[list[Table], list[Row]]:
    """One call after another; and, unless it is to be quick, many at once.

    Args:
        ways: To the port of *ssh*; ours is :data:`BY_PORT`.
    """
    by_port = ways[BY_PORT]
    # Without the caller's own, the CPU time of a process that lives for one call would be missing.
    every = {**ways, BY_COMMAND: by_port}
    calls = {name: Call(way, _by_port(ssh, way), ours.person.home) for name, way in every.items()}
    calls[BY_COMMAND] = Call(by_port, _by_command(ssh, ours), ours.person.home)
    turns = in_turns(calls, scale.rounds, partial(turn, runs=1 if scale.is_quick else _RUNS))
    shown = {name: _with_caller(way) for name, way in every.items()}
    table, rows = compared(Case(name="ssh NAME true, median", unit="ms"), shown, turns)
    rows.append(_beyond(turns))
    if not scale.is_quick:
        rows.append(_at_once(calls))
    return [table], rows


def turn(call: Call, runs: int) -> Turn:
    """The median of some calls; *ssh* is the CPU time of the caller and of what it starts."""
    before = call.way.cpu_seconds()
    said = _called(call, runs, 1)
    after = call.way.cpu_seconds()
    cpu = {_CALLER: said["cpu"] * 1e6 / runs, **used_by(call.way, before, after, runs)}
    return Turn(value=median(said["milliseconds"]), cpu=cpu)


def _with_caller(way: Way) -> Way:
    return Way(way.address, {_CALLER: 0, **way.processes}, way.is_ours)


def _beyond(turns: Mapping[str, Sequence[Turn]]) -> Row:
    best = {name: min(one.value for one in turns[name]) for name in (BY_COMMAND, NO_RELAY)}
    beyond = max(best[BY_COMMAND] - best[NO_RELAY], 0.1)
    name = "ssh NAME true by svc proxy-ssh, beyond no relay"
    return less_is_better(name, beyond, "ms", "no relay itself", best[NO_RELAY], _GOAL_BEYOND)


def _at_once(calls: Mapping[str, Call]) -> Row:
    whole = {
        name: float(_called(calls[name], _AT_ONCE, _AT_ONCE)["whole"])
        for name in (NO_RELAY, BY_COMMAND)
    }
    name = f"{_AT_ONCE} ssh NAME true by svc proxy-ssh at once"
    return less_is_better(name, whole[BY_COMMAND], "s", NO_RELAY, whole[NO_RELAY], _GOAL_AT_ONCE)


def _called(call: Call, runs: int, at_once: int) -> dict[str, Any]:
    # Isolated: svc refuses an environment that says where Python finds modules.
    caller = [sys.executable, "-I", str(Path(__file__).with_name("shells.py"))]
    done = subprocess.run(
        [*caller, str(runs), str(at_once), *call.words],
        capture_output=True,
        text=True,
        check=False,
        env=environment(call.home),
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(call.words)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _by_port(ssh: peers.Ssh, way: Way) -> list[str]:
    host, port = way.address
    return [peers.tool("ssh"), *ssh.options, "-p", str(port), host, "true"]


def _by_command(ssh: peers.Ssh, ours: Ours) -> list[str]:
    command = ours.person.proxy_command(name="shell")
    return [peers.tool("ssh"), *ssh.options, "-o", f"ProxyCommand={command}", "shell", "true"]

"""Bytes of one SSH session: straight to a host, and through the gate of its Connector."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial

from attrs import frozen

from contrib.bench import peers
from contrib.bench.ours import Ours
from contrib.bench.rows import Goal, Row, Table
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns, used_by
from contrib.bench.ways import NO_RELAY, Way
from svc.testing.gateway.processes import environment
from svc.testing.gateway.settings import GatewayTarget

GATE = "SSH gate"
_NAME = "copied"
_LEAST = Goal(ratio=0.8)
_NO_CPU_GOAL = Goal()
_DIRECTIONS = {"to the person": "head -c {} /dev/zero", "to the host": "cat > /dev/null"}


@frozen
class Copy:
    """How a command is called over a way."""

    way: Way
    words: Sequence[str]
    env: Mapping[str, str]


def target(ssh: peers.Ssh) -> GatewayTarget:
    """The resource of this sshd whose SSH ends at the Connector."""
    kind, key, *_ = (ssh.directory / "host.pub").read_text("ascii").split()
    table = {
        "onward": "stored_key",
        "host_keys": [f"{kind} {key}"],
        "key_files": {_account(): str(ssh.directory / "user")},
    }
    return GatewayTarget(_NAME, f"127.0.0.1:{ssh.port}", "ssh", more=table, onward="stored_key")


def measure(
    ssh: peers.Ssh, ours: Ours, scale: Scale, megabytes: int
) -> tuple[list[Table], list[Row]]:
    """So many bytes each way; the CPU time is that of a megabyte, without the two ends'."""
    client = [peers.tool("ssh"), *ssh.options, "-l", _account()]
    command = ours.person.proxy_command("--user", _account(), name=_NAME)
    parts = {name: pid for name, pid in ours.processes.items() if name != "authority"}
    ways = {
        NO_RELAY: Way(("127.0.0.1", ssh.port), {}),
        GATE: Way(("127.0.0.1", ssh.port), parts, is_ours=True),
    }
    words = {
        NO_RELAY: [*client, "-p", str(ssh.port), "127.0.0.1"],
        GATE: [*client, "-o", f"ProxyCommand={command}", _NAME],
    }
    env = environment(ours.person.home)
    calls = {name: Copy(way, words[name], env) for name, way in ways.items()}
    tables, rows = [], []
    for direction, said in _DIRECTIONS.items():
        turns = in_turns(calls, scale.rounds, partial(_turn, command=said, megabytes=megabytes))
        goals = {(GATE, NO_RELAY): (_LEAST, _NO_CPU_GOAL)}
        case = Case(name=f"MB of an SSH session {direction}", unit="/s", goals=goals)
        found, more = compared(case, ways, turns)
        tables.append(found)
        rows += more
    return tables, rows


def _turn(copy: Copy, command: str, megabytes: int) -> Turn:
    size = megabytes * 1_000_000
    before, began = copy.way.cpu_seconds(), time.monotonic()
    with subprocess.Popen(
        [*copy.words, command.format(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=copy.env,
    ) as running:
        assert running.stdin is not None
        if "{}" not in command:
            for _ in range(megabytes):
                running.stdin.write(bytes(1_000_000))
        running.stdin.close()
        assert running.stderr is not None
        told = running.stderr.read()
    took = time.monotonic() - began
    if running.returncode != 0:
        raise AssertionError(f"{' '.join(copy.words)} failed:\n{told.decode(errors='replace')}")
    used = used_by(copy.way, before, copy.way.cpu_seconds(), megabytes)
    return Turn(value=megabytes / took, cpu=used)


def _account() -> str:
    return pwd.getpwuid(os.getuid()).pw_name

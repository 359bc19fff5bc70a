"""Sessions: their throughput, and what it takes to open one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from contrib.bench import peers
from contrib.bench.ends import Sink, round_trip, stalled, throughput
from contrib.bench.ours import Ours
from contrib.bench.rows import NO_GOAL, Goal, Row, less_is_better, more_is_better

_ROUNDS = 3
_PEER_OPENS = 12
_OPENS = 200
_AT_ONCE = 16
_STALLED = 32
DIRECT, TUNNEL = "direct lane", "in-tunnel"
_THROUGHPUT = {DIRECT: (Goal(ratio=1.4), Goal(ratio=1.3)), TUNNEL: (Goal(ratio=0.4), NO_GOAL)}
"""Beside OpenSSH and beside HAProxy."""


def throughput_rows(
    ways: Mapping[str, Ours], ssh: peers.Ssh, sink: Sink, directory: Path, megabytes: int
) -> list[Row]:
    """One session's bytes through the whole gateway, beside both chains.

    Args:
        ways: A gateway for :data:`DIRECT`, and one for :data:`TUNNEL`.
    """
    found = dict.fromkeys((*ways, "ssh", "hops", "loop"), 0.0)
    with (
        peers.ssh_chain(ssh, sink.port) as chain,
        peers.haproxy_chain(directory, sink.port) as through,
    ):
        paths = {way: ours.sink for way, ours in ways.items()}
        for name, at in (("ssh", chain.port), ("hops", through.port), ("loop", sink.port)):
            paths[name] = ("127.0.0.1", at)
        # In turns, and the best of each: what a path can do, not what the machine did beside it.
        for _ in range(_ROUNDS):
            for name, address in paths.items():
                found[name] = max(found[name], throughput(address, megabytes))
    rows = []
    for way in ways:
        value = found[way]
        name, (beside_ssh, beside_hops) = f"one session, {way}, opaque kind", _THROUGHPUT[way]
        rows += [
            more_is_better(name, value, "MB/s", "ssh -L to ssh -R", found["ssh"], beside_ssh),
            more_is_better(
                name, value, "MB/s", "HAProxy, three TLS hops", found["hops"], beside_hops
            ),
            more_is_better(name, value, "MB/s", "loopback, no relay", found["loop"]),
        ]
    return rows


def stalled_rows(ours: Ours, megabytes: int) -> list[Row]:
    """What sessions that nobody reads cost another one of the same tunnel.

    Both are measured in turns, so that a machine that slows down slows both.
    """
    alone, beside = [], []
    for _ in range(_ROUNDS):
        alone.append(throughput(ours.sink, megabytes))
        with ExitStack() as held:
            with ThreadPoolExecutor(_STALLED) as pool:
                for peer in pool.map(stalled, [ours.ports["flood"]] * _STALLED):
                    held.enter_context(peer)
            beside.append(throughput(ours.sink, megabytes))
        alone.append(throughput(ours.sink, megabytes))
    name = f"a session beside {_STALLED} stalled"
    lone = "the same session alone"
    return [more_is_better(name, _mean(beside), "MB/s", lone, _mean(alone), Goal(ratio=0.8))]


def opening_rows(ours: Ours, ssh: peers.Ssh) -> list[Row]:
    """Opening a session and its first byte back, beside ``ssh`` through a jump host."""
    for _ in range(20):  # warm
        round_trip(ours.sink)
    alone = sorted(round_trip(ours.sink) for _ in range(_OPENS))
    rate = _rate(ours)
    jump = sorted(_jump(ssh) for _ in range(_PEER_OPENS))
    rows = [
        less_is_better(
            "opening, p50",
            _at(alone, 0.5),
            "ms",
            "ssh -J, p50",
            _at(jump, 0.5),
            Goal(ratio=10, value=8),
        ),
        less_is_better(
            "opening, p99", _at(alone, 0.99), "ms", "ssh -J, max", jump[-1], Goal(value=25)
        ),
        more_is_better(
            "openings",
            rate,
            "/s",
            "ssh -J, one after another",
            1000 / _mean(jump),
            Goal(value=150),
        ),
    ]
    shell = ours.ports.get("shell")
    if shell is not None:
        whole = sorted(_ssh(ssh, *shell) for _ in range(_PEER_OPENS))
        rows.append(
            less_is_better(
                "ssh through the gateway, p50", _at(whole, 0.5), "ms", "ssh -J, p50", _at(jump, 0.5)
            )
        )
    return rows


def _rate(ours: Ours) -> float:
    """Sessions a second with several asked for at once."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: round_trip(ours.sink), range(2 * _OPENS)))
        return 2 * _OPENS / (time.perf_counter() - began)


def _jump(ssh: peers.Ssh) -> float:
    words = [peers.tool("ssh"), "-F", str(ssh.config), "-J", "jump", "target", "true"]
    return _timed(words)


def _ssh(ssh: peers.Ssh, host: str, port: int) -> float:
    return _timed([peers.tool("ssh"), *ssh.options, "-p", str(port), host, "true"])


def _timed(words: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(list(words), check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return (time.perf_counter() - began) * 1000


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

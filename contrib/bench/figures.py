"""Sessions: their throughput, alone and beside others that nobody reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from contrib.bench import peers
from contrib.bench.ends import Sink, stalled, throughput
from contrib.bench.ours import Ours
from contrib.bench.rows import NO_GOAL, Goal, Row, more_is_better

_ROUNDS = 3
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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

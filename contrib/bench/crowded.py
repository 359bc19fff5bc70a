"""Opening a session in a cluster of ten thousand people, beside a cluster of ten.

The people are entered by the registry's own code, with their signed records, while the Authority
does not run.  Then both gateways run, and their turns alternate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any

from twisted.internet.task import Clock

from contrib.bench.openings import opened
from contrib.bench.ours import Ours, gateway
from contrib.bench.rows import Goal, Row, less_is_better
from contrib.bench.turns import Scale, in_turns
from contrib.bench.ways import Way
from contrib.level_cluster import Cluster, finished
from svc.authority.registry.groups import GroupAdmin
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.rights import RightsCheck
from svc.authority.registry.tokens import TokenAdmin
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import operator
from svc.authority.state.writer import StateWriter
from svc.interfaces.store import ITransaction, StoreNeeds
from svc.model.audit.record import chain_hash
from svc.model.policy.rules import PolicyRules
from svc.store.sqlite.connection import open_writer
from svc.store.sqlite.store import MemoryStore
from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY

FEW, MANY = (10, 1), (10_000, 1_000)
"""People, and the groups that they are in."""

_OPENINGS, _WARM = 50, 10
_ROUNDS = 2
_A_TRANSACTION = 250
_START_SECS = 120.0
_GROUPS_OF_EACH = 3
_NO_WORSE = Goal(ratio=0.95)


def rows(port: int, scale: Scale) -> list[Row]:
    """The median of an opening, and its CPU time, with many people and with few.

    Args:
        port: Of a target on the loopback.
    """
    with ExitStack() as ending:
        both = {
            size: Way(ours.ports["sink"], ours.processes, is_ours=True)
            for size in (FEW, MANY)
            for ours in [ending.enter_context(_of_size(port, *size))]
        }
        ways = {str(size): way for size, way in both.items()}
        for way in ways.values():
            until("a session is opened", partial(_is_open, way), _START_SECS)
            opened(way, _WARM)
        turns = in_turns(ways, scale.rounds * _ROUNDS, partial(opened, count=_OPENINGS))
    many, few = turns[str(MANY)], turns[str(FEW)]
    name = f"opening with {MANY[0]:,} people in {MANY[1]:,} groups"
    peer = f"{FEW[0]} people"
    times = (median(turn.value for turn in each) for each in (many, few))
    used = (median(turn.cpu_micros for turn in each) for each in (many, few))
    return [
        _row(f"{name}, p50", "ms", peer, *times),
        _row(f"{name}, CPU", "µs", peer, *used),
    ]


def _row(name: str, unit: str, peer: str, many: float, few: float) -> Row:
    return less_is_better(name, many, unit, peer, few, _NO_WORSE)


def _is_open(way: Way) -> bool:
    """Whether the person's side has found out that the Proxy serves again."""
    try:
        opened(way, 1)
    except (OSError, AssertionError):
        return False
    return True


@contextmanager
def _of_size(port: int, people: int, groups: int) -> Iterator[Ours]:
    with gateway({"sink": port}, direct=False) as ours:
        _stop(ours.gateway)
        enter(ours.gateway, people, groups)
        _begin_again(ours.gateway)
        yield ours


def _stop(gateway: Gateway) -> None:
    gateway.roles[AUTHORITY].stop()


def _begin_again(gateway: Gateway) -> None:
    gateway.start(AUTHORITY, ready=False)
    gateway.await_ready(AUTHORITY, _START_SECS)

    def is_whole() -> bool:
        status = gateway.status()
        return bool(status["proxies"] and status["connectors"])

    until("Proxy and Connector are back", is_whole, _START_SECS)


def enter(gateway: Gateway, people: int, groups: int) -> None:
    """Enter so many people in so many groups; the Authority must not run."""
    cluster = Cluster.opened(gateway.files.config(AUTHORITY))
    clock: Any = Clock()  # nobody waits for an answer that is there at once
    needs = StoreNeeds(
        clock=clock,
        now=time.time,
        call_from_thread=lambda fn, *args: fn(*args),
        chain_hash=chain_hash,
    )
    store = MemoryStore.over(open_writer(str(gateway.files.store)), needs)
    admin = _people_admin(cluster, store)

    def enter_some(first: int, tx: ITransaction) -> None:
        for number in range(first, min(first + _A_TRANSACTION, people)):
            step = number % groups
            mine = {f"group-{(step + more * 7) % groups}" for more in range(_GROUPS_OF_EACH)}
            admin.enter(tx, f"person-{number}", tuple(sorted(mine)), operator(os.getuid()))

    for first in range(0, people, _A_TRANSACTION):
        finished(admin.writer.cache.catch_up())
        finished(store.run("enter people", partial(enter_some, first)))
    finished(store.close())


def _people_admin(cluster: Cluster, store: MemoryStore) -> PeopleAdmin:
    recorder = cluster.recorder()
    state_cache = ClusterStateCache(store, recorder.ledger, time.time, advanced=lambda: None)
    rights = RightsCheck(
        cluster=cluster.name,
        rules=PolicyRules(),
        engine=lambda tx, people: None,  # it is not asked: operators of the host may do all
        actions=frozenset(),
        now=time.time,
    )
    writer = StateWriter(
        cache=state_cache, store=store, recorder=recorder, now=time.time, entropy=os.urandom
    )
    tokens = TokenAdmin(writer, cluster.keys.ca_pin, 600.0)
    return PeopleAdmin(writer, tokens, GroupAdmin(writer, rights))

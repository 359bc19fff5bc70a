"""Records of requests: appended durably by a Proxy, and drained by the leader, in batches.

A hundred sessions each wait until their request is on the disk before they ask for the next.  They
ask for something new each time, or for the same, whose decision a gate remembers.  What they ask
was made before: that is what is decided, and here it is only recorded.  The
peer records the same requests one by one, each with a signature and a row of its own, as a Proxy
did before it had batches; drained rows are compared with the same bytes appended by the leader.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react

from contrib.bench.appends import durable_server
from contrib.bench.rows import Goal, Row, more_is_better
from svc.audit.log.record import SALT_BYTES, Sealer
from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.quota import SpoolQuota
from svc.audit.spool.rows import RowMaker
from svc.audit.spool.spool import Spool
from svc.model.audit.decision_ids import RANDOM_BYTES, DecisionIds
from svc.model.audit.events import REQUEST_DECISION
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.request import RepeatedRequest, RequestRecord, SessionNumbers
from svc.model.ids import DrawnAhead, event_id, random_id
from svc.model.policy.access import AccessRequest, EntityUid
from svc.model.policy.requests import context_at
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.policy.vocabulary import vocabulary
from svc.runtime.heap import settle_heap
from svc.runtime.threads import SerialThread

SESSIONS = 100
FACTS = {fact.name: fact for fact in vocabulary().terms.facts}
_ORIGIN, _PERSON = "p" * 26, "b" * 26
_SECS = 3.0
_ROUNDS = 3
_DRAINED = 40_000
_ASKED = 4096
"""Requests that are made before the clock starts: a gate makes them to decide, not to record."""

_GOALS = {"SQLite": Goal(value=30_000), "PostgreSQL": Goal(value=10_000)}


def rows(directory: Path) -> list[Row]:
    """Appended durably, and drained from each backend.

    Raises:
        Missing: there is no PostgreSQL server.
    """
    appended: dict[str, list[float]] = {"batches": [], "repeated": [], "single": []}
    drained: dict[str, list[tuple[float, float]]] = {"SQLite": [], "PostgreSQL": []}
    for number in range(_ROUNDS):
        place = directory / f"requesting-{number}"
        place.mkdir(mode=0o700)
        for what, found in appended.items():
            found.append(float(printed("contrib.bench.requesting", str(place / what), what)))
        with durable_server() as database:
            urls = {"SQLite": f"sqlite://{place}/store.db", "PostgreSQL": database.url()}
            store_sqlite.migrate(urls["SQLite"], "bench", time.time, time.monotonic)
            store_postgresql.migrate(urls["PostgreSQL"], "bench", time.time, time.monotonic)
            for name, url in urls.items():
                words = printed("contrib.bench.draining", url, str(_DRAINED), "batches").split()
                drained[name].append((float(words[0]), float(words[1])))
    theirs = median(appended["single"])
    title, goal = f"request records appended durably ({SESSIONS} sessions)", Goal(value=30_000)
    return [
        more_is_better(f"{title}{what}", median(appended[how]), "/s", "a row each", theirs, goal)
        for what, how in (("", "batches"), (", decided before", "repeated"))
    ] + [
        more_is_better(
            f"request records drained, {name}",
            median(one for one, _ in pairs),
            "/s",
            "appended as the leader's own",
            median(one for _, one in pairs),
            _GOALS[name],
        )
        for name, pairs in drained.items()
    ]


def printed(module: str, *words: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    return done.stdout


def request(
    numbers: SessionNumbers, ids: DecisionIds, asked: AccessRequest | None = None
) -> RequestRecord:
    """A new request that was decided just now.

    Args:
        asked: What it asks, where that was made before.
    """
    at = time.time()
    return RequestRecord(
        numbers=numbers,
        time=at,
        request=_asked(at) if asked is None else asked,
        decision="allow",
        decision_id=ids.next(),
        policies=("dev-uses-tcp",),
        policy_version=7,
        entities_digest="e" * 64,
    )


def _asked(at: float) -> AccessRequest:
    return AccessRequest(
        request_kind="connect",
        principal=EntityUid("User", _PERSON),
        action="tcpConnect",
        resource=EntityUid("TcpService", "db1"),
        context=context_at(at, "192.0.2.7"),
    )


def _single(made: RequestRecord) -> AuditRecord:
    return AuditRecord(
        event_id=event_id(made.time, os.urandom),
        time=made.time,
        event=REQUEST_DECISION,
        actor=Actor("person", _PERSON),
        origin=_ORIGIN,
        session_uid=made.numbers.session_uid,
        resource_id="db1",
        resource_kind="tcp",
        action="connect",
        cedar_action="tcpConnect",
        request=made.request,
        decision=made.decision,
        decision_id=made.decision_id,
        policies=made.policies,
        policy_version=made.policy_version,
        entities_digest=made.entities_digest,
        details={"proxy_id": _ORIGIN, "source_address": "192.0.2.7"},
    )


async def _appended(reactor: Any, path: Path, *, batches: bool, repeated: bool) -> None:
    thread = SerialThread("spool", reactor.callFromThread)
    salts, drawn = DrawnAhead(os.urandom, SALT_BYTES), DrawnAhead(os.urandom, RANDOM_BYTES)
    key, sealer = Ed25519PrivateKey.generate(), Sealer(salts, FACTS)
    maker = RowMaker(origin=_ORIGIN, key=key, sealer=sealer, now=time.time, entropy=salts)
    spool = Spool(
        files=SpoolFiles(path, maker, SpoolQuota(1 << 34)),
        in_thread=thread,
        committed=lambda: None,
        has_room=lambda: None,
        clock=reactor,
    )
    await spool.open()
    ids, done = DecisionIds(_ORIGIN, time.time, drawn), count()
    asked = cycle([_asked(time.time() + number) for number in range(_ASKED)])
    settle_heap(reactor).join()  # as a role does when it has started
    begun = time.monotonic()
    write: Callable[[Any], Awaitable[None] | None]
    if batches:
        write = lambda made: spool.write_request(made, _PERSON)  # noqa: E731
    else:
        write = lambda made: spool.write(_single(made), _PERSON)  # noqa: E731

    async def session() -> None:
        numbers = SessionNumbers(random_id(os.urandom))
        first = request(numbers, ids)
        while time.monotonic() < begun + _SECS:
            if repeated:
                waiting = write(RepeatedRequest(first, ids.next(), time.time()))
            else:
                waiting = write(request(numbers, ids, next(asked)))
            if waiting is not None:
                await waiting
            next(done)

    await gatherResults([Deferred.fromCoroutine(session()) for _ in range(SESSIONS)])
    took = time.monotonic() - begun
    await thread.end()
    print(next(done) / took)


if __name__ == "__main__":
    _path, _what = Path(sys.argv[1]), sys.argv[2]
    _how = {"batches": _what != "single", "repeated": _what == "repeated"}
    react(lambda reactor: Deferred.fromCoroutine(_appended(reactor, _path, **_how)))

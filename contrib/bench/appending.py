"""A process that appends: ``appending URL WRITERS SECS`` prints how many a second."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react

from svc.interfaces.store import ITransaction, StoreNeeds
from svc.model.audit.record import chain_hash
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite

_RECORD = (
    b'{"actor":{"id":"p1"},"decision":"allow","decision_id":"%032x","event":"session.open",'
    b'"request":"' + b"x" * 780 + b'","time":"2026-01-01T00:00:00Z"}'
)


async def _append(reactor: Any, url: str, writers: int, secs: float) -> None:
    needs = StoreNeeds(
        clock=reactor, now=time.time, call_from_thread=reactor.callFromThread, chain_hash=chain_hash
    )
    factory = store_sqlite if url.startswith("sqlite:") else store_postgresql
    store = factory.open(url, needs)
    begun, numbers = time.monotonic(), iter(range(1 << 40))

    async def write() -> None:
        while time.monotonic() < begun + secs:
            await store.run("append", partial(_one, _RECORD % next(numbers)))

    await gatherResults([Deferred.fromCoroutine(write()) for _ in range(writers)])
    took = time.monotonic() - begun
    await store.close()
    print(next(numbers) / took)


def _one(text: bytes, tx: ITransaction) -> None:
    tx.audit.append(text)


if __name__ == "__main__":
    _url, _writers, _secs = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    react(lambda reactor: Deferred.fromCoroutine(_append(reactor, _url, _writers, _secs)))

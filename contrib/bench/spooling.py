"""Durable appends to a Proxy's spool, beside a file written and synced with nothing around it.

Every writer waits until its record is durable before it asks for the next.  The
peer writes the same bytes in blocks of as many rows, with one fdatasync each,
in a loop of two system calls: what the disk gives.  The second peer signs each
row besides, as every row must be: what one core gives.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from contrib.bench.rows import Row, more_is_better
from svc.audit.log.record import Sealer
from svc.audit.spool.disk import SpoolFiles
from svc.audit.spool.quota import SpoolQuota
from svc.audit.spool.rows import RowMaker
from svc.audit.spool.spool import Spool
from svc.model.audit.events import REFUSALS_SUMMARY
from svc.model.audit.record import Actor, AuditRecord
from svc.model.audit.spool import row_signer
from svc.model.ids import event_id

_WRITERS = (1, 10, 100)
_SECS = 1.0
_ROUNDS = 3
_ORIGIN = "p" * 26
_RECORD = 900
"""Bytes of a row on the disk, about."""


def rows(directory: Path) -> list[Row]:
    """A row for each number of writers and each peer."""
    made = []
    place = directory / "spooling"
    place.mkdir(mode=0o700)
    for writers in _WRITERS:
        figures: dict[str, list[float]] = {"ours": [], "write": [], "sign": []}
        for number in range(_ROUNDS):
            for what, found in figures.items():
                found.append(_measured(place / f"{what}-{writers}-{number}", what, writers))
        for peer, name in (("write", "write, fdatasync"), ("sign", "sign, write, fdatasync")):
            title = f"durable spool appends, {writers} writers"
            ours, theirs = median(figures["ours"]), median(figures[peer])
            made.append(more_is_better(title, ours, "/s", name, theirs))
    return made


def _measured(path: Path, what: str, writers: int) -> float:
    """Rows a second, by a process of its own."""
    words = [sys.executable, "-m", "contrib.bench.spooling", str(path), what, str(writers)]
    environ = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environ)
    return float(done.stdout)


def _peer(path: Path, writers: int, *, signs: bool) -> float:
    sign, row = row_signer(Ed25519PrivateKey.generate()), b"x" * _RECORD
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    begun, written = time.monotonic(), 0
    while time.monotonic() < begun + _SECS:
        if signs:
            for _ in range(writers):
                sign(row)
        os.write(descriptor, row * writers)
        os.fdatasync(descriptor)
        written += writers
    return written / (time.monotonic() - begun)


async def _ours(reactor: Any, path: Path, writers: int) -> None:
    thread = ThreadPool(0, 1, "spool")
    thread.start()
    key = Ed25519PrivateKey.generate()
    maker = RowMaker(
        origin=_ORIGIN, key=key, sealer=Sealer(os.urandom), now=time.time, entropy=os.urandom
    )
    files = SpoolFiles(path, maker, SpoolQuota(1 << 34))
    spool = Spool(
        files=files,
        in_thread=lambda call: deferToThreadPool(reactor, thread, call),
        committed=lambda: None,
        has_room=lambda: None,
        clock=reactor,
    )
    await spool.open()
    numbers = count()
    begun = time.monotonic()

    async def write() -> None:
        while time.monotonic() < begun + _SECS:
            await spool.write(_record(next(numbers)))

    await gatherResults([Deferred.fromCoroutine(write()) for _ in range(writers)])
    took = time.monotonic() - begun
    thread.stop()
    print(next(numbers) / took)


def _record(number: int) -> AuditRecord:
    at = time.time()
    return AuditRecord(
        event_id=event_id(at, os.urandom),
        time=at,
        event=REFUSALS_SUMMARY,
        actor=Actor("node", _ORIGIN),
        origin=_ORIGIN,
        reason="x" * 200,
        details={"count": number, "proxy_id": _ORIGIN},
    )


if __name__ == "__main__":
    _path, _what, _writers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if _what == "ours":
        react(lambda reactor: Deferred.fromCoroutine(_ours(reactor, _path, _writers)))
    else:
        print(_peer(_path, _writers, signs=_what == "sign"))

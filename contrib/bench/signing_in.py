"""People who sign in with passwords, all at once: how many a second, and how late all else is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from contrib.bench.inside import Lag, lag, p99_row
from contrib.bench.rows import NO_GOAL, Row, more_is_better
from svc.authority.accounts.passwords import PasswordCost, PasswordHashes
from svc.runtime.threads import inline
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import environment
from svc.testing.gateway.settings import AUTHORITY, GatewayTarget

_PEOPLE, _ROUNDS = 50, 4
_ALONE_SECS = 5.0
_THREADS = 2
_HASHES = 100


def rows(directory: Path) -> list[Row]:
    """Sign-ins and renewals a second, and the lag of the Authority meanwhile."""
    gateway = make_gateway([GatewayTarget("unused", "127.0.0.1:9")])
    try:
        with _people(gateway, directory) as people:
            alone, signing_in, renewing = Lag(), Lag(), Lag()
            with lag(gateway, AUTHORITY, alone):
                Event().wait(_ALONE_SECS)
            with lag(gateway, AUTHORITY, signing_in):
                sign_ins = _PEOPLE / min(_turn(people) for _ in range(_ROUNDS))
            with lag(gateway, AUTHORITY, renewing):
                renewals = _PEOPLE / min(_turn(people) for _ in range(_ROUNDS))
    finally:
        gateway.end()
    name, again = (
        f"{_PEOPLE} people {what}"
        for what in ("sign in with passwords", "have their certificates renewed")
    )
    hashes = _hashes_a_second()
    return [
        more_is_better(name, sign_ins, "/s", "their hashes alone", hashes, NO_GOAL),
        p99_row(f"lag of the Authority while {name}", signing_in, "at rest", alone),
        more_is_better(again, renewals, "/s", "sign-ins", sign_ins, NO_GOAL),
        p99_row(f"lag of the Authority while {again}", renewing, "at rest", alone),
    ]


def _turn(people: subprocess.Popen[str]) -> float:
    """Seconds until all of them have done what comes next."""
    _line(people)
    assert people.stdin is not None
    people.stdin.write("go\n")
    people.stdin.flush()
    return float(_line(people))


@contextmanager
def _people(gateway: Gateway, directory: Path) -> Iterator[subprocess.Popen[str]]:
    state = gateway.files.state(AUTHORITY)
    address = gateway.listening(AUTHORITY)["join"]
    home = directory / "people"
    home.mkdir(mode=0o700)
    words = [sys.executable, "-m", "contrib.bench.password_people", str(state), address]
    process = subprocess.Popen(
        [*words, gateway.pin, str(home), str(_PEOPLE), str(_ROUNDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(home),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    found = process.stdout.readline()
    if not found:
        raise AssertionError(f"the people ended with {process.wait()}")
    return found


def _hashes_a_second() -> float:
    """Of as many threads as the Authority has for them, with nothing around."""
    hashes = PasswordHashes([inline], PasswordCost())
    with ThreadPoolExecutor(_THREADS) as pool:
        began = time.perf_counter()
        list(pool.map(hashes.hash_now, ["correct horse battery"] * _HASHES))
        return _HASHES / (time.perf_counter() - began)

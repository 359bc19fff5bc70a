"""What raw-frame attackers cost the others: a session's throughput, and how late the Proxy answers.

The attackers are those of the test suite, in a process of their own, one after another and ten
a second; so it is what they make the Proxy do that is measured, and not the work of sending it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count, cycle
from threading import Event

from contrib.bench.ends import throughput
from contrib.bench.inside import Lag, lag, p99_row
from contrib.bench.ours import Ours
from contrib.bench.rows import Row, less_is_better, more_is_better
from svc.testing.gateway.settings import AUTHORITY, PROXY
from tests.system.attackers import CALLS, FLOODS, WRONGS
from tests.system.raw import Raw, greeted

_ROUNDS = 3
_ASKED = 400
_EVERY_SECS = 0.1
_PAUSE_SECS = 0.005
_HALF = 1 << 29
_never = Event()


@contextmanager
def attackers(address: str) -> Iterator[None]:
    """Attacks without end on a public listener."""
    process = subprocess.Popen([sys.executable, "-m", "contrib.bench.attacked", address])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def attacked_rows(ours: Ours, megabytes: int) -> list[Row]:
    """Both figures beside attackers and without them, in turns.

    The attackers take a part of the machine, whomever they attack, so both are also told beside
    what they are while another process is attacked.
    """
    address = ours.gateway.public
    elsewhere = ours.gateway.listening(AUTHORITY)["join"]
    alone, apart, beside, quiet, late = [], [], [], [], []
    elsewhere_lag, here_lag = Lag(), Lag()
    for _ in range(_ROUNDS):
        alone.append(throughput(ours.sink, megabytes))
        with attackers(elsewhere), lag(ours.gateway, PROXY, elsewhere_lag):
            apart.append(throughput(ours.sink, megabytes))
            quiet += _answers(address)
        with attackers(address), lag(ours.gateway, PROXY, here_lag):
            beside.append(throughput(ours.sink, megabytes))
            late += _answers(address)
    name = f"beside {len(FLOODS + WRONGS + CALLS)} attackers in turn"
    return [
        more_is_better(
            f"a session {name}",
            sum(beside) / _ROUNDS,
            "MB/s",
            "the same session alone",
            sum(alone) / _ROUNDS,
        ),
        more_is_better(
            f"a session {name}",
            sum(beside) / _ROUNDS,
            "MB/s",
            "attacks on Authority",
            sum(apart) / _ROUNDS,
        ),
        less_is_better(
            f"health {name}, p99", _p99(late), "ms", "attacks on Authority", _p99(quiet)
        ),
        p99_row(f"the proxy's reactor {name}", here_lag, "attacks on Authority", elsewhere_lag),
    ]


def _answers(address: str) -> list[float]:
    """Milliseconds that calls of one quiet connection take: what others do to the reactor."""
    raw = greeted(address, "127.0.0.1", initial_window_size=_HALF)
    try:
        return [_answer(raw, 2 * number + 1) for number in range(_ASKED)]
    finally:
        raw.close()


def _answer(raw: Raw, stream: int) -> float:
    raw.until_closed(_PAUSE_SECS)
    raw.ending.statuses.clear()
    began = time.perf_counter()
    raw.send(raw.request(stream))
    ending = raw.until_answered()
    if ending.statuses != {"0"}:
        raise AssertionError(f"health answered {ending}")
    return (time.perf_counter() - began) * 1000


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * len(values))]


def attack(address: str) -> None:
    """Every attacker in turn, for ever."""
    sources = count(2)
    for one in cycle(FLOODS + WRONGS + CALLS):
        due = time.monotonic() + _EVERY_SECS
        number = next(sources)
        with suppress(OSError):
            raw = greeted(address, f"127.0.{number // 250 % 250}.{2 + number % 250}")
            one.attack(raw)
            if one.goaway is not None:
                raw.until_closed(1.0)
            raw.close()
        _never.wait(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    attack(sys.argv[1])

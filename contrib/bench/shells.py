"""``ssh NAME true`` again and again, by a process that counts what its children compute.

``shells RUNS AT_ONCE WORD …`` prints what :class:`Ran` holds.  ``ssh`` does not wait for its
``ProxyCommand``; whom it leaves behind becomes a child of this process, and is waited for before
the CPU time is read.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36


def _main(runs: int, at_once: int, words: Sequence[str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        took = list(pool.map(lambda _: _timed(words), range(runs)))
    whole = time.perf_counter() - began
    with suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(json.dumps({"milliseconds": took, "whole": whole, "cpu": cpu}))


def _timed(words: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(list(words), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

"""``python -m contrib.hops [CHECKOUT]``: the calls from file to file of one small session.

It runs the demo of a checkout (this one, or another with its own ``.venv``), in which Authority,
Proxy, Connector and a person's side share a process, opens a few sessions of one resource so that
all is warm, and counts through some more, each from its opening to its end.  A hop is a call from
a function of one file of ``svc`` straight to a function of another.  Frames and transports are
most of all hops, and the same for every call on the wire: a second line leaves them out.  What is
shown is the session with the median of these: a head that is signed, or a row that is delivered,
falls into the time of some.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from threading import Event

from svc.testing.gateway.processes import until

#: Run in the checkout's own interpreter: two signals begin and end the counting.
_COUNTING = r"""
import json, os, signal, sys
from collections import Counter
root, out = sys.argv[1:]
sys.path.insert(0, root)
hops, files = Counter(), {}

def file_of(code):
    name = code.co_filename
    if name not in files:
        path = os.path.realpath(name)
        ours = path.startswith(root + "/svc/") and "_pb2" not in path
        files[name] = path[len(root) + 5:] if ours else ""
    return files[name]

def count(frame, event, _):
    if event == "call" and frame.f_back is not None:
        to, by = file_of(frame.f_code), file_of(frame.f_back.f_code)
        if to and by and to != by:
            hops[by, to] += 1

def end(*_):
    sys.setprofile(None)
    with open(out + ".new", "w") as there:
        json.dump([[by, to, many] for (by, to), many in hops.items()], there)
    os.rename(out + ".new", out)

def begin(*_):
    hops.clear()
    sys.setprofile(count)

signal.signal(signal.SIGUSR1, begin)
signal.signal(signal.SIGUSR2, end)
sys.argv = ["svc", "demo"]
from svc.cli import main
sys.exit(main())
"""

_TRANSPORT = ("wire/", "rpc/", "lanes/", "tunnel/", "runtime/", "telemetry/", "compose/")
_WARM, _COUNTED = 3, 9
_QUIET_SECS = 1.0
"""After a session: its end is reported, recorded and under a signed head."""


def measured(checkout: Path) -> Counter[tuple[str, str]]:
    """Hops by caller's and callee's file."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "hops.json"
        demo = subprocess.Popen(
            [checkout / ".venv/bin/python", "-c", _COUNTING, checkout, out],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            endpoint = _endpoint(demo)
            for _ in range(_WARM):
                _ask(endpoint)
            counted = sorted(
                (_counted(demo, endpoint, out) for _ in range(_COUNTED)),
                key=lambda hops: _without_transports(hops).total(),
            )
            return counted[_COUNTED // 2]
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()


def _endpoint(demo: subprocess.Popen[str]) -> tuple[str, int]:
    """The local endpoint of the demo's SSH host, once it is up: nothing decides its requests."""
    assert demo.stdout is not None
    found = None
    for line in demo.stdout:
        found = found or re.search(r"-p (\d+) \w+@(127\.[\d.]+)", line)
        if found and "Ctrl-C" in line:
            return found[2], int(found[1])
    raise SystemExit("hops: the demo ended before it was up")


def _counted(
    demo: subprocess.Popen[str], endpoint: tuple[str, int], out: Path
) -> Counter[tuple[str, str]]:
    """Of one session."""
    Event().wait(_QUIET_SECS)
    out.unlink(missing_ok=True)
    demo.send_signal(signal.SIGUSR1)
    _ask(endpoint)
    demo.send_signal(signal.SIGUSR2)
    until("the hops are counted", out.exists)
    return Counter({(by, to): many for by, to, many in json.loads(out.read_text("utf-8"))})


def _ask(endpoint: tuple[str, int]) -> None:
    with socket.create_connection(endpoint, 10) as to:
        to.sendall(b"SSH-2.0-hops\r\n")
        if not to.recv(65536).startswith(b"SSH-2.0-"):
            raise SystemExit("hops: the session was refused")
        to.shutdown(socket.SHUT_WR)
        while to.recv(65536):
            pass


def main() -> int:
    """Print the figures of a checkout."""
    checkout = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).absolute()
    hops = measured(Path(os.path.realpath(checkout)))
    ours = _without_transports(hops)
    for what, counted in (("of all", hops), ("without transports", ours)):
        files = {one for pair in counted for one in pair}
        rooms = {one.split("/")[0] for one in files}
        print(
            f"{counted.total():5} hops {what}: {len(counted)} pairs of files, "
            f"{len(files)} files, {len(rooms)} rooms"
        )
    for (by, to), many in ours.most_common(20):
        print(f"{many:5}  {by} -> {to}")
    return 0


def _without_transports(hops: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    return Counter({pair: many for pair, many in hops.items() if not any(map(_is_transport, pair))})


def _is_transport(path: str) -> bool:
    return path.startswith(_TRANSPORT)


if __name__ == "__main__":
    sys.exit(main())

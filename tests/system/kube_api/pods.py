"""What runs in a pod: processes connected to channels, and ports that are the machine's."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from tests.system.kube_api.channels import Channels
from tests.system.kube_api.spdy import Streams

_PIECE = 1 << 15
_LEAVES = 5.0
"""Seconds that a client has to leave after the last word."""


def run_in(
    directory: Path, command: list[str], channels: Channels, *, tty: bool, listens: bool
) -> None:
    """Run one command to its end, or until the client leaves; its status is the last word.

    Args:
        listens: The client has something to say to it.
    """
    outside, inside = pty.openpty() if tty else (-1, subprocess.PIPE)
    process = subprocess.Popen(
        command,
        cwd=directory,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=_take_terminal if tty else None,
    )
    if tty:
        os.close(inside)
        sources = {"stdout": lambda: _read(outside)}
        entry = outside
    else:
        assert process.stdout and process.stderr and process.stdin
        out, err = process.stdout.fileno(), process.stderr.fileno()
        sources = {"stdout": lambda: _read(out), "stderr": lambda: _read(err)}
        entry = process.stdin.fileno()
        if not listens:
            process.stdin.close()
    feed = Thread(target=_feed, args=(channels, process, entry, tty), daemon=True)
    feed.start()
    pumps = [Thread(target=_pump, args=(channels, name, read)) for name, read in sources.items()]
    for pump in pumps:
        pump.start()
    status = process.wait()
    with suppress(OSError):
        for pump in pumps:
            pump.join()
        channels.send("error", json.dumps(status_of(status)).encode())
        channels.close()
    feed.join(_LEAVES)


def status_of(status: int) -> dict[str, object]:
    """How a command ended, as the last word on the error channel."""
    if not status:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {status}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(status)}]},
    }


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError:
        return b""  # of a terminal whose last process has gone


def _pump(channels: Channels, name: str, read: Callable[[], bytes]) -> None:
    with suppress(OSError):
        while data := read():
            channels.send(name, data)


def _feed(channels: Channels, process: subprocess.Popen[bytes], entry: int, tty: bool) -> None:
    with suppress(OSError):
        for name, data in channels.received():
            if name == "stdin" and data is None and process.stdin:
                process.stdin.close()
            elif name == "stdin" and data:
                while data:
                    data = data[os.write(entry, data) :]
            elif name == "resize" and data and tty:
                size = json.loads(data)
                rows = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                fcntl.ioctl(entry, termios.TIOCSWINSZ, rows)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def forward(streams: Streams) -> None:
    """Connect each pair of streams to the port that it names, until the client leaves."""
    ports: dict[int, socket.socket] = {}
    for stream, what in streams.received():
        if isinstance(what, dict):
            streams.accept(stream)
            if what["streamtype"] == "data":
                ports[stream] = socket.create_connection(("127.0.0.1", int(what["port"])))
                back = (streams, stream, ports[stream])
                Thread(target=_bring_back, args=back, daemon=True).start()
            else:
                streams.send(stream, b"", ends=True)  # no error
        elif stream in ports and what is None:
            ports[stream].shutdown(socket.SHUT_WR)
        elif stream in ports and isinstance(what, bytes):
            ports[stream].sendall(what)


def _bring_back(streams: Streams, stream: int, port: socket.socket) -> None:
    with suppress(OSError):
        while data := port.recv(_PIECE):
            streams.send(stream, data)
        streams.send(stream, b"", ends=True)

"""Another user of this machine: what it finds when it knocks at every door."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import SkipTest

UID = 65534
"""Nobody's."""

_SECONDS = 5.0


def need_root() -> None:
    """Only root can be somebody else.

    Raises:
        SkipTest: we are not root.
    """
    if os.geteuid() != 0:
        raise SkipTest("only root can run a process as another user")


def as_stranger(act: Callable[[], Any]) -> Any:
    """What *act* returns, as JSON can hold it, in a child of uid :data:`UID`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _become(act, writing)
    os.close(writing)
    with open(reading, "rb") as told:
        data = told.read()
    os.waitpid(child, 0)
    return json.loads(data)


def _become(act: Callable[[], Any], writing: int) -> None:
    """The child's whole life."""
    told: Any = "the child failed"
    try:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
        told = act()
    except BaseException as error:  # told to the parent, whatever it is
        told = repr(error)
        raise
    finally:
        os.write(writing, json.dumps(told).encode())
        os._exit(0)


def knock(address: tuple[str, int] | str) -> str:
    """Connect, speak, listen: ``refused``, or what was heard until the end.

    Args:
        address: Of TCP, or the path of a socket.
    """
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as door:
        door.settimeout(_SECONDS)
        try:
            door.connect(address)
            door.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            heard = door.recv(4096)
        except OSError as error:
            return "refused" if not isinstance(error, TimeoutError) else "held open"
    return f"heard {heard!r}"


def listening_of(pid: int) -> list[tuple[str, int]]:
    """Every IPv4 address that a process listens on, asked of the kernel."""
    inodes = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(handle)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in inodes:
            host, _, port = words[1].partition(":")
            raw = int(host, 16).to_bytes(4, "little")
            found.append((socket.inet_ntoa(raw), int(port, 16)))
    return found


@contextmanager
def holding(address: tuple[str, int]) -> Iterator[None]:
    """A stranger listens there, for as long as the block lasts."""
    ready_out, ready_in = os.pipe()
    over_out, over_in = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(over_in)
        try:
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)
            with socket.create_server(address):
                os.write(ready_in, b"!")
                os.read(over_out, 1)
        finally:
            os._exit(0)
    os.close(over_out)
    os.close(ready_in)
    try:
        assert os.read(ready_out, 1) == b"!", f"nobody could listen on {address}"
        yield
    finally:
        os.close(over_in)
        os.close(ready_out)
        os.waitpid(child, 0)

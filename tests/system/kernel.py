"""What the kernel knows of a process's network sockets."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from attrs import frozen

from svc.testing.gateway.processes import Child

_LISTENS = "0A"
_ESTABLISHED = "01"


@frozen
class Socket:
    """One IP socket of a process.

    Attributes:
        local: ``host:port``, an IPv4 address also where the socket is IPv6.
        state: Two hexadecimal digits, as the kernel numbers the states of TCP.
    """

    protocol: str
    local: str
    remote: str
    state: str

    @property
    def is_connected(self) -> bool:
        """Whether it is an established TCP connection."""
        return self.protocol.startswith("tcp") and self.state == _ESTABLISHED

    @property
    def is_bound(self) -> bool:
        """Whether strangers can send to it: TCP that listens, or any UDP socket."""
        return self.protocol.startswith("udp") or self.state == _LISTENS


def sockets_of(child: Child) -> Iterator[Socket]:
    """Every IP socket that the process holds now."""
    held = set()
    for handle in Path(f"/proc/{child.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed since it was listed
            held.add(os.readlink(handle))
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        path = Path(f"/proc/{child.pid}/net/{protocol}")
        lines = path.read_text("ascii").splitlines()[1:] if path.exists() else []
        for line in lines:
            local, remote, state, *_, inode = line.split()[1:10]
            if f"socket:[{inode}]" in held:
                yield Socket(
                    protocol=protocol, local=_address(local), remote=_address(remote), state=state
                )


def _address(told: str) -> str:
    """``127.0.0.1:80`` for ``0100007F:0050``: words of four bytes in the machine's order."""
    words, _, port = told.partition(":")
    raw = bytes.fromhex(words)
    if sys.byteorder == "little":
        raw = b"".join(raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
    host = ip_address(raw)
    mapped = getattr(host, "ipv4_mapped", None) or host
    return f"{mapped}:{int(port, 16)}"

"""The TCP sockets of this machine, as Linux lists them: who listens is known without connecting.

A connection that is closed again without a word is a failed handshake in the log of the role
that accepted it.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice
from pathlib import Path

from attrs import frozen

from svc.config import Address

TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
MOST = 1_000_000
"""Lines of a table that are read."""

_ESTABLISHED, _LISTEN = "01", "0A"

Host = IPv4Address | IPv6Address
End = tuple[Host, int]


@frozen
class TcpSockets:
    """What was open at one moment.

    Attributes:
        listening: Local ends that accept connections.
        connected: Remote ends of connections that are open.
    """

    listening: frozenset[End]
    connected: frozenset[End]

    def has_listener(self, address: Address) -> bool:
        """Whether somebody listens on exactly this address."""
        host = _parsed("127.0.0.1" if address.host == "localhost" else address.host)
        return host is not None and (host, address.port) in self.listening

    def answers(self, host: str, port: int) -> bool:
        """Whether a connection to it was made, or would be accepted on this machine."""
        parsed = _parsed(host)
        if parsed is None:
            return False
        if {(parsed, port)} & (self.listening | self.connected):
            return True
        every = (IPv4Address(0), IPv6Address(0)) if parsed.version == 4 else (IPv6Address(0),)
        return bool({(each, port) for each in every} & self.listening) and _is_of_this_machine(host)


def tcp_sockets(ports: Collection[int]) -> TcpSockets | None:
    """The sockets of these ports; None where the system does not list them."""
    listening, connected = set[End](), set[End]()
    try:
        for path in TABLES:
            for local, remote, state in _lines(path):
                if state == _LISTEN and _port(local) in ports:
                    listening.add(_end(local))
                elif state == _ESTABLISHED and _port(remote) in ports:
                    connected.add(_end(remote))
    except (OSError, ValueError, IndexError):
        return None
    return TcpSockets(frozenset(listening), frozenset(connected))


def _lines(path: Path) -> Iterator[tuple[str, str, str]]:
    """``0: 0100007F:1CE8 00000000:0000 0A ...``; a kernel without IPv6 has one table only."""
    if path is not TABLES[0] and not path.exists():
        return
    with path.open("r", encoding="ascii") as file:
        for line in islice(file, 1, MOST):
            _, local, remote, state = line.split(maxsplit=4)[:4]
            yield local, remote, state


def _port(end: str) -> int:
    return int(end.rpartition(":")[2], 16)


def _end(text: str) -> End:
    """The address is in words of four bytes, each in the order of this machine."""
    raw = bytes.fromhex(text.partition(":")[0])
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return _unmapped(ip_address(raw)), _port(text)


def _parsed(host: str) -> Host | None:
    with suppress(ValueError):
        return _unmapped(ip_address(host))
    return None


def _unmapped(host: Host) -> Host:
    """An IPv4 address may be written as an IPv6 one."""
    return getattr(host, "ipv4_mapped", None) or host


def _is_of_this_machine(host: str) -> bool:
    """Only an address of this machine can be bound; nothing is sent by that."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True

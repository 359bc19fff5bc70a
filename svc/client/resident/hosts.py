"""Names of resources for browsers: ``NAME-<80 bits>.localhost``, on one port for all of them.

Browsers keep cookies by name and look at no port, so a name that another user of the machine
could listen under would get the cookies of this one (rule R32).  The bits come from a secret of
this installation, and are other ones for each resource.
"""

from __future__ import annotations

import errno
import hmac
import socket
from base64 import b32encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

from svc.client.resident.addresses import ports
from svc.client.resident.local import TcpPorts, close_port
from svc.interfaces.kinds import LISTING
from svc.model.ids import Entropy
from svc.runtime import durable

ADDRESS = "127.0.0.1"
"""Where browsers look for whatever ends in ``.localhost``."""

NAME = "host-names.secret"
SECRET_BYTES = 32
_LABEL = 63
_BITS = 80

Reserve = Callable[[int], Any]
"""Holds a port of ``::1``, which browsers try first; raises OSError where another has it."""


def secret(directory: Path, entropy: Entropy) -> bytes:
    """That of this installation, made where there is none.  Blocks for the disk."""
    path = directory / NAME
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        found = b""
    if len(found) != SECRET_BYTES:
        found = entropy(SECRET_BYTES)
        durable.replace(path, found)
    return found


def host_name(key: bytes, cluster: str, resource: str, shown: str = "") -> str:
    """The name of a resource on this machine; *shown* to people as something else."""
    digest = hmac.digest(key, f"{cluster}\0{resource}".encode(), "sha256")
    bits = b32encode(digest[: _BITS // 8]).decode("ascii").lower()
    return f"{(shown or resource)[: _LABEL - 1 - len(bits)]}-{bits}.localhost"


def reserve_ipv6(port: int) -> Any:
    """Bind this port of ``::1`` and listen on it never: nobody else can, and nobody gets in.

    Raises:
        OSError: another has it.
    """
    if not socket.has_ipv6:
        return None
    held = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    try:
        held.bind(("::1", port))
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRNOTAVAIL:
            return None
        raise
    return held


@define
class SharedPort:
    """The one port of all names.

    Attributes:
        seed: Of the port's number: what it is for, and whose it is.
        names: What may be asked for there, with the port: the resource of each.
        number: Of the port; 0 while it is not open.
        problem: Why it is not; empty while it is, or was not tried.
    """

    key: bytes
    cluster: str
    seed: str
    reserve: Reserve = reserve_ipv6
    names: dict[str, str] = field(factory=dict, init=False)
    number: int = field(default=0, init=False)
    problem: str = field(default="", init=False)
    _port: Any = field(default=None, init=False)
    _held: Any = field(default=None, init=False)

    async def open(self, tcp_ports: TcpPorts, factory: Any) -> None:
        """Open it, unless it is."""
        if self.number:
            return
        opened = await tcp_ports.open(ADDRESS, self._free(), factory)
        self._port, self.number, self.problem = opened.port, opened.number, opened.problem
        if not self.number:
            self._release()
            return
        name = host_name(self.key, self.cluster, LISTING, "svc")
        self.names[f"{name}:{self.number}"] = LISTING

    @property
    def listing(self) -> str:
        """The URL of the list of them all; empty while the port is not open."""
        found = (name for name, one in self.names.items() if one == LISTING)
        return next((f"http://{name}/" for name in found), "") if self.number else ""

    def add(self, resource: str) -> str:
        """The URL of a resource; empty while the port is not open."""
        if not self.number:
            return ""
        name = f"{host_name(self.key, self.cluster, resource)}:{self.number}"
        self.names[name] = resource
        return f"http://{name}/"

    def remove(self, resource: str) -> None:
        """It is no longer served."""
        for name in [name for name, one in self.names.items() if one == resource]:
            del self.names[name]

    async def close(self) -> None:
        """Serve none."""
        await close_port(self._port)
        self._port, self.number = None, 0
        self.names.clear()
        self._release()

    def _free(self) -> Iterator[int]:
        """Ports to try, each held of ``::1`` too: a browser would go there first."""
        for number in ports(self.cluster, self.seed, None, 0):
            self._release()
            try:
                self._held = self.reserve(number)
            except OSError:
                continue
            yield number

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

"""The listening addresses of a role, and the file that names the addresses it has bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define
from twisted.application.service import Service
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.interfaces import IAddress, IStreamServerEndpoint

from svc.compose.listeners.accept import PacedListenEndpoint
from svc.config import Address
from svc.runtime import durable
from svc.runtime.services import BoundPort


@define(slots=False, eq=False)
class ListeningFile(Service):
    """Writes ``listening.json`` once everything is bound: names and real addresses.

    A role may still be starting, or standing by: its readiness says so.
    """

    path: Path
    listeners: Mapping[str, BoundPort]

    def startService(self) -> None:
        """Write the file whole."""
        Service.startService(self)
        bound = {name: _shown(listener.bound) for name, listener in self.listeners.items()}
        text = json.dumps(bound, indent=2, sort_keys=True) + "\n"
        durable.replace(self.path, text.encode("utf-8"))

    def stopService(self) -> None:
        """Nothing listens any more."""
        Service.stopService(self)
        self.path.unlink(missing_ok=True)


def _shown(address: IAddress | None) -> str:
    host, port = getattr(address, "host", ""), getattr(address, "port", 0)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_BACKLOG = 1024
"""Connections the system holds until we take them.  Past it a caller's first packet is dropped, and
who waits for it comes back a second later; Twisted's own 50 are too few where all come at once."""


def server_endpoint(reactor: Any, address: Address) -> IStreamServerEndpoint:
    """The endpoint that listens on *address*."""
    if ":" in address.host:
        return PacedListenEndpoint(
            TCP6ServerEndpoint(reactor, address.port, _BACKLOG, address.host)
        )
    host = "127.0.0.1" if address.host == "localhost" else address.host
    return PacedListenEndpoint(TCP4ServerEndpoint(reactor, address.port, _BACKLOG, host))

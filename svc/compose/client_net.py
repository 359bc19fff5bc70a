"""The network helper, wired: ``svc client-net``, which its unit runs."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.internet.endpoints import UNIXServerEndpoint

from svc.client.low_ports.binding import PortBinder
from svc.client.low_ports.networks import UserNetworks
from svc.client.low_ports.service import BinderFactory, Questions
from svc.errors import UsageError
from svc.model.session.local_ports import CLIENT_NET, SOCKET_NAME
from svc.runtime.services import AsyncMultiService, BackgroundTasks, BoundPort, bounded
from svc.runtime.threads import in_pool

RUNTIME, STATE = "RUNTIME_DIRECTORY", "STATE_DIRECTORY"
_LOOK_SECS = 5.0


def make_client_net(reactor: Any, environ: Mapping[str, str]) -> IService:
    """The helper; it reads no configuration.

    Raises:
        UsageError: no service manager gave it its directories.
        ConfigError: it cannot read which networks it gave before.
    """
    runtime, state = (_directory(environ, name) for name in (RUNTIME, STATE))
    tasks, in_thread = BackgroundTasks(), in_pool(reactor)

    async def has_account(uid: int) -> bool:
        looked = in_thread(lambda: _has_account(uid))
        return await bounded(reactor, _LOOK_SECS, looked, "the accounts of this machine")

    helper = PortBinder(networks=UserNetworks.load(state), has_account=has_account)
    path = runtime / SOCKET_NAME
    with suppress(FileNotFoundError):
        path.unlink()  # A socket that a killed helper left.
    listening = BoundPort(
        key=RUNTIME,
        address=str(path),
        # Who asks is known from the kernel: everybody may.
        endpoint=UNIXServerEndpoint(reactor, str(path), mode=0o666),
        factory=BinderFactory(Questions(helper=helper, clock=reactor, spawn=tasks.spawn)),
    )
    tree = AsyncMultiService()
    parts: tuple[Any, ...] = (tasks, listening)
    for part in parts:
        part.setServiceParent(tree)
    return tree


def _directory(environ: Mapping[str, str], name: str) -> Path:
    found = environ.get(name, "")
    if not found.startswith("/") or ":" in found:
        raise UsageError(
            f"{name} names no directory: the unit {CLIENT_NET}.service runs this; install it with: "
            "svc service install client-net"
        )
    return Path(found)


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True

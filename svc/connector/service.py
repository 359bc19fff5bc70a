"""The Connector as a service: a fixed number of tunnels, each to a different Proxy.

It is composed from what ``compose`` hands in and knows no configuration,
metric or reactor of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.connector.cycle import Tunnels
from svc.connector.opening import ConnectorSessions
from svc.errors import SvcError
from svc.runtime.backoff import Backoff
from svc.runtime.services import AsyncService, bounded
from svc.tunnel.machine import TunnelCore, make_tunnel
from svc.tunnel.times import TunnelTimes

_log = Logger(namespace="svc_connector")

_FAREWELL_SECONDS = 3.0
"""How long a Proxy may take to answer our goodbye."""


class ConnectorService(AsyncService):
    """Dials at its start and never gives up; drains when it stops.

    Args:
        tunnels: As many as there are to be connections; they share the Proxies.
        sessions: The sessions of them all.
        backoff: Makes the waits of one connection between its dials.
        on_event: Hears the machine's words: ``registered``, ``ended``,
            ``refused``, ``reconnect``, each with a reason for people.
        serving: Called once, right before the first dial: the role is ready.
    """

    def __init__(
        self,
        tunnels: Sequence[Tunnels],
        sessions: ConnectorSessions,
        clock: IReactorTime,
        backoff: Callable[[], Backoff],
        on_event: Callable[[str, str], None],
        serving: Callable[[], object],
        times: TunnelTimes = TunnelTimes(),  # noqa: B008 - a frozen value
    ) -> None:
        self._tunnels = tuple(tunnels)
        self._sessions = sessions
        self._clock = clock
        self._times = times
        self._serving = serving
        self._machines = [
            make_tunnel(
                TunnelCore(clock=clock, begin=tunnel.begin, waits=backoff(), on_event=on_event)
            )
            for tunnel in self._tunnels
        ]

    async def start(self) -> None:
        """Be ready, and dial; whether a Proxy answers is found out in the background."""
        self._serving()
        for machine in self._machines:
            machine.start()

    def hurry(self) -> None:
        """Dial at once where a tunnel waits to: there may be something new to serve."""
        for machine in self._machines:
            machine.hurry()

    async def stop(self) -> None:
        """Refuse new sessions, let open ones finish for a while, say goodbye, end."""
        self._sessions.stop()
        await self._within(self._times.drain, self._sessions.drained, "the open sessions")
        self._sessions.close()
        # Each Proxy hears why its sessions end before it hears that the tunnel does.
        await self._within(_FAREWELL_SECONDS, self._sessions.left, "the ends of sessions")
        for machine in self._machines:
            machine.stop()
        for tunnel in self._tunnels:
            await self._within(_FAREWELL_SECONDS, tunnel.ended, "the end of a tunnel")

    async def _within(self, seconds: float, wait: Callable[[], Awaitable[None]], what: str) -> None:
        try:
            await bounded(self._clock, seconds, wait(), what)
        except SvcError as error:
            _log.warn("stopping without waiting any longer", what=what, reason=error.reason)

"""What a Proxy says on a tunnel, in order; whoever says it waits for nobody."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.rpc import IHeardCall
from svc.messages.tunnel import Down, Renewed, encode_down
from svc.model.session.tunnels import EndReason
from svc.runtime.services import BackgroundTasks
from svc.tunnel.times import end_reason

_log = Logger(namespace="svc_proxy")

JUST_RENEWED = Renewed()
"""The answer to a renewal that brought no health report, which is most of what is said."""

_RENEWED = encode_down(JUST_RENEWED)

MAX_UNSENT = 512
"""Messages a Connector may leave unread before its tunnel is given up."""


@define(eq=False)
class DownQueue:
    """The messages still to be sent to one Connector, in order, in bounded number."""

    call: IHeardCall
    tasks: BackgroundTasks
    failed: Callable[[EndReason], object]
    _unsent: list[Down] = field(factory=list)
    _saying: bool = False

    def send(self, message: Down) -> None:
        """Queue one message; never raises, never waits."""
        if not self._saying:
            self._say(message)
            return
        if isinstance(message, Renewed) and message in self._unsent:
            return
        if len(self._unsent) >= MAX_UNSENT:
            _log.warn(
                "a Connector does not read from its tunnel, so the Proxy closes it",
                unsent=MAX_UNSENT,
            )
            self.failed(EndReason.TRANSPORT_ERROR)
            return
        self._unsent.append(message)

    def _say(self, message: Down) -> None:
        # Without a coroutine where there is room, as there nearly always is.
        data = _RENEWED if message is JUST_RENEWED else encode_down(message)
        try:
            room = self.call.offer(data)
        except SvcError as e:
            self.failed(end_reason(e.reason))
            return
        if room is not None:
            self._saying = True
            self.tasks.spawn("speak to a tunnel", self._go_on(room))

    async def _go_on(self, room: Deferred[None]) -> None:
        try:
            await room
            while self._unsent:
                await self.call.send(encode_down(self._unsent.pop(0)))
        except SvcError as e:
            self.failed(end_reason(e.reason))
        finally:
            self._saying = False

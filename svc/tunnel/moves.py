"""Opens sessions whose streams may move, and moves them to their lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import (
    IAddress,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from svc.lanes.half import reach_lane
from svc.lanes.preface import Preface
from svc.rpc.endpoint import AwaitedEndpoint
from svc.runtime.dial_failure import dial_failure
from svc.tunnel.moving import MovingStream

_log = Logger(namespace="svc_tunnel")


async def move(
    stream: MovingStream, endpoint: IStreamClientEndpoint, preface: Preface, clock: IReactorTime
) -> None:
    """Bring a session's stream into the direct lane of this token.

    Whatever keeps the lane from being joined leaves the session where it is; so this
    raises nothing but cancellation.  Run it as a background task.

    Args:
        endpoint: The public listener of the Proxy that gave the token, over plain TCP.
    """
    try:
        lane = await reach_lane(endpoint, preface, clock)
    except CancelledError:
        raise
    except Exception as error:
        _log.info("a session stays in the tunnel", error=dial_failure(error))
    else:
        stream.move_to(lane)


class MovingEndpoint(AwaitedEndpoint):
    """An endpoint whose stream may move to a lane.

    Attributes:
        stream: Once it is connected.
    """

    def __init__(
        self,
        below: AwaitedEndpoint,
        clock: IReactorTime,
        after: int | None = None,
        ask: Callable[[MovingStream], object] = lambda _: None,
    ) -> None:
        self.stream: MovingStream | None = None
        self._below = below
        self._clock = clock
        self._after = after
        self._ask = ask

    async def connected(self, factory: IProtocolFactory) -> IProtocol:
        """Open the stream; what *factory* built, above it."""
        wrapping = Factory()
        wrapping.noisy = False
        wrapping.buildProtocol = lambda address: self._wrap(factory, address)  # type: ignore
        stream: Any = await self._below.connected(wrapping)  # it is what was built
        inner: IProtocol = stream.inner
        return inner

    def _wrap(self, factory: IProtocolFactory, address: IAddress) -> MovingStream | None:
        inner = factory.buildProtocol(address)
        if inner is None:
            return None
        self.stream = MovingStream(inner=inner, clock=self._clock, after=self._after, ask=self._ask)
        return self.stream

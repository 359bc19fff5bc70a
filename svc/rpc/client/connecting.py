"""Connects a protocol to an endpoint, and distinguishes a failure from a cancellation."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IProtocol, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol

from svc.errors import SvcError, Unavailable
from svc.runtime.dial_failure import dial_failure


class _Connecting(Deferred[IProtocol]):
    """Ends as the endpoint's own Deferred does, and knows whether it was cancelled.

    Endpoints do not agree on what they make of that: a name that is being
    looked up fails as one that does not exist.
    """

    def __init__(self, connecting: Deferred[IProtocol]) -> None:
        super().__init__()
        self.is_cancelled = False
        self._connecting = connecting
        connecting.addCallbacks(self.callback, self.errback)

    def cancel(self) -> None:
        """Cancel the endpoint's; what that leaves to be unwound is waited for."""
        self.is_cancelled = True
        self._connecting.cancel()


async def connect(endpoint: IStreamClientEndpoint, connection: Protocol) -> None:
    """Connect *connection* there.

    Raises:
        Unavailable: ``cannot_connect``.
    """
    factory = Factory.forProtocol(lambda: connection)
    factory.noisy = False
    connecting = _Connecting(endpoint.connect(factory))
    try:
        await connecting
    except Exception as failed:
        if connecting.is_cancelled or isinstance(failed, CancelledError):
            # Not that nobody answers: whoever stops us must not be dialled for again.
            raise CancelledError from failed
        if isinstance(failed, SvcError):
            raise
        raise Unavailable(
            f"cannot connect: {dial_failure(failed)}", reason="cannot_connect"
        ) from failed

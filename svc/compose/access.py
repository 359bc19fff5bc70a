"""The person's side of requests for access."""

from __future__ import annotations

from collections.abc import Callable

from svc.client.access import AccessClient, WaitingRequests
from svc.interfaces.rpc import IRpcChannel
from svc.pki.identity import TransportIdentity
from svc.runtime.context import Runtime

Channel = Callable[[], IRpcChannel]


def access_client(identity: TransportIdentity, runtime: Runtime, channel: Channel) -> AccessClient:
    """Asks for access, and decides about requests, over whatever *channel()* gives."""
    return AccessClient(
        channel=channel,
        identity=identity,
        verifier=identity.verifier,
        now=runtime.now,
        entropy=runtime.entropy,
    )


def waiting_requests(
    identity: TransportIdentity, runtime: Runtime, channel: Channel
) -> WaitingRequests:
    """Counts what waits for this person."""
    access = access_client(identity, runtime, channel)
    return WaitingRequests(access=access, clock=runtime.reactor)

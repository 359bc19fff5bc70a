"""Reaches the Authority's admin listener through a Proxy, as a person (rule R18).

Two connections, one inside the other: TLS to the Proxy, and in its admin lane
TLS to Authority, both with the person's certificate.  The Proxy relays the
bytes of the inner one and cannot read them.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from svc.compose.listeners.limits import log_problems, wire_limits
from svc.compose.person import PersonSide
from svc.config import Address
from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.join.lane import opened_lane
from svc.messages.relay import Lane
from svc.model.principal import Role
from svc.pki.tls import client_context
from svc.rpc.client.channel import dial
from svc.rpc.client.tls import TlsEndpoint
from svc.rpc.endpoint import StreamClientEndpoint

_LANE_SECS = 15.0
_NEXT_PROXY = (Fault.UNAVAILABLE, Fault.DEADLINE)

PROXY_TOO_OLD = "proxy_too_old"
_UNKNOWN_LANE = ("lane_not_served", "unknown_method")
"""How a Proxy that was built before this lane refuses it."""


@frozen
class AdminConnection:
    """Authority's admin listener, reached through a Proxy.

    Attributes:
        channel: To Authority.
        proxy: The connection that it is relayed through.
    """

    channel: IRpcChannel
    proxy: IRpcChannel

    async def close(self) -> None:
        """Close both."""
        await self.channel.close()
        await self.proxy.close()


async def open_administration(side: PersonSide) -> AdminConnection:
    """Connect through the first Proxy that can.

    The next one is tried where a Proxy is not reached, does not reach Authority, or is too old.

    Raises:
        SvcError: of the last Proxy that was tried.
    """
    problem: SvcError = Unavailable("no Proxy is configured", reason="proxy_unreachable")
    for address in side.settings.endpoints.proxy:
        try:
            return await _through(side, address)
        except SvcError as e:
            problem = SvcError(
                f"{address}: {e.text}", reason=e.reason, fault=e.fault, details=e.details
            )
            if e.fault not in _NEXT_PROXY and e.reason != PROXY_TOO_OLD:
                break
    raise problem


async def _through(side: PersonSide, address: Address) -> AdminConnection:
    proxy = await side.dial(address)
    try:
        return AdminConnection(await _inner(side, proxy), proxy)
    except SvcError as e:
        await proxy.close()
        raise _told(e) from None
    except BaseException:
        await proxy.close()
        raise


async def _inner(side: PersonSide, outer: IRpcChannel) -> IRpcChannel:
    """The connection to Authority, inside the lane."""
    clock, refused, lane_refused = side.runtime.reactor, list[SvcError](), list[SvcError]()

    async def opened() -> Any:
        try:
            return await opened_lane(outer, Lane.ADMIN, clock, _LANE_SECS)
        except SvcError as e:
            lane_refused.append(e)
            raise

    tls = client_context(
        side.identity.verifier,
        side.identity,
        roles=frozenset({Role.AUTHORITY}),
        refused=refused.append,
    )
    try:
        return await dial(
            TlsEndpoint(tls.begin, StreamClientEndpoint(opened)),
            clock,
            authority="authority",
            handshake_secs=side.settings.limits.handshake_secs,
            limits=wire_limits(side.settings),
            on_problem=log_problems(clock, "endpoints.admin_listen", "authority"),
        )
    except SvcError:
        # The dial wraps what went wrong below it in words of its own.
        for found in (lane_refused, refused):
            if found:
                raise found[-1] from None
        raise


def _told(refusal: SvcError) -> SvcError:
    """A refusal of the lane, for the person."""
    is_unknown = refusal.fault is Fault.INVALID and "unknown lane" in refusal.text
    if refusal.reason not in _UNKNOWN_LANE and not is_unknown:
        return refusal
    return SvcError(
        "this Proxy is of a version that does not forward commands to the Authority; upgrade the "
        "Proxy, or run the command on the Authority's host",
        reason=PROXY_TOO_OLD,
        fault=Fault.UNIMPLEMENTED,
    )

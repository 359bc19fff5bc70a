"""What every registration at a Proxy shares, and whose it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.errors import Unauthenticated
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall
from svc.messages.gated import CheckpointAnswer
from svc.model.ids import Entropy
from svc.model.principal import Principal
from svc.model.signing import Signed
from svc.proxy.sessions.limits import ConnectorRates
from svc.proxy.tunnels.queue import RegistrationQueue
from svc.proxy.tunnels.refusals import RelayStreams
from svc.proxy.uplink.link import AuthorityLink
from svc.tunnel.routes import RouteTable
from svc.tunnel.times import TunnelTimes


@define
class RegistrationParts:
    """The routes, the way to Authority, and the limits of Connectors.

    Attributes:
        queue: Where registrations wait for their turn at Authority.
        rates: What a Connector may cause by itself.
        proxy_revoked: Told when Authority ends a registration because this Proxy was revoked.
        unassigned: Told of a Connector that is refused because of what it is assigned, before
            its tunnel ends.
        checkpoint: Takes a Connector's checkpoint to Authority, by the Connector's id.
        bring_health: Takes a Connector's health report along to Authority, by the Connector's id.
    """

    routes: RouteTable
    link: AuthorityLink
    verifier: IChainVerifier
    streams: RelayStreams
    clock: IReactorTime
    entropy: Entropy
    times: TunnelTimes
    rates: ConnectorRates
    check_not_revoked: Callable[[Principal], object]
    proxy_revoked: Callable[[], object]
    unassigned: Callable[[str], object]
    checkpoint: Callable[[str, Signed], Awaitable[CheckpointAnswer]]
    bring_health: Callable[[str, Signed], object]
    queue: RegistrationQueue = field(factory=RegistrationQueue)


def node_of(call: IRpcCall) -> Principal:
    """The Connector that was admitted in the turn in which the call began.

    Raises:
        Unauthenticated: it is none.
    """
    if not isinstance(call.caller, Principal):
        raise Unauthenticated("a tunnel requires a Connector's certificate")
    return call.caller

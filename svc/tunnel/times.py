"""Every timeout and interval of a tunnel.

A peer that falls silent is found within interval plus timeout of the
keepalive, by either side (the RPC connection sends the pings and ends itself
with ``keepalive_failed``); a peer that answers pings but lost its mind, by
the lease.
"""

from __future__ import annotations

from attrs import frozen

from svc.model.session.tunnels import EndReason
from svc.rpc.keepalive import DIALER_SILENCE


@frozen
class TunnelTimes:
    """Seconds, all of them; tests and operators may shorten them.

    Attributes:
        keepalive_interval: Of silence, before a ping; at both ends.
        keepalive_timeout: Unanswered this long, the connection is ended.
        lease: A registration not renewed for this long ends.
        renew: How often the Connector renews it, at least.
        dial: For the connection to a Proxy, TLS included.
        acknowledge: For the answer to a registration.
        open: From the open notice to its carry stream, at the Proxy.
        reach_target: For the Connector to resolve and dial a target.
        handshake: For the TLS inside a session, end to end.
        drain: For open sessions to finish once we stop.
    """

    keepalive_interval: float = 15.0
    keepalive_timeout: float = 10.0
    lease: float = 90.0
    renew: float = 30.0
    dial: float = 15.0
    acknowledge: float = 30.0
    open: float = 15.0
    reach_target: float = 10.0
    handshake: float = 10.0
    drain: float = 30.0

    def renewal(self, lease: float) -> float:
        """Seconds from one renewal of such a lease to the next.

        A whole number of the silences after which the Connector pings, if one is short enough: a
        renewal that is answered then takes the place of a ping.
        """
        longest, silence = min(self.renew, lease / 3), DIALER_SILENCE * self.keepalive_interval
        return longest - longest % silence if longest >= silence else longest


REACH_SECS = 5.0
"""What a dial may take before its handshake begins: to find the address and to connect."""


def dial_secs(handshake: float, reach: float = REACH_SECS) -> float:
    """For a whole dial whose handshake may take so long."""
    return reach + handshake


_REASONS = {
    "closed": EndReason.CLOSED,
    "going_away": EndReason.CLOSED,
    "drained": EndReason.CLOSED,
    "goodbye": EndReason.CLOSED,
    "keepalive_failed": EndReason.KEEPALIVE_FAILED,
}


def end_reason(word: str) -> EndReason:
    """The reason a tunnel ended, from the word its connection ended with.

    A word nobody planned for is a broken transport, never an orderly end.
    """
    return _REASONS.get(word, EndReason.TRANSPORT_ERROR)

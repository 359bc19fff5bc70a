"""The seam to a Connector: a way to open one session, whatever carries it.

The session code of a Proxy holds an :class:`ITunnelTransport` and cannot tell
whether the bytes take the reverse tunnel here, a peer Proxy's, or another lane.
This page must not know RPC, TLS or how a session was decided.
"""

from __future__ import annotations

from attrs import field, frozen
from twisted.internet.interfaces import IStreamClientEndpoint
from zope.interface import Attribute, Interface

from svc.model.session.tunnels import EndReason
from svc.model.signing import Signed


@frozen
class OpenOrder:
    """Everything a Connector needs to check one session by itself (rule R2).

    A Proxy passes these bytes on as it got them; it can make none of them.

    Attributes:
        grant: Authority's, as signed.
        request: The person's ``SessionRequest`` bytes, and ``signature`` over them.
        person_chain: DER certificates, the person's leaf first.
        traceparent: Of the span this order belongs to; empty without one.
        first_flight: What the person's end says first, where the tunnel takes it with the order.
    """

    session_uid: str
    grant: Signed = field(repr=False)
    request: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    person_chain: tuple[bytes, ...] = field(repr=False)
    traceparent: str = ""
    first_flight: bytes = field(default=b"", repr=False)


class ICarriedSession(Interface):
    """A protocol that a tunnel connects, and that learns why its session is ended."""

    def tunnel_ended(reason: EndReason) -> None:
        """The tunnel is over, for this reason."""


class ITunnelTransport(Interface):
    """One Connector that can be asked to open sessions."""

    node_id: str = Attribute("The Connector's node id.")
    resources: frozenset[str] = Attribute("Ids of the resources it serves now.")
    sessions: frozenset[str] = Attribute("Uids of the sessions it carries now.")

    def endpoint(order: OpenOrder) -> IStreamClientEndpoint:
        """Where the session of this order is reached; good for one connect.

        Called by the Proxy's session code; nothing is sent before ``connect``.
        The Deferred of ``connect`` fails with ``SvcError``: the Connector's
        own reason word, ``open_deadline``, ``too_many_opens``, ``duplicate_session`` or
        ``tunnel_ended``.  Cancelling it forgets the order; a stream that comes
        for it afterwards is refused.
        """

    def close(reason: EndReason) -> None:
        """End the tunnel and what it carries.  The first reason wins; later calls do nothing.

        Never blocks; called by the route table (superseded, evicted), the
        lease, the connection's own end and the role's stop.
        """

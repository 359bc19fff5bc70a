"""The way to a session's Connector: a tunnel at this Proxy, or another Proxy with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.interfaces import IStreamClientEndpoint

from svc.errors import SvcError, Unavailable
from svc.interfaces.transport import OpenOrder
from svc.model.session.ending import ENDINGS, PEER_PROXY_REFUSED


class SessionRoute(Protocol):
    """What a session uses of it."""

    @property
    def takes_lanes(self) -> bool:
        """Whether its sessions may move to a direct lane."""

    @property
    def takes_first_flight(self) -> bool:
        """Whether an order may hold what the person's end says first."""

    @property
    def open_for_sessions(self) -> bool:
        """Whether a new order makes sense."""

    def endpoint(self, order: OpenOrder) -> IStreamClientEndpoint:
        """Where the session of this order is reached; good for one connect."""

    def offer_lane(self, session_uid: str, token: bytes) -> None:
        """Tell the Connector that a session it carries may move."""

    def lost_word(self, lost: SvcError) -> str:
        """The word of a session's end whose stream broke so, where nobody said why.

        Empty: this Proxy's own snapshot is to say it, and has not come yet.
        """


class OtherProxies(Protocol):
    """The other Proxies of the cluster, as sessions use them that entered here."""

    def route(
        self, proxy_id: str, address: str, source_address: str, check: Callable[[], object]
    ) -> SessionRoute:
        """The way through this one.

        Args:
            proxy_id: By the grant.
            address: Where the Authority says that it is.
            source_address: Of the person, as seen here.
            check: Raises Denied where the newest snapshot ends this session, or its person.

        Raises:
            SvcError: this Proxy relays no sessions.
        """

    def check(self, proxy_id: str, connector_id: str) -> None:
        """Return if sessions may go through it to this Connector.

        Raises:
            Denied: one of the two was revoked.
        """


class NoOtherProxies:
    """Of a Proxy that relays no sessions."""

    def route(
        self, proxy_id: str, address: str, source_address: str, check: Callable[[], object]
    ) -> SessionRoute:
        """See :class:`OtherProxies`; always refused."""
        raise Unavailable(ENDINGS[PEER_PROXY_REFUSED], reason=PEER_PROXY_REFUSED)

    def check(self, proxy_id: str, connector_id: str) -> None:
        """See :class:`OtherProxies`."""

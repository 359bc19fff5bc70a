"""At the Proxy: decides each API request."""

from __future__ import annotations

from collections.abc import Mapping

from svc.interfaces.gating import IGatedSession
from svc.kinds.kube.request import request_info
from svc.kinds.kube.terms import action_of, facts_of
from svc.kinds.web.gate import serve_requests
from svc.kinds.web.head import BadHead, HttpRequest
from svc.model.policy.access import ContextValue


def asked(head: HttpRequest) -> tuple[str, Mapping[str, ContextValue]]:
    """Action and facts of a request.

    Raises:
        BadHead: it is none that is taken.
    """
    if head.headers.all(b"upgrade") and not head.upgrades:
        raise BadHead("only WebSockets are opened here, not SPDY or HTTP/2", reason="upgrade")
    info = request_info(head)
    return action_of(info), facts_of(info)


async def serve(session: IGatedSession) -> None:
    """One connection, from its first request to its end."""
    await serve_requests(session, asked)

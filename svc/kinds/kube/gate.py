"""At the Proxy: decides each API request."""

from __future__ import annotations

from collections.abc import Mapping

from svc.interfaces.gating import IGatedSession
from svc.kinds.kube.request import request_info
from svc.kinds.kube.terms import ACCESS, ESCAPE, action_of, facts_of
from svc.kinds.web.gate import serve_requests
from svc.kinds.web.head import HttpRequest
from svc.model.policy.access import ContextValue


def asked(head: HttpRequest) -> tuple[str, Mapping[str, ContextValue]]:
    """Action and facts of a request; raises BadHead where the API server has none.

    One that asks for SPDY is decided as well, so that kubectl, which tries it after a denial, is
    denied again and says so.  What is allowed gets to the server without the wish to upgrade.
    """
    info = request_info(head)
    action = action_of(info)
    if head.upgrades and action == ACCESS and info.verb != "watch" and info.subresource != "log":
        action = ESCAPE  # a stream of an API of somebody's own, such as a machine's console
    return action, facts_of(info)


async def serve(session: IGatedSession) -> None:
    """One connection, from its first request to its end."""
    await serve_requests(session, asked)

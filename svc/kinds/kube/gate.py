"""At the Proxy: decides each API request."""

from __future__ import annotations

from collections.abc import Mapping

from svc.interfaces.gating import IGatedSession
from svc.kinds.kube.actions import ACCESS, ESCAPE, action_of
from svc.kinds.kube.last_word import end_of_stream
from svc.kinds.kube.request import PROTOCOLS, request_info
from svc.kinds.kube.review import access_question
from svc.kinds.kube.terms import facts_of
from svc.kinds.web.gate import serve_requests
from svc.kinds.web.head import SPDY, HttpRequest
from svc.kinds.web.reading import RequestReading
from svc.model.policy.access import ContextValue


def asked(head: HttpRequest) -> tuple[str, Mapping[str, ContextValue]]:
    """Action and facts of a request; raises BadHead where the API server has none."""
    info = request_info(head)
    action = action_of(info)
    facts = facts_of(info)
    is_spdy = head.protocol == SPDY
    is_read = not is_spdy and (info.verb == "watch" or info.subresource == "log")
    if head.upgrades and action == ACCESS and not is_read:
        action = ESCAPE  # a stream of an API of somebody's own, such as a machine's console
    return action, {**facts, "opaque_upgrade": True} if is_spdy else facts


async def serve(session: IGatedSession) -> None:
    """One connection, from its first request to its end."""
    await serve_requests(session, READING)


READING = RequestReading(
    asked=asked, protocols=PROTOCOLS, end_of=end_of_stream, question=access_question
)

"""How the gate of a kind reads its requests, where they are HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from svc.kinds.web.head import WEBSOCKETS, HttpRequest, Protocols
from svc.kinds.web.last_word import EndOf, websocket_end
from svc.model.policy.access import ContextValue

Asked = Callable[[HttpRequest], tuple[str, Mapping[str, ContextValue]]]
"""The action that a request is decided by, and its facts; raises BadHead where it has none."""

Allows = Callable[[str, Mapping[str, ContextValue]], bool]
"""Whether the policy allows an action with these facts; not where nobody can tell now."""

Question = Callable[[bytes, Allows], Mapping[str, str] | None]
"""Given the body of a request that asks what is allowed: the values of the answer that policy
itself has for it, or None where the target may answer.  Raises BadHead where it cannot be read."""

MOST_QUESTION = 64 * 1024
"""The longest body of such a request."""


def nothing_asked(head: HttpRequest) -> Question | None:
    """A target has nothing to say about the policy."""
    return None


@frozen(kw_only=True)
class RequestReading:
    """What a gate knows of its kind's requests.

    Attributes:
        protocols: Those that a request may ask to switch to.
        end_of: How an answer that lasts can be told of its end.
        question: What the policy answers to a request that asks what is allowed.
    """

    asked: Asked
    protocols: Protocols = WEBSOCKETS
    end_of: EndOf = websocket_end
    question: Callable[[HttpRequest], Question | None] = nothing_asked

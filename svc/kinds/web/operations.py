"""The sorts of requests that a Connector tells apart: by method, and those that upgrade."""

from __future__ import annotations

from svc.interfaces.kinds import Operation
from svc.kinds.web.head import HttpRequest

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
OTHER = "other"
"""Of all other methods: nothing is known of them before they come."""

UPGRADE = "upgrade"


def operations(action: str) -> dict[str, Operation]:
    """Those of requests that this action decides."""
    return {
        **{method: Operation(action, {"method": method}) for method in _METHODS},
        OTHER: Operation(action),
        UPGRADE: Operation(action, {"upgrade": True}),
    }


def operations_of(head: HttpRequest) -> tuple[str, ...]:
    """Those that a request is of; all of them have to be allowed."""
    method = head.method.decode("ascii")
    name = method if method in _METHODS else OTHER
    return (name, UPGRADE) if head.upgrades else (name,)

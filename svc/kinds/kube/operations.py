"""The sorts of requests that a Connector tells apart: by action, and of plain ones by verb.

The verb is the one that the API server authorizes by (``svc.kinds.kube.request``).
"""

from __future__ import annotations

from collections.abc import Iterable

from svc.interfaces.kinds import Operation
from svc.kinds.kube.actions import ACCESS, action_of
from svc.kinds.kube.request import request_info
from svc.kinds.web.head import HttpRequest

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_OTHER = "other"


def operations(actions: Iterable[str]) -> dict[str, Operation]:
    """Those of all requests.

    Args:
        actions: What decides requests, but for ``k8sAccess``.
    """
    return {
        **{verb: Operation(ACCESS, {"verb": verb}) for verb in _VERBS},
        _OTHER: Operation(ACCESS),
        **{action: Operation(action) for action in actions},
    }


def operations_of(head: HttpRequest) -> tuple[str, ...]:
    """The one that a request is of.

    Raises:
        BadHead: an API server would refuse it too, or servers would read it in two ways.
    """
    info = request_info(head)
    action = action_of(info)
    if action != ACCESS:
        return (action,)
    return (info.verb if info.verb in _VERBS else _OTHER,)

"""The Cedar action that decides a request to an API server."""

from __future__ import annotations

from svc.kinds.kube.request import RequestInfo

ACCESS = "k8sAccess"
"""The action of each request that has no action of its own."""

ESCAPE = "k8sEscape"
"""The action of requests that lead around the gate: what they start, or hand out, no gate reads."""

BY_SUBRESOURCE = {"exec": "k8sExec", "attach": "k8sAttach", "portforward": "k8sPortForward"}
_ESCAPES = frozenset({"proxy", "token", "approval", "ephemeralcontainers"})


def action_of(info: RequestInfo) -> str:
    """The action that decides a request: by its subresource, whatever its verb.

    An exec over a WebSocket is a GET, and one over SPDY is a POST.
    """
    if info.subresource in _ESCAPES or (info.is_resource and info.verb == "proxy"):
        return ESCAPE
    return BY_SUBRESOURCE.get(info.subresource, ACCESS)

"""How policies speak of Kubernetes API requests."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.kube.request import RequestInfo
from svc.model.policy.access import ContextValue

ACCESS = "k8sAccess"
"""The action of each request that has no action of its own."""

ESCAPE = "k8sEscape"
"""The action of requests that lead around the gate: what they start, or hand out, no gate reads."""

_BY_SUBRESOURCE = {"exec": "k8sExec", "attach": "k8sAttach", "portforward": "k8sPortForward"}
_ESCAPES = frozenset({"proxy", "token", "approval", "ephemeralcontainers"})

TERMS = KindTerms(
    "KubernetesCluster",
    open_action="k8sConnect",
    actions={
        "k8sConnect": "connect",
        ACCESS: "kube",
        **dict.fromkeys(_BY_SUBRESOURCE.values(), "kube"),
        ESCAPE: "kube",
    },
    context={
        "verb": "String",
        "api_group": "String",
        "api_version": "String public",
        "api_resource": "String",
        "object_namespace": "String",
        "object_name": "String",
        "path": "String",
        "opaque_upgrade": "Bool public",
    },
    protocol="kube",
    guarded=frozenset({ESCAPE}),
)


def action_of(info: RequestInfo) -> str:
    """The action that decides a request: by its subresource, whatever its verb.

    An exec over a WebSocket is a GET, and one over SPDY is a POST.
    """
    if info.subresource in _ESCAPES or (info.is_resource and info.verb == "proxy"):
        return ESCAPE
    return _BY_SUBRESOURCE.get(info.subresource, ACCESS)


def facts_of(info: RequestInfo) -> dict[str, ContextValue]:
    """What policies read of a request; a name or namespace only where it has one."""
    if not info.is_resource:
        return {"verb": info.verb, "path": info.path}
    within = f"/{info.subresource}" if info.subresource else ""
    told: dict[str, ContextValue] = {
        "verb": info.verb,
        "api_group": info.group,
        "api_version": info.version,
        "api_resource": info.resource + within,
    }
    if info.namespace:
        told["object_namespace"] = info.namespace
    if info.name:
        told["object_name"] = info.name
    return told

"""How policies speak of Kubernetes API requests."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.kube.actions import ACCESS, BY_SUBRESOURCE, ESCAPE
from svc.kinds.kube.operations import operations
from svc.kinds.kube.request import RequestInfo
from svc.kinds.web.words import ANSWERED_HERE
from svc.model.policy.access import ContextValue

_REQUESTS = (*BY_SUBRESOURCE.values(), ESCAPE)

TERMS = KindTerms(
    "KubernetesCluster",
    open_action="k8sConnect",
    actions={
        "k8sConnect": "connect",
        ACCESS: "kube",
        **dict.fromkeys(_REQUESTS, "kube"),
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
    reasons={
        ANSWERED_HERE: "the request asks what the policy allows: svc answered it by itself, and "
        "did not send it to the cluster",
    },
    operations=operations(_REQUESTS),
)


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

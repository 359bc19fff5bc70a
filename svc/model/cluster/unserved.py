"""Why nobody serves a resource, or not everybody is served it: stable words, and what to do.

Pure.  Authority finds the word (``svc.authority.registry.coverage``); commands and ``svc doctor``
say it in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from svc.model.cluster.registration import GATE_NOT_OFFERED, PERMITS_NONE
from svc.model.cluster.scope import MODE_REQUIRED, REFUSALS

UNASSIGNED = "unassigned"
NODE_REVOKED = "node_revoked"
NOT_CONNECTED = "not_connected"
REGISTRATION_REFUSED = "registration_refused"
REGISTERING = "registering"
NOT_DECLARED = "not_declared"
KIND_MISMATCH = "kind_mismatch"
NOT_FOUND_ANY_MORE = "not_found_any_more"
NOT_IN_CATALOG = "not_in_catalog"
PARTLY_SERVED = "partly_served"

_ASSIGN = "svc authority resources assign ID --node NAME"

PROBLEMS: Mapping[str, str] = MappingProxyType(
    {
        UNASSIGNED: f"no Connector is assigned to it: {_ASSIGN}",
        NODE_REVOKED: f"its Connector was revoked: assign it to another: {_ASSIGN}",
        NOT_CONNECTED: "its Connector {node} is not connected: start it; if it runs, its log and "
        "`svc doctor` there say what keeps it from a Proxy",
        REGISTRATION_REFUSED: "its Connector {node} is refused ({reason}): its log says what to "
        "correct there",
        PERMITS_NONE: "its Connector {node} is connected, and none of the resources that it "
        "declares is assigned to it: compare the ids and kinds in connector.resources there with "
        "this list",
        REGISTERING: "its Connector {node} is about to register it: look again in a few seconds",
        NOT_DECLARED: "its Connector {node} is connected and does not declare it: add this id to "
        "connector.resources there, or remove it here: svc authority resources remove ID",
        KIND_MISMATCH: "its Connector {node} declares it as another kind: correct the kind in "
        "connector.resources there, or remove the resource and add it with that kind",
        GATE_NOT_OFFERED: "its Connector {node} is too old for the SSH gate in force: upgrade it",
        NOT_FOUND_ANY_MORE: "no Connector finds it any more",
        NOT_IN_CATALOG: "{node} offers it and may not serve it: correct its id in "
        "connector.resources there, or add it: svc authority resources add ID --kind KIND --node "
        "NAME (one that is in this list as assigned to nobody: svc authority resources assign)",
        PARTLY_SERVED: "its Connector {node} is not connected to {missing}: whoever uses that "
        "Proxy cannot reach it; list every Proxy in endpoints.proxy there, and raise "
        "connector.proxy_connection_count",
        MODE_REQUIRED: REFUSALS[MODE_REQUIRED],
    }
)
"""Each word, and what is so and what to do next; ``{node}`` is the name of the Connector."""


def problem_text(
    word: str, *, node: str = "", reason: str = "", missing: Sequence[str] = ()
) -> str:
    """What is told of a problem; empty where there is none.

    Args:
        word: Of :data:`PROBLEMS`, or of :data:`svc.model.cluster.scope.REFUSALS`.
        reason: Of a registration that is refused.
        missing: Names of the Proxies without it.
    """
    if not word:
        return ""
    key = PERMITS_NONE if (word, reason) == (REGISTRATION_REFUSED, PERMITS_NONE) else word
    form = PROBLEMS.get(key) or REFUSALS.get(key)
    if form is None:
        return f"it is not served ({word})"
    return form.format(node=node, reason=reason, missing=", ".join(missing))

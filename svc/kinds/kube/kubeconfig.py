"""Kubeconfigs that name local endpoints and hold no credential."""

from __future__ import annotations

import json
from collections.abc import Mapping

FIRST_LINE = "# Written by svc; what you change here is lost when it is written again.\n"
"""Of every file that svc may write over."""

_WITHOUT_TLS = "    insecure-skip-tls-verify: true  # for clients that take no http:// without it"


def kubeconfig(addresses: Mapping[str, str], current: str = "") -> bytes:
    """One context for each cluster, ``svc-`` and its name.

    Args:
        addresses: Of local endpoints, ``host:port``, by the names of their resources.
        current: The cluster whose context is in use; empty: none is.
    """
    names = {resource: json.dumps(f"svc-{resource}") for resource in sorted(addresses)}
    lines = ["apiVersion: v1", "kind: Config", "clusters:" if names else "clusters: []"]
    for resource, name in names.items():
        server = json.dumps(f"http://{addresses[resource]}")
        lines += [f"- name: {name}", "  cluster:", f"    server: {server}", _WITHOUT_TLS]
    lines.append("users:" if names else "users: []")
    for name in names.values():
        lines += [f"- name: {name}", "  user: {}"]
    lines.append("contexts:" if names else "contexts: []")
    for name in names.values():
        lines += [f"- name: {name}", "  context:", f"    cluster: {name}", f"    user: {name}"]
    if current:
        lines.append(f"current-context: {names[current]}")
    return (FIRST_LINE + "\n".join(lines) + "\n").encode("ascii")

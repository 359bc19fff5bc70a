"""What is signed of the catalog's rows: of resources, and of the scopes of discovery."""

from __future__ import annotations

from svc.model.audit.state import StateEntry, exact_time, row_entry
from svc.model.canonical import Json
from svc.model.cluster.registration import Epoch
from svc.model.cluster.resource import Resource, first_identity
from svc.model.cluster.scope import DiscoveryScope


def resource_entry(resource: Resource) -> StateEntry:
    """A resource with its labels, its identity and its assignment.

    The first of its id under its first assignment has the form of before
    identities were kept: so what was signed for then is in force still.
    """
    fields: dict[str, Json] = {
        "kind": resource.kind,
        "labels": [list(pair) for pair in sorted(resource.labels.items())],
        "assigned_to": resource.assigned_to,
        "source": resource.source.value,
        "revision": str(resource.revision),
    }
    if resource.identity != first_identity(resource.id):
        fields["identity"] = resource.identity
    if resource.assignment_revision != (0 if resource.assigned_to is None else 1):
        fields["assignment"] = str(resource.assignment_revision)
    if resource.onward_auth is not None:
        fields["onward_auth"] = resource.onward_auth.value
    return row_entry(f"resource:{resource.id}", fields)


def scope_entry(scope: DiscoveryScope) -> StateEntry:
    """A scope of discovery, whole."""
    return row_entry(
        f"scope:{scope.name}",
        {
            "kinds": list(scope.kinds),
            "onward_auth": [one.value for one in scope.onward_auth],
            "connectors": list(scope.connectors),
            "id_prefix": scope.id_prefix,
            "match_labels": [list(pair) for pair in sorted(scope.match_labels.items())],
            "labels": [list(pair) for pair in sorted(scope.labels.items())],
            "origin": scope.origin.value,
            "revision": str(scope.revision),
            "set": [exact_time(scope.set_at), scope.set_by],
        },
    )


def epoch_entry(epoch: Epoch) -> StateEntry:
    """An epoch in force, whole."""
    return row_entry(
        f"epoch:{epoch.name}",
        {
            "epoch": str(epoch.epoch),
            "activated": [exact_time(epoch.activated_at), epoch.activated_by],
        },
    )

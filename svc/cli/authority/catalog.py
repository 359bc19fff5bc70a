"""``svc authority resources``: what the cluster serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import click

from svc.cli.control import admin
from svc.cli.forms import WORD, labels_of
from svc.cli.groups import Group
from svc.cli.next_commands import completed
from svc.cli.output import hint, json_option, labels, moment, print_list, print_result
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.unserved import (
    NOT_DECLARED,
    NOT_IN_CATALOG,
    REGISTRATION_REFUSED,
    problem_text,
)
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped

_TOLD = 5
_NOT_DECLARED = (NOT_DECLARED, REGISTRATION_REFUSED)
_MODES = ", ".join(one.value for one in OnwardAuth)


@click.group(cls=Group)
def resources() -> None:
    """Add resources to the catalog, and assign them to Connectors."""


@resources.command("add")
@click.argument("resource", metavar="ID", type=WORD)
@click.option(
    "--kind",
    required=True,
    type=WORD,
    metavar="KIND",
    help="A resource kind that is enabled, such as tcp or ssh.",
)
@click.option(
    "--node", type=WORD, metavar="NODE", help="The Connector that serves it, by id or name."
)
@click.option(
    "--label", "given", multiple=True, type=WORD, metavar="K=V", help="A label; may be repeated."
)
@click.option(
    "--onward-auth",
    "mode",
    type=WORD,
    metavar="MODE",
    help=f"How its Connector signs on at the target: {_MODES}.",
)
@json_option
@click.pass_context
def add_resource(
    context: click.Context,
    resource: str,
    kind: str,
    node: str | None,
    given: tuple[str, ...],
    mode: str | None,
    as_json: bool,
) -> None:
    r"""Add the resource ID, a DNS label, and assign it to a Connector.

    It replaces a resource of that id that a Connector discovered.

    Example:
        svc --config authority.toml authority resources add web1 --kind ssh --node c1 \
            --label env=production --onward-auth stored_key
    """
    request = pb.AddResourceRequest(
        id=resource, kind=kind, node=node or "", labels=labels_of(given), onward_auth=mode or ""
    )
    answer = admin(context)("AddResource", request, pb.AddResourceResponse)
    result = {"id": resource, "catalog_version": answer.catalog_version}
    print_result(as_json, result, [f"added {resource}, catalog version {answer.catalog_version}"])


@resources.command("set")
@click.argument("resource", metavar="ID", type=WORD)
@click.option(
    "--onward-auth",
    "mode",
    required=True,
    type=WORD,
    metavar="MODE",
    help=f"How its Connector signs on at the target: {_MODES}.",
)
@json_option
@click.pass_context
def set_resource(context: click.Context, resource: str, mode: str, as_json: bool) -> None:
    """Choose how the Connector of ID signs on at the target.

    Example:
        svc --config authority.toml authority resources set web1 --onward-auth certificate
    """
    request = pb.SetResourceRequest(id=resource, onward_auth=mode)
    answer = admin(context)("SetResource", request, pb.SetResourceResponse)
    result = {
        "id": resource,
        "onward_auth": mode,
        "changed": answer.changed,
        "catalog_version": answer.catalog_version,
    }
    text = f"set {resource} to {mode}, catalog version {answer.catalog_version}"
    print_result(as_json, result, [text if answer.changed else f"{resource} has {mode} already"])


@resources.command("assign")
@click.argument("resource", metavar="ID", type=WORD)
@click.option(
    "--node", required=True, type=WORD, metavar="NODE", help="A Connector, by id or name."
)
@json_option
@click.pass_context
def assign_resource(context: click.Context, resource: str, node: str, as_json: bool) -> None:
    """Assign ID to another Connector, and end its sessions through the previous one.

    First remove ID from the configuration of the previous Connector: as long as that
    declares a resource of another Connector, its whole registration is refused
    (`resource_owned_by_peer`), with everything else that it serves.

    Example:
        svc --config authority.toml authority resources assign web1 --node c2
    """
    _assign(context, resource, node, as_json)


@resources.command("unassign")
@click.argument("resource", metavar="ID", type=WORD)
@json_option
@click.pass_context
def unassign_resource(context: click.Context, resource: str, as_json: bool) -> None:
    """Remove the assignment of ID and end its sessions; ID stays in the catalog."""
    _assign(context, resource, "", as_json)


def _assign(context: click.Context, resource: str, node: str, as_json: bool) -> None:
    request = pb.AssignResourceRequest(id=resource, node=node)
    answer = admin(context)("AssignResource", request, pb.AssignResourceResponse)
    result = {
        "id": resource,
        "changed": answer.changed,
        "assignment_revision": answer.assignment_revision or None,
        "catalog_version": answer.catalog_version or None,
    }
    done = f"assigned {resource} to {node}" if node else f"unassigned {resource}"
    text = f"{done}, assignment {answer.assignment_revision}, catalog {answer.catalog_version}"
    same = f"{resource} is already assigned to {node}" if node else f"{resource} is not assigned"
    print_result(as_json, result, [text if answer.changed else same])


@resources.command("move")
@click.option(
    "--from",
    "source",
    required=True,
    type=WORD,
    help="The Connector they are assigned to now, by id or name; it may be revoked.",
)
@click.option(
    "--to", "target", required=True, type=WORD, help="An active Connector, by id or name."
)
@json_option
@click.pass_context
def move_resources(context: click.Context, source: str, target: str, as_json: bool) -> None:
    """Assign all resources of one Connector to another, all at once or none.

    If a new Connector has the name of the revoked one, --from and --to may be the
    same name.  Sessions through the previous Connector end, as with `assign`.

    Example:
        svc --config authority.toml authority resources move --from c1 --to c2
    """
    request = pb.MoveResourcesRequest(to=target, **{"from": source})
    answer = admin(context)("MoveResources", request, pb.MoveResourcesResponse)
    before, after = getattr(answer, "from"), answer.to
    result = {
        "moved": list(answer.ids),
        "from": _moved_node(before),
        "to": _moved_node(after),
        "catalog_version": answer.catalog_version,
    }
    was = f"{before.name} ({before.id}{', revoked' if before.state == 'revoked' else ''})"
    done = f"moved {', '.join(answer.ids)} from {was} to {after.name} ({after.id})"
    text = f"{done}, catalog version {answer.catalog_version}"
    print_result(as_json, result, [text if answer.ids else f"no resources are assigned to {was}"])


@resources.command("remove")
@click.argument("resource", metavar="ID", type=WORD)
@json_option
@click.pass_context
def remove_resource(context: click.Context, resource: str, as_json: bool) -> None:
    """Remove ID permanently; a resource added later with the same id is a different one."""
    request = pb.RemoveResourceRequest(id=resource)
    answer = admin(context)("RemoveResource", request, pb.RemoveResourceResponse)
    result = {"id": resource, "catalog_version": answer.catalog_version}
    print_result(as_json, result, [f"removed {resource}, catalog version {answer.catalog_version}"])


@resources.command("bindings")
@click.argument("resource", metavar="ID", type=WORD)
@json_option
@click.pass_context
def list_bindings(context: click.Context, resource: str, as_json: bool) -> None:
    """List every assignment of ID, oldest first, including those of removed resources."""
    request = pb.ListBindingsRequest(id=resource)
    answer = admin(context)("ListBindings", request, pb.ListBindingsResponse)
    rows = [
        [
            moment(row.bound_at),
            row.node_name,
            row.node_id,
            str(row.assignment_revision),
            "current" if row.current else "past",
            row.identity,
        ]
        for row in answer.bindings
    ]
    result = [_binding(row) for row in answer.bindings]
    print_list(
        as_json, result, ["SINCE", "NODE", "NODE ID", "ASSIGNMENT", "STATE", "IDENTITY"], rows
    )


@resources.command("list")
@json_option
@click.pass_context
def list_resources(context: click.Context, as_json: bool) -> None:
    """List the catalog with each resource's state, and what else Connectors offer.

    Below the list stands what is wrong with each resource that nobody serves now, or that some
    Proxies cannot reach, and what to do.  `not_in_catalog` means that a declaration, an assignment
    or a scope is missing, not that the Connector must join again.
    """
    answer = admin(context)("ListResources", pb.ListResourcesRequest(), pb.ListResourcesResponse)
    rows = [
        [
            row.id,
            row.kind,
            row.state,
            _owner(row),
            row.source or "-",
            row.onward_auth or "-",
            labels(row.labels),
        ]
        for row in answer.resources
    ]
    result = [_resource(row) for row in answer.resources]
    columns = ["ID", "KIND", "STATE", "NODE", "SOURCE", "ONWARD AUTH", "LABELS"]
    print_list(as_json, result, columns, rows)
    if not as_json:
        hint(_problems(answer.resources))


def _problems(rows: Sequence[pb.ResourceRow]) -> list[str]:
    """What is wrong and what to do, a line for the resources that have it in common."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.problem:
            found.setdefault(_problem(row), []).append(row.id)
    lines = [
        f"{', '.join(ids[:_TOLD])}{f' and {len(ids) - _TOLD} more' if ids[_TOLD:] else ''}: {text}"
        for text, ids in found.items()
    ]
    return [escaped(line) for line in (*lines, *_misspelled(rows))]


def _problem(row: pb.ResourceRow) -> str:
    return problem_text(
        row.problem,
        node=row.node_name or row.node_id,
        reason=row.problem_reason,
        missing=row.missing,
    )


def _misspelled(rows: Sequence[pb.ResourceRow]) -> Iterator[str]:
    """Ids of one Connector that are so alike that one of them may be meant for the other."""
    offered: dict[str, list[str]] = {}
    for row in rows:
        if row.problem == NOT_IN_CATALOG:
            offered.setdefault(row.node_id, []).append(row.id)
    for row in rows:
        if row.problem in _NOT_DECLARED:
            alike = get_close_matches(row.id, offered.get(row.node_id, ()), 1)
            if alike:
                yield f"{row.id} and {alike[0]}: is one of the names misspelled?"


def _owner(row: pb.ResourceRow) -> str:
    name = row.node_name or row.node_id
    return f"{name} (revoked)" if row.node_state == "revoked" else name


def _moved_node(one: pb.MovedNode) -> dict[str, object]:
    return {"id": one.id, "name": one.name, "state": one.state}


def _resource(row: pb.ResourceRow) -> dict[str, object]:
    return {
        "id": row.id,
        "kind": row.kind,
        "state": row.state,
        "node_id": row.node_id or None,
        "node_name": row.node_name or None,
        "node_state": row.node_state or None,
        "labels": dict(sorted(row.labels.items())),
        "revision": row.revision,
        "source": row.source or None,
        "identity": row.identity or None,
        "assignment_revision": row.assignment_revision or None,
        "onward_auth": row.onward_auth or None,
        "scope": row.scope or None,
        "refusal": row.refused or None,
        "problem": completed(_problem(row)) or None,
        "proxy_names": list(row.proxies),
        "missing_proxies": list(row.missing),
    }


def _binding(row: pb.BindingRow) -> dict[str, object]:
    return {
        "identity": row.identity,
        "node_id": row.node_id or None,
        "node_name": row.node_name or None,
        "revision": row.revision,
        "assignment_revision": row.assignment_revision,
        "state": "current" if row.current else "past",
        "bound_at": moment(row.bound_at) or None,
    }

"""``svc authority resources``: what the cluster serves."""

from __future__ import annotations

import click

from svc.cli.control import admin
from svc.cli.forms import WORD, labels_of
from svc.cli.output import document, labels, say, table
from svc.proto.gate.v1 import admin_pb2 as pb


@click.group(no_args_is_help=False)
def resources() -> None:
    """The catalog."""


@resources.command("add")
@click.argument("resource", metavar="ID", type=WORD)
@click.option("--kind", required=True, type=WORD, help="An enabled kind, such as tcp or ssh.")
@click.option("--node", type=WORD, help="The Connector that serves it, by id or name.")
@click.option("--label", "given", multiple=True, type=WORD, metavar="K=V", help="May be repeated.")
@click.pass_context
def add_resource(
    context: click.Context, resource: str, kind: str, node: str | None, given: tuple[str, ...]
) -> None:
    """Add the resource ID, a DNS label, and assign it to a Connector."""
    request = pb.AddResourceRequest(
        id=resource, kind=kind, node=node or "", labels=labels_of(given)
    )
    answer = admin(context)("AddResource", request, pb.AddResourceResponse)
    say([f"added {resource}, catalog version {answer.catalog_version}"])


@resources.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def list_resources(context: click.Context, as_json: bool) -> None:
    """List the catalog with each resource's state, and what Connectors offer beside it."""
    answer = admin(context)("ListResources", pb.ListResourcesRequest(), pb.ListResourcesResponse)
    if as_json:
        say([document([_resource(row) for row in answer.resources])])
        return
    rows = [
        [row.id, row.kind, row.state, row.node_name or row.node_id, labels(row.labels)]
        for row in answer.resources
    ]
    say(table(["ID", "KIND", "STATE", "NODE", "LABELS"], rows))


def _resource(row: pb.ResourceRow) -> dict[str, object]:
    return {
        "id": row.id,
        "kind": row.kind,
        "state": row.state,
        "node_id": row.node_id or None,
        "node_name": row.node_name or None,
        "labels": dict(sorted(row.labels.items())),
        "revision": row.revision,
        "source": row.source or None,
    }

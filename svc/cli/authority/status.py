"""``svc authority status``: the running Authority in one look."""

from __future__ import annotations

import click

from svc.cli.control import admin
from svc.cli.output import document, json_option, moment, pairs, print_lines, table, with_nulls
from svc.proto.gate.v1 import admin_pb2 as pb


@click.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show versions, counts, what Connectors serve, and why the Authority is not ready, if so.

    `policy version`, `catalog version`, `store level`, what Connectors serve and the last record
    of the audit log are what to compare before and after an upgrade.
    """
    answer = admin(context)("Status", pb.StatusRequest(), pb.StatusResponse)
    facts = _facts(answer)
    if as_json:
        print_lines([document(with_nulls(facts))])
        return
    facts["ready"] = "no" if answer.not_ready else "yes"
    facts["unsigned"] = ", ".join(answer.unsigned) or "none"
    facts["store"] = f"{answer.store_level} ({answer.store_count})"
    waiting, held = facts.pop("queued_rows"), facts.pop("held_rows")
    facts["audit_queue"] = f"{waiting} rows waiting ({held} held)"
    del facts["serving"]
    for name in ("root_epoch", "material_revision", "prepared_root_epoch", "rotation_paused"):
        del facts[name]
    prepared = f"epoch {answer.prepared_root}" if answer.prepared_root else "none"
    facts["root"] = (
        f"epoch {answer.root_epoch}, material revision {answer.material_revision}, "
        f"preparation: {prepared}"
    )
    facts["rotation"] = "paused" if answer.rotation_paused else "not paused"
    meant = sum(one.resources for one in answer.serving)
    facts["served"] = f"{sum(one.resources_served for one in answer.serving)} of {meant} resources"
    print_lines(pairs((name.replace("_", " "), value) for name, value in facts.items()))
    less = [one for one in answer.serving if one.resources_served < one.resources]
    if less:
        print_lines(["", *table(("CONNECTOR", "CONNECTED", "SERVED"), map(_row, less))])


def _facts(answer: pb.StatusResponse) -> dict[str, object]:
    """What programs are told."""
    return {
        "version": answer.version,
        "cluster": answer.cluster,
        "authority_id": answer.authority_id,
        "leader": answer.leader,
        "ca_pin": answer.ca_pin,
        "ready": not answer.not_ready,
        "not_ready": list(answer.not_ready),
        "policy_version": answer.policy_version,
        "catalog_version": answer.catalog_version,
        "store": {"level": answer.store_level, "count": answer.store_count},
        "audit_seq": answer.audit_seq,
        "last_hash": answer.audit_head,
        "last_event": answer.last_event,
        "last_event_at": moment(answer.last_event_at),
        "state_seq": answer.state_seq,
        "unsigned": list(answer.unsigned),
        "unsigned_count": answer.unsigned_count,
        "queued_rows": answer.queued_rows,
        "held_rows": answer.held_rows,
        "proxies": answer.proxies,
        "connectors": answer.connectors,
        "serving": [
            {
                "node_id": one.node_id,
                "node_name": one.node_name,
                "connected": one.connected,
                "resources": one.resources,
                "resources_served": one.resources_served,
            }
            for one in answer.serving
        ],
        "open_sessions": answer.open_sessions,
        "root_epoch": answer.root_epoch,
        "material_revision": answer.material_revision,
        "prepared_root_epoch": answer.prepared_root,
        "rotation_paused": answer.rotation_paused,
    }


def _row(one: pb.ServingRow) -> tuple[str, str, str]:
    connected = "yes" if one.connected else "no"
    return one.node_name, connected, f"{one.resources_served} of {one.resources}"

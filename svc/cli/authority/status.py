"""``svc authority status``: the running Authority in one look."""

from __future__ import annotations

import click

from svc.cli.control import admin
from svc.cli.output import document, json_option, pairs, print_lines
from svc.proto.gate.v1 import admin_pb2 as pb


@click.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show versions, counts, and the reasons why the Authority is not ready, if any."""
    answer = admin(context)("Status", pb.StatusRequest(), pb.StatusResponse)
    facts: dict[str, object] = {
        "version": answer.version,
        "cluster": answer.cluster,
        "authority_id": answer.authority_id,
        "ca_pin": answer.ca_pin,
        "ready": not answer.not_ready,
        "not_ready": list(answer.not_ready),
        "policy_version": answer.policy_version,
        "catalog_version": answer.catalog_version,
        "audit_seq": answer.audit_seq,
        "last_hash": answer.audit_head,
        "state_seq": answer.state_seq,
        "unsigned": list(answer.unsigned),
        "unsigned_count": answer.unsigned_count,
        "queued_rows": answer.queued_rows,
        "held_rows": answer.held_rows,
        "proxies": answer.proxies,
        "connectors": answer.connectors,
        "open_sessions": answer.open_sessions,
    }
    if as_json:
        print_lines([document(facts)])
        return
    facts["ready"] = "no" if answer.not_ready else "yes"
    facts["unsigned"] = ", ".join(answer.unsigned) or "none"
    waiting, held = facts.pop("queued_rows"), facts.pop("held_rows")
    facts["audit_queue"] = f"{waiting} rows waiting ({held} held)"
    print_lines(pairs((name.replace("_", " "), value) for name, value in facts.items()))

"""``svc authority epochs``: what the whole cluster switches on, once its Connectors can do it."""

from __future__ import annotations

from typing import Any

import click

from svc.cli.control import admin
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, print_result, table
from svc.proto.gate.v1 import admin_pb2 as pb


@click.group(cls=Group)
def epochs() -> None:
    """Switch on the SSH gate for the whole cluster."""


@epochs.command("status")
@json_option
@click.pass_context
def epoch_status(context: click.Context, as_json: bool) -> None:
    """Show the epoch in force, and the Connectors that offer less than the highest one."""
    answer = admin(context)("EpochStatus", pb.EpochStatusRequest(), pb.EpochStatusResponse)
    result = {"epoch": answer.epoch, "highest_epoch": answer.highest, "losing": _losing(answer)}
    lines = [f"epoch    {answer.epoch}", f"highest  {answer.highest}"]
    print_result(as_json, result, [*lines, *(_table(answer) if answer.losing else ())])


@epochs.command("activate")
@click.option(
    "--epoch",
    type=click.IntRange(min=1),
    metavar="N",
    help="The epoch; by default the highest that this version knows.",
)
@click.option("--yes", is_flag=True, help="Activate it; else only show who loses SSH.")
@json_option
@click.pass_context
def activate(context: click.Context, epoch: int | None, yes: bool, as_json: bool) -> None:
    """Switch on the SSH gate; this cannot be taken back.

    From then on a Connector whose version is older than the gate is not given SSH resources
    (gate_not_offered) until it is upgraded and registers again.  Everything else of it stays.
    """
    wanted = epoch or 0
    if not yes:
        request = pb.EpochStatusRequest(epoch=wanted)
        known = admin(context)("EpochStatus", request, pb.EpochStatusResponse)
        result = {"epoch": known.epoch, "changed": False, "losing": _losing(known)}
        lost = _lost(known) or ["no Connector would lose SSH"]
        print_result(as_json, result, [f"epoch {known.epoch} is in force", *lost])
        hint(["nothing was changed; to activate the epoch, run this again with --yes"])
        return
    answer = admin(context)(
        "ActivateEpoch", pb.ActivateEpochRequest(epoch=wanted), pb.ActivateEpochResponse
    )
    result = {"epoch": answer.epoch, "changed": answer.changed, "losing": _losing(answer)}
    text = f"epoch {answer.epoch} is in force" + ("" if answer.changed else " already")
    print_result(as_json, result, [text, *_lost(answer)])


def _lost(answer: Any) -> list[str]:
    if not answer.losing:
        return []
    return ["these Connectors are older and lose their SSH resources:", *_table(answer)]


def _losing(answer: Any) -> list[dict[str, object]]:
    return [
        {
            "node_id": one.id,
            "node_name": one.name,
            "epoch_capability": one.offered,
            "resources": one.resources,
        }
        for one in answer.losing
    ]


def _table(answer: Any) -> list[str]:
    rows = [(one.name, one.offered, one.resources, one.id) for one in answer.losing]
    return list(table(("CONNECTOR", "OFFERS", "SSH RESOURCES", "ID"), rows))

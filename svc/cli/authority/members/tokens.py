"""``svc authority tokens``: one-use join tokens that wait, without their secrets."""

from __future__ import annotations

import click

from svc.cli.authority.members.forms import token_row_form
from svc.cli.control import admin
from svc.cli.forms import WORD, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, print_list, print_result
from svc.proto.gate.v1 import admin_pb2 as pb


@click.group(cls=Group)
def tokens() -> None:
    """List and withdraw one-use join tokens."""


@tokens.command("list")
@click.option("--all", "also_used", is_flag=True, help="Also used and withdrawn ones.")
@json_option
@click.pass_context
def list_tokens(context: click.Context, also_used: bool, as_json: bool) -> None:
    """List the unused join tokens that have not expired, without their secrets."""
    request = pb.ListTokensRequest(all=also_used)
    answer = admin(context)("ListTokens", request, pb.ListTokensResponse)
    rows = [
        [
            row.id,
            row.role,
            row.name or row.person_id,
            "used" if row.used else "waits",
            moment(row.expires_at),
        ]
        for row in answer.tokens
    ]
    result = [token_row_form(row) for row in answer.tokens]
    print_list(as_json, result, ["ID", "ROLE", "FOR", "STATE", "UNTIL"], rows)


@tokens.command("revoke")
@click.argument("id", type=WORD)
@reason_option
@json_option
@click.pass_context
def revoke_token(context: click.Context, id: str, reason: str | None, as_json: bool) -> None:
    """Withdraw the token ID, as `tokens list` shows it; nobody can join with it."""
    request = pb.RevokeTokenRequest(id=id, note=reason or "")
    answer = admin(context)("RevokeToken", request, pb.RevokeTokenResponse)
    text = f"withdrew {id}" if answer.changed else f"{id} was used or withdrawn before"
    print_result(as_json, {"id": id, "changed": answer.changed}, [text])

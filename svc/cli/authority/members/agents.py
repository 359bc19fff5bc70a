"""``svc authority agents``: programs that act for somebody."""

from __future__ import annotations

from typing import Any

import click

from svc.cli.authority.members.token_form import proxy_address, token_form
from svc.cli.control import admin, caller_settings
from svc.cli.forms import TTL, WORD, labels_of, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, print_list, print_result, with_nulls
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped

_LONGEST = 366 * 86400


@click.group(cls=Group)
def agents() -> None:
    """Add, list and revoke agents: programs that act for somebody."""


@agents.command("add")
@click.argument("name", type=WORD)
@click.option(
    "--owner", required=True, type=WORD, metavar="PERSON", help="The person who answers for it."
)
@click.option(
    "--for",
    "persons",
    multiple=True,
    type=WORD,
    metavar="PERSON",
    help="A person in whose name it may act, where policy permits it; may be repeated.",
)
@click.option(
    "--action",
    "actions",
    multiple=True,
    type=WORD,
    metavar="A",
    help="An action that it may take for them; webConnect by default; may be repeated.",
)
@click.option(
    "--for-secs",
    "delegation_secs",
    type=click.IntRange(1, _LONGEST),
    metavar="SECS",
    help="How long it may act for them, in seconds; 30 days by default.",
)
@click.option(
    "--oidc-issuer",
    "issuer",
    type=WORD,
    metavar="URL",
    help="The agent joins with ID tokens of this issuer instead of a one-use token.",
)
@click.option(
    "--oidc-audience",
    "audience",
    type=WORD,
    metavar="AUD",
    help="The audience of these tokens; the cluster's name by default.",
)
@click.option(
    "--oidc-claim",
    "claims",
    multiple=True,
    metavar="NAME=VALUE",
    help="A claim that such a token must have; `sub` is required; may be repeated.",
)
@click.option(
    "--ttl",
    type=TTL,
    metavar="SECS",
    help="Lifetime of the one-use token, in seconds; identity.join_token_secs (3600) by default.",
)
@json_option
@click.pass_context
def add_agent(
    context: click.Context,
    name: str,
    owner: str,
    persons: tuple[str, ...],
    actions: tuple[str, ...],
    delegation_secs: int | None,
    issuer: str | None,
    audience: str | None,
    claims: tuple[str, ...],
    ttl: int | None,
    as_json: bool,
) -> None:
    """Add the agent NAME and print a one-use token with which it joins; it is not shown again.

    An agent that exists, with the same owner, gets a new token.

    Example:
        svc --config authority.toml authority agents add deployer --owner ada --for bob
    """
    settings = caller_settings(context)
    request = pb.AddAgentRequest(
        name=name,
        owner=owner,
        persons=persons,
        actions=actions,
        delegation_secs=delegation_secs or 0,
        ttl_secs=ttl or 0,
        issuer=issuer or "",
        audience=audience or "",
        claims=labels_of(claims, "--oidc-claim"),
    )
    answer = admin(context)("AddAgent", request, pb.TokenResponse)
    where = f"--proxy {proxy_address(settings)} --ca-pin {answer.ca_pin}"
    if issuer:
        lines = [f"svc login {where} --id-token FILE"]
        result: dict[str, Any] = {"id": answer.id, "name": name, "ca_pin": answer.ca_pin}
        print_result(as_json, result, [answer.id], ["the agent runs:", *lines])
        return
    lines = [
        f"token of the agent {name}: valid for one join until {moment(answer.expires_at)}",
        "where the agent runs, run this command and give it the token:",
        f"svc join {where}",
    ]
    print_result(as_json, {"id": answer.id, **token_form(answer, name=name)}, [answer.token], lines)


@agents.command("list")
@click.option(
    "--route",
    type=click.Choice(["certificate"]),
    help="Only those that have a certificate; SEEN is when the newest one was issued.",
)
@json_option
@click.pass_context
def list_agents(context: click.Context, route: str | None, as_json: bool) -> None:
    """List all agents with their owners, and when each last opened a session."""
    request = pb.ListAgentsRequest(route=route or "")
    answer = admin(context)("ListAgents", request, pb.ListAgentsResponse)
    rows = [
        [row.name, row.owner, row.state, moment(row.seen), _persons(row), row.id]
        for row in answer.agents
    ]
    heads = ["NAME", "OWNER", "STATE", "SEEN", "ACTS FOR", "ID"]
    print_list(as_json, with_nulls([_form(row) for row in answer.agents]), heads, rows)


@agents.command("revoke")
@click.argument("agent", type=WORD)
@reason_option
@json_option
@click.pass_context
def revoke_agent(context: click.Context, agent: str, reason: str | None, as_json: bool) -> None:
    """Revoke an agent for good: its sessions end, and it cannot open others.

    AGENT is a name or an id.  To let the program work again, add another agent.
    """
    request = pb.RevokeAgentRequest(agent=agent, note=reason or "")
    answer = admin(context)("RevokeAgent", request, pb.ChangePersonResponse)
    result = {
        "id": answer.id,
        "name": answer.name,
        "changed": answer.changed,
        "open_sessions": answer.open_sessions,
    }
    who = f"{escaped(answer.name)} ({answer.id})"
    text = f"revoked {who}; {answer.open_sessions} session(s) end"
    print_result(as_json, result, [text if answer.changed else f"was revoked already: {who}"])


def _persons(row: pb.AgentRow) -> list[str]:
    return sorted({one.person or one.person_id for one in row.delegations})


def _form(row: pb.AgentRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "owner": row.owner,
        "owner_id": row.owner_id,
        "state": row.state,
        "last_seen": moment(row.seen),
        "issuer": row.issuer,
        "delegations": [
            {
                "id": one.id,
                "name": one.person,
                "person_id": one.person_id,
                "delegated_actions": list(one.actions),
                "expires_at": moment(one.expires_at),
            }
            for one in row.delegations
        ],
    }

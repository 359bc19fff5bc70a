"""``svc authority nodes``: the Proxies and Connectors of the cluster."""

from __future__ import annotations

import click

from svc.cli.authority.members.token_form import proxy_address, token_form
from svc.cli.control import admin, caller_settings
from svc.cli.forms import TTL, WORD, public_name_option
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, moment, print_list, print_result
from svc.model.cluster.health import clock_problem
from svc.model.cluster.node import EXPIRED, OVERDUE
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped

_LINKED = {"proxy": "the Authority", "connector": "any Proxy"}
_CERTIFICATES = {
    EXPIRED: "its certificate has expired: start it, have it join again, or revoke it",
    OVERDUE: "its certificate should have been renewed by now: its log says why it was not",
}

_role_option = click.option(
    "--role",
    required=True,
    type=click.Choice(["proxy", "connector"]),
    help="The role of the node.",
)


@click.group(cls=Group)
def nodes() -> None:
    """Register, list and revoke Proxies and Connectors."""


@nodes.command("add")
@click.argument("name", type=WORD)
@_role_option
@click.option(
    "--ttl",
    type=TTL,
    metavar="SECS",
    help="Lifetime of the token, in seconds; identity.join_token_secs (3600) by default.",
)
@public_name_option
@json_option
@click.pass_context
def add_node(
    context: click.Context,
    name: str,
    role: str,
    ttl: int | None,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    r"""Create and print a one-use token with which the node NAME joins; it is not shown again.

    Example:
        (umask 077; svc --config authority.toml authority nodes add p1 --role proxy \
            --public-name gate.example.org > join.token)
    """
    if names and role != "proxy":
        raise click.UsageError("--public-name applies only to Proxies")
    settings = caller_settings(context)
    request = pb.AddNodeRequest(role=role, name=name, ttl_secs=ttl or 0, public_names=names)
    answer = admin(context)("AddNode", request, pb.TokenResponse)
    lines = [
        f"token of the {role} {name}: valid for one join until {moment(answer.expires_at)}",
        "store it on that machine in a file with mode 0600, owned by the role's user;",
        "its configuration needs:",
        "",
        f'cluster = "{settings.cluster}"',
        "[join]",
        'token_file = "/path/of/that/file"',
        f'ca_pin = "{answer.ca_pin}"',
    ]
    if role == "connector":
        lines += ["[endpoints]", f'proxy = ["{proxy_address(settings)}"]']
    elif settings.role != "client" and settings.endpoints.join_listen is not None:
        lines.append(f'authority = "{settings.endpoints.join_listen}"')
    print_result(as_json, token_form(answer, name=name, role=role), [answer.token], lines)


@nodes.command("expect")
@click.argument("name", type=WORD)
@_role_option
@click.option(
    "--key",
    required=True,
    type=WORD,
    metavar="SHA256",
    help="SHA-256 of the node's public key: 64 hex digits.",
)
@click.option(
    "--ttl",
    type=TTL,
    metavar="SECS",
    help="How long the key may join, in seconds; identity.join_token_secs (3600) by default.",
)
@public_name_option
@json_option
@click.pass_context
def expect_node(
    context: click.Context,
    name: str,
    role: str,
    key: str,
    ttl: int | None,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Allow the holder of a key to join once as the node NAME, without a token.

    A node with `join.by_key` logs the SHA-256 of its key as long as that key may not join.
    A key can join only once: if the node never received the answer, revoke the node, remove
    identity/ from its state directory, and register the new key that it then logs.

    Example:
        svc --config authority.toml authority nodes expect c1 --role connector --key SHA256
    """
    try:
        digest = bytes.fromhex(key)
    except ValueError:
        raise click.UsageError("--key must be 64 hex digits") from None
    request = pb.ExpectNodeRequest(
        role=role, name=name, key_sha256=digest, ttl_secs=ttl or 0, public_names=names
    )
    answer = admin(context)("ExpectNode", request, pb.ExpectNodeResponse)
    until = moment(answer.expires_at)
    result = {
        "id": answer.id,
        "name": name,
        "role": role,
        "key_sha256": digest.hex(),
        "expires_at": until,
        "ca_pin": answer.ca_pin,
    }
    print_result(as_json, result, [f"expected {answer.id}, until {until}, ca_pin {answer.ca_pin}"])


@nodes.command("expected")
@json_option
@click.pass_context
def list_expected(context: click.Context, as_json: bool) -> None:
    """List the keys that may join without a token, and those that have, until they expire."""
    answer = admin(context)("ListExpected", pb.ListExpectedRequest(), pb.ListExpectedResponse)
    rows = [
        [row.name, row.role, "used" if row.used else "waits", moment(row.expires_at), row.id]
        for row in answer.expected
    ]
    result = [_expected(row) for row in answer.expected]
    print_list(as_json, result, ["NAME", "ROLE", "STATE", "UNTIL", "ID"], rows)


@nodes.command("unexpect")
@click.argument("id", type=WORD)
@json_option
@click.pass_context
def unexpect(context: click.Context, id: str, as_json: bool) -> None:
    """Withdraw the permission of key ID to join; a node that has joined with it stays."""
    request = pb.WithdrawExpectedRequest(id=id)
    admin(context)("WithdrawExpected", request, pb.WithdrawExpectedResponse)
    print_result(as_json, {"id": id}, [f"{id} may no longer join"])


@nodes.command("list")
@click.option(
    "--health",
    is_flag=True,
    help="Also show what each node reported last, and when its certificate expires.",
)
@json_option
@click.pass_context
def list_nodes(context: click.Context, health: bool, as_json: bool) -> None:
    """List all registered nodes, revoked ones included.

    CONNECTED is, of a Proxy, whether it is connected to the Authority; of a Connector, to how many
    of the Proxies that are.  Below the list stands which nodes need somebody to look after them.

    Every node reports once a minute; a report that is older than 3 minutes is marked stale.
    HEALTH is the worst result of the node's last self-check: ok, info, warn or fail, or `unchecked`
    if its `doctor.check_interval_secs` is 0; FOUND names the checks that warn or failed.  The node
    itself says so, and nothing is decided by it.  The exit status does not depend on it.
    """
    answer = admin(context)("ListNodes", pb.ListNodesRequest(), pb.ListNodesResponse)
    heads = ["NAME", "ROLE", "STATE", "CONNECTED", "VERSION", "ID"]
    rows = [
        [row.name, row.role, _state(row), _connected(row), row.version, row.id]
        for row in answer.nodes
    ]
    if health:
        heads += ["CERTIFICATE EXPIRES", "LAST SEEN", "REPORTED", "HEALTH", "FOUND"]
        for shown, row in zip(rows, answer.nodes, strict=True):
            shown += [moment(row.leaf_expires), moment(row.last_seen), *_health_cells(row.health)]
    print_list(as_json, [_node(row) for row in answer.nodes], heads, rows)
    if not as_json:
        told = ((row, _problem(row)) for row in answer.nodes)
        hint(f"{escaped(row.name)}: {escaped(text)}" for row, text in told if text)


@nodes.command("publication")
@click.argument("node", type=WORD)
@click.option(
    "--set", "mode", type=click.Choice(["manual", "automatic"]), help="Change it to this."
)
@json_option
@click.pass_context
def publication(context: click.Context, node: str, mode: str | None, as_json: bool) -> None:
    """Show how resources that the Connector NODE offers get into the catalog.

    `manual`: an operator adds them.  This version supports nothing else, and refuses
    `--set automatic`.
    """
    request = pb.SetPublicationRequest(node=node, mode=mode or "")
    answer = admin(context)("SetPublication", request, pb.SetPublicationResponse)
    print_result(as_json, {"publication": answer.mode}, [answer.mode])


@nodes.command("revoke")
@click.argument("node", type=WORD)
@click.option("--reason", type=WORD, help="The reason, for the audit record.")
@json_option
@click.pass_context
def revoke_node(context: click.Context, node: str, reason: str | None, as_json: bool) -> None:
    """Revoke NODE, given by id or name, and end its tunnels at once."""
    request = pb.RevokeNodeRequest(node=node, reason=reason or "")
    answer = admin(context)("RevokeNode", request, pb.RevokeNodeResponse)
    result = {"id": answer.id, "tunnels_ended": answer.tunnels_ended}
    print_result(as_json, result, [f"revoked {answer.id}, {answer.tunnels_ended} tunnel(s) ended"])


def _state(row: pb.NodeRow) -> str:
    """The node's state; of one that was revoked also what nobody can serve until it is moved."""
    if row.state != "revoked" or not row.resources:
        return row.state
    return f"{row.state} (has {row.resources} resource{'s' if row.resources > 1 else ''})"


def _connected(row: pb.NodeRow) -> str:
    if row.state == "revoked" or row.role == "authority":
        return ""
    if row.role == "proxy" or not row.connected:
        return "yes" if row.connected else "no"
    return f"{len(row.proxies)} of {len(row.proxies) + len(row.missing)}"


def _problem(row: pb.NodeRow) -> str:
    """What is wrong with a node that was not revoked, and what to do; empty: nothing is."""
    if row.state == "revoked":
        return ""
    found = [_CERTIFICATES[row.certificate]] if row.certificate in _CERTIFICATES else []
    if not row.connected:
        if row.refusal:
            text = f"its registration is refused ({row.refusal}): its log says what to correct"
            found.append(text)
        elif row.role in _LINKED:
            found.append(f"it is not connected to {_LINKED[row.role]}: start it, or see its log")
    if row.HasField("health"):
        found.append(clock_problem(row.health.clock_secs))
    return "; ".join(filter(None, found))


def _node(row: pb.NodeRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "state": row.state,
        "version": row.version or None,
        "epoch_capability": row.epoch_capability if row.role == "connector" else None,
        "leaf_serial": row.leaf_serial or None,
        "leaf_expires": moment(row.leaf_expires) or None,
        "last_seen": moment(row.last_seen) or None,
        "enrolled_at": moment(row.enrolled_at) or None,
        "inventory_generation": row.inventory_generation or None,
        "inventory_served": row.inventory_served or None,
        "publication": row.publication or None,
        "resources": row.resources,
        "connected": None if row.role == "authority" else row.connected,
        "proxy_names": list(row.proxies),
        "missing_proxies": list(row.missing),
        "problem": _problem(row) or None,
        "health": _health(row.health) if row.HasField("health") else None,
    }


def _health_cells(health: pb.NodeHealthRow) -> list[str]:
    """When a node reported, how it said it is, and by which checks."""
    if not health.at:
        return ["", "", ""]
    word = health.worst or "unchecked"
    return [
        moment(health.at),
        f"{word} (stale)" if health.stale else word,
        ",".join(one.id for one in health.found),
    ]


def _health(health: pb.NodeHealthRow) -> dict[str, object]:
    found = [{"id": one.id, "severity": one.severity} for one in health.found]
    return {
        "at": moment(health.at),
        "stale": health.stale,
        "version": health.version,
        "worst": health.worst or None,
        "failed": health.failed if health.worst else None,
        "warnings": health.warnings if health.worst else None,
        "found": found,
        "clock_secs": health.clock_secs,
    }


def _expected(row: pb.ExpectedRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "key_sha256": row.key_sha256.hex(),
        "issuer": row.issuer,
        "expires_at": moment(row.expires_at),
        "used": row.used,
    }

"""``svc authority nodes|persons|groups``: who belongs to the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from svc.cli.control import admin, authority_settings
from svc.cli.forms import TTL, WORD
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, table, tell
from svc.proto.gate.v1 import admin_pb2 as pb

if TYPE_CHECKING:
    from svc.config import RoleSettings


@click.group(cls=Group)
def nodes() -> None:
    """Proxies and Connectors."""


@nodes.command("add")
@click.argument("name", type=WORD)
@click.option("--role", required=True, type=click.Choice(["proxy", "connector"]))
@click.option("--ttl", type=TTL, metavar="SECS", help="Life of the token.")
@click.option(
    "--public-name",
    "names",
    multiple=True,
    type=WORD,
    metavar="N",
    help="A DNS name or IP address that a Proxy's certificate carries; may be repeated.",
)
@json_option
@click.pass_context
def add_node(
    context: click.Context, name: str, role: str, ttl: int | None, names: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Make a one-use token with which the node NAME joins; printed once."""
    if names and role != "proxy":
        raise click.UsageError("--public-name is for Proxies")
    settings = authority_settings(context)
    request = pb.AddNodeRequest(role=role, name=name, ttl_secs=ttl or 0, public_names=names)
    answer = admin(context)("AddNode", request, pb.TokenResponse)
    lines = [
        f"token of the {role} {name}: good for one join until {moment(answer.expires_at)}",
        "keep it on that machine in a file of mode 0600 that the role's user owns;",
        "the configuration there says:",
        "",
        f'cluster = "{settings.cluster}"',
        "[join]",
        'token_file = "/path/of/that/file"',
        f'ca_pin = "{answer.ca_pin}"',
    ]
    if role == "connector":
        lines += ["[endpoints]", f'proxy = ["{_proxy_address(settings)}"]']
    elif settings.endpoints.join_listen is not None:
        lines.append(f'authority = "{settings.endpoints.join_listen}"')
    tell(as_json, _token(answer, name=name, role=role), [answer.token], lines)


@nodes.command("expect")
@click.argument("name", type=WORD)
@click.option("--role", required=True, type=click.Choice(["proxy", "connector"]))
@click.option("--key", required=True, type=WORD, help="SHA-256 of its public key, 64 hex digits.")
@click.option("--ttl", type=TTL, metavar="SECS", help="How long it is expected.")
@click.option(
    "--public-name",
    "names",
    multiple=True,
    type=WORD,
    metavar="N",
    help="A DNS name or IP address that a Proxy's certificate carries; may be repeated.",
)
@json_option
@click.pass_context
def expect_node(
    context: click.Context, name: str, role: str, key: str, ttl: int | None,
    names: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Let the holder of a key join once as the node NAME, without a token.

    A node with `join.by_key` names its key where it is not expected yet.  A key
    joins once: where the answer to it was lost, revoke the node, remove identity/
    in its state directory, and expect the key that it names then.
    """
    try:
        digest = bytes.fromhex(key)
    except ValueError:
        raise click.UsageError("--key is 64 hex digits") from None
    request = pb.ExpectNodeRequest(
        role=role, name=name, key_sha256=digest, ttl_secs=ttl or 0, public_names=names
    )
    answer = admin(context)("ExpectNode", request, pb.ExpectNodeResponse)
    until = moment(answer.expires_at)
    said = {"id": answer.id, "name": name, "role": role, "key_sha256": digest.hex(),
            "expires_at": until, "ca_pin": answer.ca_pin}  # fmt: skip
    tell(as_json, said, [f"expected {answer.id}, until {until}, ca_pin {answer.ca_pin}"])


@nodes.command("expected")
@json_option
@click.pass_context
def list_expected(context: click.Context, as_json: bool) -> None:
    """List the keys that may join without a token, and those that did, while their time lasts."""
    answer = admin(context)("ListExpected", pb.ListExpectedRequest(), pb.ListExpectedResponse)
    rows = [
        [row.name, row.role, "used" if row.used else "waits", moment(row.expires_at), row.id]
        for row in answer.expected
    ]
    said = [_expected(row) for row in answer.expected]
    tell(as_json, said, table(["NAME", "ROLE", "STATE", "UNTIL", "ID"], rows))


@nodes.command("unexpect")
@click.argument("id", type=WORD)
@json_option
@click.pass_context
def unexpect(context: click.Context, id: str, as_json: bool) -> None:
    """Expect the key ID no more; a node that joined by it stays."""
    request = pb.WithdrawExpectedRequest(id=id)
    admin(context)("WithdrawExpected", request, pb.WithdrawExpectedResponse)
    tell(as_json, {"id": id}, [f"{id} is expected no more"])


@nodes.command("list")
@click.option("--health", is_flag=True, help="Show certificate expiry and when last seen, too.")
@json_option
@click.pass_context
def list_nodes(context: click.Context, health: bool, as_json: bool) -> None:
    """List every node of the registry; status 0 whatever their health."""
    answer = admin(context)("ListNodes", pb.ListNodesRequest(), pb.ListNodesResponse)
    heads = ["NAME", "ROLE", "STATE", "VERSION", "ID"]
    rows = [[row.name, row.role, _state(row), row.version, row.id] for row in answer.nodes]
    if health:
        heads += ["CERTIFICATE EXPIRES", "LAST SEEN"]
        for shown, row in zip(rows, answer.nodes, strict=True):
            shown += [moment(row.leaf_expires), moment(row.last_seen)]
    tell(as_json, [_node(row) for row in answer.nodes], table(heads, rows))


@nodes.command("publication")
@click.argument("node", type=WORD)
@click.option("--set", "mode", type=click.Choice(["manual", "automatic"]), help="Another way.")
@json_option
@click.pass_context
def publication(context: click.Context, node: str, mode: str | None, as_json: bool) -> None:
    """Show how what the Connector NODE offers gets into the catalog: `manual`, by an operator.

    This version knows no other way and refuses `--set automatic`.
    """
    request = pb.SetPublicationRequest(node=node, mode=mode or "")
    answer = admin(context)("SetPublication", request, pb.SetPublicationResponse)
    tell(as_json, {"publication": answer.mode}, [answer.mode])


@nodes.command("revoke")
@click.argument("node", type=WORD)
@click.option("--reason", type=WORD, help="For the audit record.")
@json_option
@click.pass_context
def revoke_node(context: click.Context, node: str, reason: str | None, as_json: bool) -> None:
    """Revoke NODE, an id or a name; its tunnels end at once."""
    request = pb.RevokeNodeRequest(node=node, reason=reason or "")
    answer = admin(context)("RevokeNode", request, pb.RevokeNodeResponse)
    said = {"id": answer.id, "tunnels_ended": answer.tunnels_ended}
    tell(as_json, said, [f"revoked {answer.id}, {answer.tunnels_ended} tunnel(s) ended"])


@click.group(cls=Group)
def persons() -> None:
    """People."""


@persons.command("add")
@click.argument("name", type=WORD)
@click.option("--group", "groups", multiple=True, type=WORD, metavar="G", help="May be repeated.")
@click.option("--create-groups", is_flag=True, help="Make groups that are not there.")
@click.option("--join-groups", is_flag=True, help="Add a person who is there to the groups.")
@click.option("--ttl", type=TTL, metavar="SECS", help="Life of the token.")
@json_option
@click.pass_context
def add_person(
    context: click.Context, name: str, groups: tuple[str, ...], create_groups: bool,
    join_groups: bool, ttl: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Make a one-use token with which the person NAME joins; printed once.

    A person who is there gets a new token, and joins further groups only with --join-groups.
    """
    settings = authority_settings(context)
    request = pb.AddPersonRequest(
        name=name, groups=groups, ttl_secs=ttl or 0,
        create_groups=create_groups, join_groups=join_groups,
    )  # fmt: skip
    answer = admin(context)("AddPerson", request, pb.TokenResponse)
    lines = [
        f"token of {name}: good for one join until {moment(answer.expires_at)}",
        "that person runs this, and gives the token when asked for it:",
        f"svc join --proxy {_proxy_address(settings)} --ca-pin {answer.ca_pin}",
    ]
    tell(as_json, {"id": answer.id, **_token(answer, name=name)}, [answer.token], lines)


@persons.command("list")
@json_option
@click.pass_context
def list_persons(context: click.Context, as_json: bool) -> None:
    """List every person with groups."""
    answer = admin(context)("ListPersons", pb.ListPersonsRequest(), pb.ListPersonsResponse)
    rows = [[row.name, row.state, list(row.groups), row.id] for row in answer.persons]
    said = [_person(row) for row in answer.persons]
    tell(as_json, said, table(["NAME", "STATE", "GROUPS", "ID"], rows))


@click.group(cls=Group)
def groups() -> None:
    """Groups of people."""


@groups.command("add")
@click.argument("group", type=WORD)
@json_option
@click.pass_context
def add_group(context: click.Context, group: str, as_json: bool) -> None:
    """Add a group; adding one that is there changes nothing."""
    answer = admin(context)("AddGroup", pb.AddGroupRequest(name=group), pb.AddGroupResponse)
    text = f"added {group}" if answer.added else f"{group} is there already"
    tell(as_json, {"name": group, "changed": answer.added}, [text])


def _proxy_address(settings: RoleSettings) -> str:
    """Where a Proxy is dialed, if this very configuration is a Proxy's too."""
    from svc.config import Address

    listen, names = settings.endpoints.public_listen, settings.endpoints.public_names
    if listen is None or not listen.port:
        return "HOST:PORT"
    if names:
        return str(Address(names[0], listen.port))
    return str(Address("HOST", listen.port) if listen.host in ("0.0.0.0", "::") else listen)


def _token(answer: pb.TokenResponse, **about: str) -> dict[str, object]:
    return {
        **about,
        "token": answer.token,
        "expires_at": moment(answer.expires_at),
        "ca_pin": answer.ca_pin,
    }


def _state(row: pb.NodeRow) -> str:
    """The node's state; of one that was revoked also what nobody can serve until it is moved."""
    if row.state != "revoked" or not row.resources:
        return row.state
    return f"{row.state} (has {row.resources} resource{'s' if row.resources > 1 else ''})"


def _node(row: pb.NodeRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "state": row.state,
        "version": row.version or None,
        "leaf_serial": row.leaf_serial or None,
        "leaf_expires": moment(row.leaf_expires) or None,
        "last_seen": moment(row.last_seen) or None,
        "enrolled_at": moment(row.enrolled_at) or None,
        "inventory_generation": row.inventory_generation or None,
        "inventory_served": row.inventory_served or None,
        "publication": row.publication or None,
        "resources": row.resources,
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


def _person(row: pb.PersonRow) -> dict[str, object]:
    return {"id": row.id, "name": row.name, "state": row.state, "groups": list(row.groups)}

"""``svc authority persons|groups``: the people of the cluster."""

from __future__ import annotations

import click

from svc.cli.authority.members.token_form import proxy_address, token_form
from svc.cli.control import admin, authority_settings
from svc.cli.forms import TTL, WORD
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, print_result, table
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped


@click.group(cls=Group)
def persons() -> None:
    """People."""


@persons.command("add")
@click.argument("name", type=WORD)
@click.option("--group", "groups", multiple=True, type=WORD, metavar="G", help="May be repeated.")
@click.option("--create-groups", is_flag=True, help="Create groups that do not exist.")
@click.option("--join-groups", is_flag=True, help="Add an existing person to the groups.")
@click.option("--ttl", type=TTL, metavar="SECS", help="Lifetime of the token.")
@json_option
@click.pass_context
def add_person(
    context: click.Context,
    name: str,
    groups: tuple[str, ...],
    create_groups: bool,
    join_groups: bool,
    ttl: int | None,
    as_json: bool,
) -> None:
    """Create and print a one-use token with which the person NAME joins; it is not shown again.

    An existing person gets a new token, and is added to further groups only with --join-groups.
    """
    settings = authority_settings(context)
    request = pb.AddPersonRequest(
        name=name,
        groups=groups,
        ttl_secs=ttl or 0,
        create_groups=create_groups,
        join_groups=join_groups,
    )
    answer = admin(context)("AddPerson", request, pb.TokenResponse)
    lines = [
        f"token of {name}: valid for one join until {moment(answer.expires_at)}",
        "have that person run this command and enter the token when asked:",
        f"svc join --proxy {proxy_address(settings)} --ca-pin {answer.ca_pin}",
    ]
    print_result(as_json, {"id": answer.id, **token_form(answer, name=name)}, [answer.token], lines)


@persons.command("list")
@json_option
@click.pass_context
def list_persons(context: click.Context, as_json: bool) -> None:
    """List all persons and their groups."""
    answer = admin(context)("ListPersons", pb.ListPersonsRequest(), pb.ListPersonsResponse)
    rows = [[row.name, row.state, list(row.groups), row.id] for row in answer.persons]
    result = [_person(row) for row in answer.persons]
    print_result(as_json, result, table(["NAME", "STATE", "GROUPS", "ID"], rows))


reason_option = click.option("--reason", type=WORD, help="The reason, for the audit record.")


@persons.command("disable")
@click.argument("person", type=WORD)
@reason_option
@json_option
@click.pass_context
def disable_person(context: click.Context, person: str, reason: str | None, as_json: bool) -> None:
    """Disable PERSON, given by id or name, until `persons enable`.

    The person's sessions end at once, and each Proxy and the Authority refuse new sessions,
    renewals and joins.  Groups, certificates and unused tokens are kept.
    """
    answer = _change(context, "DisablePerson", person, reason)
    ending = f"; {answer.open_sessions} session(s) end" if answer.open_sessions else ""
    told = "disabled" if answer.changed else "is already disabled:"
    print_result(as_json, _changed(answer), [f"{told} {_called(answer.id, answer.name)}{ending}"])


@persons.command("enable")
@click.argument("person", type=WORD)
@reason_option
@json_option
@click.pass_context
def enable_person(context: click.Context, person: str, reason: str | None, as_json: bool) -> None:
    """Enable PERSON, given by id or name, after `persons disable`."""
    answer = _change(context, "EnablePerson", person, reason)
    told = "enabled" if answer.changed else "is not disabled:"
    print_result(as_json, _changed(answer), [f"{told} {_called(answer.id, answer.name)}"])


def _change(
    context: click.Context, method: str, person: str, reason: str | None
) -> pb.ChangePersonResponse:
    request = pb.ChangePersonRequest(person=person, note=reason or "")
    return admin(context)(method, request, pb.ChangePersonResponse)


def _changed(answer: pb.ChangePersonResponse) -> dict[str, object]:
    return {
        "id": answer.id,
        "name": answer.name or None,
        "changed": answer.changed,
        "open_sessions": answer.open_sessions,
    }


def _called(id: str, name: str) -> str:
    """A person for people: by name and id."""
    return f"{escaped(name)} ({id})" if name else id


@click.group(cls=Group)
def groups() -> None:
    """Groups of people."""


@groups.command("add")
@click.argument("group", type=WORD)
@json_option
@click.pass_context
def add_group(context: click.Context, group: str, as_json: bool) -> None:
    """Add a group; adding an existing group changes nothing."""
    answer = admin(context)("AddGroup", pb.AddGroupRequest(name=group), pb.AddGroupResponse)
    text = f"added {group}" if answer.added else f"group {group} already exists"
    print_result(as_json, {"name": group, "changed": answer.added}, [text])


def _person(row: pb.PersonRow) -> dict[str, object]:
    return {"id": row.id, "name": row.name, "state": row.state, "groups": list(row.groups)}

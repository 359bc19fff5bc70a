"""``svc authority groups``: groups of people, and who is in them."""

from __future__ import annotations

from collections.abc import Iterable

import click

from svc.cli.authority.members.forms import person_form
from svc.cli.control import admin
from svc.cli.forms import WORD, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, print_list, print_result
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped


@click.group(cls=Group)
def groups() -> None:
    """Add, list, change and remove groups of people."""


@groups.command("add")
@click.argument("group", type=WORD)
@json_option
@click.pass_context
def add_group(context: click.Context, group: str, as_json: bool) -> None:
    """Add a group; adding an existing group changes nothing."""
    answer = admin(context)("AddGroup", pb.AddGroupRequest(name=group), pb.AddGroupResponse)
    text = f"added {group}" if answer.added else f"group {group} already exists"
    print_result(as_json, {"name": group, "changed": answer.added}, [text])


@groups.command("list")
@json_option
@click.pass_context
def list_groups(context: click.Context, as_json: bool) -> None:
    """List all groups with the number of their members."""
    answer = admin(context)("ListGroups", pb.ListGroupsRequest(), pb.ListGroupsResponse)
    rows = [[row.name, row.members] for row in answer.groups]
    result = [{"name": row.name, "members": row.members} for row in answer.groups]
    print_list(as_json, result, ["NAME", "MEMBERS"], rows)


@groups.command("members")
@click.argument("group", type=WORD)
@click.option("--add", "adds", multiple=True, type=WORD, metavar="P", help="Add a person.")
@click.option("--remove", "removes", multiple=True, type=WORD, metavar="P", help="Remove a person.")
@reason_option
@json_option
@click.pass_context
def members(
    context: click.Context,
    group: str,
    adds: tuple[str, ...],
    removes: tuple[str, ...],
    reason: str | None,
    as_json: bool,
) -> None:
    """List the members of GROUP, or add and remove people, given by id or name.

    Both options may be repeated; all of the changes are made, or none.  Open sessions are decided
    again at once.

        svc --config authority.toml authority groups members ops --add bob --remove ada

    Example:
        svc --config authority.toml authority groups members ops --add bob --remove ada
    """
    if not adds and not removes:
        if reason:
            raise click.UsageError("--reason needs --add or --remove")
        request = pb.GroupMembersRequest(group=group)
        answer = admin(context)("GroupMembers", request, pb.GroupMembersResponse)
        rows = [[row.name, row.state, row.id] for row in answer.persons]
        result = [person_form(row) for row in answer.persons]
        print_list(as_json, result, ["NAME", "STATE", "ID"], rows)
        return
    change = pb.ChangeMembersRequest(group=group, add=adds, remove=removes, note=reason or "")
    changed = admin(context)("ChangeMembers", change, pb.ChangeMembersResponse)
    result_of = {
        "name": group,
        "added": [person_form(row) for row in changed.added],
        "removed": [person_form(row) for row in changed.removed],
    }
    lines = [f"added to {group}: {_names(changed.added)}"] if changed.added else []
    lines += [f"taken out of {group}: {_names(changed.removed)}"] if changed.removed else []
    print_result(as_json, result_of, lines or ["nothing to change"])


@groups.command("remove")
@click.argument("group", type=WORD)
@click.option("--with-members", is_flag=True, help="Remove it even if people are in it.")
@reason_option
@json_option
@click.pass_context
def remove_group(
    context: click.Context, group: str, with_members: bool, reason: str | None, as_json: bool
) -> None:
    """Remove GROUP; a policy that names it then matches nobody through it."""
    request = pb.RemoveGroupRequest(group=group, with_members=with_members, note=reason or "")
    answer = admin(context)("RemoveGroup", request, pb.RemoveGroupResponse)
    result = {"name": group, "members": answer.left}
    print_result(as_json, result, [f"removed {group}, which had {answer.left} member(s)"])


def _names(rows: Iterable[pb.PersonRow]) -> str:
    return ", ".join(escaped(row.name or row.id) for row in rows)

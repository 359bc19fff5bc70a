"""``svc authority persons``: the people of the cluster."""

from __future__ import annotations

import click

from svc.cli.authority.members.forms import person_form, token_row_form
from svc.cli.authority.members.token_form import proxy_address, token_form
from svc.cli.control import admin, caller_settings
from svc.cli.forms import TTL, WORD, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, pairs, print_list, print_result
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped


@click.group(cls=Group)
def persons() -> None:
    """Add, list, disable, revoke and remove people."""


@persons.command("add")
@click.argument("name", type=WORD)
@click.option(
    "--group",
    "groups",
    multiple=True,
    type=WORD,
    metavar="G",
    help="A group of the person; may be repeated.",
)
@click.option("--create-groups", is_flag=True, help="Create groups that do not exist.")
@click.option("--join-groups", is_flag=True, help="Add an existing person to the groups.")
@click.option(
    "--ttl",
    type=TTL,
    metavar="SECS",
    help="Lifetime of the token, in seconds; identity.join_token_secs (3600) by default.",
)
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
    r"""Create and print a one-use token with which the person NAME joins; it is not shown again.

    An existing person gets a new token, and is added to further groups only with --join-groups.

    Example:
        (umask 077; svc --config authority.toml authority persons add ada \
            --group staff > ada.token)
    """
    settings = caller_settings(context)
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
@click.option("--all", "also_removed", is_flag=True, help="Also those that were removed.")
@json_option
@click.pass_context
def list_persons(context: click.Context, also_removed: bool, as_json: bool) -> None:
    """List all persons and their groups; those that were removed are listed with --all."""
    answer = admin(context)("ListPersons", pb.ListPersonsRequest(), pb.ListPersonsResponse)
    shown = [row for row in answer.persons if also_removed or row.state != "removed"]
    rows = [[row.name, row.state, list(row.groups), row.id] for row in shown]
    result = [person_form(row) for row in shown]
    print_list(as_json, result, ["NAME", "STATE", "GROUPS", "ID"], rows)


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


@persons.command("show")
@click.argument("person", type=WORD)
@json_option
@click.pass_context
def show_person(context: click.Context, person: str, as_json: bool) -> None:
    """Show PERSON, given by id or name: groups, certificates, unused tokens, open sessions.

    Certificates and tokens that have expired are not shown.
    """
    request = pb.ShowPersonRequest(person=person)
    answer = admin(context)("ShowPerson", request, pb.ShowPersonResponse)
    row = answer.person
    facts: list[tuple[str, object]] = [
        ("name", row.name),
        ("id", row.id),
        ("state", row.state),
        ("groups", list(row.groups)),
        ("open sessions", answer.open_sessions),
    ]
    for one in answer.certificates:
        ending = "revoked" if one.revoked else f"until {moment(one.expires_at)}"
        facts.append(("certificate", f"{one.serial}, {ending}"))
    facts += [
        ("token", f"{one.id}, until {moment(one.expires_at)}, not used") for one in answer.tokens
    ]
    result = {
        **person_form(row),
        "open_sessions": answer.open_sessions,
        "certificates": [_certificate(one) for one in answer.certificates],
        "tokens": [token_row_form(one) for one in answer.tokens],
    }
    print_result(as_json, result, pairs(facts))


@persons.command("revoke")
@click.argument("person", type=WORD)
@reason_option
@json_option
@click.pass_context
def revoke_person(context: click.Context, person: str, reason: str | None, as_json: bool) -> None:
    """Revoke all certificates, sign-ins and unused tokens of PERSON; the person stays.

    For a lost laptop: open sessions end at once, and the person joins or signs in again.  To
    remove somebody, use `persons remove`.
    """
    request = pb.ChangePersonRequest(person=person, note=reason or "")
    answer = admin(context)("RevokeCredentials", request, pb.RevokeCredentialsResponse)
    line = (
        f"revoked {len(answer.serials)} certificate(s), {answer.sign_ins} sign-in(s) and "
        f"{answer.tokens} token(s) of {_called(answer.id, answer.name)}; "
        f"{answer.open_sessions} session(s) end"
    )
    result = {
        "id": answer.id,
        "name": answer.name or None,
        "serials": list(answer.serials),
        "sign_ins_ended": answer.sign_ins,
        "tokens_revoked": answer.tokens,
        "open_sessions": answer.open_sessions,
    }
    print_result(as_json, result, [line])


@persons.command("remove")
@click.argument("person", type=WORD)
@reason_option
@json_option
@click.pass_context
def remove_person(context: click.Context, person: str, reason: str | None, as_json: bool) -> None:
    """Remove PERSON, given by id or name, for good; to pause a person, use `persons disable`.

    The person's sessions end at once and no certificate is accepted any more; unused tokens are
    withdrawn, and the person is in no group.  Id and name stay taken, so that older records
    name nobody else; `users forget-name` frees the name.
    """
    answer = _change(context, "RemovePerson", person, reason)
    ending = f"; {answer.open_sessions} session(s) end" if answer.open_sessions else ""
    told = "removed" if answer.changed else "was removed before:"
    print_result(as_json, _changed(answer), [f"{told} {_called(answer.id, answer.name)}{ending}"])


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


def _certificate(row: pb.CertificateRow) -> dict[str, object]:
    return {
        "serial": row.serial,
        "issued_at": moment(row.issued_at),
        "expires_at": moment(row.expires_at),
        "revoked": row.revoked,
    }

"""``svc authority accounts``: people who sign in without a provider."""

from __future__ import annotations

import shlex

import click

from svc.cli.authority.members.token_form import proxy_address
from svc.cli.control import admin, authority_settings, caller_settings
from svc.cli.forms import TTL, WORD, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, print_list, print_result
from svc.client.places import ADMINISTRATOR
from svc.proto.gate.v1 import account_pb2 as pb
from svc.telemetry.escape import escaped


@click.group(cls=Group)
def accounts() -> None:
    """Manage accounts with a password or passkey, for people who have no provider."""


@accounts.command("add")
@click.argument("person", type=WORD)
@click.option(
    "--group",
    "groups",
    multiple=True,
    type=WORD,
    metavar="G",
    help="A group of the person; may be repeated.",
)
@click.option("--create-groups", is_flag=True, help="Create groups that do not exist.")
@click.option(
    "--ttl", type=TTL, metavar="SECS", help="Lifetime of the code, in seconds; a day by default."
)
@json_option
@click.pass_context
def add_account(
    context: click.Context,
    person: str,
    groups: tuple[str, ...],
    create_groups: bool,
    ttl: int | None,
    as_json: bool,
) -> None:
    """Create and print a one-time code with which PERSON sets a password; it is not shown again.

    If there is no such person, one is added, in the groups given.  An unused earlier code is
    withdrawn.

    Example:
        svc --config authority.toml authority accounts add ada --group staff
    """
    request = pb.AddAccountRequest(
        person=person, groups=groups, create_groups=create_groups, ttl_secs=ttl or 0
    )
    _give_code(context, request, as_json)


@accounts.command("list")
@json_option
@click.pass_context
def list_accounts(context: click.Context, as_json: bool) -> None:
    """List accounts: how each person can sign in, and whose one-time code is unused."""
    answer = admin(context)("ListAccounts", pb.ListAccountsRequest(), pb.ListAccountsResponse)
    rows = [
        [row.name or row.person_id, row.state, list(row.second_factors), row.recovery_codes]
        for row in answer.accounts
    ]
    result = [
        {
            "person": row.person_id,
            "name": row.name or None,
            "state": row.state,
            "second_factors": list(row.second_factors),
            "recovery_codes_left": row.recovery_codes,
            "code_expires_at": moment(row.code_expires_at) if row.code_expires_at else None,
        }
        for row in answer.accounts
    ]
    print_list(as_json, result, ["NAME", "STATE", "SECOND FACTOR", "RECOVERY CODES"], rows)


@accounts.command("reset")
@click.argument("person", type=WORD)
@click.option(
    "--ttl", type=TTL, metavar="SECS", help="Lifetime of the code, in seconds; a day by default."
)
@reason_option
@json_option
@click.pass_context
def reset_account(
    context: click.Context, person: str, ttl: int | None, reason: str | None, as_json: bool
) -> None:
    """Remove the password, second factors and codes of PERSON, and print a new one-time code.

    PERSON is given by id or name.  Sign-ins are not renewed any more; certificates stay valid
    until they expire, unless `persons revoke` ends them.
    """
    request = pb.AddAccountRequest(person=person, reset=True, ttl_secs=ttl or 0, note=reason or "")
    _give_code(context, request, as_json)


@accounts.command("remove")
@click.argument("person", type=WORD)
@reason_option
@json_option
@click.pass_context
def remove_account(context: click.Context, person: str, reason: str | None, as_json: bool) -> None:
    """Remove the account of PERSON, given by id or name; the person stays."""
    request = pb.RemoveAccountRequest(person=person, note=reason or "")
    answer = admin(context)("RemoveAccount", request, pb.RemoveAccountResponse)
    called = f"{escaped(answer.name)} ({answer.id})" if answer.name else answer.id
    told = "removed the account of" if answer.changed else "there is no account of"
    result = {
        "id": answer.id,
        "name": answer.name or None,
        "changed": answer.changed,
        "sign_ins_ended": answer.sign_ins_ended,
    }
    print_result(as_json, result, [f"{told} {called}; {answer.sign_ins_ended} sign-in(s) end"])


@accounts.command("passkeys")
@click.argument("person", type=WORD, required=False)
@json_option
@click.pass_context
def list_passkeys(context: click.Context, person: str | None, as_json: bool) -> None:
    """List passkeys: whose they are and since when; only those of PERSON, if it is given."""
    answer = admin(context)("ListAccounts", pb.ListAccountsRequest(), pb.ListAccountsResponse)
    found = [
        (account, one)
        for account in answer.accounts
        if person in (None, account.name, account.person_id)
        for one in account.passkeys
    ]
    rows = [[one.name or one.person_id, row.id, moment(row.added_at)] for one, row in found]
    result = [
        {
            "id": row.id,
            "person": one.person_id,
            "name": one.name or None,
            "created_at": moment(row.added_at),
        }
        for one, row in found
    ]
    print_list(as_json, result, ["NAME", "ID", "CREATED"], rows)


@accounts.command("remove-passkey")
@click.argument("person", type=WORD)
@click.argument("passkey", type=WORD)
@reason_option
@json_option
@click.pass_context
def remove_passkey(
    context: click.Context, person: str, passkey: str, reason: str | None, as_json: bool
) -> None:
    """Remove PASSKEY, given by its id, of PERSON, given by id or name.

    No sign-in of that person is renewed any more, because any of them may have used it;
    certificates stay valid until they expire, unless `persons revoke` ends them.

    Example:
        svc --config authority.toml authority accounts passkeys ada
        svc --config authority.toml authority accounts remove-passkey ada ID
    """
    request = pb.RemovePasskeyRequest(person=person, passkey=passkey, note=reason or "")
    answer = admin(context)("RemovePasskey", request, pb.RemovePasskeyResponse)
    called = f"{escaped(answer.name)} ({answer.id})" if answer.name else answer.id
    told = "removed the passkey of" if answer.changed else "there is no such passkey of"
    result = {
        "id": answer.id,
        "name": answer.name or None,
        "changed": answer.changed,
        "sign_ins_ended": answer.sign_ins_ended,
    }
    print_result(as_json, result, [f"{told} {called}; {answer.sign_ins_ended} sign-in(s) end"])


@accounts.command("first-administrator")
@json_option
@click.pass_context
def first_administrator(context: click.Context, as_json: bool) -> None:
    """Write the one-time code of the first administrator again, to a file on this host.

    It is good for an hour, and only while no administrator has an account.
    """
    settings = authority_settings(context)  # the code is in a file of the Authority's host
    request = pb.FirstAdministratorRequest()
    answer = admin(context)("FirstAdministrator", request, pb.FirstAdministratorResponse)
    until = moment(answer.expires_at)
    command = (
        f"svc login --first-administrator --code-file {shlex.quote(answer.path)} "
        f"--proxy {proxy_address(settings)} --ca-pin {answer.ca_pin} --dir {ADMINISTRATOR}"
    )
    lines = [f"the code is in {answer.path}, good until {until}; use it with:", command]
    result = {"path": answer.path, "ca_pin": answer.ca_pin, "expires_at": until}
    print_result(as_json, result, lines)


def _give_code(context: click.Context, request: pb.AddAccountRequest, as_json: bool) -> None:
    settings = caller_settings(context)
    answer = admin(context)("AddAccount", request, pb.AddAccountResponse)
    until = moment(answer.expires_at)
    lines = [
        f"one-time code of {request.person}: good until {until}",
        "have that person run this command and enter the code when asked:",
        f"svc login --enroll --proxy {proxy_address(settings)} --ca-pin {answer.ca_pin}",
    ]
    result = {
        "id": answer.id,
        "name": request.person,
        "code": answer.code,
        "ca_pin": answer.ca_pin,
        "expires_at": until,
        "sign_ins_ended": answer.sign_ins_ended,
    }
    print_result(as_json, result, [answer.code], lines)
